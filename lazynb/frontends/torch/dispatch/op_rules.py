"""Tables of rules for PyTorch operations, and the list of wrong lowerings in torchax.

The modules in :mod:`lazynb.frontends.torch.ops` and others fill the tables when they are imported. Our
lowerings take precedence over torchax's. Each takes the arguments of the PyTorch operation, with arrays in
place of tensors, and returns arrays. :func:`lazynb.frontends.torch.dispatch.op_execution.evaluate` then casts
them to PyTorch's dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

# First handler tried, by operation id; it returns the results, or None to continue. Filled by
# :mod:`lazynb.frontends.torch.dispatch.host_operations`.
at_once: dict[int, Callable[[Any, Any], Any]] = {}
# Wrappers around the handler of an operation, by overload. Filled by
# :mod:`lazynb.frontends.torch.ops.tensor_factories`.
befores: dict[Any, Callable[[Any, Handler], Handler]] = {}
# Functions that replace the arguments of an operation before its results are inferred, by overload.
rewrites: dict[Any, Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]] = {}
# Handlers on whole tensors: func -> handler. Filled by :mod:`lazynb.frontends.torch.tensor_copies` and
# others.
special: dict[Any, Handler] = {}
# Lowerings as functions of arrays, by overload or packet. Filled by :func:`lowering`.
own: dict[Any, Callable[..., Any]] = {}
# Lowerings that overwrite their first argument; they take its layout instead of its array. Filled by
# :func:`fill`.
fills: dict[Any, Callable[..., Any]] = {}
# Functions that copy a sparse CPU tensor to device ``jax``, by ``torch.layout``. Filled by
# :mod:`lazynb.frontends.torch.dispatch.sparse_operations`.
sparse_up: dict[torch.layout, Callable[[torch.Tensor], Any]] = {}
# Operations as functions of tensors, used in place of PyTorch's decompositions.
parts: dict[Any, Callable[..., Any]] = {}
# Operations whose tensors are first promoted to one dtype, by PyTorch's rule.
promotes_inputs: set[Any] = set()


def _into(table: dict[Any, Any], operations: tuple[Any, ...]) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        table.update(dict.fromkeys(operations, function))
        return function

    return register


def lowering(*operations: Any) -> Callable[[Any], Any]:
    """Registers a lowering for these overloads or packets."""
    return _into(own, operations)


def fill(*operations: Any) -> Callable[[Any], Any]:
    """Registers a lowering that takes a layout, for operations that overwrite their first argument."""
    return _into(fills, operations)


# Packet -> defect of its lowering in torchax 0.0.13. PyTorch's decomposition or our lowering replaces it.
TORCHAX_WRONG: dict[Any, str] = {
    aten.cauchy: "draws the same numbers each time",
    aten.exponential: "draws the same numbers each time",
    aten.geometric: "draws the same numbers each time",
    aten.log_normal: "draws the same numbers each time",
    aten.bernoulli: "takes its key from torchax's environment, which torch.manual_seed does not reach",
    aten.native_dropout: "takes its key from torchax's environment, which torch.manual_seed does not reach",
    aten.multinomial: "takes its key from torchax's environment, which torch.manual_seed does not reach",
    aten.randperm: "takes its key from torchax's environment, which torch.manual_seed does not reach",
    aten.polygamma: "is wrong at and near the poles",
    aten.linalg_pinv: "takes no account of atol and hermitian",
    aten._linalg_eigh: "takes the mean of both triangles where PyTorch reads one",
    aten.slice_scatter: "wrong for a dimension counted from the end",
    aten.nanmedian: "gives other indices than those of the median where values are missing",
    aten.put: "does not accumulate",
    aten.linalg_ldl_factor_ex: "gives no number of the failing step",
    aten.nonzero: "its shape is that of the values: lazily there is none to tell",
    aten.masked_select: "its shape is that of the values: lazily there is none to tell",
    aten.unique_consecutive: "its shape is that of the values: lazily there is none to tell",
    aten._unique2: "its shape is that of the values: lazily there is none to tell",
    aten.unique_dim: "its shape is that of the values: lazily there is none to tell",
}
