"""Snapshots: recorded traces as plain data, for drawings and explanations."""

from __future__ import annotations

from dataclasses import dataclass

from lazynb.source import Place as Place


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function that was traced as a whole: jitted, or the body of a loop or branch.

    Attributes:
      id: the same for all operations of the call.
      name: the function's, or the loop's.
      place: the line of the call.
    """

    id: int
    name: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Gradient:
    """What an operation is to a gradient.

    Attributes:
      again: whether it computes its line once more for the gradient (``jax.checkpoint``); else it was made by
        differentiating that line.
      line: the line of the forward pass; None if it is not known.
      asked: the line that asked for the gradient; None if it is not known.
    """

    again: bool
    line: Place | None
    asked: Place | None


@dataclass(frozen=True, slots=True)
class Node:
    """An input or an operation. Its operands have smaller ids.

    Attributes:
      names: the user's names for its results, all together.
      result_names: those of each result; empty for an input.
      calls: the traced calls that it is inside of, the outermost first.
      gradient: what it is to a gradient; None if it belongs to none.
      constant: whether an input is a number that is written in the code, and so a constant of its program.
    """

    id: int
    kind: str
    name: str
    primitive: str
    operands: tuple[tuple[int, int], ...]
    avals: tuple[str, ...]
    place: Place | None
    call: str | None
    call_id: int | None
    scope: str
    names: tuple[str, ...]
    value: str | None
    output: bool
    dead: bool = False
    result_names: tuple[tuple[str, ...], ...] = ()
    calls: tuple[Call, ...] = ()
    constant: bool = False
    gradient: Gradient | None = None

    @property
    def lines(self) -> tuple[Place, ...]:
        """The lines that it stands on, each once: its own, those of the calls that it is inside of, and of a
        gradient the line of the forward pass and the one that asked for it."""
        places = [self.place, *(call.place for call in self.calls)]
        if self.gradient is not None:
            places += [self.gradient.line, self.gradient.asked]
        return tuple(dict.fromkeys([place for place in places if place is not None]))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The nodes of a trace, in the order in which they were recorded."""

    nodes: tuple[Node, ...]

    def operations(self) -> int:
        """The number of operations, without inputs."""
        return sum(node.kind == "op" for node in self.nodes)
