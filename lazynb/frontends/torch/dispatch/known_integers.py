"""Small integer tensors with known values, kept as PyTorch tensors on the CPU.

Examples are masks, positions, token ids and counts. A JAX array is made from one where a program takes it.
See :mod:`lazynb.frontends.torch.dispatch.host_operations`.
"""

from __future__ import annotations

from typing import Any

import torch

from lazynb.frontends.torch.dispatch.view_steps import NEGATIVE
from lazynb.recording.external_arrays import new_array

MAX_ELEMENTS = 1 << 16  # elements
INTEGER_DTYPES = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
_PARTS = 8  # cached arrays per storage


class KnownIntegers:
    """The values of a storage.

    Attributes:
      plain: a CPU tensor with the layout of the storage. It is never written to.
    """

    __slots__ = ("_arrays", "_bounds", "plain")

    def __init__(self, plain: torch.Tensor) -> None:
        self.plain = plain
        self._bounds: tuple[int, int] | None = None
        self._arrays: dict[Any, Any] = {}

    def array_of_part(self, layout: Any, values: torch.Tensor) -> Any:
        """A JAX array of ``values``, a view of the storage with ``layout``.

        A few are cached, because models use the same parts of positions and masks at each call.
        """
        array = self._arrays.get(layout)
        if array is None or array.is_deleted():
            if len(self._arrays) >= _PARTS:
                self._arrays.clear()
            array = self._arrays[layout] = new_array(values.numpy())
        return array

    def array(self) -> Any:
        """The values as a JAX array."""
        return new_array(self.plain.numpy())

    def values(self, kind: str, detail: str = "") -> torch.Tensor:
        """The values on the CPU."""
        return self.plain

    def bounds(self) -> tuple[int, int] | None:
        """The least and the largest number; None for an empty tensor."""
        count = self.plain.numel() if self._bounds is None else 0
        if count == 1:
            number = int(self.plain.item())
            self._bounds = number, number
        elif count:
            numbers = self.plain.numpy()
            self._bounds = int(numbers.min()), int(numbers.max())
        return self._bounds


def is_small_integer(tensor: Any) -> bool:
    """Whether a tensor is integer or bool and has at most :data:`MAX_ELEMENTS` elements."""
    return tensor.dtype in INTEGER_DTYPES and tensor.numel() <= MAX_ELEMENTS


def with_layout(plain: torch.Tensor, layout: Any) -> torch.Tensor:
    """``plain`` in its own memory, with the strides of ``layout``."""
    if plain.stride() == layout.stride and not plain.storage_offset() and plain._base is None:
        return plain
    return torch.empty_strided(layout.shape, layout.stride, dtype=plain.dtype).copy_(plain)


def host_values_of(storage: Any) -> Any:
    """The host values of a storage: :class:`KnownIntegers`, :class:`.deferred_integers.DeferredIntegers` or
    None."""
    host = storage.host
    if host is None and storage.value is None:  # nothing was written yet: zeros
        layout = storage.layout
        if layout.dtype in INTEGER_DTYPES and layout.count <= MAX_ELEMENTS and not layout.offset:
            zeros = torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype).zero_()
            host = storage.host = KnownIntegers(zeros)
    return host


def cpu_values(tensor: Any) -> torch.Tensor | None:
    """The CPU values of a tensor on device ``jax``, or None if unknown. They must not be written to."""
    host = host_values_of(tensor._storage)
    if host is None or host.plain is None:
        return None
    return view_of(tensor, host.plain)


def has_storage_numbers(tensor: Any) -> bool:
    """Whether a tensor's elements are elements of its storage, without reinterpretation or negation."""
    return tensor._layout.dtype is tensor._storage.layout.dtype and NEGATIVE not in tensor._steps


def view_of(tensor: Any, whole: torch.Tensor) -> torch.Tensor | None:
    """A tensor's values, given those of its storage; None if the tensor reinterprets them."""
    layout, all_of = tensor._layout, tensor._storage.layout
    if layout is all_of:
        return whole
    if not has_storage_numbers(tensor) or tensor.numel() > MAX_ELEMENTS:
        return None
    if 0 in layout.shape:
        return torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype)
    return whole.as_strided(layout.shape, layout.stride, layout.offset)


def force_values(tensor: Any, kind: str, detail: str = "") -> torch.Tensor | None:
    """Like :func:`cpu_values`, but computes deferred values: a trace break of ``kind`` if inputs are
    pending."""
    host = host_values_of(tensor._storage)
    return None if host is None else view_of(tensor, host.values(kind, detail))


def array_of_view(tensor: Any) -> Any:
    """The array of a view of host values, if the whole storage is not needed for it; else None."""
    plain, host = cpu_values(tensor), tensor._storage.host
    if plain is None:
        waits = host is not None and host.plain is None
        return host.array_at(tensor._layout, tensor._steps) if waits else None
    if isinstance(host, KnownIntegers):
        return host.array_of_part(tensor._layout, plain)
    return new_array(plain.numpy())
