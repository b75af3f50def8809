"""The layouts of tensors and of results, and the errors of tensors that device ``jax`` does not support."""

from __future__ import annotations

from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import torch

from lazynb.frontends.torch.dispatch.complex32 import jax_dtype

# ---- Tensors that device ``jax`` does not support ----------------------------------------------------------


class NotDense(NotImplementedError):
    """A dense tensor of device ``jax`` is needed, but the tensor is sparse, quantised or nested."""


_HINTS = {
    "sparse": "call .to_dense() first",
    "quantised": "call .dequantize() before a tensor is moved, or leave it on the CPU",
    "nested": "pad it (torch.nested.to_padded_tensor), or leave it on the CPU",
}


def raise_not_dense(kind: str) -> NoReturn:
    """Raises :class:`NotDense` for a tensor of this ``kind``."""
    raise NotDense(f"lazynb.torch: an array of JAX's is dense, and this tensor is {kind}: {_HINTS[kind]}")


def check_dense(tensor: torch.Tensor) -> None:
    """
    Raises:
      NotDense: ``tensor`` is sparse, quantised or nested.
    """
    if tensor.is_nested:
        raise_not_dense("nested")
    if tensor.is_quantized:
        raise_not_dense("quantised")
    if tensor.layout is not torch.strided:
        raise_not_dense("sparse")


def _quantised(*args: Any, **kwargs: Any) -> NoReturn:
    raise_not_dense("quantised")


def install(library: Any) -> None:
    """Registers kernels that raise :class:`NotDense` for quantised tensors that are moved or created."""
    for name in ("empty_quantized", "_empty_affine_quantized", "_empty_per_channel_affine_quantized"):
        library.impl(name, _quantised, "QuantizedPrivateUse1")


# ---- Conjugate and negative bits in CPU calls --------------------------------------------------------------
# PyTorch keeps ``x.conj()`` as ``x`` with a mark, and resolves the mark in the dispatch keys ``Conjugate``,
# ``Negative`` and ``ZeroTensor``. When an operation reaches Python, it has passed these keys, so PyTorch
# excludes them while our code runs. A CPU operation that makes a marked tensor internally (``linalg.pinv``)
# would then ignore the mark.

C: Any = torch._C
_KEYS = (C.DispatchKey.Conjugate, C.DispatchKey.Negative, C.DispatchKey.ZeroTensor)


def conj_neg_dispatch() -> Any:
    """Context manager in which CPU operations resolve the marks of their tensors."""
    excluded = C._dispatch_tls_local_exclude_set()
    for key in _KEYS:
        excluded = excluded.remove(key)
    return C._ForceDispatchKeyGuard(C._dispatch_tls_local_include_set(), excluded)


MAX_CACHED_RESULTS = 20_000  # cached calls; the cache is cleared beyond this number


