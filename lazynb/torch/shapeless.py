"""Parameters whose shape is not known yet (``LazyLinear``), on device ``jax``.

They have no memory that could be there. So one notes where it is to be, and its memory is made there when the
shape is known, at the first call or when a state is loaded.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import parameter
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

_PLACE = "_lazynb_place"  # an attribute: the device and dtype that the memory will have
_Shapeless: Any = parameter.UninitializedTensorMixin  # type: ignore[attr-defined]
_originals: dict[type, Any] = {}
_original_materialize: Any = None


def moving(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``function``, which moves or converts tensors, for those without a shape too."""

    def move(tensor: Any) -> Any:
        if not is_lazy(tensor):
            return function(tensor)
        device, dtype = getattr(tensor, _PLACE, (tensor.data.device, tensor.data.dtype))
        moved = function(torch.empty(0, dtype=dtype, device=device))
        if moved.device.type != "jax" and not hasattr(tensor, _PLACE):
            return function(tensor)
        setattr(tensor, _PLACE, (moved.device, moved.dtype))
        return tensor

    return move


def _materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
    """``UninitializedParameter.materialize``, at the place that was noted."""
    place = self.__dict__.pop(_PLACE, None)
    if place is None:
        _original_materialize(self, shape, device, dtype)
        return
    new: Any = torch.empty(shape, device=device or place[0], dtype=dtype or place[1])
    if self.cls_to_become is torch.nn.Parameter:
        new = torch.nn.Parameter(new, requires_grad=self.requires_grad)
    torch.utils.swap_tensors(self, new)


def _made(own: Callable[..., Any]) -> Callable[..., Any]:
    """``own``, which makes a tensor without a shape, on device ``jax`` too."""
    signature = inspect.signature(own)

    @functools.wraps(own)
    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(cls, *args, **kwargs)
        empty = torch.empty(0, device=given.arguments.get("device"), dtype=given.arguments.get("dtype"))
        if empty.device.type != "jax":
            return own(cls, *args, **kwargs)
        given.arguments["device"] = "cpu"
        tensor = own(*given.args, **given.kwargs)
        setattr(tensor, _PLACE, (empty.device, empty.dtype))
        return tensor

    return make


def install() -> None:
    """Lets there be parameters without a shape on device ``jax``."""
    global _original_materialize
    for kind in (UninitializedParameter, UninitializedBuffer):
        _originals[kind] = kind.__new__
        kind.__new__ = staticmethod(_made(kind.__new__))  # type: ignore[method-assign]
    _original_materialize = _Shapeless.materialize
    _Shapeless.materialize = _materialize


def uninstall() -> None:
    """Undoes :func:`install`."""
    for kind, own in _originals.items():
        kind.__new__ = staticmethod(own)  # type: ignore[method-assign]
    _Shapeless.materialize = _original_materialize
