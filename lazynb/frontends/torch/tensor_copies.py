"""Creation and copying of tensors on device ``jax``, and reads of one number."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from lazynb.frontends.torch.cpu_tensors import torch_to_array
from lazynb.frontends.torch.dispatch import (
    complex32,
    dispatcher,
    op_rules,
    tensor_layout as layouts,
    tensor_storage,
    value_checks,
)
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.deferred_integers import known_bounds
from lazynb.frontends.torch.dispatch.host_operations import known_tensor
from lazynb.frontends.torch.dispatch.in_place_writes import store, write_to_cpu_tensor
from lazynb.frontends.torch.dispatch.known_integers import is_small_integer
from lazynb.frontends.torch.dispatch.op_execution import on_cpu
from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.dispatch.result_layouts import META, expected_results, to_arrays, to_meta
from lazynb.frontends.torch.dispatch.torch_replay import allow_copy_replay, allow_replay, key_and_operands
from lazynb.frontends.torch.dispatch.view_operations import resize_in_place, set_storage
from lazynb.frontends.torch.torch_tensor import DEVICE, Tensor, force_value, to_cpu, torchax, wrap

aten = torch.ops.aten
jnp: Any = torchax.tensor.jnp


def _is_jax(device: Any) -> bool:
    return device is not None and torch.device(device).type in ("privateuseone", "jax")


def from_cpu(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Copies a CPU tensor to device ``jax``."""
    plain = tensor.detach() if dtype is None else tensor.detach().to(dtype)
    if is_small_integer(plain) and plain.layout is torch.strided and plain.device.type == "cpu":
        return known_tensor(plain.clone(memory_format=torch.contiguous_format))
    return wrap(torch_to_array(plain), layouts.contiguous(tuple(plain.shape), plain.dtype))


def _to_copy(func: Any, args: Any, kwargs: Any) -> Any:
    source, dtype, device = args[0], kwargs.get("dtype"), kwargs.get("device")
    if not isinstance(source, Tensor):
        return from_cpu(source, dtype)
    if device is not None and not _is_jax(device):
        plain = to_cpu(source, "asarray", f"Tensor.to({torch.device(device).type!r})")
        return plain.to(device=device, dtype=dtype)
    value, layout = source._elem, source._layout
    wanted = dtype or source.dtype
    if wanted != source.dtype:
        layout = layouts.layout(layout.shape, layout.stride, 0, wanted)
    memory_format = kwargs.get("memory_format") or torch.preserve_format
    dense = layouts.layout_of(torch.empty_like(layout.meta(), memory_format=memory_format))
    if wanted != source.dtype:
        return wrap(_replayed_cast(func, args, kwargs, dense, value), dense)
    return _copied(func, args, kwargs, dense)


def _copied(func: Any, args: Any, kwargs: Any, dense: layouts.Layout) -> Tensor:
    """A copy of the first argument in layout ``dense``. Later calls of this kind are replayed."""
    new = wrap(args[0]._elem, dense)
    new._storage.bounds = known_bounds(args[0])
    with contextlib.suppress(TypeError):  # an argument is not hashable
        allow_copy_replay(func, key_and_operands(func, args, kwargs, False)[0], dense)
    return new


def _replayed_cast(func: Any, args: Any, kwargs: Any, dense: layouts.Layout, value: Any) -> Any:
    """``value`` cast to the dtype of ``dense``. Later calls of this kind are replayed."""
    key, source = key_and_operands(func, args, kwargs, False)[0], args[0].dtype
    name = allow_replay(func, key, dense, object(), has_before=True).name
    return record_or_replay(name, lambda x: _cast(x, source, dense.dtype), (value,))


def _cast(value: Any, source: torch.dtype, dtype: torch.dtype) -> Any:
    """Casts values of dtype ``source`` to ``dtype``, rounding towards zero as PyTorch does."""
    value, wanted = complex32.convert_complex32(value, source, dtype), jax_dtype(dtype)
    if value.dtype == wanted:
        return value
    if value.dtype.kind == "c" and wanted.kind not in "cb":
        value = value.real
    if wanted.kind == "b" and value.dtype.kind != "b":
        value = value != 0
    if wanted.kind in "iu" and wanted.itemsize < 4 and value.dtype.kind not in "iub":
        # C truncates bits, XLA clamps
        value = torchax.tensor.jax.lax.convert_element_type(value, jnp.int32)
    return torchax.tensor.jax.lax.convert_element_type(value, wanted)


def _clone(func: Any, args: Any, kwargs: Any) -> Any:
    return _copied(func, args, kwargs, expected_results(func, args, kwargs).tree)


