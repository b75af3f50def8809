"""The gradients that equations inside of a call belong to: which lines they differentiate, and who asked."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType

from lazynb._jax.inside import running
from lazynb._jax.names import BACKWARD_SCOPE, GRADIENT_FILE, GRADIENT_FUNCTIONS, REMATTED
from lazynb.record.snapshot.snapshot import Gradient
from lazynb.source import Origin, Place, Places, is_user_code

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
    again = REMATTED in scope.split("/")
    if not again and f"{BACKWARD_SCOPE}(" not in scope:
        return None
    asked = _asked(instructions, places) or (around.asked if around is not None else None)
    return Gradient(again, line, asked)


def _asked(instructions: Instructions, places: Places) -> Place | None:
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


def differentiated(origin: Origin, places: Places) -> Gradient | None:
    """What an operation of a backward pass is to the gradient that the line of ``origin`` asked for; None for
    any other."""
    if origin.forward is None:
        return None
    user = next((one for one in running(origin.forward) if is_user_code(one[0])), None)
    line = places.of(Origin(*user, None, 0, None)) if user is not None else None
    return Gradient(False, line, places.of(origin))
