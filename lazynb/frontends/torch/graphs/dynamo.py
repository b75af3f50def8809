"""What Dynamo makes of device ``jax`` while it reads the user's code.

To Dynamo, a tensor of a class with operations of its own is an object of which it knows nothing, and each
operation on one ends the graph. Ours is a plain tensor of its device, and Dynamo has a table of such classes.
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

# ---- FlexAttention on device ``jax``: PyTorch's own formula, recorded, with its gradients -----------------
# PyTorch names the devices that have it, and gives the rest to Dynamo, which makes a kernel. Here XLA does.

_NAME = "_flex_attention_hop_wrapper"  # what PyTorch hands to torch.compile
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
    """Undoes :func:`install`."""
    flex._validate_device = _original_flex_attention


def is_flex_attention(function: Any) -> bool:
    """Whether ``torch.compile`` was given the inner part of FlexAttention."""
    return getattr(function, "__name__", None) == _NAME


def record_math_attention(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The inner part: PyTorch's formula for tensors on device ``jax``, ``compiled`` for others."""

    def inner(query: torch.Tensor, *others: Any) -> Any:
        from torch._higher_order_ops.flex_attention import math_attention

        return (math_attention if isinstance(query, Tensor) else compiled)(query, *others)

    return inner


def install(backend: Callable[..., Any]) -> None:
    """Has Dynamo take tensors on device ``jax`` for plain ones where it makes graphs for ``backend``.

    Other backends have no code for the device: for them all is as it was.
    """
    from torch._dynamo import config
    from torch._dynamo.variables import builder
    from torch._subclasses import fake_tensor

    for is_traced in (True, False):  # there is a table for each value of this setting
        with config.patch(trace_numpy=is_traced):
            table = builder.VariableBuilder._type_dispatch()
        table[Tensor] = _wrap_for_backend(backend, table)
    builder.infer_subclass_type = _as_plain_tensor(builder.infer_subclass_type)  # type: ignore[assignment]
    # PyTorch keeps constants (``torch.tensor([1.0], device="jax")``) on the CPU if the device is not there.
    # On the device it would look for memory of its own kind in them.
    fake_tensor._is_privateuse1_backend_available = lambda: False


def register_module_call() -> None:
    """Tells Dynamo which function calls modules: one that it does not know ends the graph at each call."""
    from torch._dynamo.variables import nn_module

    call = torch.nn.Module.__call__
    if call is module_calls._scoped_call or call is torch.nn.Module._wrapped_call_impl:
        nn_module.unpatched_nn_module_call = call


def _wrap_for_backend(backend: Callable[..., Any], table: dict[Any, Any]) -> Callable[[Any, Any], Any]:
    """What the table says of tensors on device ``jax``."""
    from torch._dynamo.eval_frame import innermost_backend

    def take(reader: Any, value: Any) -> Any:
        given = innermost_backend(reader.tx.output.compiler_fn)
        if getattr(given, "compiler_fn", given) is backend:  # ``torch.compile`` has put it into an object
            return reader.wrap_tensor(value)
        del table[Tensor]
        try:
            return reader._wrap(value)
        finally:
            table[Tensor] = take

    return take


def _as_plain_tensor(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``own``, which gives the class of what is no plain tensor."""
    return lambda value: None if value.__class__ is Tensor else own(value)


# ---- Code under ``torch.compile`` on device ``jax``: XLA compiles it --------------------------------------
# Dynamo reads the bytecode of all that runs under ``torch.compile``, also of what PyTorch's operations call,
# and would take lazynb and JAX apart. So their code, with what they import, is marked as code to leave alone.
# What Dynamo makes a graph of for the backend ``lazynb`` is one recorded call (:mod:`lazynb.torch.graphs`).
# With another backend the code is recorded as it is.

_SKIPPED_PACKAGES = ("lazynb", "torchax", "jax", "jaxlib", "ml_dtypes", "opt_einsum")
_original: Any = None
_is_ready = False


def _register_with_dynamo() -> None:
    """Tells Dynamo about lazynb, once."""
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
    """``torch.compile``, for which Dynamo, which takes a second to import, is told about lazynb first."""
    _register_with_dynamo()
    compiled = _original(*args, **kwargs)
    return record_math_attention(compiled) if args and is_flex_attention(args[0]) else compiled


def install_compile_backend() -> None:
    """Has code that ``torch.compile`` is given recorded on device ``jax``."""
    global _original
    _original = torch.compile
    _compile.__doc__ = _original.__doc__
    torch.compile = _compile  # type: ignore[assignment]
    install_flex_attention()
    if "torch._dynamo" in sys.modules:  # code may be compiled already, to run later
        _register_with_dynamo()


def uninstall_compile_backend() -> None:
    """Undoes :func:`install`. What Dynamo was told stays."""
    torch.compile = _original
    uninstall_flex_attention()
    if _is_ready:
        register_module_call()