def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if not isinstance(target, Tensor):
        return write_to_cpu_tensor(func, args, kwargs)
    expected_results(func, args[:2], {}, writes=True)
    value = source._elem if isinstance(source, Tensor) else torch_to_array(source)
    if source.dtype != target.dtype:
        value = _cast(value, source.dtype, target.dtype)
    store(target, value)
    return target


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    copied: torch.Tensor = dispatcher.dispatch(aten.copy_.default, (target, source), {})
    return copied


def _local_scalar(func: Any, args: Any, kwargs: Any) -> Any:
    from lazynb.frontends.torch.torch_tensor import _scalar

    return _scalar(args[0], "item")


def _set_source(func: Any, args: Any, kwargs: Any) -> Any:
    """``x.set_(y)``: makes ``x`` the same view of memory as ``y``."""
    target, source = args
    if not isinstance(target, Tensor) or not isinstance(source, Tensor):
        raise RuntimeError(
            f"Could not set tensor of type {source.device.type} to a tensor of type {target.device.type}"
        )
    if target.dtype != source.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {target.dtype}")
    set_storage(target, Tensor(source._storage, source._layout, source._steps))
    return target


def _resize_as(func: Any, args: Any, kwargs: Any) -> Any:
    return _resize(aten.resize_.default, (args[0], args[1].shape), kwargs)


def _resize(func: Any, args: Any, kwargs: Any) -> Any:
    target, size = args[0], tuple(args[1])
    if size == target._layout.shape:
        return target
    elements = target._elem.reshape(-1)
    if resize_in_place(target, size):
        return target
    count = target._layout.count
    if elements.size >= count:
        elements = elements[:count]
    else:
        elements = jnp.concatenate([elements, jnp.zeros(count - elements.size, elements.dtype)])
    store(target, elements.reshape(size))
    return target


def _equal(func: Any, args: Any, kwargs: Any) -> bool:
    first, second = args[:2]
    if not _is_same_size(func, args, kwargs):
        return False
    if complex32.has_complex32(args):
        return bool(on_cpu(func, args, kwargs))
    is_equal = jnp.all(to_arrays(first) == to_arrays(second))
    return bool(force_value(is_equal, "bool", "torch.equal"))


def _allclose(func: Any, args: Any, kwargs: Any) -> bool:
    is_close = aten.isclose.default(*args, **kwargs).all()
    return bool(force_value(is_close._elem, "bool", "torch.allclose"))


def _is_same_size(func: Any, args: Any, kwargs: Any) -> bool:
    return tuple(args[0].shape) == tuple(args[1].shape)


def _sdp_choice(func: Any, args: Any, kwargs: Any) -> int:
    """PyTorch's number for the plain attention (matrix products and softmax), which XLA fuses."""
    return 0


def _is_shallow_copy_possible(func: Any, args: Any, kwargs: Any) -> bool:
    return isinstance(args[0], Tensor) and isinstance(args[1], Tensor)


op_rules.special.update(
    {
        aten._to_copy.default: _to_copy,
        aten.clone.default: _clone,
        aten.copy_.default: _copy,
        torch.ops.prims.copy_to.default: _copy,
        aten._local_scalar_dense.default: _local_scalar,
        aten.set_.source_Tensor: _set_source,
        aten.resize_.default: _resize,
        aten.resize_as_.default: _resize_as,
        aten.equal.default: _equal,
        aten.allclose.default: _allclose,
        aten.is_same_size.default: _is_same_size,
        aten._has_same_storage_numel.default: tensor_storage.has_same_storage_size,
        aten.one_hot.default: lambda func, args, kwargs: _one_hot(*args, **kwargs),
        aten._fused_sdp_choice.default: _sdp_choice,
        aten.record_stream.default: lambda func, args, kwargs: None,
        aten.is_pinned.default: lambda func, args, kwargs: False,
        aten._pin_memory.default: lambda func, args, kwargs: args[0],
        aten._has_compatible_shallow_copy_type.default: _is_shallow_copy_possible,
    }
)


# ---- New tensors -------------------------------------------------------------------------------------------


def empty(
    size: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Tensor:
    """``torch.empty`` on device ``jax``: zeros. PyTorch's other factories call it."""
    dummy = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format)
    return _new(layouts.layout_of(dummy))


