"""Complex numbers of two float16 (``torch.complex32``), which JAX lacks, and the class :class:`ViewStep`.

The array holds the bits as uint32, with the real part in the lower half. So memory, views and copies are
exact and work as for any other dtype. Conversions are recorded. PyTorch computes all other operations on the
CPU, which supports few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.torch_requirements import import_torchax

# ---- View steps --------------------------------------------------------------------------------------------


class ViewStep(NamedTuple):
    """One step from an array to a view of it.

    Attributes:
      read: takes the array and returns the values of the view.
      write: takes the array and new values of the view, and returns the updated array.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]


lax = jax.lax
COMPLEX32 = torch.complex32
BITS = np.dtype(np.uint32)
_dtypes: dict[torch.dtype, np.dtype[Any]] = {COMPLEX32: BITS}


def jax_dtype(dtype: torch.dtype) -> Any:
    """The dtype of the array behind a tensor of ``dtype``."""
    found = _dtypes.get(dtype)
    if found is None:
        found = _dtypes[dtype] = np.dtype(import_torchax().ops.mappings.t2j_dtype(dtype))
    return found


def _to_complex64(bits: Any) -> Any:
    halves = lax.bitcast_convert_type(bits, np.float16).astype(np.float32)
    return lax.complex(halves[..., 0], halves[..., 1])


def _from_complex(numbers: Any) -> Any:
    # Via float32: PyTorch rounds twice, too.
    parts = [jnp.real(numbers), jnp.imag(numbers)]
    halves = [part.astype(np.float32).astype(np.float16) for part in parts]
    return lax.bitcast_convert_type(jnp.stack(halves, axis=-1), BITS)


def to_complex64(bits: Any) -> Any:
    """The complex64 numbers with these ``bits``."""
    return record_or_replay("numbers of bits", _to_complex64, (bits,))


def from_complex(numbers: Any) -> Any:
    """The bits of ``numbers`` of any dtype, rounded."""
    return record_or_replay("bits of numbers", _from_complex, (numbers,))


def convert_complex32(array: Any, source: torch.dtype, wanted: torch.dtype) -> Any:
    """Converts the array of a tensor of dtype ``source`` for dtype ``wanted``, if either is ``complex32``."""
    if source is wanted:
        return array
    if source is COMPLEX32:
        array = to_complex64(array)
    return from_complex(array) if wanted is COMPLEX32 else array


def has_complex32(x: Any) -> bool:
    """Whether ``x`` (a tensor, a layout, or a list of these) has dtype ``complex32``."""
    if isinstance(x, (list, tuple)):
        return any(map(has_complex32, x))
    return getattr(x, "dtype", None) is COMPLEX32


CONJUGATE = ViewStep(lambda x: x ^ BITS.type(1 << 31), lambda x, new: new ^ BITS.type(1 << 31))
NEGATIVE = ViewStep(
    lambda x: x ^ BITS.type(1 << 31 | 1 << 15), lambda x, new: new ^ BITS.type(1 << 31 | 1 << 15)
)
