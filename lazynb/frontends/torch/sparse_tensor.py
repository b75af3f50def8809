"""Sparse tensors on device ``jax``: indices and values are dense tensors, PyTorch's CPU does the rest.

JAX records no sparse operations. A :class:`Sparse` holds the components of a PyTorch sparse tensor: index
tensors (one, or two for compressed rows or columns) and a value tensor, all on device ``jax``, possibly
pending. :mod:`lazynb.frontends.torch.dispatch.sparse_operations` executes operations.
"""

from __future__ import annotations

from typing import Any

import torch

from lazynb.frontends.torch import tensor_values
from lazynb.frontends.torch.dispatch.tensor_layout import raise_not_dense
from lazynb.frontends.torch.torch_tensor import DEVICE, Tensor, to_cpu
from lazynb.recording.tool_access import tool_access

aten = torch.ops.aten
_COO = torch.sparse_coo
INDEX_NAMES: dict[Any, tuple[str, ...]] = {
    _COO: ("_indices",),
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


class SparseParts:
    """The components of a sparse tensor.

    Attributes:
      layout: ``torch.sparse_coo`` or another sparse layout.
      places: the index tensors.
      values: the value tensor.
      is_coalesced: for ``torch.sparse_coo``, whether all indices are unique.
    """

    __slots__ = ("is_coalesced", "layout", "places", "values")

    def __init__(self, layout: Any, places: list[Any], values: Any, is_coalesced: bool) -> None:
        self.layout, self.places, self.values, self.is_coalesced = layout, places, values, is_coalesced

    @staticmethod
    def of(plain: torch.Tensor) -> SparseParts:
        """The components of a sparse CPU tensor."""
        names, is_coo = INDEX_NAMES[plain.layout], plain.layout is _COO
        values = plain._values() if is_coo else plain.values()
        places = [getattr(plain, name)() for name in names]
        return SparseParts(plain.layout, places, values, is_coo and plain.is_coalesced())

    def mapped(self, function: Any) -> SparseParts:
        """The components with ``function`` applied to each tensor."""
        return SparseParts(
            self.layout, list(map(function, self.places)), function(self.values), self.is_coalesced
        )

    def all(self) -> list[Any]:
        return [*self.places, self.values]

    def whole(self, shape: Any) -> torch.Tensor:
        """The PyTorch sparse tensor of ``shape`` with these components."""
        if self.layout is _COO:
            return aten._sparse_coo_tensor_unsafe(
                *self.places, self.values, shape, is_coalesced=self.is_coalesced
            )
        return aten._sparse_compressed_tensor_unsafe(
            *self.places,
            self.values,
            shape,
            dtype=self.values.dtype,
            layout=self.layout,
            device=self.values.device,
        )


def _method_on_cpu(name: str, kind: str = "") -> Any:
    """PyTorch's method on a CPU copy, a trace break of ``kind``."""

    def method(self: Sparse, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.on_cpu(kind or name.strip("_")), name)(*args, **kwargs)

    method.__name__ = name
    return method


def _method_on_meta(name: str) -> Any:
    """PyTorch's method on a ``meta`` copy. It mostly raises, because a sparse tensor has no memory of its
    own."""

    def method(self: Sparse, *args: Any, **kwargs: Any) -> Any:
        model = self._parts.mapped(lambda part: part._layout.meta()).whole(self.shape)
        return getattr(model, name)(*args, **kwargs)

    method.__name__ = name
    return method


def _with_strides_of(part: Tensor, plain: torch.Tensor) -> torch.Tensor:
    """``plain`` with the strides of ``part``, because PyTorch's results depend on the strides of operands."""
    stride = part.stride()
    if plain.stride() == stride or not plain.numel():
        return plain
    apart = [1 if not step else size for size, step in zip(part.shape, stride, strict=True)]
    memory = torch.empty_strided(apart, stride, dtype=plain.dtype)
    memory.copy_(plain[tuple(slice(size) for size in apart)])
    return memory.as_strided(part.shape, stride)


class Sparse(Tensor):
    """A sparse PyTorch tensor on device ``jax``.

    It subclasses :class:`Tensor`, so that PyTorch calls its ``__torch_dispatch__`` first, even with dense
    arguments.
    """

    _parts: SparseParts

    @staticmethod
    def __new__(cls, parts: SparseParts, shape: Any) -> Sparse:  # type: ignore[misc]
        # For compressed layouts PyTorch must dispatch ``layout``, which only their C++ class stores.
        tensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            shape,
            dtype=parts.values.dtype,
            layout=parts.layout,
            device=DEVICE,
            dispatch_layout=parts.layout is not _COO,
        )
        tensor._parts = parts
        return tensor  # type: ignore[no-any-return]

    @staticmethod
    def __torch_dispatch__(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})

    @property
    def _elem(self) -> Any:
        return raise_not_dense("sparse")

    @_elem.setter
    def _elem(self, new: Any) -> None:
        raise_not_dense("sparse")

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, new: Any) -> None:
        torch.Tensor.data.__set__(self, new)  # type: ignore[attr-defined]
        if not isinstance(new, Sparse):
            return
        self._parts = new._parts

    def on_cpu(self, kind: str, detail: str = "") -> torch.Tensor:
        """A CPU copy: a trace break of ``kind`` if a component is pending."""
        with torch.no_grad():
            return self._parts.mapped(lambda part: _with_strides_of(part, to_cpu(part, kind, detail))).whole(
                self.shape
            )

    __bool__ = _method_on_cpu("__bool__")
    __float__ = _method_on_cpu("__float__")
    __int__ = _method_on_cpu("__int__")
    __complex__ = _method_on_cpu("__complex__")
    __index__ = _method_on_cpu("__index__")
    __contains__ = _method_on_cpu("__contains__")
    __array__ = _method_on_cpu("__array__", "asarray")
    __dlpack__ = _method_on_cpu("__dlpack__", "asarray")
    item = _method_on_cpu("item")
    tolist = _method_on_cpu("tolist")
    numpy = _method_on_cpu("numpy", "asarray")
    stride = _method_on_meta("stride")
    is_contiguous = _method_on_meta("is_contiguous")
    storage_offset = _method_on_meta("storage_offset")
    untyped_storage = _method_on_meta("untyped_storage")
    data_ptr = _method_on_meta("data_ptr")

    resolve_conj = torch.Tensor.resolve_conj
    resolve_neg = torch.Tensor.resolve_neg

    def jax(self) -> Any:
        return raise_not_dense("sparse")

    def torch(self) -> Any:
        return self.on_cpu("asarray", "Tensor.torch")

    def cpu(self, memory_format: Any = None) -> Any:
        return self.to("cpu")

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = self._parts
        if parts.layout is _COO:
            arguments: Any = (*parts.all(), self.shape, parts.is_coalesced)
        else:
            arguments = (*parts.all(), self.shape)
        return torch._utils._rebuild_sparse_tensor, (parts.layout, arguments)

    def __copy__(self) -> Any:
        return self.detach().requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) not in memo:
            if not self.is_leaf:
                return super().__deepcopy__(memo)  # raises
            memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
            if self.grad is not None:
                memo[id(self)].grad = self.grad.__deepcopy__(memo)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return tensor_values.sparse_repr_without_run(self)

    def __str__(self) -> str:
        return tensor_values.sparse_repr_without_run(self) if tool_access.active else self._text("print")

    def __format__(self, spec: str) -> str:
        return (
            tensor_values.sparse_repr_without_run(self)
            if tool_access.active
            else format(self._text("format"), spec)
        )

    def _text(self, kind: str) -> str:
        return tensor_values.sparse_value_text(self, self.on_cpu(kind))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self)}


def _dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    raise RuntimeError("lazynb.torch.enable() was not called")


def set_dispatch(function: Any) -> None:
    """Sets the function that executes operations on sparse tensors."""
    global _dispatch
    _dispatch = function
