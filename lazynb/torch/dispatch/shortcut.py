"""The short way of a call that was made before: one pass over its arguments, and one look-up in the trie.

PyTorch's operations are recorded in 64-bit mode, into which JAX is put for each of them. A call that is
recalled needs no JAX, so its mode need not change: it is enough that JAX's configuration is as it was around
an earlier operation of the same trace.
"""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any

from lazynb import _jax as jc
from lazynb.record.fast.recall import NotRecalled, look_up, take
from lazynb.record.pending import Pending
from lazynb.record.trace import LazyTrace
from lazynb.torch.dispatch import storage
from lazynb.torch.dispatch.keys import key_and_row
from lazynb.torch.dispatch.layout import Layout, Results, known
from lazynb.torch.tensor import Tensor, in_64_bit, wrap


class _Around(threading.local):
    """JAX's configuration around an operation that was recorded in this thread.

    Attributes:
      context: the configuration in which the operation was called, in 64-bit mode or not.
      inside: that of the trace in which it was recorded.
      pending: a trace of that configuration.
      epoch: ``changes.count`` when the configuration was last found to be ``context``.
    """

    context: Any = None
    inside: Any = None
    pending: Pending | None = None
    epoch = -1


_around = _Around()
_ambient, _changes = jc.ambient, jc.changes
_NONE: dict[str, Any] = {}


def note() -> Any:
    """Notes the configuration in which an operation is called, before JAX is put into 64-bit mode.

    Returns what :func:`noted` takes; None if there is nothing to note.
    """
    trace = _ambient.value
    if trace.__class__ is not LazyTrace or trace.pending is _around.pending is not None:
        return None
    return jc.raw_context()


def noted(context: Any) -> None:
    """Keeps what was noted, if the open trace is that of the configuration inside, which is in force."""
    trace = _ambient.value
    pending = trace.pending if trace.__class__ is LazyTrace else None
    if pending is None or pending.tip is None:
        return
    if pending.epoch == _changes.count or pending.same_context():
        _around.context, _around.inside = context, pending.context
        _around.pending, _around.epoch = pending, -1


def _open() -> Pending | None:
    """The trace in which an operation that is called now would be recorded, if that is certain."""
    trace = _ambient.value
    if trace.__class__ is not LazyTrace:
        return None
    pending: Pending | None = trace.pending
    if pending is not None and pending is _around.pending and _around.epoch == _changes.count:
        return pending
    count = _changes.count
    if jc.must_run_eagerly() or trace.stray or jc.raw_context() != _around.context:
        _around.pending = None  # the next operation notes it anew
        return None
    if pending is not _around.pending or pending is None:
        if pending is None or pending.tip is None or pending.tip is pending.root:
            with in_64_bit(), trace.lock:
                pending = trace.open()
            count = -1
        if pending.context != _around.inside:
            return None
        _around.pending = pending
    _around.epoch = count
    return pending


def again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: bool, frame: FrameType) -> Any:
    """The results of a call that was carried out before, as tensors; None if it was not, or is not recalled.

    Arguments:
      numbers: whether the numbers of a call make no difference, see :mod:`.calls`.
      frame: a frame in or below the user's.
    """
    try:
        key, row = key_and_row(func, args, kwargs, numbers)
        found = known.get(key)
    except TypeError:  # something that cannot be a key
        return None
    if found is None:
        return None
    if found.steps:
        return views(args[0], found)
    if row is None or not found.recalled:
        return None
    pending = _open()
    if pending is None or pending.tip is None:
        return None
    return _recalled(found, row, numbers, pending, frame)


def views(source: Tensor, found: Results) -> Any:
    """The views of ``source`` that an operation gives: tensors that share its memory."""
    assert found.steps is not None
    steps = source._steps
    if found.tree.__class__ is Layout:
        (step,) = found.steps
        return Tensor(source._storage, found.tree, steps if step is storage.SAME else (*steps, step))
    return [
        Tensor(source._storage, layout, steps if step is storage.SAME else (*steps, step))
        for layout, step in zip(found.tree, found.steps, strict=True)
    ]


def _recalled(found: Results, row: list[Any], numbers: bool, pending: Pending, frame: FrameType) -> Any:
    """The results of a call at the end of ``pending``, if it was made there before."""
    values = [x._elem if x.__class__ is Tensor else x for x in row]
    if jc.has_several_devices():
        with in_64_bit(), pending.trace.lock:
            if pending is not pending.trace.home(values):
                return None
    scalars: list[Any] | None = [] if numbers else None
    try:
        tip, _, edge = look_up(pending, found.name, values, _NONE, scalars)
    except (NotRecalled, TypeError):
        return None
    if edge is None or edge.end is None:
        return None
    results = take(pending, tip, edge, scalars or (), frame)
    if results is None:
        return None
    tree = found.tree
    if tree.__class__ is Layout:
        return wrap(results, tree)
    return tuple([wrap(result, layout) for result, layout in zip(results, tree, strict=True)])
