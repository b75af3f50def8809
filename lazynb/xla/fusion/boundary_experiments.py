"""Experiments that recompile a program without the supposed cause of a boundary and check whether it goes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from lazynb.errors import LazynbError
from lazynb.xla.fusion.backend_rules import BackendRules
from lazynb.xla.fusion.boundaries import Boundary, boundary_with_reason, verified
from lazynb.xla.fusion.boundary_match import BoundaryOutcome, boundary_outcome
from lazynb.xla.fusion.boundary_reasons import REASONS
from lazynb.xla.fusion.cluster_edges import ClusterEdge
from lazynb.xla.fusion.isolated_kernels import IsolationResult, NotIsolable, compile_isolated
from lazynb.xla.hlo.clusters import result_copy_chains
from lazynb.xla.hlo.module import Instruction, parse
from lazynb.xla.program_interface import InspectableProgram

Changes = dict[str, Any]
"""Arguments of ``Executable.compile_again``; or ``hlo``, the text of a module to compile instead."""


class NotTestable(LazynbError):
    """No experiment is possible for this boundary; the message states why."""


def verify_boundary(
    boundary: Boundary,
    edge: ClusterEdge,
    executable: InspectableProgram,
    rules: BackendRules,
    unfused: Callable[[], str] = lambda: "",
) -> Boundary:
    """Return ``boundary`` with the outcome of recompiling without its cause. Nothing is run.

    If the boundary stays, its reason is wrong, even one from the compiler: the next one that applies is
    tried, then all of them together. The label becomes ``verified by recompiling`` only if the boundary went
    with the cause. If nothing made it go, a reason that applies and has no experiment is ``rule inferred``;
    without such a reason it is ``not known``.

    Arguments:
      rules: those of the backend, with the options that remove causes.
      unfused: gives the text of the module as XLA received it, with calls inlined; empty without a dump.

    Raises:
      NotTestable: there is no experiment for this reason, or not for this program.
    """
    subject = ExperimentSubject(boundary, edge, executable, rules, unfused)
    if boundary.verify == ALL_CAUSES:
        return _try_all_causes(subject)
    first = _run_experiment(subject)
    if first.outcome is BoundaryOutcome.UNCLEAR:
        raise NotTestable(f"compiled again {first.what}, the program no longer has both ends of the boundary")
    trials = [first]
    untested: list[Boundary] = []
    if first.outcome is BoundaryOutcome.STAYS:
        _try_other_causes(subject, trials, untested)
    verdict = " ".join(trial.sentence for trial in trials)
    last = trials[-1]
    if last.outcome is BoundaryOutcome.GONE:
        gone = dataclasses.replace(last.boundary, said=boundary.said)
        return verified(gone, edge, rules, verdict)
    if rules.reasons[boundary.code].is_fact:
        return dataclasses.replace(boundary, verdict=verdict)
    rest = untested[0] if untested else boundary_with_reason(edge, rules, "refuted")
    return dataclasses.replace(rest, said=boundary.said, verdict=verdict)


ALL_CAUSES = "each-cause"
"""The experiment if no reason is known: it removes each possible cause."""


def _try_all_causes(subject: ExperimentSubject) -> Boundary:
    """The boundary without known reason, after removing each possible cause, then the rest of the program."""
    trials: list[Trial] = []
    _try_other_causes(subject, trials, [])
    verdict = " ".join(trial.sentence for trial in trials)
    if trials and trials[-1].outcome is BoundaryOutcome.GONE:
        gone = dataclasses.replace(trials[-1].boundary, said=subject.boundary.said)
        return verified(gone, subject.edge, subject.rules, verdict)
    try:
        found = _try_isolated(subject)
    except NotIsolable as error:
        if trials:
            return dataclasses.replace(subject.boundary, verdict=verdict)
        raise NotTestable(f"the two cannot be compiled alone: {error}") from None
    return dataclasses.replace(found, verdict=f"{verdict} {found.verdict}".strip())


def _try_isolated(subject: ExperimentSubject) -> Boundary:
    """The boundary with the outcome of compiling its two ends alone.

    Raises:
      NotIsolable: the outcome is inconclusive.
    """
    first = subject.unfused()
    if not first:
        raise NotIsolable("the compiler's dump of the program is gone")
    try:
        showed = compile_isolated(subject.edge, parse(first), partial(_compiled, subject))
    except NotTestable as error:
        raise NotIsolable(str(error)) from None
    code, outcome = _REASON_OF_RESULT[showed]
    if showed is IsolationResult.HELD:
        code = subject.rules.held
    found = boundary_with_reason(subject.edge, subject.rules, code)
    found = dataclasses.replace(found, said=subject.boundary.said)
    return verified(found, subject.edge, subject.rules, f"{_ALONE}: {outcome}")


def _compiled(subject: ExperimentSubject, text: str) -> str:
    """The optimised HLO of a module.

    Raises:
      NotTestable: the compiler rejected it.
    """
    try:
        optimised = subject.executable.compile_hlo(text)
    except Exception as error:  # XLA raises its own exception classes
        why = str(error).strip().partition("\n")[0]
        raise NotTestable(f"the compiler refused a program made of its parts: {why}") from None
    if not optimised:
        raise NotTestable("a program for several devices cannot be taken apart")
    return optimised


_ALONE = "Compiled again with only these two and the operations between them"
_REASON_OF_RESULT = {
    IsolationResult.PAIR: ("pair", "the boundary stays."),
    IsolationResult.SHARED: (
        "shared",
        "the boundary is gone. With the others that read the array: it stays.",
    ),
    IsolationResult.HELD: ("kept-alive", "the boundary is gone. With the array as a result: it stays."),
    IsolationResult.FUSED: ("around", "the boundary is gone."),
}


@dataclasses.dataclass(frozen=True)
class ExperimentSubject:
    """The input of an experiment.

    Attributes:
      boundary: whose reason is tested.
      edge: the two clusters.
      executable: the program that contains them.
      rules: those of its backend.
      unfused: gives the text of the module as XLA received it.
    """

    boundary: Boundary
    edge: ClusterEdge
    executable: InspectableProgram
    rules: BackendRules
    unfused: Callable[[], str] = lambda: ""


@dataclasses.dataclass(frozen=True)
class Trial:
    """A completed experiment.

    Attributes:
      boundary: with the reason that was removed.
      changes: arguments of ``Executable.compile_again``.
      what: the changes, in words.
      outcome: whether the array still crosses memory.
    """

    boundary: Boundary
    changes: Changes
    what: str
    outcome: BoundaryOutcome

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        if self.outcome is BoundaryOutcome.GONE:
            return f"Compiled again {self.what}: the boundary is gone."
        return f"Compiled again {self.what}: the boundary stays, so this alone is not the reason."


def _try_other_causes(subject: ExperimentSubject, trials: list[Trial], untested: list[Boundary]) -> None:
    """Tests the other reasons that apply, until the boundary goes.
    Adds to ``trials`` the experiments, and to ``untested`` the reasons that cannot be tested here."""
    for code in subject.rules.candidates(subject.edge):
        if code == subject.boundary.code or any(
            REASONS[code].verify == one.boundary.verify for one in trials
        ):
            continue
        other = boundary_with_reason(subject.edge, subject.rules, code)
        try:
            trial = _run_experiment(dataclasses.replace(subject, boundary=other))
        except NotTestable:
            untested.append(other)
            continue
        if trial.outcome is BoundaryOutcome.UNCLEAR:
            untested.append(other)
            continue
        trials.append(trial)
        if trial.outcome is BoundaryOutcome.GONE:
            return
    if len(trials) > 1:
        _try_causes_together(subject, trials)


def _try_causes_together(subject: ExperimentSubject, trials: list[Trial]) -> None:
    """Adds a trial that removes all causes at once, if the boundary goes with them."""
    changes: Changes = {}
    for trial in trials:
        if "hlo" in trial.changes:
            return  # that experiment compiles another module, so changes cannot be combined
        for name, value in trial.changes.items():
            changes[name] = {**changes.get(name, {}), **value} if isinstance(value, dict) else value
    outcome = _outcome(subject, changes)
    if outcome is BoundaryOutcome.GONE:
        parts = [verified(trial.boundary, subject.edge, subject.rules, "") for trial in trials]
        texts = dict.fromkeys(part.text for part in parts)
        both = dataclasses.replace(parts[0], text="; and ".join(texts), hint="")
        trials.append(Trial(both, changes, " and ".join(trial.what for trial in trials), outcome))


def _run_experiment(subject: ExperimentSubject) -> Trial:
    """The experiment for the reason of a boundary.

    Raises:
      NotTestable: there is none, or its side conditions alone already remove the boundary.
    """
    experiment = EXPERIMENTS.get(subject.boundary.verify)
    if experiment is None:
        raise NotTestable(f"there is no experiment for the reason {subject.boundary.code!r}")
    changes, what = experiment(subject)
    return Trial(subject.boundary, changes, what, _outcome(subject, changes))


def _outcome(subject: ExperimentSubject, changes: Changes) -> BoundaryOutcome:
    if "hlo" in changes:
        return boundary_outcome(subject.edge, parse(_compiled(subject, changes["hlo"])))
    text = subject.executable.compile_again(**changes).as_text()
    if not text:
        raise NotTestable("this backend gives no HLO of the recompiled program")
    return boundary_outcome(subject.edge, parse(text))


Experiment = Callable[[ExperimentSubject], tuple[Changes, str]]
"""Returns arguments of ``Executable.compile_again``, and what they change in words."""


def _drop_results(subject: ExperimentSubject) -> tuple[Changes, str]:
    edge, wanted = subject.edge, subject.executable.wanted
    writers = {edge.producer.name, *(other.name for other in edge.others)}
    slots = zip(wanted, result_copy_chains(edge.module))
    kept = tuple(slot for slot, names in slots if writers.isdisjoint(names))
    if not kept or len(kept) == len(wanted):
        raise NotTestable("without what keeps the value alive, nothing of the program is left")
    named = " and ".join(f"`{name}`" for name in subject.boundary.variables) or "it"
    nobody = f"the function did not return {named}" if subject.rules.is_function else f"nobody held {named}"
    return {"wanted": kept}, f"as if {nobody}"


def _duplicate_producer(subject: ExperimentSubject) -> tuple[Changes, str]:
    """Computes the producer once more for this reader alone; XLA must not merge the copies."""
    edge = subject.edge
    mark = edge.source.mark
    marks = dict.fromkeys(reader.mark for reader in edge.readers if reader.mark != mark)
    readers = [reader for reader in marks if reader is not None]
    if mark is None or not readers:
        raise NotTestable("both ends belong to one recorded operation, which cannot be taken apart")
    if any(len(one) > 1 for one in (mark, *readers)):
        raise NotTestable("one end is inside of a jitted function or a loop, which is recorded as a whole")
    steps = subject.executable.state.path()
    [number], slots = mark, range(steps[mark[0]].first, steps[mark[0]].slots)
    taken = [reader[0] for reader in readers]
    copies = {one: number for one in taken if any(slot in slots for slot in steps[one].operands)}
    if not copies:
        raise NotTestable("XLA made instructions between the two operations that were not recorded")
    if any(_step(reader) in copies for other in edge.others for reader in edge.readers_in(other)):
        raise NotTestable(
            "another kernel reads it for the same recorded operation, so both would read the one copy"
        )
    options = dict(subject.rules.keeping_copies)
    if _outcome(subject, {"options": options}) is not BoundaryOutcome.STAYS:
        raise NotTestable("the boundary goes already where XLA computes equal values twice")
    changes = {"copies": copies, "options": options}
    return changes, f"with a copy of `{edge.source.opcode}` for this reader alone"


def _step(instruction: Instruction) -> int | None:
    return instruction.mark[0] if instruction.mark is not None else None


def _no_library(subject: ExperimentSubject) -> tuple[Changes, str]:
    libraries = {subject.edge.producer.library, subject.edge.consumer.library} - {""}
    known = subject.rules.without_library
    if len(libraries) != 1 or not libraries <= known.keys():
        names = " and ".join(sorted(libraries)) or "the library"
        raise NotTestable(f"XLA has no code of its own to put in place of {names}")
    [library] = libraries
    return {"options": dict(known[library])}, f"without {library}"


def _free_layouts(subject: ExperimentSubject) -> tuple[Changes, str]:
    """Lets the compiler choose the layouts of arguments and results, which the program prescribes."""
    first = subject.unfused()
    if not first:
        raise NotTestable("the compiler's dump of the program is gone")
    return {"hlo": first}, "with the order of arguments and results in memory left to the compiler"


def _default_precision(subject: ExperimentSubject) -> tuple[Changes, str]:
    """Leaves the precision of products to the compiler. The text is compiled with free layouts: these alone
    must not remove the boundary."""
    first = subject.unfused()
    plain = _PRECISION.sub("", first)
    if plain == first:
        raise NotTestable("the program asks for no precision of its own")
    if _outcome(subject, {"hlo": first}) is not BoundaryOutcome.STAYS:
        raise NotTestable("the boundary goes already where the compiler chooses the layouts")
    return {"hlo": plain}, "with the default precision of products"


_PRECISION = re.compile(r", operand_precision=\{[^}]*\}")

EXPERIMENTS: dict[str, Experiment] = {
    "drop-output": _drop_results,
    "only-this-user": _duplicate_producer,
    "no-library": _no_library,
    "free-layouts": _free_layouts,
    "default-precision": _default_precision,
}
"""Experiments by :attr:`BoundaryReason.verify`, see :data:`lazynb.xla.fusion.backend_rules.REASONS`."""
