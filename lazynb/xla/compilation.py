"""Compilation: what XLA made of a pending graph, without running it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazynb.recording.runtime_interface import runtime
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.running.record_table import Records, plural
from lazynb.user_code.text_format import short_duration, size
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.compile_times import CompileTimes
from lazynb.xla.cost.kernel_cost import Cost
from lazynb.xla.cost.kernel_profile import Timing
from lazynb.xla.cost.line_work import LineWork, line_work
from lazynb.xla.cost.program_memory import ProgramMemory
from lazynb.xla.cost.total_cost import ZERO_COST, TotalCost
from lazynb.xla.evidence import DEAD, Fate, Finding
from lazynb.xla.flag_text import flag_strings, process_flags
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.fusion.boundary_experiments import NotTestable
from lazynb.xla.fusion.kernel_formation import KernelFormation
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo.passes import Pass
from lazynb.xla.partial_results import (
    ResultsNotRemovable,
    kernel_bytes_written,
    pruned_snapshot,
    without_results,
)
from lazynb.xla.program_findings import ranked_findings
from lazynb.xla.reproducer import ReproducerCase, write_reproducer
from lazynb.xla.sharding.collectives import Collective, collectives
from lazynb.xla.sharding.tile_assignment import sharding_svg
from lazynb.xla.sharding.value_shardings import ValueSharding, value_shardings
from lazynb.xla.targets.target_chip import Target

if TYPE_CHECKING:
    from lazynb.xla.jit_equivalent import Counterpart


@dataclasses.dataclass(frozen=True)
class Hlo:
    """A program's text.

    Attributes:
      before: StableHLO, as JAX lowered it; operation number k of the graph stands under the scope ``n{k}``.
      after: optimised HLO; empty if the backend gives none.
    """

    before: str
    after: str
    _trace: CompiledProgram | None = dataclasses.field(default=None, repr=False)

    @property
    def passes(self) -> Records[Pass]:
        """The passes of XLA that changed the module, each with its changes.

        The program is compiled once more if they were not written down when it was compiled.

        Raises:
          DumpUnavailable: there is no place to write to.
        """
        passes = self._trace.passes if self._trace is not None else ()
        return Records(passes, "XLA wrote no passes down", _pass_row)

    @property
    def formation(self) -> KernelFormation | None:
        """How the kernels came about: each instruction from before the first pass to after the last, with the
        kernel that would run it at each. None when nothing was pending.

        Raises:
          DumpUnavailable: there is no place to write to.
          ValueError: the passes cannot be followed, or there are too many instructions.
        """
        return self._trace.formation if self._trace is not None else None


@dataclasses.dataclass(frozen=True)
class JitSignature:
    """That a program is compiled as ``jax.jit`` of the user's code would be.

    Attributes:
      results: the user's name for each; empty where there is none.
      arguments: how many arrays come from outside.
      constants: how many numbers and arrays are written into the program.
    """

    results: tuple[str, ...]
    arguments: int
    constants: int

    def __str__(self) -> str:
        named = [f"`{name}`" for name in dict.fromkeys(self.results) if name]
        unnamed = self.results.count("")
        if unnamed:
            named.append(plural(unnamed, "other value") if named else plural(unnamed, "value"))
        return (
            f"returns {', '.join(named) or 'nothing'}; {plural(self.arguments, 'argument')}, "
            f"{plural(self.constants, 'constant')}"
        )


class Compilation:
    """The compiled programs of a pending graph. Making one runs nothing; the programs are kept for the run.

    A graph that spans several notebook cells is one program a cell, in the order of ``traces``; the
    attributes speak of all of them, ``compiled`` and ``hlo`` of the last, which computes what was asked for.
    That of ``%%compile`` has the programs of its cell alone.

    Attributes:
      traces: the programs, in the order in which they run.
      snapshot: the graph that was compiled; its node numbers are those of ``fates``.
      target: what it was compiled for, without being run; None for this machine.
      form: what is a result, an argument and a constant, if it was compiled as ``jax.jit`` of the code would
        be, without being run; None for what lazynb runs.
      beside: what JAX compiled by itself meanwhile, in a line; empty if nothing, or if nobody looked.
      instead: where there is no program, a sentence that says what to do; empty if nobody knows.
      counterpart: the program that ``jax.jit`` of the same code would run; None if nobody knows of one.
      cell: the notebook cell that recorded the graph; None if it is not known, or not one.
      earlier: what earlier cells had left pending and was compiled with it, a compilation for each cell.
      runs: how often each program ran before the compilation was made: those that a trace break of the cell
        needed.
      unlisted: how many other programs the cell ran.
      notes: sentences: what cannot be known of it, and why.
      flags: XLA's options that it was compiled with to be looked at, without being run; empty for none.
      left_out: names of results that it was compiled without, to be looked at; see :meth:`without`.
    """

    def __init__(
        self,
        traces: Sequence[CompiledProgram],
        snapshot: Snapshot,
        *,
        cell: int | None = None,
        earlier: Sequence[Compilation] = (),
        runs: Sequence[int] = (),
        unlisted: int = 0,
        target: Target | None = None,
        notes: Sequence[str] = (),
        form: JitSignature | None = None,
        asked: Collection[tuple[int, int]] | None = None,
    ):
        self.traces = tuple(traces)
        self.snapshot = snapshot
        self.beside = ""
        self.instead = ""
        self.counterpart: Counterpart | None = None
        self.cell = cell
        self.earlier = tuple(earlier)
        self.runs = tuple(runs) or (0,) * len(self.traces)
        self.unlisted = unlisted
        self.target = target
        self.notes = tuple(notes)
        self.form = form
        self.flags: dict[str, Any] = {}
        self.left_out: tuple[str, ...] = ()
        self._requested_values = asked  # nodes and their results that the user asked for; None: nobody knows
        self._measured_savings: dict[frozenset[str], int] = {}
        self._process_flags = process_flags()

    @property
    def is_run(self) -> bool:
        """Whether it is what runs when the graph runs: not compiled for another chip, nor as ``jax.jit``
        would be, nor with flags or without results."""
        return self.target is None and self.form is None and not (self.flags or self.left_out)

    @property
    def all_flags(self) -> dict[str, str] | None:
        """XLA's options that it was compiled with, as they are written: those of the process (``XLA_FLAGS``),
        and over them ``flags``. None if nobody knows: it was given compiled, or another chip's compiler made
        it."""
        if self.target is not None or self.cache_event == "given":
            return None
        return {**self._process_flags, **flag_strings(self.flags)}

    @property
    def operations(self) -> int:
        """Recorded operations that will run."""
        return sum(trace.operations for trace in self.traces)

    @property
    def cache_event(self) -> str:
        """``hit`` when nothing was compiled, else ``compiled`` or ``disk``; ``given`` for a program that was
        given compiled; empty when nothing was pending."""
        events = [trace.cache_event for trace in self.traces]
        return next((event for event in ("compiled", "disk", "hit", "given") if event in events), "")

    @property
    def compile_seconds(self) -> float:
        """Seconds of lowering and compiling or loading."""
        return sum(trace.compile_seconds for trace in self.traces)

    @property
    def compile_times(self) -> list[CompileTimes]:
        """What compiling took, in seconds, for each of ``traces``: lowering apart from compiling, and XLA's
        own timing of its stages, passes and kernels. Where a program was not compiled here, there are none,
        and ``why_not`` says it."""
        return [trace.compile_times for trace in self.traces]

    @property
    def line_work(self) -> Records[LineWork]:
        """What each of the user's lines gave the compiler to do, for each of ``traces`` those that took
        longest first: operations, HLO instructions, kernels, and inferred seconds."""
        places = {node.id: node.place for node in self.snapshot.nodes if node.place is not None}
        work = [line for trace in self.traces for line in line_work(trace, places)]
        return Records(work, "no lines", _line_row, ranked=True)

    @property
    def compiled(self) -> Any:
        """The last program as ``jax.stages.Compiled``; None when nothing was pending."""
        return self.traces[-1].compiled if self.traces else None

    @property
    def hlo(self) -> Hlo:
        """The last program's text before and after XLA's passes, and the passes."""
        if not self.traces:
            return Hlo("", "")
        return Hlo(self.traces[-1].stablehlo, self.traces[-1].text, self.traces[-1])

    @property
    def clusters(self) -> Records[Cluster]:
        """What runs, in order, of all programs."""
        clusters = [cluster for trace in self.traces for cluster in trace.clusters]
        return Records(clusters, "nothing runs", _cluster_row)

    @property
    def fates(self) -> dict[int, Fate]:
        """What became of each operation, by its node number in ``snapshot``: exactly one fate each."""
        known: dict[int, Fate] = {}
        for trace in self.traces:
            known.update(trace.fates)
        return {node.id: known.get(node.id, DEAD) for node in self.snapshot.nodes if node.kind == "op"}

    @property
    def boundaries(self) -> Records[Boundary]:
        """The arrays that one cluster writes and another reads, each with the reason why the two are not
        fused."""
        boundaries = [boundary for trace in self.traces for boundary in trace.boundaries]
        return Records(boundaries, "no boundaries", _boundary_row)

    @property
    def findings(self) -> Records[Finding]:
        """What stands out, a sentence each, the most bytes first: arrays that go through memory and why,
        operations that several kernels compute, values that a name alone keeps, what fills up tiles. Empty
        where nothing is worth saying."""
        all_ = ranked_findings(
            self.traces, self.snapshot, self._requested_values, self.runs, self._measured_savings
        )
        return Records(all_, "nothing stands out", _finding_row, ranked=True)

    @property
    def collectives(self) -> Records[Collective]:
        """What the devices of a mesh say to each other: each all-reduce, all-gather, ... with its line, the
        axes of the mesh, bytes for each device, and why it is there."""
        layout = self.target.layout if self.target is not None else None
        found = [one for trace in self.traces for one in collectives(trace, self.snapshot, layout)]
        return Records(found, "no collectives", _collective_row)

    @property
    def shardings(self) -> Records[ValueSharding]:
        """How each value lies on the devices of a mesh: its spec, the part of one device, bytes there and on
        all devices, and where a value's sharding changes. Empty of programs on one device.

        XLA says it: of inputs and results in the compiled program, of what is inside in the module that its
        pass ``shardy-xla`` leaves. What it does not say is left out; inside of a program that was compiled
        when nothing wrote the passes down, that is all, until ``hlo.passes`` is asked for.
        """
        layout = self.target.layout if self.target is not None else None
        found = value_shardings(self.traces, self.snapshot, layout)
        return Records(
            found,
            "no shardings: on one device, or not known",
            _sharding_row,
            ranked=True,
            drawing=lambda one: sharding_svg(one.tiling),
        )

    @property
    def cost(self) -> list[Cost | None]:
        """What one execution of each of ``clusters`` costs by XLA's own analysis, in their order."""
        return [trace.costs.get(cluster.name) for trace in self.traces for cluster in trace.clusters]

    @property
    def total_cost(self) -> TotalCost:
        """What one run of all programs costs: each kernel as often as it runs. What is not known (the
        turns of a ``while_loop``) has bounds."""
        return sum((trace.total for trace in self.traces), start=ZERO_COST)

    @property
    def memory(self) -> ProgramMemory | None:
        """Memory of the last program; None when nothing was pending."""
        return self.traces[-1].memory if self.traces else None

    def profile(self, runs: int = 5) -> list[Timing | None]:
        """Runs each program ``runs`` times on its inputs, and measures its kernels.

        Returns: seconds a run of each of ``clusters``, in their order; None for a cluster that was not seen
        (a branch not taken).

        The user's values, breaks and caches are not touched. Inputs that are gone are made up.

        Raises:
          InputsGone: an input is gone and cannot be made up.
          ProfilerBusy: another profile is being taken.
        """
        for trace in self.traces:
            trace.profile(runs)
        return [trace.times.get(cluster.name) for trace in self.traces for cluster in trace.clusters]

    def ask(self) -> Records[Boundary]:
        """Compiles once more with XLA's fusion decisions logged: the boundaries' reasons are then the
        compiler's.

        Raises:
          DumpUnavailable: there is no place to write to.
        """
        for trace in self.traces:
            trace.ask()
        return self.boundaries

    def verify(self, boundary: Boundary) -> Boundary:
        """Compiles again without the supposed cause of one of ``boundaries``; gives it with the verdict. Runs
        nothing.

        Raises:
          NotTestable: there is no experiment for its reason, or not for this program.
        """
        trace = next((trace for trace in self.traces if boundary in trace.boundaries), None)
        if trace is None:
            raise NotTestable(
                "this is no boundary of this compilation (a newer one may have taken its place: see "
                "boundaries)"
            )
        return trace.verify(boundary)

    def without(self, *names: str) -> Compilation:
        """The programs as if the variables ``names`` had been deleted before the run, compiled to be looked
        at: ``lazynb.diff(c, c.without("h"))``. Nothing is run, no cache is touched.

        Raises:
          NotReducible: no result has such a name, nothing else is a result, or it was not recorded for this
            machine.
        """
        others = {
            number: without_results(trace, self.snapshot, names) for number, trace in enumerate(self.traces)
        }
        if not any(others.values()):
            raise ResultsNotRemovable(
                f"no result of these programs is called {' or '.join(names) or 'nothing'}"
            )
        traces = [others[number] or trace for number, trace in enumerate(self.traces)]
        self._measured_savings[frozenset(names)] = kernel_bytes_written(self.traces) - kernel_bytes_written(
            traces
        )
        made = Compilation(
            traces,
            pruned_snapshot(self.snapshot, traces),
            cell=self.cell,
            earlier=self.earlier,
            runs=self.runs,
            notes=(
                f"Compiled as if nobody held {', '.join(f'`{name}`' for name in names)}; nothing runs it.",
            ),
        )
        made.left_out = names
        return made

    def reproducer(
        self, path: str | os.PathLike[str], question: str = "", *, save_inputs: bool = False
    ) -> Path:
        """Writes a Python file that compiles the same programs with JAX alone, as an issue of XLA's needs it.

        Run, the file prints the kernels (``--hlo``: the optimised HLO) and compares them with those that
        lazynb saw; its exit status is 1 if they differ. It holds the StableHLO, XLA's flags, the versions,
        the question, and each kernel with the lines in it. Nothing is run to write it.

        Arguments:
          path: the file; one that is there is written over.
          question: what its reader is asked: "why two kernels?"
          save_inputs: put the values of the inputs in, beside the file if they are large (``.npz``). Without,
            a run makes up normal random numbers, and zeros for integers.

        Returns: the path.

        Raises:
          NotReproducible: JAX alone cannot compile it: it is for a chip that is not here, was given compiled,
            or calls back into Python.
          InputsGone: an input is to be saved that is gone, or not computed yet.
          OSError: the file cannot be written.
        """
        case = ReproducerCase(self.traces, self.snapshot, self.target, question, self.flags)
        return write_reproducer(case, path, save_inputs)

    def __repr__(self) -> str:
        if not self.traces:
            return "Compilation(nothing pending)"
        event = self.cache_event
        if event == "given":  # by somebody who knows how long it took, and whether it ran
            return f"Compilation({plural(self.operations, 'operation')}, given compiled)"
        time = short_duration(self.compile_seconds)
        if self.form is not None:
            event += " as jax.jit"
        if self.target is not None:
            event += f" for {self.target.title}"
        if self.flags:
            event += f" with {plural(len(self.flags), 'flag')}"
        if not self.is_run:
            event += ", not run"
        return f"Compilation({plural(self.operations, 'operation')}, {event}, {time})"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return runtime().displays.compilation_bundle(self)

    def save_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Writes the inspector as one HTML file that works offline.

        Raises:
          OSError: the file cannot be written.
        """
        return runtime().displays.save_html(self, path, title)

    def save_json(self, path: str | os.PathLike[str]) -> Path:
        """Writes the inspection as JSON, which :func:`lazynb.inspect` and :func:`lazynb.diff` read.

        Raises:
          OSError: the file cannot be written.
        """
        return runtime().displays.save_json(self, path)

    def to_svg(self, figure: str = "graph") -> str:
        """A figure for slides, as a stand-alone SVG document.

        Arguments:
          figure: ``graph``, the graph in the colours of its kernels; ``fusion``, the kernels and what goes
            between them; ``memory``, which values live at which step.

        Raises:
          NoFigure: there is nothing to draw, or more than could be read.
          LayoutUnavailable: ``graph`` and ``fusion`` need a layout engine, and there is none.
        """
        return runtime().displays.to_svg(self, figure)


def _cluster_row(cluster: Cluster) -> dict[str, str]:
    return {
        "cluster": cluster.name,
        "kind": cluster.kind,
        "library": cluster.library,
        "inside": cluster.inside,
        "bytes in": f"{cluster.input_bytes:,}",
        "bytes out": f"{cluster.output_bytes:,}",
    }


def _boundary_row(boundary: Boundary) -> dict[str, str]:
    return {
        "from": boundary.producer,
        "to": boundary.consumer or "(result)",
        "bytes": f"{boundary.bytes:,}",
        "code": boundary.code,
        "reason": boundary.text,
        "label": boundary.label,
    }


def _finding_row(finding: Finding) -> dict[str, str]:
    return {
        "finding": " ".join(filter(None, (finding.text, finding.verdict))),
        "kernels": ", ".join(finding.kernels[:4]),
        "bytes": size(finding.bytes),
        "label": finding.label,
    }


def _collective_row(one: Collective) -> dict[str, str]:
    among = "" if one.among is None else f"{one.among:,}"
    return {
        "line": "; ".join(place.in_full for place in one.places),
        "collective": one.kind,
        "pass": one.direction,
        "axes": ", ".join(one.axes),
        "devices": among,
        "of each": size(one.bytes),
        "sent by each": size(one.moved),
        "times": "" if one.executions is None else f"{one.executions:,}",
        "beside": "" if one.beside is None else plural(one.beside, "kernel"),
        "why": f"{one.why} ({'from the code' if one.is_asked else 'rule inferred'})",
    }


def _sharding_row(one: ValueSharding) -> dict[str, str]:
    return {
        "line": "" if one.place is None else one.place.in_full,
        "value": one.value,
        "type": f"{one.dtype}[{','.join(map(str, one.shape))}]",
        "lies as": one.spec,
        "mesh": one.mesh,
        "each device has": f"[{','.join(map(str, one.tile))}]",
        "copies": f"{one.copies:,}",
        "bytes per device": size(one.bytes),
        "in total": size(one.total),
        "changed from": one.before,
    }


def _line_row(line: LineWork) -> dict[str, str]:
    return {
        "line": f"{line.place.label}: {line.place.text}",
        "operations": f"{line.operations:,}",
        "instructions before": "" if line.before is None else f"{line.before:,}",
        "after": f"{line.after:,}",
        "kernels compiled": f"{line.compiled:,}",
        "XLA, inferred": "" if line.seconds is None else short_duration(line.seconds),
    }


def _pass_row(step: Pass) -> dict[str, str]:
    return {"#": str(step.index), "pipeline": step.pipeline, "pass": step.name}
