"""The short way of operations in C (lazynb/torch/_short.c), where that was built.

Operators and methods of tensors go it without PyTorch between where no gradient is wanted and nobody watches,
as do calls of PyTorch's own modules without parts (:mod:`.leaves`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import forward_ad

from lazynb import _jax as jc
from lazynb.record.fast import accelerator
from lazynb.record.fast.built import loaded
from lazynb.record.pending import Pending
from lazynb.record.trace import LazyTrace
from lazynb.torch import leaves, scopes, tensor
from lazynb.torch.dispatch import (
    around,
    demands,
    dispatch,
    keys,
    known,
    later,
    layout,
    made_on_host,
    on_host,
    recasting,
    storage,
)

SOURCE = Path(__file__).parent / "_short.c"


aten = torch.ops.aten
# Private names of functions: what is true of one says that something lies between a method and its operation.
_BUSY = (
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
    "_functorch.maybe_current_level",
    "_is_any_autocast_enabled",
    "_autograd._profiler_enabled",
    "_get_tracing_state",
)

# The operations to which methods of tensors come with another tensor, and with a number.
_OF_TWO = {
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
_OF_ONE = ("neg", "abs", "relu", "tanh", "sigmoid", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "reciprocal")
_FROM_RIGHT = ("add", "mul")  # as from the left


def _loaded() -> tuple[Any, str | None]:
    """The module and None, or None and why there is none."""
    if accelerator.again is None:
        return None, accelerator.why_not
    try:
        list(map(_named, _BUSY))
    except AttributeError as error:
        return None, f"PyTorch {torch.__version__} does not say what watches its operations: {error}"
    return loaded("lazynb.torch._short", SOURCE, _parts())


def _named(path: str) -> Callable[[], Any]:
    """A function of PyTorch's core."""
    return operator.attrgetter(path)(torch._C)  # type: ignore[no-any-return]


def _parts() -> dict[str, Any]:
    """What it works with, by the names that it asks for."""
    return {
        "Tensor": tensor.Tensor,
        "Storage": storage.Storage,
        "Layout": layout.Layout,
        "Results": layout.Results,
        "Changes": type(jc.changes),
        "Pending": Pending,
        "Known": known.Known,
        "LazyTrace": LazyTrace,
        "ambient": jc.ambient,
        "changes": jc.changes,
        "recallable": dispatch.recallable,
        "results_of": layout.results_of,
        "plain": keys.PLAIN,
        "around": around.here,
        "open": around.open_here,
        "again": accelerator.again,
        "make": torch.Tensor._make_wrapper_subclass,
        "strided": torch.strided,
        "device": tensor.DEVICE,
        "same": storage.SAME,
        "writers": dispatch.writers,
        "writing": dispatch.writing,
        "bounds_of": demands.bounds_of,
        "noted_bounds": later.noted_bounds,
        "quiet": tuple(map(_named, _BUSY)),
        "forward_ad": vars(forward_ad),
        "is_grad_enabled": torch.is_grad_enabled,
        "is_inference_mode_enabled": torch.is_inference_mode_enabled,
        "leaves": leaves.leaves,
        "global_hooks": leaves.GLOBAL_HOOKS,
        "functions": leaves.FUNCTIONS,
        "running": scopes.running,
        "scopes": jc.scopes,
        "module_names": scopes.names,
        "scopes_inside": scopes.scopes_inside,
        "host_ways": on_host.ways,
        "host_of": known.host_of,
        "up": on_host.up,
        "whole": known.WHOLE,
        "negative": recasting.NEGATIVE,
        "layouts": layout._layouts,
        "layout": layout.layout,
        "plain_tensor": torch.Tensor,
        "most": known.MOST,
        "slow": tensor.called,
    }


_short, why_not = _loaded()


def _methods() -> dict[str, Any]:
    """The methods of tensors that go the short way at once."""
    found = {}
    for name, (tensors, numbers) in _OF_TWO.items():
        ids = {"tensor": id(tensors), "number": None if numbers is None else id(numbers)}
        right = (f"__r{name}__",) if name in _FROM_RIGHT else ()
        for method in (name, f"__{name}__", *right):
            if hasattr(torch.Tensor, method):
                found[method] = _at_once(getattr(torch.Tensor, method), **ids)
    for name in _OF_ONE:
        for method in (name, f"__{name}__"):
            if hasattr(torch.Tensor, method):
                found[method] = _at_once(getattr(torch.Tensor, method), unary=id(getattr(aten, name).default))
    return found


def _at_once(plain: Callable[..., Any], **options: Any) -> Any:
    method = _short.Method(plain, **options)
    functools.update_wrapper(method, plain)
    return method


def install() -> None:
    """Lets PyTorch call the short way at once."""
    if _short is None or leaves.watch is not None:
        return
    tensor.Tensor.__torch_dispatch__ = staticmethod(_short.dispatch)
    leaves.watch, leaves.at_once = _short.watch, _short.at_once
    scopes.scope_of, made_on_host.up = _short.scope_of, _short.up
    for name, method in _methods().items():
        setattr(tensor.Tensor, name, method)
