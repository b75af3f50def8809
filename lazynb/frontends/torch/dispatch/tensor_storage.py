"""Storages: the replaceable arrays that tensors share as memory, with stand-ins for their addresses."""

from __future__ import annotations

import itertools
from typing import Any

import torch


class Storage:
    """A replaceable array: the memory of tensors.

    Attributes:
      value: the array; None if nothing was written yet (``torch.empty``) or ``host`` has the values.
      host: small integers on the host (:mod:`.known_integers`, :mod:`.deferred_integers`), or None.
      version: the number of writes.
      layout: layout of the tensor for which the storage was made; ``value`` has this layout in memory.
      bounds: the least and largest possible number of a pending ``value``; None if unknown.
      address: a number that stands for the memory address; 0 until :func:`address` is called.
    """

    __slots__ = ("__weakref__", "address", "bounds", "host", "layout", "value", "version")

    def __init__(self, value: Any, layout: Any) -> None:
        self.value = value
        self.host: Any = None
        self.version = 0
        self.layout = layout
        self.bounds: tuple[int, int] | None = None
        self.address = 0

    def read(self) -> Any:
        """The array; zeros if nothing was written yet."""
        if self.value is None:
            self.value = self.layout.zeros() if self.host is None else self.host.array()
        return self.value

    def write(self, value: Any) -> None:
        """Replaces the array."""
        self.value, self.host = value, None
        self.version += 1
        self.bounds = None

    def copied(self) -> Storage:
        """A new storage that shares the immutable array."""
        new = Storage(self.value, self.layout)
        new.host, new.bounds = self.host, self.bounds
        return new

    def set_host_values(self, host: Any) -> None:
        """Replaces the array by values that the host has or will compute."""
        self.write(None)
        self.host = host


# ---- Addresses and storage handles -------------------------------------------------------------------------
# Code that saves tensors reads addresses and sizes of memory, but a JAX array has no readable address. The
# numbers here only serve comparisons: they are equal for tensors that start at the same element, and differ
# by the distance in bytes for tensors that share memory.
_bases = itertools.count(1)
_ADDRESS_GAP = 1 << 44  # bytes between two storages, larger than any storage


def address(storage: Storage) -> int:
    """A number for the address of ``storage``, unique in the process."""
    if not storage.address:
        storage.address = next(_bases) * _ADDRESS_GAP
    return storage.address


class StorageHandle:
    """The result of ``tensor.untyped_storage()``. Equal for tensors that share memory; it cannot be read."""

    device = torch.device("privateuseone:0")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def data_ptr(self) -> int:
        """The number that stands for the address."""
        return address(self._storage)

    _cdata = property(data_ptr)

    def nbytes(self) -> int:
        """The size in bytes."""
        layout = self._storage.layout
        return 0 if 0 in layout.shape else layout.end * layout.dtype.itemsize

    size = __len__ = nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageHandle) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(id(self._storage))

    def __repr__(self) -> str:
        return f"memory of {self.nbytes():,} bytes on device jax"


def has_same_storage_size(func: Any, args: Any, kwargs: Any) -> bool:
    """``_has_same_storage_numel``, called by forward-mode differentiation: whether two storages have one
    size."""
    one, other = [x.untyped_storage().nbytes() // x.element_size() for x in args]
    return bool(one == other)
