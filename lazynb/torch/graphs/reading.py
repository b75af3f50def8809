"""What Dynamo makes of device ``jax`` while it reads the user's code.

To Dynamo, a tensor of a class with operations of its own is an object of which it knows nothing, and each
operation on one ends the graph. Ours is a plain tensor of its device, and Dynamo has a table of such classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lazynb.torch import scopes
from lazynb.torch.tensor import Tensor


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
        table[Tensor] = _taking(backend, table)
    builder.infer_subclass_type = _plain(builder.infer_subclass_type)  # type: ignore[assignment]
    # PyTorch keeps constants (``torch.tensor([1.0], device="jax")``) on the CPU if the device is not there.
    # On the device it would look for memory of its own kind in them.
    fake_tensor._is_privateuse1_backend_available = lambda: False


def heed_modules() -> None:
    """Tells Dynamo which function calls modules: one that it does not know ends the graph at each call."""
    from torch._dynamo.variables import nn_module

    call = torch.nn.Module.__call__
    if call is scopes._ours or call is torch.nn.Module._wrapped_call_impl:
        nn_module.unpatched_nn_module_call = call


def _taking(backend: Callable[..., Any], table: dict[Any, Any]) -> Callable[[Any, Any], Any]:
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


def _plain(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``own``, which gives the class of what is no plain tensor."""
    return lambda value: None if value.__class__ is Tensor else own(value)
