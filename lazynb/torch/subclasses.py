"""``tensor.as_subclass(S)``: a tensor on device ``jax`` that is an ``S``, a Python class of tensors.

PyTorch's own makes an ``S`` around memory of PyTorch's. Here the class of the result is one that is an ``S``
first and a tensor on device ``jax`` beside, under the name of ``S``. Functions of PyTorch's come in by
``S.__torch_function__``, which gives their results the class, too.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

from lazynb.torch.dispatch import dispatch as d
from lazynb.torch.tensor import Tensor

aten = torch.ops.aten
_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()
_default: Any = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


class _Wanted(threading.local):
    """The class that the alias shall have which this thread makes."""

    kind: Any = None


_wanted = _Wanted()


class _Told(Tensor):
    """A tensor on device ``jax`` whose class is told of PyTorch's functions, as subclasses are."""

    @classmethod
    def __torch_function__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # A function of its own: PyTorch takes its default away from a class that has ``__torch_dispatch__``.
        return _default(cls, func, types, args, kwargs)


def class_on_device(kind: type) -> Any:
    """The class of tensors on device ``jax`` that are of class ``kind``."""
    if issubclass(kind, Tensor):
        return kind
    if kind is torch.Tensor:
        return Tensor
    found = _classes.get(kind)
    if found is None:
        body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        found = _classes[kind] = type(kind.__name__, (kind, _Told), body)
    return found


def as_subclass(self: Any, cls: type) -> Any:
    """The same memory as a tensor of class ``cls``, a subclass of ``torch.Tensor``. Gradients pass."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, torch.Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make "
            "sure your class inherits from Tensor."
        )
    _wanted.kind = class_on_device(cls)
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return aten.alias.default(self)
    finally:
        _wanted.kind = None


def _alias(func: Any, args: Any, kwargs: Any) -> Any:
    source, kind = args[0], _wanted.kind or Tensor
    return Tensor.__new__(kind, source._storage, source._layout, source._steps)


Tensor.as_subclass = as_subclass  # type: ignore[method-assign]
d.special[aten.alias.default] = _alias
