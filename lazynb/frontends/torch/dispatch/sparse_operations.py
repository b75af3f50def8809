"""Operations on sparse tensors. PyTorch executes them on the CPU: a trace break that names the operation.

Reading metadata of a sparse tensor and assembling one need no values, so they are no trace breaks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lazynb.frontends.torch import sparse_tensor
from lazynb.frontends.torch.cpu_tensors import torch_to_array
from lazynb.frontends.torch.dispatch import op_rules, tensor_layout
from lazynb.frontends.torch.dispatch.host_operations import to_device as dense_of
from lazynb.frontends.torch.dispatch.in_place_writes import is_written, store
from lazynb.frontends.torch.dispatch.op_execution import cpu_copy
from lazynb.frontends.torch.dispatch.result_layouts import META, check_devices, to_meta
from lazynb.frontends.torch.dispatch.torch_replay import arguments_by_name
from lazynb.frontends.torch.dispatch.view_operations import resize_in_place
from lazynb.frontends.torch.sparse_tensor import Sparse, SparseParts
from lazynb.frontends.torch.torch_tensor import Tensor

aten = torch.ops.aten
_CPU = torch.device("cpu")


def _same_memory(x: Any) -> Tensor:
    """A tensor that shares the memory of ``x``, without gradients."""
    return Tensor.__new__(Tensor, x._storage, x._layout, x._steps)


def _same_parts(x: Sparse, parts: SparseParts | None = None) -> Sparse:
    return Sparse((parts or x._parts).mapped(_same_memory), x.shape)


# ---- Execution on the CPU ----------------------------------------------------------------------------------


class CpuCall:
    """Copies an operation's arguments to the CPU and its results back.

    Parts of sparse results that share memory with a part of an argument on the CPU also share it on the
    device.
    """

    def __init__(self, func: Any, outs: Any = ()) -> None:
        self.func, self.outs = func, outs  # written tensors may need a resize
        self.copies: dict[int, tuple[Any, torch.Tensor]] = {}  # by the id of the original
        self.parts: dict[Any, tuple[Any, torch.Tensor, Any]] = {}  # parts of sparse tensors, by memory key

    def down(self, x: Any) -> Any:
        """``x`` with CPU copies in place of what is on device ``jax``."""
        if isinstance(x, Tensor):
            if id(x) not in self.copies:
                # Some operations save tensors for the backward pass only if a gradient is required.
                self.copies[id(x)] = x, self._copy(x).requires_grad_(x.requires_grad)
            return self.copies[id(x)][1]
        if isinstance(x, torch.device):
            return _CPU if x.type in ("privateuseone", "jax") else x
        if isinstance(x, (list, tuple)):
            return [self.down(item) for item in x]
        if isinstance(x, dict):
            return {name: self.down(item) for name, item in x.items()}
        return x

    def _copy(self, x: Any) -> torch.Tensor:
        is_out = any(x is out for out in self.outs)
        if not isinstance(x, Sparse):
            copy = cpu_copy(x, self.func)
            return copy.clone() if is_out else copy
        copy = x.on_cpu("unrecordable", str(self.func).removesuffix(".default"))
        copy = copy.clone() if is_out else copy
        for there, here in zip(x._parts.all(), SparseParts.of(copy).all(), strict=True):
            self.parts[_memory_key(here)] = there, here, x
        return copy

    def up(self, x: Any) -> Any:
        """``x`` with CPU tensors replaced by tensors on device ``jax``."""
        if isinstance(x, torch.Tensor):
            for original, copy in self.copies.values():
                if copy is x:
                    return original
            return self._new(x)
        if isinstance(x, (list, tuple)):
            return type(x)([self.up(item) for item in x])
        return x

    def _new(self, x: torch.Tensor) -> Any:
        if x.layout is not torch.strided:
            return Sparse(SparseParts.of(x).mapped(self._part), tuple(x.shape))
        return self._part(x)

    def _part(self, x: torch.Tensor) -> Any:
        known = self.parts.get(_memory_key(x)) if x.numel() else None
        return dense_of(x) if known is None else _same_memory(known[0])

    def wrote(self, x: Any) -> None:
        """Writes the changed CPU copy back to ``x``, an argument."""
        if isinstance(x, (list, tuple)):
            for item in x:
                self.wrote(item)
        if not isinstance(x, Tensor):
            return
        copy = self.copies[id(x)][1]
        if isinstance(x, Sparse):
            for there, here, owner in self.parts.values():
                if owner is x:
                    aten.copy_.default(there, here)
            _replace(x, self._new(copy))
        elif tuple(copy.shape) == tuple(x.shape) or resize_in_place(x, tuple(copy.shape)) is not None:
            store(x, torch_to_array(copy))


def _memory_key(x: torch.Tensor) -> Any:
    return x.data_ptr(), tuple(x.shape), x.stride(), x.dtype


def _replace(target: Sparse, new: Sparse) -> None:
    """Makes ``target`` share the parts of ``new``."""
    if target.shape != new.shape:
        with torch.no_grad():
            torch.Tensor.data.__set__(target, new)  # type: ignore[attr-defined]
    target._parts = new._parts


def run_on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes the operation with PyTorch on the CPU."""
    if func is not aten.copy_.default:
        check_devices(func, args)
    bound = arguments_by_name(func, args, kwargs)
    written = [one.name for one in func._schema.arguments if is_written(one) and one.name in bound]
    call = CpuCall(func, [bound[name] for name in written])
    here, named = call.down(args), call.down(kwargs)
    with tensor_layout.conj_neg_dispatch():
        result = func(*here, **named)
    for name in written:
        call.wrote(bound[name])
    device = kwargs.get("device")
    is_elsewhere = device is not None and torch.device(device).type not in ("privateuseone", "jax")
    return result if is_elsewhere else call.up(result)


