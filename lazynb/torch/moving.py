"""Making tensors on device ``jax``, moving them there and away, and asking for one number."""

from __future__ import annotations

from typing import Any

import torch

from lazynb.record.tensor import LazyTensor
from lazynb.torch.dispatch import dispatch as d, layout as layouts
from lazynb.torch.tensor import DEVICE, Tensor, in_64_bit, to_cpu, torch_to_array, torchax, wrap

aten = torch.ops.aten
jnp: Any = torchax.tensor.jnp


def _is_jax(device: Any) -> bool:
    return device is not None and torch.device(device).type in ("privateuseone", "jax")


def from_cpu(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor on device ``jax`` with the values of one on the CPU."""
    plain = tensor.detach() if dtype is None else tensor.detach().to(dtype)
    return wrap(torch_to_array(plain), layouts.contiguous(tuple(plain.shape), plain.dtype))


def _to_copy(func: Any, args: Any, kwargs: Any) -> Any:
    source, dtype, device = args[0], kwargs.get("dtype"), kwargs.get("device")
    if not isinstance(source, Tensor):
        return from_cpu(source, dtype)
    if device is not None and not _is_jax(device):
        plain = to_cpu(source, "asarray", f"Tensor.to({torch.device(device).type!r})")
        return plain.to(device=device, dtype=dtype)
    value = source._elem
    wanted = dtype or source.dtype
    layout = (
        source._layout
        if wanted == source.dtype
        else layouts.layout(source._layout.shape, source._layout.stride, 0, wanted)
    )
    dense = layouts.layout_of(
        torch.empty_like(layout.dummy(), memory_format=kwargs.get("memory_format") or torch.preserve_format)
    )
    return wrap(value if wanted == source.dtype else _cast(value, wanted), dense)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """The values in another dtype, as PyTorch converts: towards zero."""
    wanted = d.jax_dtype(dtype)
    if value.dtype.kind == "c" and wanted.kind not in "cb":
        value = value.real
    return torchax.tensor.jax.lax.convert_element_type(
        value != 0 if wanted.kind == "b" and value.dtype.kind != "b" else value, wanted
    )


def _clone(func: Any, args: Any, kwargs: Any) -> Any:
    wanted = layouts.layout_of(torch.clone(args[0]._layout.dummy(), **kwargs))
    return wrap(args[0]._elem, wanted)


def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if not isinstance(target, Tensor):
        return d._write_elsewhere(func, args, kwargs)
    d.expected(func, args[:2], {}, writes=True)
    value = source._elem if isinstance(source, Tensor) else torch_to_array(source)
    d.store(target, value if source.dtype == target.dtype else _cast(value, target.dtype))
    return target


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    with in_64_bit():
        return _copy(aten.copy_.default, (target, source), {})


def _local_scalar(func: Any, args: Any, kwargs: Any) -> Any:
    from lazynb.torch.tensor import _scalar

    return _scalar(args[0], "item")


def _set_source(func: Any, args: Any, kwargs: Any) -> Any:
    raise NotImplementedError(f"lazynb.torch: {func} gives a tensor other memory; assign to .data instead")


def _resize(func: Any, args: Any, kwargs: Any) -> Any:
    target, size = args[0], tuple(args[1])
    if size != target._layout.shape:
        before = target._elem.reshape(-1)
        d.resized(target, size)
        count = target._layout.count
        kept = (
            before[:count]
            if before.size >= count
            else jnp.concatenate([before, jnp.zeros(count - before.size, before.dtype)])
        )
        d.store(target, kept.reshape(size))
    return target


def _equal(func: Any, args: Any, kwargs: Any) -> bool:
    one, other = args[:2]
    if tuple(one.shape) != tuple(other.shape):
        return False
    same = jnp.all(d.array_of(one) == d.array_of(other))
    return bool(same._force("bool", "torch.equal") if isinstance(same, LazyTensor) else same)


d.special.update(
    {
        aten._to_copy.default: _to_copy,
        aten.clone.default: _clone,
        aten.copy_.default: _copy,
        torch.ops.prims.copy_to.default: _copy,
        aten._local_scalar_dense.default: _local_scalar,
        aten.set_.source_Tensor: _set_source,
        aten.resize_.default: _resize,
        aten.equal.default: _equal,
        aten.is_same_size.default: lambda func, args, kwargs: tuple(args[0].shape) == tuple(args[1].shape),
        aten._fused_sdp_choice.default: lambda func, args, kwargs: (
            0
        ),  # plain matrix products and softmax, which XLA fuses
        aten.record_stream.default: lambda func, args, kwargs: None,
        aten.is_pinned.default: lambda func, args, kwargs: False,
        aten._pin_memory.default: lambda func, args, kwargs: args[0],
        aten._has_compatible_shallow_copy_type.default: lambda func, args, kwargs: (
            isinstance(args[0], Tensor) and isinstance(args[1], Tensor)
        ),
    }
)


# ---- running statistics: PyTorch does not say in its schema that they are written to -----------------------


def _batch_norm(func: Any, args: Any, kwargs: Any) -> Any:
    from lazynb.torch.ops.norms import batch_norm

    bound = dict(zip([one.name for one in func._schema.arguments], args, strict=False)) | kwargs
    x, mean, var = bound["input"], bound.get("running_mean"), bound.get("running_var")
    training = bound.get("training", "no_training" not in str(func))
    arrays = d.array_of([x, bound["weight"], bound["bias"], mean, var])
    *found, new_mean, new_var = batch_norm(arrays, training, bound["momentum"], bound["eps"])
    for target, new in ((mean, new_mean), (var, new_var)):
        if training and target is not None and new is not None:
            d.store(target, new)
    first = layouts.layout_of(torch.empty_like(x._layout.dummy()))
    made = [wrap(found[0].astype(d.jax_dtype(x.dtype)), first)]
    return (
        *made,
        *[
            wrap(one, layouts.contiguous(one.shape, torch.float32 if one.dtype == jnp.float32 else x.dtype))
            for one in found[1:]
        ],
    )


for _one in (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_no_training.default,
):
    d.special[_one] = _batch_norm


# ---- new tensors -------------------------------------------------------------------------------------------


def empty(
    size: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Tensor:
    """``torch.empty`` on device ``jax``; every other factory of PyTorch's begins with this one. Holds
    zeros."""
    found = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format)
    return _new(layouts.layout_of(found))


def empty_strided(
    size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    """``torch.empty_strided`` on device ``jax``. Holds zeros."""
    return _new(layouts.layout(tuple(size), tuple(stride), 0, dtype or torch.get_default_dtype()))


def _new(layout: layouts.Layout) -> Tensor:
    return wrap(None, layout)


def _empty_like(func: Any, args: Any, kwargs: Any) -> Any:
    """``empty_like``, ``new_empty`` and ``new_empty_strided``."""
    device = kwargs.get("device")
    if device is not None and not _is_jax(device):
        return func(*d.dummy_of(args, False), **(kwargs | {"device": device}))
    wanted = d.expected(func, args, {**kwargs, "device": d._META}).tree
    return _new(wanted)


def _filled(value: Any) -> Any:
    def handler(func: Any, args: Any, kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and not _is_jax(device):
            return func(*d.dummy_of(args, False), **(kwargs | {"device": device}))
        wanted = d.expected(func, args, {**kwargs, "device": d._META}).tree
        given = value if value is not None else args[2 if "new_full" in str(func) else 1]
        given = d.array_of(given)
        return wrap(jnp.full(wanted.shape, given, d.jax_dtype(wanted.dtype)), wanted)

    return handler


d.special.update(
    {
        aten.empty_like.default: _empty_like,
        aten.new_empty.default: _empty_like,
        aten.new_empty_strided.default: _empty_like,
        aten.empty_permuted.default: _empty_like,
        aten.zeros_like.default: _filled(0),
        aten.ones_like.default: _filled(1),
        aten.new_zeros.default: _filled(0),
        aten.new_ones.default: _filled(1),
        aten.full_like.default: _filled(None),
        aten.new_full.default: _filled(None),
    }
)


def install(library: Any) -> None:
    """Registers what PyTorch calls when no tensor of ours is among the arguments."""
    library.impl("empty.memory_format", empty, "PrivateUse1")
    library.impl("empty_strided", empty_strided, "PrivateUse1")
    library.impl(
        "_efficientzerotensor",
        lambda size, **kwargs: _new(
            layouts.contiguous(tuple(size), kwargs.get("dtype") or torch.get_default_dtype())
        ),
        "PrivateUse1",
    )
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    library.impl("_copy_from_and_resize", _copy_from, "PrivateUse1")


__all__ = ["DEVICE", "empty", "empty_strided", "from_cpu", "install"]
