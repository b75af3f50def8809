"""Snapshots: recorded traces as plain data, for drawings and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType

from lazynb.jax_compat.jax_names import (
    BACKWARD_SCOPE,
    GRADIENT_FILE,
    GRADIENT_FUNCTIONS,
    JITTED_NAMES,
    REMAT_SCOPE,
)
from lazynb.jax_compat.jaxprs import traceback_frames
from lazynb.user_code.code_ownership import is_user_code
from lazynb.user_code.source_lines import Origin, Place as Place, Places


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


# ---- What users call operations ---------------------------------------------------------------------------


def display_name(name: str) -> str:
    """The name of an operation as users know it, such as ``where`` for ``_where``."""
    name = JITTED_NAMES.get(name, name)
    return name.strip("_").replace("<lambda>", "lambda") or name


# ---- The gradients that equations inside of a call belong to: which lines they differentiate, and who asked

Instructions = Sequence[tuple[CodeType, int]]


def gradient(
    scope: str, line: Place | None, instructions: Instructions, places: Places, around: Gradient | None
) -> Gradient | None:
    """What an equation is to a gradient; None if it belongs to none.

    Arguments:
      scope: its name stack, which says what JAX made it by.
      line: the line of the user's on which it was traced. JAX traces the backward pass of an operation under
        the line of the operation itself.
      instructions: that were running then, the innermost first.
      around: the same of the call that it is inside of.
    """
    again = REMAT_SCOPE in scope.split("/")
    if not again and f"{BACKWARD_SCOPE}(" not in scope:
        return None
    asked = _requesting_line(instructions, places) or (around.asked if around is not None else None)
    return Gradient(again, line, asked)


def _requesting_line(instructions: Instructions, places: Places) -> Place | None:
    """The line that called ``jax.grad`` or one like it; None if none did, or several: of nested gradients
    nobody says to which an equation belongs."""
    found: set[Place] = set()
    inside = False
    for code, offset in instructions:
        if code.co_name in GRADIENT_FUNCTIONS and code.co_filename.endswith(GRADIENT_FILE):
            inside = True
        elif inside and is_user_code(code):
            found.add(places.of(Origin(code, offset, None, 0, None)))
            inside = False
    return found.pop() if len(found) == 1 else None


def forward_gradient(origin: Origin, places: Places) -> Gradient | None:
    """What an operation of a backward pass is to the gradient that the line of ``origin`` asked for; None for
    any other."""
    if origin.forward is None:
        return None
    user = next((one for one in traceback_frames(origin.forward) if is_user_code(one[0])), None)
    line = places.of(Origin(*user, None, 0, None)) if user is not None else None
    return Gradient(False, line, places.of(origin))