# ---- Operations that need no values ------------------------------------------------------------------------


def _part_getter(name: str) -> Callable[..., Any]:
    """A handler that returns one of the parts; it shares the memory."""

    def part(func: Any, args: Any, kwargs: Any) -> Any:
        x = args[0]
        parts = x._parts
        is_coo = parts.layout is torch.sparse_coo
        if name == "values":
            found = parts.values if not is_coo or parts.is_coalesced else None
        elif name == "_values":
            found = parts.values if is_coo else None
        else:
            wanted = "_indices" if name == "indices" else name
            names = sparse_tensor.INDEX_NAMES[parts.layout]
            found = parts.places[names.index(wanted)] if wanted in names else None
            if name == "indices" and not parts.is_coalesced:
                found = None
        return run_on_cpu(func, args, kwargs) if found is None else _same_memory(found)  # raises

    return part


def _nnz(func: Any, args: Any, kwargs: Any) -> Any:
    return args[0]._parts.places[-1].shape[-1]


def _sparse_dim(func: Any, args: Any, kwargs: Any) -> Any:
    parts = args[0]._parts
    return parts.places[0].shape[0] if parts.layout is torch.sparse_coo else 2


def _dense_dim(func: Any, args: Any, kwargs: Any) -> Any:
    x = args[0]
    before = 0 if x._parts.layout is torch.sparse_coo else x._parts.places[0].dim() - 1
    return x.dim() - before - _sparse_dim(func, args, kwargs)


def _is_coalesced(func: Any, args: Any, kwargs: Any) -> Any:
    parts = args[0]._parts
    return parts.is_coalesced if parts.layout is torch.sparse_coo else run_on_cpu(func, args, kwargs)


def _set_coalesced(func: Any, args: Any, kwargs: Any) -> Any:
    args[0]._parts.is_coalesced = args[1]
    return args[0]


def _alias(func: Any, args: Any, kwargs: Any) -> Any:
    return _same_parts(args[0])


def _clone(func: Any, args: Any, kwargs: Any) -> Any:
    if kwargs.get("memory_format") not in (None, torch.preserve_format):
        return run_on_cpu(func, args, kwargs)  # raises PyTorch's error
    return _same_parts(args[0], args[0]._parts.mapped(aten.clone.default))


