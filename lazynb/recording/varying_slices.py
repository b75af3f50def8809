"""Slices whose start varies: ``images[s:s + 64]`` in a loop.

JAX makes the start of a slice a parameter of the operation, so each start is another program. The first start
at a place of the user's code is recorded so, as by eager JAX. When another start is seen there, in a later
trace or after a large turn of a loop, the starts are operands from then on, and the slice is
``lax.dynamic_slice``. The small turns of an unrolled loop are places of their own and keep static slices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.literal_numbers import calling_expression
from lazynb.user_code.call_stack import calling_frame

MAX_PLACES = 4096
MAX_TURNS = 4096

LARGE_TURN = 128
"""Operations between two slices at one place that make the turn a large one."""

_VARIES = object()


class SliceStarts:
    """The starts of slices by place.

    Attributes:
      by_place: the starts that were seen in each turn of a place; :data:`_VARIES` for operands.
    """

    def __init__(self) -> None:
        self.by_place: dict[Any, Any] = {}
        self._trace: Any = None
        self._last: dict[
            Any, tuple[int, int]
        ] = {}  # by place: its turn in the trace, and the operations before

    def vary(self, pending: Any, place: Any, starts: Sequence[int]) -> bool:
        """Whether the starts at ``place`` are operands, and notes the ``starts`` of the trace ``pending``."""
        if len(self.by_place) >= MAX_PLACES:
            self.by_place.clear()
        seen = self.by_place.setdefault(place, {})
        if seen is _VARIES:
            return True
        if self._trace != (id(pending), pending.began):
            self._trace, self._last = (id(pending), pending.began), {}
        operations = pending.state.operations
        turn, before = self._last.get(place, (-1, operations))
        known = seen.get(turn if operations - before > LARGE_TURN else turn + 1, starts)
        if known != starts or turn >= MAX_TURNS:
            self.by_place[place] = _VARIES
            return True
        seen[turn + 1] = starts
        self._last[place] = turn + 1, operations
        return False


_starts = SliceStarts()


def _static_slice(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def static_slice(array: Any, indexer: Any) -> Any:
        trace = jc.trace_state.value
        if type(trace) is LazyTrace and type(array) in (LazyTensor, jc.ArrayImpl):
            axes = _partial_axes(array.shape, indexer)
            if axes and _is_on_one_device(array) and _varies(trace, array.shape, indexer, calling_frame(1)):
                sizes = _sizes(indexer)
                starts = np.array([indexer.start_indices[axis] for axis in axes], np.int32)
                array = _slice_at(axes, sizes)(array, starts)
                indexer = indexer._replace(start_indices=[0] * len(sizes), limit_indices=sizes)
        return plain(array, indexer)

    return static_slice


def _is_on_one_device(array: Any) -> bool:
    if type(array) is jc.ArrayImpl:
        return len(array.sharding.device_set) == 1
    devices = array._known_devices()
    return not array._committed or (devices is not None and len(devices) == 1)


def _sizes(indexer: Any) -> tuple[int, ...]:
    pairs = zip(indexer.start_indices, indexer.limit_indices, strict=True)
    return tuple([end - start for start, end in pairs])


def _partial_axes(shape: Sequence[int], indexer: Any) -> tuple[int, ...]:
    """The axes of which a part is taken; none if the elements are not adjacent."""
    if indexer.strides is not None and any(stride != 1 for stride in indexer.strides):
        return ()
    return tuple([axis for axis, size in enumerate(_sizes(indexer)) if size < shape[axis]])


def _varies(trace: LazyTrace, shape: Sequence[int], indexer: Any, frame: FrameType) -> bool:
    pending = trace.pending
    if pending is None or trace.runs_at_once or max(shape) > _LARGEST:
        return False
    place = calling_expression(frame)
    key = (place, tuple(shape), _sizes(indexer))
    return place is not None and _starts.vary(pending, key, tuple(indexer.start_indices))


_LARGEST = 2**31 - 1  # a start is an int32


@functools.lru_cache(1024)
def _slice_at(axes: tuple[int, ...], sizes: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    """Returns the jitted function that takes a part of ``sizes`` at given starts in ``axes``."""

    def dynamic_slice(array: Any, starts: Any) -> Any:
        at = [np.int32(0)] * len(sizes)
        for number, axis in enumerate(axes):
            at[axis] = starts[number]
        return jax.lax.dynamic_slice(array, at, sizes)

    return jax.jit(dynamic_slice)


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """Returns the substitutes while a thread is lazy."""
    owner, name = jc.STATIC_SLICE
    return [(owner, {name: _static_slice(getattr(owner, name))})]
