"""Loads the fast path of operations in C (lazynb/frontends/torch/_short.c), if it was built.

Operators and methods of tensors, and calls of PyTorch's leaf modules (:mod:`.module_calls`), bypass PyTorch's
dispatcher if no gradient is needed and no mode or hook is active.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import forward_ad

from lazynb import jax_compat as jc
from lazynb.frontends.torch import module_calls, torch_tensor
from lazynb.frontends.torch.dispatch import (
    deferred_integers,
    host_operations,
    in_place_writes,
    known_integers,
    replay_context,
    tensor_layout,
    tensor_storage,
    torch_replay,
    value_checks,
    view_steps,
)
from lazynb.frontends.torch.ops import tensor_factories
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.replay import native_replay
from lazynb.recording.replay.native_replay import load_extension

SOURCE = Path(__file__).parent / "_short.c"


aten = torch.ops.aten
# Private PyTorch functions; a true result means that something intercepts operations.
_INTERCEPTORS = (
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
    "_functorch.maybe_current_level",
    "_is_any_autocast_enabled",
    "_autograd._profiler_enabled",
    "_get_tracing_state",
)

# The operations of tensor methods with a tensor operand, and with a number.
_BINARY_METHODS = {
    "add": (aten.add.Tensor, aten.add.Tensor),
    "sub": (aten.sub.Tensor, aten.sub.Tensor),
    "mul": (aten.mul.Tensor, aten.mul.Tensor),
    "truediv": (aten.div.Tensor, aten.div.Tensor),
    "div": (aten.div.Tensor, aten.div.Tensor),
    "matmul": (aten.matmul.default, None),
    "pow": (aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar),
    **{
        name: (getattr(aten, name).Tensor, getattr(aten, name).Scalar)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
}
_UNARY_METHODS = (
    "neg",
    "abs",
    "relu",
    "tanh",
    "sigmoid",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "reciprocal",
)
_COMMUTATIVE = ("add", "mul")  # also as reflected operators


def _loaded() -> tuple[Any, str | None]:
    """The C module and None, or None and the reason why it is unavailable."""
    if native_replay.repeat_call is None:
        return None, native_replay.unavailable_reason
    try:
        list(map(_core_function, _INTERCEPTORS))
    except AttributeError as error:
        return None, f"PyTorch {torch.__version__} does not say what watches its operations: {error}"
    return load_extension("lazynb.frontends.torch._short", SOURCE, _native_arguments())


def _core_function(path: str) -> Callable[[], Any]:
    return operator.attrgetter(path)(torch._C)  # type: ignore[no-any-return]


def _native_arguments() -> dict[str, Any]:
    """The objects that the C module uses, by the names it expects."""
    return {
        "Tensor": torch_tensor.Tensor,
        "Storage": tensor_storage.Storage,
        "Layout": tensor_layout.Layout,
        "Results": tensor_layout.OpResults,
        "Changes": type(jc.config_changes),
        "Pending": PendingTrace,
        "Known": known_integers.KnownIntegers,
        "LazyTrace": LazyTrace,
        "ambient": jc.trace_state,
        "changes": jc.config_changes,
        "recallable": torch_replay.recallable,
        "results_of": tensor_layout.results_of,
        "plain": torch_replay.HASHABLE_TYPES,
        "around": replay_context.call_context,
        "open": replay_context.current_trace,
        "again": native_replay.repeat_call,
        "make": torch.Tensor._make_wrapper_subclass,
        "strided": torch.strided,
        "device": torch_tensor.DEVICE,
        "same": view_steps.IDENTITY,
        "writers": in_place_writes.writers,
        "writing": in_place_writes.replayable_writes,
        "bounds_of": value_checks.bounds_of,
        "noted_bounds": deferred_integers.known_bounds,
        "quiet": tuple(map(_core_function, _INTERCEPTORS)),
        "forward_ad": vars(forward_ad),
        "is_grad_enabled": torch.is_grad_enabled,
        "is_inference_mode_enabled": torch.is_inference_mode_enabled,
        "leaves": module_calls.leaf_modules,
        "global_hooks": module_calls.GLOBAL_HOOKS,
        "functions": module_calls.FUNCTIONS,
        "running": module_calls.module_stack,
        "scopes": jc.source_context,
        "module_names": module_calls.module_paths,
        "scopes_inside": module_calls.scopes_inside,
        "host_ways": host_operations.host_operations,
        "host_of": known_integers.host_values_of,
        "up": host_operations.to_device,
        "whole": known_integers.INTEGER_DTYPES,
        "negative": view_steps.NEGATIVE,
        "layouts": tensor_layout._layouts,
        "layout": tensor_layout.layout,
        "plain_tensor": torch.Tensor,
        "most": known_integers.MAX_ELEMENTS,
        "slow": torch_tensor.dispatch_in_python,
    }


_fast_dispatch, why_not = _loaded()


def _methods() -> dict[str, Any]:
    """Tensor methods that take the fast path directly."""
    found = {}
    for name, (tensors, numbers) in _BINARY_METHODS.items():
        ids = {"tensor": id(tensors), "number": None if numbers is None else id(numbers)}
        right = (f"__r{name}__",) if name in _COMMUTATIVE else ()
        for method in (name, f"__{name}__", *right):
            if hasattr(torch.Tensor, method):
                found[method] = _fast_method(getattr(torch.Tensor, method), **ids)
    for name in _UNARY_METHODS:
        for method in (name, f"__{name}__"):
            if hasattr(torch.Tensor, method):
                found[method] = _fast_method(
                    getattr(torch.Tensor, method), unary=id(getattr(aten, name).default)
                )
    return found


def _fast_method(plain: Callable[..., Any], **options: Any) -> Any:
    method = _fast_dispatch.Method(plain, **options)
    functools.update_wrapper(method, plain)
    return method


def install() -> None:
    """Installs the C fast path."""
    if _fast_dispatch is None or module_calls.record_operations is not None:
        return
    torch_tensor.Tensor.__torch_dispatch__ = staticmethod(_fast_dispatch.dispatch)
    module_calls.record_operations, module_calls.call_replayed = _fast_dispatch.watch, _fast_dispatch.at_once
    module_calls.scope_of, tensor_factories.to_device = _fast_dispatch.scope_of, _fast_dispatch.up
    for name, method in _methods().items():
        setattr(torch_tensor.Tensor, name, method)
