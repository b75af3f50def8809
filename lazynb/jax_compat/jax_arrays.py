"""Concrete arrays, their types and their shardings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import (
    array as _array,
    config as _config,
    core as _core,
    dtypes as _dtypes,
    literals as _literals,
    sharding_impls as _sharding_impls,
)
from jax._src.interpreters import mlir as _mlir
from jax._src.lax import lax as _lax_internal
from jax._src.numpy import array_methods as _array_methods
from jax.sharding import Mesh, NamedSharding

from lazynb.jax_compat.tracers import eval_trace, set_current_trace, typeof

ShapedArray = _core.ShapedArray
ArrayImpl = _array.ArrayImpl
TypedNdArray = _literals.TypedNdArray
TYPED_SCALARS: tuple[type, ...] = (_literals.TypedInt, _literals.TypedFloat, _literals.TypedComplex)
float0 = _dtypes.float0


def abstract(value: Any) -> Any:
    """Shape, dtype and (if committed) sharding of an argument; a NumPy array or scalar itself."""
    if is_host_array(value) or isinstance(value, jax.ShapeDtypeStruct):
        return value
    aval = typeof(value)
    return jax.ShapeDtypeStruct(
        aval.shape,
        aval.dtype,
        weak_type=aval.weak_type,
        sharding=value.sharding if is_committed(value) else None,
    )


def is_committed(value: Any) -> bool:
    """Whether the array is committed to its devices."""
    return bool(getattr(value, "committed", False))


def device_assignment(sharding: Any) -> tuple[Any, ...]:
    """The devices of ``sharding``, in its order."""
    return tuple(sharding._device_assignment)


def uncommitted(value: Any) -> Any:
    """The same buffer as an uncommitted array. Other values than plain arrays are returned unchanged. An
    executable with one committed input returns only committed outputs. Eager JAX computes some of these from
    uncommitted values alone, and leaves them uncommitted."""
    if type(value) is not ArrayImpl or not value._committed:
        return value
    return ArrayImpl(value.aval, value.sharding, value._arrays, committed=False, _skip_checks=True)


def committed(value: Any, device: Any) -> Any:
    """The same buffer on ``device`` as a committed array. Other values than plain arrays, and arrays on a
    mesh (of one device), are returned unchanged."""
    if type(value) is not ArrayImpl or (value._committed and isinstance(value.sharding, NamedSharding)):
        return value
    return ArrayImpl(
        value.aval, uncommitted_sharding(device), value._arrays, committed=True, _skip_checks=True
    )


numpy_array_p = _core.Primitive("numpy_array")
"""Makes an array as NumPy has it: uncommitted, even if the operand is committed."""
numpy_array_p.def_impl(lambda operand: uncommitted(operand.copy()))
numpy_array_p.def_abstract_eval(lambda aval: aval)
_mlir.register_lowering(numpy_array_p, lambda _, operand: [operand])


def narrows_without_x64(dtype: Any) -> bool:
    """Whether a compiled call narrows a scalar of ``dtype``. Without 64-bit mode it does so. 64-bit arrays,
    which 0.12 creates on request in that mode, keep their dtype."""
    return not _config.enable_x64.value and _dtypes.canonicalize_dtype(dtype) != dtype


def weak_scalar(value: Any) -> Any:
    """The Python number in a typed scalar of JAX.

    Raises:
      TypeError: ``value`` is not a typed scalar.
    """
    for python_type in (int, float, complex):
        if isinstance(value, python_type):
            return python_type(value)
    raise TypeError(type(value))


def to_device_array(value: Any) -> Any:
    """The concrete array that eager JAX makes of ``value`` (NumPy array or scalar)."""
    with set_current_trace(eval_trace):
        return eval_trace.stage_value(value)


def can_be_returned(aval: Any) -> bool:
    """Whether a program returns a value of type ``aval`` as an array. A token, a reference, a float0 and
    elements of types unknown to JAX are returned as something else."""
    return isinstance(aval, ShapedArray) and aval.dtype != float0 and not has_custom_dtype(aval)


def has_custom_dtype(aval: Any) -> bool:
    """Whether the elements of an array are strings, or of a type that the user or a library added to JAX.
    Random keys do not count."""
    return isinstance(aval.dtype, _dtypes.ExtendedDType | np.dtypes.StringDType) and not is_key(aval)


def is_on_mesh(aval: Any) -> bool:
    """Whether the type of an array contains its sharding on a mesh."""
    return not aval.sharding.mesh.empty


def is_auto(aval: Any) -> bool:
    """Whether the type leaves the sharding on its mesh open: each axis is Auto. The cotangent of a sharded
    value has such a type, and is uncommitted on one device until it meets the others."""
    return bool(aval.sharding.mesh.are_all_axes_auto)


def is_sharded_along_first_axis(aval: Any) -> bool:
    """Whether the type shards the first axis over several devices. JAX does not slice such an axis."""
    spec = aval.sharding.spec
    return bool(aval.ndim and len(spec) and spec[0] is not None)


def explicit_sharding(aval: Any, devices: tuple[Any, ...]) -> Any:
    """The sharding of a result of type ``aval`` that a program on ``devices`` gives; None if XLA chooses it.
    JAX fixes it if the type contains a sharding for each axis of its mesh
    (``pxla._concretize_abstract_out_shardings``)."""
    mesh = aval.sharding.mesh
    if mesh.empty or not mesh.are_all_axes_explicit or mesh.size != len(devices):
        return None
    kind = _core.mem_space_to_kind(aval.memory_space) or devices[0].default_memory().kind
    return NamedSharding(_concrete_mesh(mesh, devices), aval.sharding.spec, memory_kind=kind)


def is_plain_named_sharding(sharding: Any) -> bool:
    """Whether ``sharding`` partitions an array over a mesh in default memory, without unreduced axes."""
    return _is_complete_sharding(sharding) and not (sharding.spec.unreduced or sharding.spec.reduced)


def _is_complete_sharding(sharding: Any) -> bool:
    if not isinstance(sharding, NamedSharding) or not is_concrete_sharding(sharding):
        return False
    if _mlir.contains_unconstrained(sharding):
        return False
    usual = device_assignment(sharding)[0].default_memory().kind
    return sharding.is_fully_addressable and sharding.memory_kind in (None, usual)


def named_sharding(primitive: Any, params: dict[str, Any], number: int) -> Any:
    """The sharding that an operation names for its result ``number``; None if it names none."""
    if "out_shardings" not in params:
        return None
    sharding = params["out_shardings"][number]
    return sharding if _is_complete_sharding(sharding) else None


@functools.lru_cache(maxsize=1024)
def canonical_sharding(sharding: Any) -> Any:
    """``sharding`` in canonical form: ``P('data')`` and ``P('data', None)`` mean the same. JAX treats them as
    different, and a training loop has one of them before its first step and the other after it."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    partitions = sharding.spec.partitions  # a spec with unreduced axes cannot be iterated over
    parts = [part[0] if isinstance(part, tuple) and len(part) == 1 else part for part in partitions]
    parts = [None if part == () else part for part in parts]
    while parts and parts[-1] is None:
        parts.pop()
    kind = sharding.memory_kind or device_assignment(sharding)[0].default_memory().kind
    return sharding.update(spec=sharding.spec.update(partitions=parts), memory_kind=kind)


