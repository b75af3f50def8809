"""Devices and sharding of a LazyTensor, whose value may be pending, concrete or deleted."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
from jax.experimental.layout import Format

from lazynb import jax_compat as jc
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.result_sharding import predetermined_sharding
from lazynb.user_code.call_stack import calling_frame


class DeletedValue:
    """The value of a deleted tensor, with the attributes that JAX keeps for deleted arrays.

    Attributes:
      sharding: its sharding; None if unknown.
      committed: whether it was committed.
    """

    __slots__ = ("committed", "sharding")

    def __init__(self, sharding: Any = None, committed: bool = False):
        self.sharding, self.committed = sharding, committed

    @property
    def is_fully_replicated(self) -> bool:
        return bool(self.sharding.is_fully_replicated)

    @property
    def is_fully_addressable(self) -> bool:
        return bool(self.sharding.is_fully_addressable)

    @property
    def format(self) -> Format:
        return Format(None, self.sharding)


_DELETED_ATTRIBUTES = ("committed", "format", "is_fully_addressable", "is_fully_replicated", "sharding")


class TensorPlacement:
    """The placement attributes of a LazyTensor. They are read without a run where possible."""

    __slots__ = ()

    _trace: Any
    _pending: PendingTrace | None
    _slot: int
    _value: Any
    _force: Callable[..., Any]

    @property
    def sharding(self) -> Any:
        told = self._query_sharding(calling_frame(1))
        return told if told is not None else self._concrete_attribute("sharding")

    @property
    def device(self) -> Any:
        devices = self._known_devices()
        if devices is not None and len(devices) == 1:
            return devices[0]
        told = self._query_sharding(calling_frame(1))
        return told if told is not None else self._concrete_attribute("device")

    @property
    def committed(self) -> bool:
        return self._committed

    @property
    def _committed(self) -> bool:
        if self._value is None and self._pending is not None:
            return self._pending.owner(self._slot).devices is not None
        return self._concrete_attribute("committed")

    def devices(self) -> Any:
        devices = self._known_devices()
        return set(devices) if devices is not None else self._concrete_attribute("devices")()

    def platform(self) -> str:
        devices = self._known_devices()
        return devices[0].platform if devices is not None else self._concrete_attribute("platform")()

    def _known_devices(self) -> tuple[Any, ...] | None:
        """Returns the devices of a pending value, else None."""
        if self._value is not None or self._pending is None:
            return None
        state = self._pending.owner(self._slot)
        return state.devices if state.devices is not None else state.program

    def _concrete_attribute(self, name: str) -> Any:
        value = self._value
        if type(value) is DeletedValue and value.sharding is not None and name in _DELETED_ATTRIBUTES:
            return getattr(value, name)
        return getattr(self._force("attribute", name), name)

    def _known_sharding(self) -> Any:
        """Returns the sharding of a pending value; None if it is known only after the run. It is known for an
        uncommitted value, and if the aval names the sharding on a mesh. On a mesh with ``Auto`` axes XLA
        chooses it for the whole program."""
        if self._value is not None or self._pending is None:
            return None
        state = self._pending.owner(self._slot)
        if state.devices is not None:
            return predetermined_sharding(state, self._slot)
        return jc.uncommitted_sharding(state.program[0]) if state.program is not None else None

    def _query_sharding(self, frame: FrameType) -> Any:
        """Returns :meth:`_known_sharding`, or fixes and returns the sharding that eager JAX would choose.
        ``frame`` is the frame that reads it."""
        known = self._known_sharding()
        if known is None and self._value is None:
            known = self._trace.query_sharding(self, frame)
        return known

    def _equivalent_sharding(self) -> Any:
        """Returns a sharding equivalent to that of a pending value; None if only a run shows it."""
        known, devices = self._known_sharding(), self._known_devices()
        if known is None and devices is not None and len(devices) == 1:
            return jc.uncommitted_sharding(devices[0])
        return known

    @property
    def is_fully_addressable(self) -> bool:
        devices = self._known_devices()
        if devices is not None:
            return not jc.spans_hosts(devices)
        return bool(self._concrete_attribute("is_fully_addressable"))

    @property
    def is_fully_replicated(self) -> bool:
        told = self._query_sharding(calling_frame(1))
        return (
            told.is_fully_replicated if told is not None else self._concrete_attribute("is_fully_replicated")
        )


def aot_placement(tensor: TensorPlacement) -> Any:
    """Returns the placement of ``tensor``, see :func:`lazynb.jax_compat.register_aot_placement`."""
    value = tensor._value
    if isinstance(value, jax.Array):
        return value
    if type(value) is DeletedValue and value.sharding is not None:
        return value.sharding if value.committed else None
    devices = tensor._known_devices()
    if devices is None or len(devices) > 1:
        return tensor._force("attribute", "sharding")
    if tensor._committed:
        return jc.uncommitted_sharding(devices[0])
    return None
