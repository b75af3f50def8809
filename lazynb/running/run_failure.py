"""Failed runs: notes with the user's lines on errors, and the run of the unaffected part of a trace.

Eager JAX raises an error at the failed operation, and PyTorch at the failed check. lazynb raises it when the
trace runs, so the error gets a note with the line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from lazynb.errors import HostsError
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trie import State
from lazynb.running.background_thread import is_interrupt
from lazynb.running.jaxpr_program import Program, Request, lower, needed_steps
from lazynb.running.record_table import plural
from lazynb.user_code.source_lines import Origin


def add_note(error: BaseException, request: Request, *, running: bool = False) -> None:
    """Adds a note with the user's lines to ``error``, once.

    The lines are those of the steps that fail alone. If none does, they are those of all steps.

    Arguments:
      running: whether the program failed at run time, and not at compile time.
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


def failed_check(error: Exception, step: State, origins: list[Origin | None]) -> Exception:
    """``error`` of the failed check of ``step``, with a note of the user's line.

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


def one_host_error(error: Exception) -> Exception:
    """Marks ``error``, which only this host had: to run the trace in parts would need all hosts."""
    with contextlib.suppress(AttributeError):
        setattr(error, _REFUSED, True)
    return error


def needs_no_diagnosis(error: Exception) -> bool:
    """Whether the failed part is known: a failed check, disagreeing hosts, or an interrupt."""
    return hasattr(error, _REFUSED) or isinstance(error, HostsError) or is_interrupt(error)


_REFUSED = "_lazynb_refused"
_BLAMED = "_lazynb_blamed"


def blamed_steps(error: BaseException) -> list[State]:
    """The steps that :func:`add_note` blamed for ``error``; empty if it found none."""
    return list(getattr(error, _BLAMED, ()))


def _lines(steps: Iterable[State], origins: list[Origin | None]) -> list[str]:
    lines: dict[str, None] = {}
    for step in steps:
        origin = origins[step.depth - 1]
        if origin is not None:
            place = origin.place
            lines[place.in_full] = None
    return list(lines)


def _note(operations: int, lines: list[str], certain: bool) -> str:
    """The note for ``operations`` recorded at ``lines``. ``certain``: whether exactly one is known to
    fail."""
    if len(lines) > 4:
        lines = [*lines[:2], f"... {plural(len(lines) - 3, 'line')} more", lines[-1]]
    where = f" {lines[0]}" if len(lines) == 1 else "\n  ".join(["", *lines])
    subject = "" if certain else f"{plural(operations, 'operation')}, "
    return f"lazynb: {subject}recorded lazily at{where}\n{_AFTERWARDS}"


_AFTERWARDS = "Pending values stay pending; values that do not depend on the failed operation can be used."


def _may_fail(step: State) -> bool:
    return step.operation is not None and step.operation.may_fail


def _fails_alone(step: State, pending: PendingTrace, platform: str | None) -> bool:
    """Whether JAX cannot lower the operation of ``step`` by itself. ``platform``: the platform to lower for;
    None for the platform of this machine."""
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


# ---- The unaffected part of a trace ---------------------------------------------------------------------
# Eager JAX raises at the operation that fails, and every other value exists. So when a program cannot be
# compiled or run, the tensors that do not depend on the failed operations are computed without them. The
# other tensors stay pending, and reading one raises the error.

Attempt = Callable[[PendingTrace, list[LazyTensor]], None]
"""Runs a pending trace for some tensors without donation; raises the error of the run."""


class RunFailure:
    """The reason that some tensors of a pending trace cannot be computed.

    Attributes:
      steps: the steps that failed, or that may have failed.
      reported: slots whose error the user has seen.
      refused: the steps whose check failed, each with a function that makes the error. (A raised error would
        keep its tensors alive through the traceback.) Tensors that depend on these steps are never computed.
    """

    def __init__(self) -> None:
        self.steps: set[State] = set()
        self.reported: set[int] = set()
        self.refused: list[tuple[State, Callable[[], Exception]]] = []

    def refuse(self, step: State, make: Callable[[], Exception]) -> None:
        """Notes that the check of ``step`` failed; ``make`` creates the error."""
        self.refused.append((step, make))
        self.steps.add(step)

    def refusal(self, pending: PendingTrace, tensor: LazyTensor) -> Exception | None:
        """The error of the first failed check on which ``tensor`` depends, without a traceback."""
        if not self.refused:
            return None
        needed = needed_steps(pending.state.path(), (tensor._slot,))
        make = next((make for step, make in self.refused if step in needed), None)
        return None if make is None else make()

    def affects(self, pending: PendingTrace, tensor: LazyTensor) -> bool:
        """Whether ``tensor`` depends on one of the steps, or on an input that could not be computed."""
        steps = needed_steps(pending.state.path(), (tensor._slot,))
        if not self.steps.isdisjoint(steps):
            return True
        return any(map(_is_missing, _inputs(pending, steps)))

    def add_blamed_steps(self, error: Exception) -> bool:
        """Adds the steps that ``error`` blames; returns whether any of them was new."""
        before = len(self.steps)
        self.steps.update(blamed_steps(error))
        return len(self.steps) > before


def compute_unaffected(tensor: LazyTensor, order: Sequence[PendingTrace], attempt: Attempt) -> None:
    """Computes ``tensor``, and all tensors that are known to be unaffected by the failure.

    Arguments:
      order: the pending traces that ``tensor`` needs, in the order in which they run.

    Raises the error of an operation that ``tensor`` needs.
    """
    wanted = _needed(tensor, order)
    for pending in order:
        if wanted[id(pending)]:
            _obtain_here(pending, wanted[id(pending)], attempt)


def _needed(tensor: LazyTensor, order: Sequence[PendingTrace]) -> dict[int, list[LazyTensor]]:
    needed: dict[int, list[LazyTensor]] = {id(pending): [] for pending in order}
    needed[id(tensor._pending)].append(tensor)
    for pending in reversed(order):
        slots = [other._slot for other in needed[id(pending)]]
        steps = needed_steps(pending.state.path(), slots)
        for value in filter(_is_missing, _inputs(pending, steps)):
            needed[id(value._pending)].append(value)
    return needed


def _obtain_here(pending: PendingTrace, wanted: Sequence[LazyTensor], attempt: Attempt) -> None:
    """Runs ``pending`` for its unaffected tensors together, then for each pending one of ``wanted``."""
    if pending.failure is None:
        pending.failure = RunFailure()
    trouble = pending.failure
    while len(sound := _sound(pending, trouble)) > 1:
        try:
            attempt(pending, sound)
            break
        except Exception as error:
            if needs_no_diagnosis(error):
                raise
            if not trouble.add_blamed_steps(error):
                break
    for tensor in wanted:
        if tensor._pending is pending:
            refusal = trouble.refusal(pending, tensor)
            if refusal is not None:
                raise refusal
            attempt(pending, [tensor])


def _sound(pending: PendingTrace, trouble: RunFailure) -> list[LazyTensor]:
    return [tensor for tensor in pending.live() if not trouble.affects(pending, tensor)]


def _inputs(pending: PendingTrace, steps: Sequence[State]) -> list[Any]:
    return [pending.inputs[step.inputs - 1] for step in steps if step.operation is None]


def _is_missing(value: Any) -> bool:
    return type(value) is LazyTensor and value._pending is not None
