"""Creation and copying of tensors on device ``jax``, reads of one number, and ``as_subclass``."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any

import torch

from lazynb.frontends.torch.dispatch import (
    complex32,
    dispatcher as d,
    tensor_layout as layouts,
    value_checks,
    view_steps,
)
from lazynb.frontends.torch.dispatch.deferred_integers import known_bounds
from lazynb.frontends.torch.dispatch.host_operations import known_tensor
from lazynb.frontends.torch.dispatch.known_integers import is_small_integer
from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.dispatch.torch_replay import key_and_operands
from lazynb.frontends.torch.torch_tensor import (
    DEVICE,
    Tensor,
    force_value,
    to_cpu,
    torch_to_array,
    torchax,
    wrap,
)

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
        d.allow_copy_replay(func, key_and_operands(func, args, kwargs, False)[0], dense)
    return new


def _replayed_cast(func: Any, args: Any, kwargs: Any, dense: layouts.Layout, value: Any) -> Any:
    """``value`` cast to the dtype of ``dense``. Later calls of this kind are replayed."""
    key, source = key_and_operands(func, args, kwargs, False)[0], args[0].dtype
    name = d.allow_replay(func, key, dense, object(), has_before=True).name
    return record_or_replay(name, lambda x: _cast(x, source, dense.dtype), (value,))


def _cast(value: Any, source: torch.dtype, dtype: torch.dtype) -> Any:
    """Casts values of dtype ``source`` to ``dtype``, rounding towards zero as PyTorch does."""
    value, wanted = complex32.convert_complex32(value, source, dtype), complex32.jax_dtype(dtype)
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
    return _copied(func, args, kwargs, d.expected_results(func, args, kwargs).tree)


def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if not isinstance(target, Tensor):
        return d._write_to_cpu_tensor(func, args, kwargs)
    d.expected_results(func, args[:2], {}, writes=True)
    value = source._elem if isinstance(source, Tensor) else torch_to_array(source)
    if source.dtype != target.dtype:
        value = _cast(value, source.dtype, target.dtype)
    d.store(target, value)
    return target


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    copied: torch.Tensor = d.dispatch(aten.copy_.default, (target, source), {})
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
    d.set_storage(target, Tensor(source._storage, source._layout, source._steps))
    return target


def _resize_as(func: Any, args: Any, kwargs: Any) -> Any:
    return _resize(aten.resize_.default, (args[0], args[1].shape), kwargs)


def _resize(func: Any, args: Any, kwargs: Any) -> Any:
    target, size = args[0], tuple(args[1])
    if size == target._layout.shape:
        return target
    elements = target._elem.reshape(-1)
    if d.resize_in_place(target, size):
        return target
    count = target._layout.count
    if elements.size >= count:
        elements = elements[:count]
    else:
        elements = jnp.concatenate([elements, jnp.zeros(count - elements.size, elements.dtype)])
    d.store(target, elements.reshape(size))
    return target


def _equal(func: Any, args: Any, kwargs: Any) -> bool:
    first, second = args[:2]
    if not _is_same_size(func, args, kwargs):
        return False
    if complex32.has_complex32(args):
        return bool(d.on_cpu(func, args, kwargs))
    is_equal = jnp.all(d.to_arrays(first) == d.to_arrays(second))
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


d.special.update(
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
        aten._has_same_storage_numel.default: view_steps.has_same_storage_size,
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
        return func(*d.to_meta(args, False), **kwargs)
    return _new(d.expected_results(func, args, {**kwargs, "device": d._META}).tree)


def _fill_factory(value: Any) -> Any:
    """A handler for a factory that fills with ``value``, or with an argument if ``value`` is None."""

    def handler(func: Any, args: Any, kwargs: Any) -> Any:
        if _is_for_other_device(kwargs):
            return func(*d.to_meta(args, False), **kwargs)
        wanted = d.expected_results(func, args, {**kwargs, "device": d._META}).tree
        filler = value
        if filler is None:
            filler = args[2 if "new_full" in str(func) else 1]
        if wanted.dtype is complex32.COMPLEX32:
            return wrap(
                complex32.from_complex(jnp.full(wanted.shape, d.to_arrays(filler), jnp.complex64)), wanted
            )
        array = jnp.full(wanted.shape, d.to_arrays(filler), d.jax_dtype(wanted.dtype))
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


d.special.update(
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


# ---- ``Tensor.as_subclass`` on device ``jax`` --------------------------------------------------------------
# PyTorch's method makes a subclass instance around its own memory. Here the result's class, named like the
# requested class ``S``, inherits from ``S`` and then from :class:`Tensor`. PyTorch functions call
# ``S.__torch_function__``, which gives their results the class, too.

_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()
_default: Any = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


class _RequestedClass(threading.local):
    """The class for the alias that this thread is making."""

    kind: Any = None


_requested_class = _RequestedClass()


class _FunctionSubclass(Tensor):
    """A tensor on device ``jax`` whose subclasses have ``__torch_function__``."""

    @classmethod
    def __torch_function__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # Defined here, because PyTorch disables the default in a class with ``__torch_dispatch__``.
        return _default(cls, func, types, args, kwargs)


def class_on_device(kind: type) -> Any:
    """The class of tensors on device ``jax`` that also inherits from ``kind``."""
    if issubclass(kind, Tensor):
        return kind
    if kind is torch.Tensor:
        return Tensor
    found = _classes.get(kind)
    if found is None:
        body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        found = _classes[kind] = type(kind.__name__, (kind, _FunctionSubclass), body)
    return found


def as_subclass(self: Any, cls: type) -> Any:
    """The same memory as a tensor of class ``cls``, a subclass of ``torch.Tensor``; differentiable."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, torch.Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make "
            "sure your class inherits from Tensor."
        )
    _requested_class.kind = class_on_device(cls)
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return aten.alias.default(self)
    finally:
        _requested_class.kind = None


def _alias(func: Any, args: Any, kwargs: Any) -> Any:
    source, kind = args[0], _requested_class.kind or Tensor
    return Tensor.__new__(kind, source._storage, source._layout, source._steps)


Tensor.as_subclass = as_subclass  # type: ignore[method-assign]
d.special[aten.alias.default] = _alias
