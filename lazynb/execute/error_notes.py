"""Says on which of the user's lines an operation was recorded that cannot be lowered, compiled or run.

Eager JAX raises such an error at the operation; a lazy one when the trace runs, so the error gets a note with
the line.
"""

from __future__ import annotations

import contextlib

import jax

from lazynb.execute.program import Program, lower
from lazynb.execute.request import Request
from lazynb.record.pending import Pending
from lazynb.record.trie import State


def add_note(error: BaseException, request: Request, *, running: bool = False) -> None:
    """Adds to ``error`` the user's lines of the steps that explain it: those that fail alone, else all of
    them. Once."""
    if isinstance(error, KeyboardInterrupt) or hasattr(error, _BLAMED):
        return
    operations = [step for step in request.steps if step.operation is not None]
    guilty = [step for step in operations if _may_fail(step)] if running else []
    if not guilty and not running:
        guilty = [step for step in operations if _fails_alone(step, request.pending)]
    with contextlib.suppress(AttributeError):  # an error without attributes
        setattr(error, _BLAMED, guilty)
    origins = request.origins
    places = [
        origin.place for step in guilty or operations if (origin := origins[step.depth - 1]) is not None
    ]
    lines = list(
        dict.fromkeys(f"{place.label}: {place.text}" if place.text else place.label for place in places)
    )
    if not lines:
        return
    shown = lines if len(lines) <= 4 else [*lines[:2], f"... {len(lines) - 3} lines more", lines[-1]]
    what = "This operation was" if len(guilty) == 1 else f"These {len(guilty or operations)} operations were"
    error.add_note(
        f"lazynb: {what} recorded at\n  "
        + "\n  ".join(shown)
        + "\nWhat was pending still is; what does not depend on it can be used."
    )


_BLAMED = "_lazynb_blamed"


def to_blame(error: BaseException) -> list[State]:
    """The steps that :func:`add_note` held responsible for ``error``; none where it could not tell."""
    return list(getattr(error, _BLAMED, ()))


def _may_fail(step: State) -> bool:
    return step.operation is not None and step.operation.may_fail


def _fails_alone(step: State, pending: Pending) -> bool:
    """Whether JAX cannot lower the operation of ``step`` by itself."""
    program = Program()
    inputs = dict.fromkeys(step.operands)
    owners = {slot: pending.owner(slot) for slot in inputs}
    avals = {slot: owner.avals[slot - owner.first] for slot, owner in owners.items()}
    variables = program.add_with_inputs(step, avals)
    arguments = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals.values()
    ]
    jaxpr = program.jaxpr([variables[slot] for slot in range(step.first, step.slots)])
    try:
        lower(jaxpr, arguments, pending.root.config)
    except Exception:
        return True
    return False
