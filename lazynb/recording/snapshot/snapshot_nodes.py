"""Snapshots: recorded traces as plain data for drawings and explanations, with calls and gradients."""

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
    """A call of a function that was traced as a whole: a jitted function, or the body of a loop or branch.

    Attributes:
      id: equal for all operations of the call.
      name: the name of the function or loop.
      place: the line of the call.
    """

    id: int
    name: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Gradient:
    """The role of an operation in a gradient.

    Attributes:
      again: whether it recomputes its line for the gradient (``jax.checkpoint``); otherwise it differentiates
        the line.
      line: the line of the forward pass; None if unknown.
      asked: the line that requested the gradient; None if unknown.
    """

    again: bool
    line: Place | None
    asked: Place | None


@dataclass(frozen=True, slots=True)
class Node:
    """An input or an operation. Its operands have smaller ids.

    Attributes:
      names: the user's names of its results, all together.
      result_names: the names of each result; empty for an input.
      calls: the traced calls around it, the outermost first.
      gradient: its role in a gradient, or None.
      constant: whether an input is a literal, and so a constant of its program.
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
        """Its lines without duplicates: its own, those of the calls around it, and those of its gradient."""
        if not self.calls and self.gradient is None:  # most nodes of a large graph
            return () if self.place is None else (self.place,)
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


# ---- Names of operations -----------------------------------------------------------------------------------


def display_name(name: str) -> str:
    """Returns the name of an operation for the user, such as ``where`` for ``_where``."""
    name = JITTED_NAMES.get(name, name)
    return name.strip("_").replace("<lambda>", "lambda") or name


# ---- Gradients of equations inside of a call ---------------------------------------------------------------

Instructions = Sequence[tuple[CodeType, int]]


def gradient(
    scope: str, line: Place | None, instructions: Instructions, places: Places, around: Gradient | None
) -> Gradient | None:
    """Returns the role of an equation in a gradient, or None.

    Arguments:
      scope: its name stack, which shows the transformations of JAX.
      line: the user's line on which it was traced. JAX traces the backward pass of an operation under the
        line of the operation.
      instructions: the instructions that were running, the innermost first.
      around: the role of the call around it.
    """
    again = REMAT_SCOPE in scope.split("/")
    if not again and f"{BACKWARD_SCOPE}(" not in scope:
        return None
    asked = _requesting_line(instructions, places) or (around.asked if around is not None else None)
    return Gradient(again, line, asked)


def _requesting_line(instructions: Instructions, places: Places) -> Place | None:
    """Returns the line that called ``jax.grad`` or the like; None for several, as in nested gradients."""
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
    """Returns the role of a backward operation in the gradient requested by ``origin``, or None."""
    if origin.forward is None:
        return None
    user = next((one for one in traceback_frames(origin.forward) if is_user_code(one[0])), None)
    line = places.of(Origin(*user, None, 0, None)) if user is not None else None
    return Gradient(False, line, places.of(origin))
