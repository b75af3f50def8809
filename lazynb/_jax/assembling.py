"""Arrays that JAX puts together of others.

JAX's functions for it work on its own class. Code that runs lazily may have taken these functions before, so
it is what they call that takes lazy tensors, for good.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from jax._src import array as _array, dtypes as _dtypes
from jax._src.interpreters import pxla as _pxla
from jax._src.random import prng as _prng

from lazynb._jax.arrays import ArrayImpl
from lazynb._jax.tracing import eval_trace, set_current_trace


def register_part_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets arrays be put together of values of ``cls``.

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
    _array.dtypes = dtypes
