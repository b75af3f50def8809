"""PyTorch's list of operations, their samples, and copies of these on device ``jax``."""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.masked
import torch.utils._pytree as tree


def without_expecttest() -> None:
    """Lets PyTorch's lists of samples be imported without ``expecttest``, of which they need the name alone."""
    if "expecttest" not in sys.modules:
        name: Any = types.ModuleType("expecttest")
        name.TestCase, name.assert_expected_inline = unittest.TestCase, None
        sys.modules["expecttest"] = name


def operations() -> list[Any]:
    """PyTorch's own list (``op_db``)."""
    without_expecttest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def name_of(operation: Any) -> str:
    """``linalg.norm-subgradients_at_zero``"""
    variant = operation.variant_test_name
    return f"{operation.name}-{variant}" if variant else operation.name


def spread(things: list[Any], most: int) -> list[Any]:
    """At most so many of ``things``, equally spaced."""
    if len(things) <= most:
        return things
    return [things[at * len(things) // most] for at in range(most)]


def samples(operation: Any, dtype: torch.dtype, most: int, requires_grad: bool = False) -> Iterator[Any]:
    """PyTorch's samples of arguments, on the CPU; the same each time."""
    torch.manual_seed(0)
    found = list(operation.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    yield from spread(found, most)


def call_of(sample: Any) -> tuple[Any, Any, Any]:
    """Input, arguments and named arguments."""
    return sample.input, tuple(sample.args), dict(sample.kwargs)


def copied(call: Any) -> Any:
    """``call`` with tensors of their own, on the CPU."""
    return tree.tree_map(_copy, call)


def _copy(x: Any) -> Any:
    if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
        return x
    return x.detach().clone().requires_grad_(x.requires_grad)


def moved(call: Any, pending: bool) -> Any:
    """``call`` on device ``jax``, with tensors that are ``pending`` or known."""
    return tree.tree_map(lambda x: _moved(x, pending), call)


def _moved(x: Any, pending: bool) -> Any:
    if isinstance(x, torch.device) or x == "cpu":
        return torch.device("jax")
    if not isinstance(x, torch.Tensor) or x.device.type != "cpu":
        return x
    there = x.detach().to("jax")
    if pending:  # a new tensor, of which nothing is known
        if x.layout is torch.strided:
            there = torch.empty_like(there).copy_(torch.stack([there])[0])
        else:  # what stacks such tensors is not everywhere: its values are pending
            values = there._values() if x.layout is torch.sparse_coo else there.values()
            values.copy_(torch.stack([values])[0])
    return there.requires_grad_(x.requires_grad)


def tensors(x: Any) -> list[torch.Tensor]:
    """The tensors in ``x``."""
    return [leaf for leaf in tree.tree_leaves(x) if isinstance(leaf, torch.Tensor)]
