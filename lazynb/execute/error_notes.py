"""Notes on errors: the user's lines of the operations that cannot be lowered, compiled or run.

Eager JAX raises such an error at the operation, and PyTorch that of a check. lazynb raises it when the trace
runs, so the error gets a note with the line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import jax

from lazynb.errors import HostsError
from lazynb.execute.background import is_interrupt
from lazynb.execute.program import Program, lower
from lazynb.execute.records import plural
from lazynb.execute.request import Request
from lazynb.record.pending import Pending
from lazynb.record.trie import State
from lazynb.source import Origin


def add_note(error: BaseException, request: Request, *, running: bool = False) -> None:
    """Adds a note with the user's lines to ``error``, once.

    The lines are those of the steps that fail alone. If none does, they are those of all steps.

    Arguments:
      running: whether the program failed while it ran, and not while it was made.
    """
    if is_interrupt(error) or hasattr(error, _BLAMED):
        return
    operations = [step for step in request.steps if step.operation is not None]
    if running:
        guilty = [step for step in operations if _may_fail(step)]
    else:
        guilty = _failing(request)
    with contextlib.suppress(AttributeError):  # an error without attributes
        setattr(error, _BLAMED, guilty)
    lines = _lines(guilty or operations, request.origins)
    if lines:
        error.add_note(_note(len(guilty or operations), lines, len(guilty) == 1))


def failing_lines(request: Request, platform: str) -> list[str]:
    """The user's lines of the operations that JAX cannot lower for ``platform``, each once."""
    return _lines(_failing(request, platform), request.origins)


def _failing(request: Request, platform: str | None = None) -> list[State]:
    operations = [step for step in request.steps if step.operation is not None]
    return [step for step in operations if _fails_alone(step, request.pending, platform)]


def refusal(error: Exception, step: State, origins: list[Origin | None]) -> Exception:
    """``error``, of the failed check of ``step``, with a note of the user's line.

    Arguments:
      origins: the user's line of each step of the trace.
    """
    with contextlib.suppress(AttributeError):
        setattr(error, _BLAMED, [step])
        setattr(error, _REFUSED, True)
    lines = _lines([step], origins)
    if lines:
        error.add_note(_note(1, lines, True))
    return error


def alone(error: Exception) -> Exception:
    """``error``, which this host alone had: it cannot run a part of the trace without the others."""
    with contextlib.suppress(AttributeError):
        setattr(error, _REFUSED, True)
    return error


def is_refusal(error: Exception) -> bool:
    """Whether ``error`` is that of a failed check, of hosts that do not do the same, or an interrupt: there
    is nothing to find out about it."""
    return hasattr(error, _REFUSED) or isinstance(error, HostsError) or is_interrupt(error)


_REFUSED = "_lazynb_refused"
_BLAMED = "_lazynb_blamed"


def to_blame(error: BaseException) -> list[State]:
    """The steps that :func:`add_note` held responsible for ``error``; empty if it found none."""
    return list(getattr(error, _BLAMED, ()))


def _lines(steps: Iterable[State], origins: list[Origin | None]) -> list[str]:
    """The user's lines that recorded ``steps``, each once."""
    lines: dict[str, None] = {}
    for step in steps:
        origin = origins[step.depth - 1]
        if origin is not None:
            place = origin.place
            lines[place.in_full] = None
    return list(lines)


def _note(operations: int, lines: list[str], certain: bool) -> str:
    """The text for ``operations`` recorded at ``lines``.

    Arguments:
      certain: whether exactly one operation is known to fail.
    """
    if len(lines) > 4:
        lines = [*lines[:2], f"... {plural(len(lines) - 3, 'line')} more", lines[-1]]
    where = f" {lines[0]}" if len(lines) == 1 else "\n  ".join(["", *lines])
    subject = "" if certain else f"{plural(operations, 'operation')}, "
    return f"lazynb: {subject}recorded lazily at{where}\n{_AFTERWARDS}"


_AFTERWARDS = "What was pending still is; what does not depend on it can be used."


def _may_fail(step: State) -> bool:
    return step.operation is not None and step.operation.may_fail


def _fails_alone(step: State, pending: Pending, platform: str | None) -> bool:
    """Whether JAX cannot lower the operation of ``step`` by itself.

    Arguments:
      platform: for this one; None: for this machine.
    """
    avals = {}
    for slot in dict.fromkeys(step.operands):
        owner = pending.owner(slot)
        avals[slot] = owner.avals[slot - owner.first]
    program = Program()
    variables = program.add_with_inputs(step, avals)
    arguments = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals.values()
    ]
    jaxpr = program.jaxpr([variables[slot] for slot in range(step.first, step.slots)])
    try:
        lower(jaxpr, arguments, pending.root.config, platform=platform)
    except Exception:
        return True
    return False