def _to_copy(func: Any, args: Any, kwargs: Any) -> Any:
    x, dtype, device = args[0], kwargs.get("dtype"), kwargs.get("device")
    if device is not None and torch.device(device).type not in ("privateuseone", "jax"):
        plain = x.on_cpu("asarray", f"Tensor.to({torch.device(device).type!r})")
        return func(plain, **kwargs)
    if dtype in (None, x.dtype) and kwargs.get("layout") in (None, x._parts.layout):
        return _clone(func, args, kwargs)
    return run_on_cpu(func, args, kwargs)


def _layout(func: Any, args: Any, kwargs: Any) -> Any:
    return args[0]._parts.layout


_METADATA_HANDLERS: dict[Any, Callable[..., Any]] = {
    torch.ops.prim.layout.default: _layout,
    aten._nnz.default: _nnz,
    aten.sparse_dim.default: _sparse_dim,
    aten._dimI.default: _sparse_dim,
    aten.dense_dim.default: _dense_dim,
    aten._dimV.default: _dense_dim,
    aten.is_coalesced.default: _is_coalesced,
    aten._coalesced_.default: _set_coalesced,
    aten.detach.default: _alias,
    aten.alias.default: _alias,
    aten.lift_fresh.default: _alias,
    aten.clone.default: _clone,
    aten._to_copy.default: _to_copy,
    aten._has_compatible_shallow_copy_type.default: lambda func, args, kwargs: (
        isinstance(args[0], Sparse) == isinstance(args[1], Sparse)
    ),
}
for _name in ("values", "_values", "indices", "_indices"):
    _METADATA_HANDLERS[getattr(aten, _name).default] = _part_getter(_name)
for _name in ("crow_indices", "col_indices", "ccol_indices", "row_indices"):
    _METADATA_HANDLERS[getattr(aten, _name).default] = _part_getter(_name)


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes ``func`` with at least one sparse argument."""
    look = _METADATA_HANDLERS.get(func)
    if look is not None and isinstance(args[0], Sparse):
        return look(func, args, kwargs)
    return run_on_cpu(func, args, kwargs)


# ---- Construction ------------------------------------------------------------------------------------------


def _make_sparse(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A sparse tensor made of tensors on device ``jax``, which shares their memory."""
    bound = arguments_by_name(func, args, kwargs)
    layout = bound.get("layout") or torch.sparse_coo
    names = [("indices",), ("compressed_indices", "plain_indices")][layout is not torch.sparse_coo]
    tensors = [bound[name] for name in (*names, "values")]
    dtype = bound.get("dtype")
    if not all(x.__class__ is Tensor for x in tensors) or dtype not in (None, tensors[-1].dtype):
        return run_on_cpu(func, args, kwargs)
    # Raises PyTorch's error.
    func(*to_meta(args, False), **to_meta({**kwargs, "device": META}, False))
    parts = SparseParts(layout, tensors[:-1], tensors[-1], bool(bound.get("is_coalesced"))).mapped(
        _same_memory
    )
    return Sparse(parts, tuple(bound["size"]))


def _packet(name: str) -> list[Any]:
    packet = getattr(aten, name)
    return [getattr(packet, overload) for overload in packet.overloads()]


for _name in ("_to_sparse", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc"):
    op_rules.special.update(dict.fromkeys(_packet(_name), run_on_cpu))
op_rules.special.update(dict.fromkeys(_packet("sparse_compressed_tensor"), run_on_cpu))
op_rules.special[aten._sparse_coo_tensor_with_dims_and_tensors.default] = _make_sparse
op_rules.special[aten._sparse_compressed_tensor_unsafe.default] = _make_sparse
op_rules.sparse_up.update(dict.fromkeys(sparse_tensor.INDEX_NAMES, lambda x: CpuCall(None).up(x)))


def _made(func: Any) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        return run_on_cpu(func, args, kwargs)

    return make


def install(library: Any) -> None:
    """Registers the kernels that PyTorch calls for sparse tensors without a sparse argument."""
    sparse_tensor.set_dispatch(dispatch)
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        library.impl("empty.memory_format", _made(aten.empty.memory_format), key)
    library.impl(
        "_sparse_coo_tensor_with_dims", _made(aten._sparse_coo_tensor_with_dims.default), "SparsePrivateUse1"
    )
