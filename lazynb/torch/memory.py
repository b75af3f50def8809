"""The memory of tensors on device ``jax``, as code that saves asks for it: who shares it, how large it is.

An array of JAX's has no address that could be read. The numbers that stand for addresses here are there to be
compared: equal where two tensors begin at one place, and apart by their distance in bytes where they share
memory.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from lazynb.torch.dispatch.storage import Storage

_bases = itertools.count(1)
_ROOM = 1 << 44  # bytes between the places of two storages: more than one has


def address(storage: Storage) -> int:
    """A number for the place of ``storage``, that no other has while the process lives."""
    if not storage.address:
        storage.address = next(_bases) * _ROOM
    return storage.address


class Memory:
    """What ``tensor.untyped_storage()`` gives: equal for tensors that share memory. It cannot be read."""

    device = torch.device("privateuseone:0")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def data_ptr(self) -> int:
        """A number that stands for the address."""
        return address(self._storage)

    _cdata = property(data_ptr)

    def nbytes(self) -> int:
        """Bytes."""
        layout = self._storage.layout
        return 0 if 0 in layout.shape else layout.end * layout.dtype.itemsize

    size = __len__ = nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(id(self._storage))

    def __repr__(self) -> str:
        return f"memory of {self.nbytes():,} bytes on device jax"


def have_same_size(func: Any, args: Any, kwargs: Any) -> bool:
    """``_has_same_storage_numel``, which forward-mode derivatives ask: whether two memories are as large."""
    one, other = [x.untyped_storage().nbytes() // x.element_size() for x in args]
    return bool(one == other)
