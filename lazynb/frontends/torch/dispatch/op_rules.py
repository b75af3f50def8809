"""Registration of lowerings (functions of arrays), and the list of wrong lowerings in torchax.

Our lowerings take precedence over torchax's. Each takes the arguments of the PyTorch operation, with arrays
in place of tensors, and returns arrays. :func:`lazynb.frontends.torch.dispatch.dispatcher.evaluate` then
casts them to PyTorch's dtypes. The modules in :mod:`lazynb.frontends.torch.ops` register theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lazynb.frontends.torch.dispatch import dispatcher as d

aten = torch.ops.aten


def _into(table: dict[Any, Any], operations: tuple[Any, ...]) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        table.update(dict.fromkeys(operations, function))
        return function

    return register


def lowering(*operations: Any) -> Callable[[Any], Any]:
    """Registers a lowering for these overloads or packets."""
    return _into(d.own, operations)


def fill(*operations: Any) -> Callable[[Any], Any]:
    """Registers a lowering that takes a layout, for operations that overwrite their first argument."""
    return _into(d.fills, operations)


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
d.avoided_in_torchax.update(TORCHAX_WRONG)