def empty_strided(
    size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    """``torch.empty_strided`` on device ``jax``: zeros."""
    return _new(layouts.layout(tuple(size), tuple(stride), 0, dtype or torch.get_default_dtype()))


def _new(layout: layouts.Layout) -> Tensor:
    return wrap(None, layout)


def _is_for_other_device(kwargs: Any) -> bool:
    device = kwargs.get("device")
    return device is not None and not _is_jax(device)


def _empty_like(func: Any, args: Any, kwargs: Any) -> Any:
    if _is_for_other_device(kwargs):
        return func(*to_meta(args, False), **kwargs)
    return _new(expected_results(func, args, {**kwargs, "device": META}).tree)


def _fill_factory(value: Any) -> Any:
    """A handler for a factory that fills with ``value``, or with an argument if ``value`` is None."""

    def handler(func: Any, args: Any, kwargs: Any) -> Any:
        if _is_for_other_device(kwargs):
            return func(*to_meta(args, False), **kwargs)
        wanted = expected_results(func, args, {**kwargs, "device": META}).tree
        filler = value
        if filler is None:
            filler = args[2 if "new_full" in str(func) else 1]
        if wanted.dtype is complex32.COMPLEX32:
            return wrap(
                complex32.from_complex(jnp.full(wanted.shape, to_arrays(filler), jnp.complex64)), wanted
            )
        array = jnp.full(wanted.shape, to_arrays(filler), jax_dtype(wanted.dtype))
        return wrap(array, wanted)

    return handler


def _one_hot(x: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """``one_hot`` with a check of the values, which PyTorch only does on the CPU."""
    if x.dtype != torch.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    classes = num_classes
    if classes < 0:
        classes = int(x.max()) + 1
    checked = value_checks.checked_index(x, value_checks.IndexRange(0, classes, _no_class))
    return (checked.unsqueeze(-1) == torch.arange(classes, device=x.device)).long()


def _no_class(at: int) -> Exception:
    if at < 0:
        return RuntimeError("Class values must be non-negative.")
    return RuntimeError("Class values must be smaller than num_classes.")


def _triangle_indices(make: Any) -> Any:
    """``triu_indices`` and ``tril_indices``, computed on the host."""

    def indices(row: int, col: int, offset: int = 0, dtype: Any = None, **_: Any) -> torch.Tensor:
        return from_cpu(make(row, col, offset, dtype=dtype or torch.int64))

    return indices


def _tensor_split(x: torch.Tensor, sections: torch.Tensor, dim: int = 0) -> Any:
    """``tensor_split`` at indices in a tensor, on either device."""
    if sections.dtype != torch.int64 or sections.dim() > 1:
        return torch.tensor_split(torch.zeros(()).expand(x.shape), sections.cpu(), dim)  # raises
    return torch.tensor_split(x, sections.tolist(), dim)


def _kaiser_window(size: int, *options: Any, dtype: Any = None, **_: Any) -> torch.Tensor:
    return from_cpu(torch.kaiser_window(size, *options, dtype=dtype))


def _zero_tensor(size: Any, **kwargs: Any) -> Tensor:
    """``_efficientzerotensor``: zeros for which PyTorch needs no memory."""
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return _new(layouts.contiguous(tuple(size), dtype))


op_rules.special.update(
    {
        aten.empty_like.default: _empty_like,
        aten.new_empty.default: _empty_like,
        aten.new_empty_strided.default: _empty_like,
        aten.empty_permuted.default: _empty_like,
        aten.zeros_like.default: _fill_factory(0),
        aten.ones_like.default: _fill_factory(1),
        aten.new_zeros.default: _fill_factory(0),
        aten.new_ones.default: _fill_factory(1),
        aten.full_like.default: _fill_factory(None),
        aten.new_full.default: _fill_factory(None),
    }
)


def install(library: Any) -> None:
    """Registers kernels that PyTorch calls without a tensor argument on device ``jax``."""
    library.impl("empty.memory_format", empty, "PrivateUse1")
    library.impl("empty_strided", empty_strided, "PrivateUse1")
    library.impl("_efficientzerotensor", _zero_tensor, "PrivateUse1")
    library.impl("one_hot", _one_hot, "PrivateUse1")
    library.impl("triu_indices", _triangle_indices(torch.triu_indices), "PrivateUse1")
    library.impl("tril_indices", _triangle_indices(torch.tril_indices), "PrivateUse1")
    library.impl("tensor_split.tensor_indices_or_sections", _tensor_split, "AutogradPrivateUse1")
    for name in ("kaiser_window", "kaiser_window.periodic", "kaiser_window.beta"):
        library.impl(name, _kaiser_window, "PrivateUse1")
    # PyTorch would pin CPU memory for the accelerator, which is now device ``jax`` and needs none.
    library.impl("is_pinned", lambda x, device=None: False, "CPU")
    library.impl("_pin_memory", lambda x, device=None: x.clone(), "CPU")
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    library.impl("_copy_from_and_resize", _copy_from, "PrivateUse1")


__all__ = ["DEVICE", "empty", "empty_strided", "from_cpu", "install"]