class Layout:
    """The shape, strides, offset (in elements) and dtype of a tensor. Layouts are interned."""

    __slots__ = ("_dummy", "dtype", "offset", "shape", "stride")

    def __init__(
        self, shape: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype
    ) -> None:
        self.shape, self.stride, self.offset, self.dtype = shape, stride, offset, dtype
        self._dummy: torch.Tensor | None = None

    def meta(self, fresh: bool = False) -> torch.Tensor:
        """A ``meta`` tensor of this layout. Only a ``fresh`` one may be written to."""
        if fresh:
            return self._new_dummy()
        if self._dummy is None:
            self._dummy = self._new_dummy()
        return self._dummy

    def _new_dummy(self) -> torch.Tensor:
        end, offset = self.end, self.offset
        if 0 in self.shape:
            end, offset = 0, 0
        flat = torch.empty(end, dtype=self.dtype, device="meta")
        return flat.as_strided(self.shape, self.stride, offset)

    def plain(self) -> torch.Tensor:
        """A CPU tensor of this layout: ones if inexact, zeros if integer (valid indices)."""
        fill = torch.ones if self.dtype.is_floating_point or self.dtype.is_complex else torch.zeros
        if 0 in self.shape:
            return fill(self.shape, dtype=self.dtype)
        return fill(self.end, dtype=self.dtype).as_strided(self.shape, self.stride, self.offset)

    def cpu_one_element(self) -> torch.Tensor:
        """A CPU tensor of ones with the same rank, where each axis has length 1 (or 0)."""
        return torch.ones([min(size, 1) for size in self.shape], dtype=self.dtype)

    @property
    def end(self) -> int:
        """The memory position after the last element, in elements. The shape must not contain 0."""
        last = self.offset
        for size, stride in zip(self.shape, self.stride, strict=True):
            last += (size - 1) * stride
        return last + 1

    def zeros(self) -> Any:
        with jax.enable_x64(True):
            return jnp.zeros(self.shape, jax_dtype(self.dtype))

    @property
    def count(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


_layouts: dict[tuple[Any, ...], Layout] = {}


def layout(shape: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype) -> Layout:
    """The interned layout with these values."""
    key = (shape, stride, offset, dtype)
    kept = _layouts.get(key)
    if kept is None:
        if len(_layouts) > 10 * MAX_CACHED_RESULTS:
            _layouts.clear()
        kept = _layouts[key] = Layout(*key)
    return kept


def layout_of(tensor: torch.Tensor) -> Layout:
    """The layout of any PyTorch tensor.

    Raises:
      NotDense: the tensor is sparse or nested.
    """
    try:
        return layout(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), tensor.dtype)
    except RuntimeError:
        check_dense(tensor)
        raise


def contiguous(shape: tuple[int, ...], dtype: torch.dtype) -> Layout:
    """The row-major layout of a new tensor."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return layout(tuple(shape), tuple(reversed(stride)), 0, dtype)


class OpResults:
    """The inferred results of an operation.

    Attributes:
      func: the operation; kept alive because its ``id`` is in cache keys.
      tree: the :class:`Layout` of a tensor, a list for several results, or a plain value.
      name: the replay name, see :class:`.torch_replay.ReplayNames`; None if the call is not replayed.
      steps: the view step of each result; empty if it is not a view, None if not determined yet.
      is_replayed: whether a lowering executed the call and it can be replayed by its name.
      copies: whether the only result copies the first argument into new memory.
      range: the only check of values, see :func:`.value_checks.range_of`; None if there is none or another.
      bounds: the least and largest possible number of the only result; None if unknown.
      whole: whether a result may be an integer tensor; only these can run on the host, see
        :mod:`.host_operations`.
    """

    __slots__ = ("bounds", "copies", "func", "is_replayed", "name", "range", "steps", "tree", "whole")

    def __init__(self, func: Any, tree: Any, name: object | None) -> None:
        self.func = func
        self.tree = tree
        self.name = name
        is_inexact = tree.__class__ is Layout and (tree.dtype.is_floating_point or tree.dtype.is_complex)
        self.whole = not is_inexact
        self.steps: list[Any] | None = None
        self.is_replayed = False
        self.copies = False
        self.range: tuple[int, int, int] | None = None
        self.bounds: tuple[int, int] | None = None


results_of: dict[Any, OpResults] = {}
"""Inferred results, by call key."""


# ---- Storage bounds of views -------------------------------------------------------------------------------


def check_storage_bounds(memory: Layout, wanted: Layout) -> None:
    """Raises PyTorch's error if a view of layout ``wanted`` exceeds the memory."""
    if 0 in wanted.shape:
        return
    there = 0 if 0 in memory.shape else memory.end * memory.dtype.itemsize
    bytes_wanted = wanted.end * wanted.dtype.itemsize
    if bytes_wanted > there:
        raise RuntimeError(
            f"setStorage: sizes {list(wanted.shape)}, strides {list(wanted.stride)}, storage offset "
            f"{wanted.offset}, and itemsize {wanted.dtype.itemsize} requiring a storage size of "
            f"{bytes_wanted} are out of bounds for storage of size {there}"
        )
