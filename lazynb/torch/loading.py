"""``torch.load(map_location="jax")``: tensors on device ``jax`` that are made from what a file holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from lazynb.torch.dispatch import dispatch as d, layout as layouts
from lazynb.torch.dispatch.storage import Storage
from lazynb.torch.tensor import DEVICE, Tensor, torch_to_array

aten = torch.ops.aten
_LOCATION = re.compile(r"jax(:0)?")


class _Read(torch.UntypedStorage):
    """Bytes that were read from a file, on the CPU, for tensors on device ``jax``."""

    device = DEVICE

    def whole(self, dtype: torch.dtype) -> Storage:
        """All of it as a storage. Tensors that shared memory when they were saved share it again."""
        made = self.__dict__.setdefault("_made", {})
        if dtype not in made:
            flat = torch.empty(0, dtype=dtype).set_(self)
            made[dtype] = Storage(torch_to_array(flat), layouts.contiguous(tuple(flat.shape), dtype))
        return made[dtype]


def _restored(storage: Any, location: str) -> Any:
    """``storage``, of which a tensor on device ``jax`` can be made; None if it is for another device."""
    if not _LOCATION.fullmatch(location):
        return None
    storage.__class__ = _Read
    return storage


def _set_to(func: Any, args: Any, kwargs: Any) -> Any:
    target, storage, *place = args
    if not isinstance(storage, _Read):
        raise NotImplementedError(
            f"lazynb.torch: {func} gives a tensor other memory; assign to .data instead"
        )
    whole = storage.whole(target.dtype)
    offset, size, *rest = place or (0, whole.layout.shape)
    stride = tuple(rest[0]) if rest and rest[0] else layouts.contiguous(tuple(size), target.dtype).stride
    wanted = layouts.layout(tuple(size), stride, offset, target.dtype)
    steps = d._steps_from_memory(whole, wanted)
    assert steps is not None  # it is contiguous
    d.replace(target, Tensor(whole, wanted, steps))
    return target


d.special[aten.set_.source_Storage] = _set_to
d.special[aten.set_.source_Storage_storage_offset] = _set_to


_is_installed = False


def install(is_enabled: Callable[[], bool]) -> None:
    """Lets ``torch.load`` make tensors on device ``jax``, for ``map_location``. PyTorch cannot undo it."""
    global _is_installed
    if _is_installed:
        return

    def restore(storage: Any, location: str) -> Any:
        return _restored(storage, location) if is_enabled() else None

    torch.serialization.register_package(15, lambda storage: None, restore)
    _is_installed = True