def requested_out_sharding(aval: Any, sharding: Any) -> Any:
    """The sharding that a call's ``out_shardings`` gives to a result of type ``aval``. Returns None if the
    type has it already, or contains no sharding on a mesh."""
    if not isinstance(sharding, NamedSharding) or sharding.mesh.empty:
        return None
    if not sharding.mesh.are_all_axes_explicit:
        return None
    there = _core.update_aval_with_sharding(aval, sharding)
    return None if there.sharding == aval.sharding else sharding


@functools.lru_cache(maxsize=256)
def _concrete_mesh(mesh: Any, devices: tuple[Any, ...]) -> Mesh:
    places = np.array(devices, dtype=object).reshape(mesh.axis_sizes)
    return Mesh(places, mesh.axis_names, axis_types=mesh.axis_types)


def is_key(aval: Any) -> bool:
    """Whether an array like ``aval`` holds random keys."""
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)


def concrete_array_has(aval: Any, name: str) -> bool:
    """Whether a concrete array of type ``aval`` has an attribute ``name``."""
    cls = _prng_key_array() if is_key(aval) else ArrayImpl
    return hasattr(cls, name) or name in getattr(cls, "__annotations__", ())


@functools.cache
def _prng_key_array() -> type:
    with set_current_trace(eval_trace):  # otherwise a key would be a lazy tensor in a lazy thread
        return type(jax.random.key(0))


