"""Small tensors of whole numbers whose values are known: they are kept as PyTorch's own tensors on the CPU.

Masks, positions, token numbers and counts are such. An array of JAX's is made of one where a program takes
it. See :mod:`lazynb.frontends.torch.dispatch.host_operations`.
"""

from __future__ import annotations

from typing import Any

import torch

from lazynb.frontends.torch.dispatch.view_steps import NEGATIVE
from lazynb.recording.external_arrays import new_array

MAX_ELEMENTS = 1 << 16  # elements
INTEGER_DTYPES = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
_PARTS = 8  # arrays that are kept for one storage


class KnownIntegers:
    """The values of a storage.

    Attributes:
      plain: a tensor on the CPU, laid out in memory as the storage is. It is never written to.
    """

    __slots__ = ("_arrays", "_bounds", "plain")

    def __init__(self, plain: torch.Tensor) -> None:
        self.plain = plain
        self._bounds: tuple[int, int] | None = None
        self._arrays: dict[Any, Any] = {}

    def array_of_part(self, layout: Any, values: torch.Tensor) -> Any:
        """``values``, those of a tensor of ``layout`` that looks into the storage, as an array of JAX's.

        Models take the same parts of their positions and masks at each call: a few are kept.
        """
        array = self._arrays.get(layout)
        if array is None or array.is_deleted():
            if len(self._arrays) >= _PARTS:
                self._arrays.clear()
            array = self._arrays[layout] = new_array(values.numpy())
        return array

    def array(self) -> Any:
        """The values as an array of JAX's."""
        return new_array(self.plain.numpy())

    def values(self, kind: str, detail: str = "") -> torch.Tensor:
        """The values on the CPU. Nothing has to run for them."""
        return self.plain

    def bounds(self) -> tuple[int, int] | None:
        """The least and the largest number; None if there is none."""
        count = self.plain.numel() if self._bounds is None else 0
        if count == 1:
            number = int(self.plain.item())
            self._bounds = number, number
        elif count:
            numbers = self.plain.numpy()
            self._bounds = int(numbers.min()), int(numbers.max())
        return self._bounds


def is_small_integer(tensor: Any) -> bool:
    """Whether a tensor is of whole numbers, and of few."""
    return tensor.dtype in INTEGER_DTYPES and tensor.numel() <= MAX_ELEMENTS


def with_layout(plain: torch.Tensor, layout: Any) -> torch.Tensor:
    """``plain``, in memory of its own with the strides of ``layout``."""
    if plain.stride() == layout.stride and not plain.storage_offset() and plain._base is None:
        return plain
    return torch.empty_strided(layout.shape, layout.stride, dtype=plain.dtype).copy_(plain)


def host_values_of(storage: Any) -> Any:
    """What the host knows of a storage: a :class:`Known`, a :class:`.later.Later`, or None."""
    host = storage.host
    if host is None and storage.value is None:  # nothing was written yet: zeros
        layout = storage.layout
        if layout.dtype in INTEGER_DTYPES and layout.count <= MAX_ELEMENTS and not layout.offset:
            zeros = torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype).zero_()
            host = storage.host = KnownIntegers(zeros)
    return host


def cpu_values(tensor: Any) -> torch.Tensor | None:
    """The values of a tensor on device ``jax``, on the CPU; None if the host does not know them.

    They must not be written to.
    """
    host = host_values_of(tensor._storage)
    if host is None or host.plain is None:
        return None
    return view_of(tensor, host.plain)


def has_storage_numbers(tensor: Any) -> bool:
    """Whether the numbers of a tensor are some of those of its storage, not these as others."""
    return tensor._layout.dtype is tensor._storage.layout.dtype and NEGATIVE not in tensor._steps


def view_of(tensor: Any, whole: torch.Tensor) -> torch.Tensor | None:
    """A tensor's values, given those of its storage; None where it sees them as other numbers."""
    layout, all_of = tensor._layout, tensor._storage.layout
    if layout is all_of:
        return whole
    if not has_storage_numbers(tensor) or tensor.numel() > MAX_ELEMENTS:
        return None
    if 0 in layout.shape:
        return torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype)
    return whole.as_strided(layout.shape, layout.stride, layout.offset)


def force_values(tensor: Any, kind: str, detail: str = "") -> torch.Tensor | None:
    """The same, but what waits is worked out: a trace break of ``kind`` if it depends on what is pending."""
    host = host_values_of(tensor._storage)
    return None if host is None else view_of(tensor, host.values(kind, detail))


def array_of_view(tensor: Any) -> Any:
    """An array with the values of a tensor that looks into a part of a storage of which the host knows, where
    the whole is not needed for it; else None."""
    plain, host = cpu_values(tensor), tensor._storage.host
    if plain is None:
        waits = host is not None and host.plain is None
        return host.array_at(tensor._layout, tensor._steps) if waits else None
    if isinstance(host, KnownIntegers):
        return host.array_of_part(tensor._layout, plain)
    return new_array(plain.numpy())
