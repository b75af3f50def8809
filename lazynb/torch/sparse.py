"""Sparse tensors on device ``jax``: places and values are tensors there, the rest PyTorch does on its CPU.

JAX records nothing of what is sparse. A :class:`Sparse` holds what such a tensor of PyTorch's consists of:
tensors of places (``indices``; for rows or columns that are compressed, two) and one of values, all of device
``jax``, maybe pending. :mod:`lazynb.torch.dispatch.on_sparse` carries out operations.
"""

from __future__ import annotations

from typing import Any

import torch

from lazynb.record.tensor import looking
from lazynb.torch import printing
from lazynb.torch.dense import refuse
from lazynb.torch.tensor import DEVICE, Tensor, to_cpu

aten = torch.ops.aten
_COO = torch.sparse_coo
PLACES: dict[Any, tuple[str, ...]] = {
    _COO: ("_indices",),
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


class Parts:
    """What a sparse tensor consists of.

    Attributes:
      layout: ``torch.sparse_coo`` or another.
      places: the tensors that say where the values are.
      values: the values.
      is_coalesced: whether no place is there twice, of ``torch.sparse_coo``.
    """

    __slots__ = ("is_coalesced", "layout", "places", "values")

    def __init__(self, layout: Any, places: list[Any], values: Any, is_coalesced: bool) -> None:
        self.layout, self.places, self.values, self.is_coalesced = layout, places, values, is_coalesced

    @staticmethod
    def of(plain: torch.Tensor) -> Parts:
        """Those of a sparse tensor on the CPU, on the CPU."""
        names, is_coo = PLACES[plain.layout], plain.layout is _COO
        values = plain._values() if is_coo else plain.values()
        places = [getattr(plain, name)() for name in names]
        return Parts(plain.layout, places, values, is_coo and plain.is_coalesced())

    def mapped(self, function: Any) -> Parts:
        """The same with ``function`` of each tensor in its place."""
        return Parts(self.layout, list(map(function, self.places)), function(self.values), self.is_coalesced)

    def all(self) -> list[Any]:
        """The tensors."""
        return [*self.places, self.values]

    def whole(self, shape: Any) -> torch.Tensor:
        """The sparse tensor of PyTorch's own, of ``shape``, that consists of these."""
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


def _of_cpu(name: str, kind: str = "") -> Any:
    """A method that does what PyTorch's does on the CPU, a trace break of ``kind``."""

    def method(self: Sparse, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.on_cpu(kind or name.strip("_")), name)(*args, **kwargs)

    method.__name__ = name
    return method


def _without_values(name: str) -> Any:
    """A method that does what PyTorch's does where there are no values: it mostly raises, as a sparse tensor
    has no memory of its own."""

    def method(self: Sparse, *args: Any, **kwargs: Any) -> Any:
        model = self._parts.mapped(lambda part: part._layout.dummy()).whole(self.shape)
        return getattr(model, name)(*args, **kwargs)

    method.__name__ = name
    return method


def _in_place(part: Tensor, plain: torch.Tensor) -> torch.Tensor:
    """``plain``, the values of ``part``, in memory as those lie: what PyTorch makes of two depends on it."""
    stride = part.stride()
    if plain.stride() == stride or not plain.numel():
        return plain
    apart = [1 if not step else size for size, step in zip(part.shape, stride, strict=True)]
    memory = torch.empty_strided(apart, stride, dtype=plain.dtype)
    memory.copy_(plain[tuple(slice(size) for size in apart)])
    return memory.as_strided(part.shape, stride)


class Sparse(Tensor):
    """A sparse PyTorch tensor on device ``jax``.

    It is a :class:`Tensor` for the sake of PyTorch, which then asks it first what an operation does, also
    where dense tensors are among the arguments.
    """

    _parts: Parts

    @staticmethod
    def __new__(cls, parts: Parts, shape: Any) -> Sparse:  # type: ignore[misc]
        # Of those that are compressed PyTorch asks for the layout, as their class in C++ alone knows it.
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
        return refuse("sparse")

    @_elem.setter
    def _elem(self, new: Any) -> None:
        refuse("sparse")

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
        """The same on the CPU: a trace break of ``kind`` where something is pending."""
        with torch.no_grad():
            return self._parts.mapped(lambda part: _in_place(part, to_cpu(part, kind, detail))).whole(
                self.shape
            )

    __bool__ = _of_cpu("__bool__")
    __float__ = _of_cpu("__float__")
    __int__ = _of_cpu("__int__")
    __complex__ = _of_cpu("__complex__")
    __index__ = _of_cpu("__index__")
    __contains__ = _of_cpu("__contains__")
    __array__ = _of_cpu("__array__", "asarray")
    __dlpack__ = _of_cpu("__dlpack__", "asarray")
    item = _of_cpu("item")
    tolist = _of_cpu("tolist")
    numpy = _of_cpu("numpy", "asarray")
    stride = _without_values("stride")
    is_contiguous = _without_values("is_contiguous")
    storage_offset = _without_values("storage_offset")
    untyped_storage = _without_values("untyped_storage")
    data_ptr = _without_values("data_ptr")

    resolve_conj = torch.Tensor.resolve_conj
    resolve_neg = torch.Tensor.resolve_neg

    def jax(self) -> Any:
        return refuse("sparse")

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
        return printing.look_at_sparse(self)

    def __str__(self) -> str:
        return printing.look_at_sparse(self) if looking.active else self._text("print")

    def __format__(self, spec: str) -> str:
        return printing.look_at_sparse(self) if looking.active else format(self._text("format"), spec)

    def _text(self, kind: str) -> str:
        return printing.sparse_text(self, self.on_cpu(kind))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self)}


def _dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    raise RuntimeError("lazynb.torch.enable() was not called")


def set_dispatch(function: Any) -> None:
    """Sets the function that carries out operations on sparse tensors."""
    global _dispatch
    _dispatch = function
