"""Complex numbers of two float16 (``torch.complex32``), which JAX does not have.

An array of such numbers holds their bits, as uint32: the real part in the lower half. So memory, views of it
and copies are exact, and are what they are for any other dtype. Conversions are recorded. What else there
is PyTorch computes on the CPU, which has few operations for such numbers.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch.recalled import recalled
from lazynb.torch.dispatch.view_step import ViewStep
from lazynb.torch.torchax_import import import_torchax

lax = jax.lax
DTYPE = torch.complex32
BITS = np.dtype(np.uint32)
_dtypes: dict[torch.dtype, np.dtype[Any]] = {DTYPE: BITS}


def jax_dtype(dtype: torch.dtype) -> Any:
    """The dtype of the array in a tensor of ``dtype``."""
    found = _dtypes.get(dtype)
    if found is None:
        found = _dtypes[dtype] = np.dtype(import_torchax().ops.mappings.t2j_dtype(dtype))
    return found


def _numbers(bits: Any) -> Any:
    halves = lax.bitcast_convert_type(bits, np.float16).astype(np.float32)
    return lax.complex(halves[..., 0], halves[..., 1])


def _bits(numbers: Any) -> Any:
    # First float32: PyTorch rounds twice, too.
    parts = [jnp.real(numbers), jnp.imag(numbers)]
    halves = [part.astype(np.float32).astype(np.float16) for part in parts]
    return lax.bitcast_convert_type(jnp.stack(halves, axis=-1), BITS)


def numbers_of(bits: Any) -> Any:
    """The numbers whose ``bits`` an array holds, as complex64."""
    return recalled("numbers of bits", _numbers, (bits,))


def bits_of(numbers: Any) -> Any:
    """The bits of ``numbers`` of any dtype, rounded."""
    return recalled("bits of numbers", _bits, (numbers,))


def converted(array: Any, source: torch.dtype, wanted: torch.dtype) -> Any:
    """The array of a tensor of dtype ``source`` for one of dtype ``wanted``.

    It is ``array`` itself where neither holds bits.
    """
    if source is wanted:
        return array
    if source is DTYPE:
        array = numbers_of(array)
    return bits_of(array) if wanted is DTYPE else array


def are_in(x: Any) -> bool:
    """Whether there are such numbers among arguments or results: tensors, layouts, and what holds them."""
    if isinstance(x, (list, tuple)):
        return any(map(are_in, x))
    return getattr(x, "dtype", None) is DTYPE


CONJUGATE = ViewStep(lambda x: x ^ BITS.type(1 << 31), lambda x, new: new ^ BITS.type(1 << 31))
NEGATIVE = ViewStep(
    lambda x: x ^ BITS.type(1 << 31 | 1 << 15), lambda x, new: new ^ BITS.type(1 << 31 | 1 << 15)
)
