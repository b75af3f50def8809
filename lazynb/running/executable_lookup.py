"""The lookup of the executable for a pending trace: a cache hit, or a compilation on a miss."""

from __future__ import annotations

import functools
import gc
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.trace_description import summarise
from lazynb.recording.snapshot.variable_names import names_of, user_namespace
from lazynb.running.donation import donatable_inputs
from lazynb.running.executable_cache import Binding, executables
from lazynb.running.hosts.host_agreement import HostGroup, group_of
from lazynb.running.hosts.host_proposal import agreed_constants
from lazynb.running.hosts.launch_agreement import agree, compile_on_all_hosts
from lazynb.running.jaxpr_program import Request
from lazynb.running.miss_log import Cut, Miss, miss_log
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import CodePosition


def binding_for(
    pending: PendingTrace,
    tensors: list[LazyTensor],
    values: list[Any],
    kind: str,
    spot: CodePosition,
    whole: bool = True,
    launch: bool = False,
) -> tuple[Binding, Miss | None] | None:
    """The binding that runs ``pending`` for ``tensors``, and the miss if its program had to be compiled.

    Arguments:
      tensors: updated when the garbage collector frees some of them.
      whole: whether these are all live tensors; otherwise nothing is donated.
      launch: whether it runs now. Then all hosts of the program must agree on it.

    Returns: None if no tensor is alive (only the traceback of an error referred to them).
    """
    group = group_of(pending.state.program) if launch else None
    if group is not None:
        agreed_constants.apply(pending)
    chosen = _find_or_collect(pending, tensors, values, whole)
    if chosen is None:
        return None
    request, binding = chosen
    if group is None:
        if binding is not None:  # the usual case
            return binding, None
        return _existing_or_compiled(request, binding, kind, spot)
    return _agreed_binding(
        group, request or Request(pending, slots_of(tensors), values), binding, tensors, kind, spot
    )


def _existing_or_compiled(
    request: Request | None, binding: Binding | None, kind: str, spot: CodePosition
) -> tuple[Binding, Miss | None]:
    if binding is not None:
        return binding, None
    assert request is not None
    binding, is_new = executables.make(request)
    if not is_new:
        return binding, None
    return binding, _add_miss(request, binding.executable, kind, spot)


def _agreed_binding(
    group: HostGroup,
    request: Request,
    binding: Binding | None,
    tensors: list[LazyTensor],
    kind: str,
    spot: CodePosition,
) -> tuple[Binding, Miss | None]:
    """As :func:`_existing_or_compiled`, for the program that all hosts have agreed to run. ``tensors``:
    extended by results that only other hosts need."""
    agreed = agree(group, request, binding, executables, kind, spot)
    pending = request.pending
    for slot in set(agreed.request.wanted).difference(request.wanted):
        owner = pending.owner(slot)
        tensors.append(LazyTensor(pending.trace, owner.avals[slot - owner.first], pending, slot))
        tensors.sort(key=_slot)
    make = functools.partial(_existing_or_compiled, agreed.request, agreed.binding, kind, spot)
    return make() if agreed.made else compile_on_all_hosts(group, agreed, kind, spot, make)


def _find_or_collect(
    pending: PendingTrace, tensors: list[LazyTensor], values: list[Any], whole: bool
) -> tuple[Request | None, Binding | None] | None:
    """The request for ``tensors`` and its binding, or None for no binding. The request is None if the binding
    was found without it. Returns None if no tensor is alive."""
    state, wanted = pending.state, slots_of(tensors)
    if whole and state.large.get(wanted) == () and not pending.delete_after_run:  # nothing to donate
        binding = executables.find(state, wanted)
        if binding is not None:
            return None, binding
    request, binding = _look_up(pending, tensors, values, whole)
    for generation in _collected(pending) if whole else ():
        if binding is not None:
            break
        tensors.clear()
        gc.collect(generation)
        tensors.extend(pending.live())
        if not tensors:
            return None
        request, binding = _look_up(pending, tensors, values, whole)
    return request, binding


def _look_up(
    pending: PendingTrace, tensors: list[LazyTensor], values: list[Any], whole: bool
) -> tuple[Request, Binding | None]:
    make = _offering if whole else Request
    request = make(pending, slots_of(tensors), values)
    return request, executables.find(request.state, request.key)


def _add_miss(request: Request, executable: Executable, kind: str, spot: CodePosition) -> Miss:
    pending = request.pending
    summary = summarise(pending, _names())
    cut = Cut(*pending.cut_by) if pending.cut_by is not None else None
    executable.miss = miss_log.add(
        kind,
        spot,
        summary,
        request.wanted,
        request.donated or (),
        cut,
        executable.origin,
        executable.compile_seconds,
    )
    return executable.miss


def _collected(pending: PendingTrace) -> tuple[int, ...]:
    """The generations of the garbage collector to collect, one after the other, before a compilation.

    Tensors in reference cycles live until the collector runs, at times that differ between equal steps. A
    collection costs less than a compilation for a dead tensor. The young generations, which hold the tensors
    of a step (each gradient of Flax makes some), take about a millisecond. The whole heap takes a tenth of a
    second and more, which pays off if this trace was compiled before for other tensors.
    """
    return (1, 2) if pending.state.executables else (1,)


def _offering(pending: PendingTrace, wanted: tuple[int, ...], values: Sequence[Any]) -> Request:
    """The request for all live tensors, with the inputs that may be donated."""
    request = Request(pending, wanted, values)
    donated = donatable_inputs(request)
    if donated:
        request.donated = executables.allowed_donation(request.state, wanted, donated)
    return request


def binding_key(pending: PendingTrace, wanted: tuple[int, ...], values: Sequence[Any]) -> tuple[Any, ...]:
    """The cache key of the binding for :func:`_offering`."""
    return _offering(pending, wanted, values).key


def _names() -> dict[int, tuple[str, ...]]:
    """The names of the user's variables; empty if a container of the user's raises an error."""
    try:
        return names_of(user_namespace())
    except Exception:
        return {}


def slots_of(tensors: Sequence[LazyTensor]) -> tuple[int, ...]:
    """The slot of each of ``tensors``."""
    return tuple(map(_slot, tensors))


_slot = attrgetter("_slot")
