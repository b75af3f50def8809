"""The sharding of a pending value on Auto axes: told without a run, as eager JAX has it, and kept so.

A program leaves it to XLA. Code that asks for it (Flax compares that of a variable with that of its next
value) gets what eager JAX would give, and a move to it is recorded, so that the program does the same.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from lazynb import _jax as jc
from lazynb.record.pending import Pending
from lazynb.record.runtime import runtime
from lazynb.record.spread import can_be_spread, spread
from lazynb.record.tensor import LazyTensor

_ORIGIN = ("_slot", "_edge", "_code", "_lasti", "_scope")


def told_sharding(tensor: LazyTensor, trace: Any, frame: FrameType) -> Any:
    """The sharding that the pending ``tensor`` of ``trace`` has from now on; None if only a run can tell it.

    Arguments:
      frame: who asks. Code of JAX's may be recorded as a call, and recalled as a whole: a move in the middle
        of it is no part of that.
    """
    pending = tensor._pending
    if pending is None or pending is not trace.pending or _is_jax(frame):
        return None
    target = runtime().eager_sharding(tensor)
    if target is None or not can_be_spread(tensor, target, trace):
        return None
    with trace.lock, jc.set_current_trace(trace):
        moved = spread(tensor, target, "sharding")
        if not isinstance(moved, LazyTensor) or moved._pending is not pending:
            return None
        _exchange(pending, tensor, moved)
    return target


def _is_jax(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in ("jax", "lazynb")


def _exchange(pending: Pending, tensor: LazyTensor, moved: LazyTensor) -> None:
    """Makes ``tensor`` the result that ``moved`` is, and the other way round."""
    records = pending.records
    at, other = _place(records, tensor), _place(records, moved)
    records[at], records[other] = moved, tensor
    for name in _ORIGIN:
        mine, its = getattr(tensor, name, None), getattr(moved, name, None)
        setattr(tensor, name, its)
        setattr(moved, name, mine)


def _place(records: list[LazyTensor], tensor: LazyTensor) -> int:
    return next(at for at in reversed(range(len(records))) if records[at] is tensor)
