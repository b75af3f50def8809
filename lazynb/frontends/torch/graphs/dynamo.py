"""Integration with Dynamo: device ``jax`` tensors as plain tensors, ``torch.compile``, FlexAttention.

Dynamo treats a tensor subclass with its own ``__torch_dispatch__`` as an unknown object, and each operation
on one breaks the graph. This module enters our class in Dynamo's table of tensor classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex

from lazynb.frontends.torch import module_calls
from lazynb.frontends.torch.graphs import aot_graph
from lazynb.frontends.torch.torch_tensor import Tensor

# ---- FlexAttention on device ``jax`` -----------------------------------------------------------------------
# PyTorch's formula is recorded, with its gradients. PyTorch only accepts listed devices, and Dynamo generates
# a kernel for them; here XLA does.

_NAME = "_flex_attention_hop_wrapper"  # the function that PyTorch passes to torch.compile
_original_flex_attention: Any = None


def _validate(query: torch.Tensor, *others: torch.Tensor) -> None:
    if not isinstance(query, Tensor):
        _original_flex_attention(query, *others)


def install_flex_attention() -> None:
    """Allows FlexAttention on device ``jax``."""
    global _original_flex_attention
    _original_flex_attention = flex._validate_device
    flex._validate_device = _validate  # type: ignore[assignment]


def uninstall_flex_attention() -> None:
    """Undoes :func:`install_flex_attention`."""
    flex._validate_device = _original_flex_attention


def is_flex_attention(function: Any) -> bool:
    """Whether ``function``, given to ``torch.compile``, is the inner part of FlexAttention."""
    return getattr(function, "__name__", None) == _NAME


def record_math_attention(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The inner part: PyTorch's formula for tensors on device ``jax``, ``compiled`` for others."""

    def inner(query: torch.Tensor, *others: Any) -> Any:
        from torch._higher_order_ops.flex_attention import math_attention

        return (math_attention if isinstance(query, Tensor) else compiled)(query, *others)

    return inner


def install(backend: Callable[..., Any]) -> None:
    """Makes Dynamo treat tensors on device ``jax`` as plain tensors in graphs for ``backend``.

    Other backends do not support the device; for them nothing changes.
    """
    from torch._dynamo import config
    from torch._dynamo.variables import builder
    from torch._subclasses import fake_tensor

    for is_traced in (True, False):  # Dynamo has a table for each value of this setting
        with config.patch(trace_numpy=is_traced):
            table = builder.VariableBuilder._type_dispatch()
        table[Tensor] = _wrap_for_backend(backend, table)
    builder.infer_subclass_type = _as_plain_tensor(builder.infer_subclass_type)  # type: ignore[assignment]
    # PyTorch keeps constants (``torch.tensor([1.0], device="jax")``) on the CPU if the device is unavailable.
    # If it were available, PyTorch would read their memory with its own allocator.
    fake_tensor._is_privateuse1_backend_available = lambda: False


def register_module_call() -> None:
    """Registers ``Module.__call__`` with Dynamo. An unknown function would break the graph at each call."""
    from torch._dynamo.variables import nn_module

    call = torch.nn.Module.__call__
    if call is module_calls._scoped_call or call is torch.nn.Module._wrapped_call_impl:
        nn_module.unpatched_nn_module_call = call


def _wrap_for_backend(backend: Callable[..., Any], table: dict[Any, Any]) -> Callable[[Any, Any], Any]:
    """The table's handler for tensors on device ``jax``."""
    from torch._dynamo.eval_frame import innermost_backend

    def take(reader: Any, value: Any) -> Any:
        given = innermost_backend(reader.tx.output.compiler_fn)
        if getattr(given, "compiler_fn", given) is backend:  # ``torch.compile`` has wrapped it
            return reader.wrap_tensor(value)
        del table[Tensor]
        try:
            return reader._wrap(value)
        finally:
            table[Tensor] = take

    return take


def _as_plain_tensor(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``own``, which returns the class of a tensor subclass, but None for our class."""
    return lambda value: None if value.__class__ is Tensor else own(value)


# ---- ``torch.compile`` on device ``jax`` -------------------------------------------------------------------
# Dynamo analyses the bytecode of all code under ``torch.compile``, including code called by PyTorch
# operations, so lazynb and JAX are registered as packages to skip. A Dynamo graph for the backend ``lazynb``
# is one recorded call (:mod:`lazynb.frontends.torch.graphs.aot_graph`). With another backend the code is
# recorded operation by operation.

_SKIPPED_PACKAGES = ("lazynb", "torchax", "jax", "jaxlib", "ml_dtypes", "opt_einsum")
_original: Any = None
_is_ready = False


def _register_with_dynamo() -> None:
    """Registers lazynb with Dynamo, once."""
    global _is_ready
    register_module_call()
    if _is_ready:
        return
    from torch._dynamo import register_backend, trace_rules

    for name in _SKIPPED_PACKAGES:
        trace_rules.add(name)
    register_backend(aot_graph.compile_graph, name="lazynb")
    install(aot_graph.compile_graph)
    _is_ready = True


def _compile(*args: Any, **kwargs: Any) -> Any:
    """``torch.compile``. Registers lazynb with Dynamo first, whose import takes a second."""
    _register_with_dynamo()
    compiled = _original(*args, **kwargs)
    return record_math_attention(compiled) if args and is_flex_attention(args[0]) else compiled


def install_compile_backend() -> None:
    """Patches ``torch.compile`` for device ``jax``."""
    global _original
    _original = torch.compile
    _compile.__doc__ = _original.__doc__
    torch.compile = _compile  # type: ignore[assignment]
    install_flex_attention()
    if "torch._dynamo" in sys.modules:  # code may be compiled already, to run later
        _register_with_dynamo()


def uninstall_compile_backend() -> None:
    """Undoes :func:`install_compile_backend`. The registration with Dynamo stays."""
    torch.compile = _original
    uninstall_flex_attention()
    if _is_ready:
        register_module_call()
