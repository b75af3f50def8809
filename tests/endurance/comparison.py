"""Runs one program in both worlds, statement by statement, and says where they part.

An interrupted statement has happened or has not, for each variable: which one the lazy world's variable says,
and the eager world goes on from there. Its value must be one of the two, whenever it is read.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from .interrupts import Aim
from .kinds import Statement
from .observe import Seen, reads
from .processes import Gone, Peer, Worlds
from .programs import Program, Step

PATIENCE = 45.0
"""Seconds that a statement may take, on a loaded machine."""

_BARRIERS = ("lazynb.sync", "lazynb.compile", "max_pending", "max_program")


@dataclasses.dataclass(frozen=True)
class Finding:
    """A difference.

    Attributes:
      what: a short name of the kind of difference; findings of one kind at the same kind of statement count
        as the same.
      kind: the kind of the statement.
      number: of the step, from 1; one more than there are for what shows after the last.
      text: what eager and lazy gave.
    """

    what: str
    kind: str
    number: int
    text: str

    @property
    def signature(self) -> tuple[str, str]:
        return self.what, self.kind


class Different(Exception):
    """Ends a program; the argument is what, and the text."""


@dataclasses.dataclass
class Outcome:
    """What a program came to.

    Attributes:
      finding: the first difference, if there is one.
      steps: the steps that were run, each signal at the very instruction where it arrived: the same again,
        without chance.
      figures: what happened, counted.
      expected: after each of these steps, what was compared and what eager has.
      errors: what each of them raises eagerly, where it does.
    """

    finding: Finding | None = None
    steps: list[Step] = dataclasses.field(default_factory=list)
    figures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    expected: list[dict[str, Seen]] = dataclasses.field(default_factory=list)
    errors: list[str] = dataclasses.field(default_factory=list)


class Comparison:
    """One program in one pair of worlds."""

    def __init__(self, program: Program, eager: Peer, lazy: Peer):
        self.program, self.eager, self.lazy = program, eager, lazy
        self.outcome = Outcome()
        self._now: dict[str, Seen] = {}  # the variables of the eager world
        self._before: dict[str, Seen] = {}  # what they were before the last statement
        self._failed: dict[str, str] = {}  # variables whose failure was put off: what reading them raises
        self._armed: Aim | None = None

    def run(self) -> Outcome:
        """Runs it, up to the first difference."""
        number, kind = 0, "start"
        try:
            for peer in (self.eager, self.lazy):
                peer.ask("start", self.program.style, self.program.setup, patience=PATIENCE)
            if self.program.style == "body":
                self._ask("enter")
            for number, step in enumerate(self.program.steps, 1):
                kind = step.statement.kind
                self._step(number, step)
            number, kind = number + 1, "end"
            self._look(None)
            if self.program.style == "body":
                if not any(step.statement.elsewhere for step in self.program.steps):
                    self._mode(True)
                self._ask("leave")
            self._note(self._ask("end"))
            self.eager.ask("end", patience=PATIENCE)
        except Different as found:
            self.outcome.finding = Finding(found.args[0], kind, number, found.args[1])
        except Gone as gone:
            if "the eager world crashed" in str(
                gone
            ):  # JAX's own: jaxlib aborts now and then after memory was short
                self.outcome.figures["crashes of eager JAX"] += 1
                return self.outcome
            what = "hang" if "hangs" in str(gone) else "crash"
            self.outcome.finding = Finding(what, kind, number, str(gone))
        return self.outcome

    def _ask(self, *request: Any) -> Any:
        return self.lazy.ask(*request, patience=PATIENCE)

    # ---- a step --------------------------------------------------------------------------------------------

    def _step(self, number: int, step: Step) -> None:
        statement, filename = step.statement, f"<statement {number}>"
        self._armed = step.aim or self._armed
        self.outcome.steps.append(dataclasses.replace(step, aim=None))  # a crash leaves it so
        self.outcome.expected.append({})
        self.outcome.errors.append("")
        expected = self.eager.ask(
            "run", filename, statement.source, statement.repeat, bool(statement.destroys), patience=PATIENCE
        )
        self._before = self._now
        self._now = expected["seen"]
        self.outcome.errors[-1] = expected["error"][0] if expected["error"] else ""
        self.outcome.figures["statements"] += statement.repeat
        found = self._ask(
            "run", filename, statement.source, statement.repeat, None if statement.calm else self._armed
        )
        self._count(found)
        self.outcome.steps[-1] = dataclasses.replace(step, aim=found["fired"])
        self._failed = {name: kind for name, kind in self._failed.items() if name not in found["rebound"]}
        if self._stopped(statement, expected["error"], found):
            self._after_stop(statement, expected, found)
        else:
            self._errors(statement, expected, found)
        if statement.deferred and expected["error"]:
            self._failed.update(
                {name: expected["error"][0] for name in found["rebound"] if name not in expected["changed"]}
            )
        if self.program.style != "body":
            self._mode(False)
        self._look(step.look)

    def _count(self, found: dict[str, Any]) -> None:
        figures = self.outcome.figures
        if found["fired"] is not None:
            self._armed = None
            figures["signals"] += 1
            if found["error"] and found["error"][0] == "KeyboardInterrupt":
                figures["interrupts"] += 1
                figures["interrupts in " + found["handled"].rsplit(":", 2)[0]] += 1

    def _stopped(self, statement: Statement, expected: Any, found: dict[str, Any]) -> bool:
        """Whether the lazy world was stopped in a statement as it may be: by a signal, or by a failure that
        was put off, at a barrier."""
        error = found["error"]
        if error is None or error == expected:
            return False
        if error[0] == "KeyboardInterrupt" and found["fired"] is not None:
            return True
        if statement.deferred and expected is None and error[0] == "FloatingPointError":
            self.outcome.figures["NaN that eager JAX let pass"] += (
                1  # its search misses some in a process that has run others
            )
            return True
        late = any(word in statement.source for word in _BARRIERS) and error[0] in self._failed.values()
        self.outcome.figures["failures met at a barrier"] += late
        return late

    def _errors(self, statement: Statement, expected: dict[str, Any], found: dict[str, Any]) -> None:
        before, after = expected["error"], found["error"]
        self.outcome.figures["failures"] += before is not None
        if (before is None) == (after is None) and (before is None or before[0] == after[0]):
            return
        if before is not None and after is None and statement.deferred:
            return
        raise Different(
            "error" if before is None else "no error" if after is None else "another error",
            f"eager raises {before and ': '.join(before)}, lazy raises {after and ': '.join(after)}",
        )

    def _after_stop(self, statement: Statement, expected: dict[str, Any], found: dict[str, Any]) -> None:
        """The eager world goes on from where the lazy one was stopped."""
        trail = self.eager.ask("trail", patience=PATIENCE)
        given = sorted(_given(statement, trail))
        rounds: dict[str, int] = {}
        for name in expected["changed"]:
            if name not in given:
                rounds[name] = int(name in found["rebound"]) if len(trail) == 2 else self._round(name, trail)
        self.eager.ask("settle", rounds, patience=PATIENCE)
        for name in given:
            self._anew(name, trail, name in statement.keeps)
        for name, value in expected[
            "seen"
        ].items():  # memory may have been written or not: no trail is kept of what is in it
            if value[0] == "numpy" and name not in expected["changed"] and value != self._before.get(name):
                self._both(f"{name}[...] = 1")
        if "config" in statement.source:
            self._both(statement.source)
        if self.program.style == "body" and self._ask("mode", True):
            self._begin_again()
        self._now = self.eager.ask("read", list({**trail[0], **trail[-1]}), patience=PATIENCE)

    def _begin_again(self) -> None:
        """JAX's ``Primitive.bind`` sets the evaluating trace, and takes it back in a ``finally`` that it
        enters a call later: a signal in between leaves it, and the rest of the body runs at once. The next
        body records again."""
        self.outcome.figures["bodies that an interrupt inside of JAX made eager"] += 1
        self._ask("leave")
        self._ask("enter")

    def _round(self, name: str, trail: list[dict[str, Seen]]) -> int:
        """After which round of a loop the lazy world's variable was bound."""
        value = self._ask("read", [name]).get(name)
        for number, then in enumerate(trail):
            if then.get(name) == value:
                return number
        eagerly = " or ".join(reads(then.get(name, ("unbound",))) for then in trail)
        raise Different(
            "lost after an interrupt", f"{name} is {reads(value or ('unbound',))}; eagerly {eagerly}"
        )

    def _anew(self, name: str, trail: list[dict[str, Seen]], kept: bool) -> None:
        """An interrupt met a statement that gives ``name`` away: it has its value or is gone, where it is not
        ``kept``, and gets a new one in both."""
        value = self._ask("read", [name]).get(name, ("unbound",))
        if (kept or not _is_gone(value)) and value not in [then.get(name, ("unbound",)) for then in trail]:
            raise Different("lost after an interrupt", f"{name} is {reads(value)}")
        source = f"{name} = jnp.arange({_size(self.program.setup)}, dtype=jnp.float32) % 5"
        self._both(source)

    def _both(self, source: str) -> None:
        """Brings both worlds to the same state after an interrupt; part of the program from here on."""
        for peer, more in ((self.eager, False), (self.lazy, None)):
            peer.ask("run", "<again>", source, 1, more, patience=PATIENCE)
        self.outcome.steps.append(Step(Statement(source, kind="again")))
        self.outcome.expected.append({})
        self.outcome.errors.append("")

    # ---- looking -------------------------------------------------------------------------------------------

    def _look(self, names: tuple[str, ...] | None) -> None:
        """Compares variables, all of them for None."""
        if names is None:
            names = tuple(self._now) + tuple(name for name in self._failed if name not in self._now)
        expected = {
            name: ("raises", self._failed[name]) if name in self._failed else self._now[name]
            for name in names
            if name in self._failed or name in self._now
        }
        if not expected:
            return
        found = self._ask("read", list(expected))
        if self.outcome.expected:
            self.outcome.expected[-1] = expected
        self.outcome.figures["values compared"] += len(expected)
        for name, value in expected.items():
            if self._failed.get(name) == "FloatingPointError" and found.get(name) != value:
                self.outcome.figures["NaN that JAX let pass after it had lost its hook"] += (
                    1  # ``with jax.debug_nans`` loses it
                )
            elif found.get(name) != value:
                what = (
                    "no failure" if name in self._failed else found[name][0] if name in found else "unbound"
                )
                what = "value" if what == value[0] else what
                raise Different(
                    what, f"{name} is {reads(found.get(name, ('unbound',)))}; eagerly {reads(value)}"
                )

    def _mode(self, inside: bool) -> None:
        self._note(self._ask("mode", inside))

    def _note(self, problem: str) -> None:
        if problem.startswith("repaired"):
            self.outcome.figures["modes repaired by the next body"] += 1
        elif problem:
            raise Different("mode", problem)


def _given(statement: Statement, trail: list[dict[str, Seen]]) -> set[str]:
    """Variables whose memory a statement gives away, though it may bind them again: an interrupt between the
    two leaves nothing in them, in eager JAX too."""
    gone = {
        name
        for then in trail[1:]
        for name, value in then.items()  # another name of the same array goes with it
        if _is_gone(value) and trail[0].get(name) != value
    }
    return gone | {name for name in statement.destroys if name in trail[0]}


def _is_gone(value: Seen) -> bool:
    """Whether what was seen is a deleted array, or holds one."""
    return value[:1] == ("deleted array",) or any(_is_gone(one) for one in value if isinstance(one, tuple))


def _size(setup: str) -> str:
    return setup.split("(", 1)[1].split(",", 1)[0]


def compare(program: Program, worlds: Worlds) -> Outcome:
    """What ``program`` comes to; after a difference the next gets new worlds: what both have run stays the
    same."""
    outcome = Comparison(program, *worlds.pair()).run()
    if outcome.finding is not None or outcome.figures["crashes of eager JAX"]:
        worlds.renew()
    return outcome