def array_attribute_error(aval: Any, name: str) -> AttributeError:
    """The error that eager JAX raises for an attribute that no array has."""
    cls = _prng_key_array() if is_key(aval) else ArrayImpl
    full = (
        f"{cls.__module__}.{cls.__qualname__}" if cls is ArrayImpl else cls.__name__
    )  # a C++ type name includes its module
    return AttributeError(f"'{full}' object has no attribute '{name}'")


@functools.cache
def uncommitted_sharding(device: Any) -> Any:
    """The sharding of an uncommitted array on ``device``."""
    with set_current_trace(eval_trace), jax.default_device(device):
        return eval_trace.stage_value(np.zeros((), np.int32)).sharding


def is_concrete_sharding(sharding: Any) -> bool:
    """Whether a sharding names real devices, not an abstract mesh."""
    return bool(sharding._is_concrete)


@functools.cache
def probe_scalar(device: Any) -> Any:
    """A scalar on ``device`` that stands for arrays there."""
    with set_current_trace(eval_trace), jax.default_device(device):
        return eval_trace.stage_value(np.zeros((), np.float32))


def is_ready(value: Any) -> bool:
    """Whether the value of a concrete array has been computed."""
    return bool(base_array(value).is_ready())


def base_array(value: Any) -> Any:
    """``value``, or the plain array inside an array of random keys."""
    return getattr(value, "_base_array", value)


def is_host_array(value: Any) -> bool:
    """Whether ``value`` is a NumPy array or scalar (JAX's typed arrays included)."""
    return isinstance(value, (np.ndarray, np.generic))


UNSPECIFIED = _sharding_impls.UNSPECIFIED
"""The sharding of an argument without a requested sharding."""


def split_elements(vector: Any, weak: bool) -> list[Any]:
    """The elements of a vector, weakly typed if ``weak``: one operation for all, and one for each element."""
    typed = _lax_internal._convert_element_type(vector, vector.dtype, weak_type=weak)
    return [jax.lax.squeeze(one, (0,)) for one in jax.lax.split(typed, [1] * vector.shape[0])]


def drop_weak_type(value: Any) -> Any:
    """``value`` without weak type."""
    return _lax_internal._convert_element_type(value, typeof(value).dtype, weak_type=False)


def can_hold_number(array: Any, number: Any) -> bool:
    """Whether an array of this type holds a Python number of the kind of ``number``. An integer must fit."""
    dtype = array.dtype
    if type(number) is int and np.issubdtype(dtype, np.integer):
        return bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)
    if type(number) not in (bool, int, float, complex) or (type(number) is int and number.bit_length() > 31):
        return False
    return bool(_dtypes.safe_to_cast(number, array))


def typed_like(array: Any, number: Any) -> Any:
    """The Python ``number`` with the type of ``array``, by one primitive, without an array of it."""
    weak_type = typeof(array).weak_type
    operand = _dtypes.canonicalize_value(number)
    return _lax_internal.convert_element_type_p.bind(
        operand, new_dtype=array.dtype, weak_type=weak_type, sharding=None
    )


array_operators: dict[str, Callable[..., Any]] = dict(_array_methods._array_operators)
"""The functions behind an array's operators, by name without underscores (``add``, ``radd``)."""


def iterate_traced(value: Any) -> Any:
    """The iteration over an array while it is traced."""
    return ShapedArray._iter(value)  # type: ignore[misc]  # JAX sets it


IndexUpdate: Any = _array_methods._IndexUpdateRef
"""The class of ``x.at[index]``, with the attributes ``array`` and ``index``."""

array_methods: dict[str, Any] = {
    name: method
    for name, method in _array_methods._array_methods.items()
    if name not in _array_methods._impl_only_array_methods
}
"""The methods of an array that a tracer has too, by name."""
