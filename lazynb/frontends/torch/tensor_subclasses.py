"""``Tensor.as_subclass`` on device ``jax``.

PyTorch's method makes a subclass instance around its own memory. Here the result's class, named like the
requested class ``S``, inherits from ``S`` and then from :class:`Tensor`. PyTorch functions call
``S.__torch_function__``, which gives their results the class, too.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

from lazynb.frontends.torch.dispatch import op_rules
from lazynb.frontends.torch.torch_tensor import Tensor

aten = torch.ops.aten

_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()
_default: Any = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


class _RequestedClass(threading.local):
    """The class for the alias that this thread is making."""

    kind: Any = None


_requested_class = _RequestedClass()


class _FunctionSubclass(Tensor):
    """A tensor on device ``jax`` whose subclasses have ``__torch_function__``."""

    @classmethod
    def __torch_function__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # Defined here, because PyTorch disables the default in a class with ``__torch_dispatch__``.
        return _default(cls, func, types, args, kwargs)


def class_on_device(kind: type) -> Any:
    """The class of tensors on device ``jax`` that also inherits from ``kind``."""
    if issubclass(kind, Tensor):
        return kind
    if kind is torch.Tensor:
        return Tensor
    found = _classes.get(kind)
    if found is None:
        body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        found = _classes[kind] = type(kind.__name__, (kind, _FunctionSubclass), body)
    return found


def as_subclass(self: Any, cls: type) -> Any:
    """The same memory as a tensor of class ``cls``, a subclass of ``torch.Tensor``; differentiable."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, torch.Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make "
            "sure your class inherits from Tensor."
        )
    _requested_class.kind = class_on_device(cls)
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return aten.alias.default(self)
    finally:
        _requested_class.kind = None


def _alias(func: Any, args: Any, kwargs: Any) -> Any:
    source, kind = args[0], _requested_class.kind or Tensor
    return Tensor.__new__(kind, source._storage, source._layout, source._steps)


Tensor.as_subclass = as_subclass  # type: ignore[method-assign]
op_rules.special[aten.alias.default] = _alias
