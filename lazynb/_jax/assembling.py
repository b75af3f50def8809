"""Arrays that JAX puts together of others, and the question whether a class is one of arrays.

JAX's functions for it refuse tracers. Code that runs lazily may have taken these functions before, so it is
what they call that is told of lazy tensors, for good.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax
from jax._src import array as _array, core as _core, dtypes as _dtypes
from jax._src.interpreters import pxla as _pxla
from jax._src.random import prng as _prng

from lazynb._jax.arrays import ArrayImpl
from lazynb._jax.tracing import eval_trace, set_current_trace


def core_without_tracers(cls: type) -> types.ModuleType:
    """A view of ``jax._src.core`` in which values of type ``cls`` are no tracers."""

    class Kind(type(_core.Tracer)):  # type: ignore[misc]
        def __instancecheck__(self, value: Any) -> bool:
            return isinstance(value, _core.Tracer) and not isinstance(value, cls)

    view = types.ModuleType(_core.__name__)
    view.__dict__.update(_core.__dict__, Tracer=Kind("Tracer", (), {}))
    return view


def register_part_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets arrays be put together of values of ``cls``, a class of tracers that outlive the trace.

    ``jax.make_array_from_single_device_arrays`` hands its parts to the constructor of JAX's arrays, and
    ``jax.make_array_from_callback`` checks what the function returned, moves it where it must and puts it on
    the devices.

    Arguments:
      concrete: gives the array that is the value of a part.
    """

    def known(arrays: Any) -> Any:
        if isinstance(arrays, (list, tuple)):
            for part in arrays:
                if isinstance(part, cls):
                    return [concrete(each) if isinstance(each, cls) else each for each in arrays]
        return arrays

    def init(array: Any, aval: Any, sharding: Any, arrays: Any, *rest: Any, **more: Any) -> None:
        plain(array, aval, sharding, known(arrays), *rest, **more)

    def put(aval: Any, sharding: Any, xs: Any, *rest: Any, **more: Any) -> Any:
        return plain_put(aval, sharding, known(xs), *rest, **more)

    def canonicalize(value: Any, *rest: Any, **more: Any) -> Any:
        given = concrete(value) if isinstance(value, cls) else value
        return _dtypes.canonicalize_value(given, *rest, **more)

    def keys(aval: Any, sharding: Any, arrays: Any, *rest: Any, **more: Any) -> Any:
        parts = known(arrays)
        with set_current_trace(eval_trace):  # JAX takes the arrays out of arrays of keys by an operation
            return plain_keys(aval, sharding, parts, *rest, **more)

    plain, plain_keys = ArrayImpl.__init__, _prng.KeyTyRules.make_sharded_array
    plain_put = _pxla.batched_device_put
    ArrayImpl.__init__, _pxla.batched_device_put = init, put
    _prng.KeyTyRules.make_sharded_array = staticmethod(keys)
    dtypes = types.ModuleType(_dtypes.__name__)
    dtypes.__dict__.update(_dtypes.__dict__, canonicalize_value=canonicalize)
    _array.core, _array.dtypes = core_without_tracers(cls), dtypes


def register_array_class(cls: type) -> None:
    """Makes ``cls`` a subclass of ``jax.Array`` to ``issubclass``, as its instances are to ``isinstance``.

    Libraries choose by the class of a value (``functools.singledispatch``, Orbax). A class of tracers cannot
    have ``jax.Array`` among its bases: both have a place for weak references.
    """

    def subclasscheck(base: Any, other: Any) -> bool:
        if base is jax.Array and isinstance(other, type) and cls in other.__mro__:
            return True
        return type.__subclasscheck__(base, other)

    type(jax.Array).__subclasscheck__ = subclasscheck
