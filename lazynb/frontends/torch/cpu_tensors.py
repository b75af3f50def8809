"""Copies between JAX arrays and PyTorch tensors on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lazynb.frontends.torch.dispatch import complex32
from lazynb.frontends.torch.dispatch.tensor_layout import check_dense
from lazynb.recording.external_arrays import new_array

_MAX_RANK = 64
_NOT_NUMPY_DTYPES = {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}


def array_to_torch(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """A CPU tensor with the values of a concrete array of the corresponding dtype."""
    plain = np.array(value)
    if dtype is complex32.COMPLEX32:
        return torch.from_numpy(plain.view(np.int32)).view(dtype)
    if plain.dtype.kind == "V" or plain.dtype.name in _NOT_NUMPY_DTYPES:  # dtypes that NumPy lacks
        bits = np.dtype(f"int{8 * plain.dtype.itemsize}")
        return torch.from_numpy(plain.view(bits)).view(dtype)
    return torch.from_numpy(plain)


def torch_to_array(tensor: torch.Tensor) -> Any:
    """A JAX array with the values of a CPU tensor, copied because the tensor may be written to later.

    Raises:
      NotDense: the tensor is sparse, quantised or nested.
      RuntimeError: it has more axes than NumPy and JAX allow.
      NotImplementedError: it has no values, as on device ``meta``.
    """
    check_dense(tensor)
    if tensor.dim() > _MAX_RANK:
        raise RuntimeError(f"only tensors with up to {_MAX_RANK} dims are supported")
    if tensor.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    plain = tensor.detach().resolve_conj().resolve_neg()
    jax_type = complex32.jax_dtype(plain.dtype)
    if plain.dtype is complex32.COMPLEX32 or jax_type.name in _NOT_NUMPY_DTYPES:
        bits = {1: torch.int8, 2: torch.int16, 4: torch.int32}[plain.element_size()]
        values = np.from_dlpack(plain.contiguous().view(bits)).view(jax_type)
    else:
        values = np.from_dlpack(plain)  # after ``numpy()``, the user could not resize the tensor
    return new_array(values)
