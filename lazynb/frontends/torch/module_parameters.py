"""Parameters on device ``jax``: uninitialised ones (``LazyLinear``), and their identity when a model moves.

An uninitialised parameter has no memory that could be moved. It stores its target device, and its memory is
made there when the shape is known, at the first call or when a state is loaded.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import parameter
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

_TARGET = "_lazynb_place"  # attribute name: the future device and dtype
_UninitializedMixin: Any = parameter.UninitializedTensorMixin  # type: ignore[attr-defined]
_originals: dict[type, Any] = {}
_original_materialize: Any = None


def moves_uninitialized(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Extends ``function``, which moves or converts tensors, to uninitialised tensors."""

    def move(tensor: Any) -> Any:
        if not is_lazy(tensor):
            return function(tensor)
        device, dtype = getattr(tensor, _TARGET, (tensor.data.device, tensor.data.dtype))
        moved = function(torch.empty(0, dtype=dtype, device=device))
        if moved.device.type != "jax" and not hasattr(tensor, _TARGET):
            return function(tensor)
        setattr(tensor, _TARGET, (moved.device, moved.dtype))
        return tensor

    return move


def _materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
    """``UninitializedParameter.materialize`` on the stored target device."""
    place = self.__dict__.pop(_TARGET, None)
    if place is None:
        _original_materialize(self, shape, device, dtype)
        return
    new: Any = torch.empty(shape, device=device or place[0], dtype=dtype or place[1])
    if self.cls_to_become is torch.nn.Parameter:
        new = torch.nn.Parameter(new, requires_grad=self.requires_grad)
    torch.utils.swap_tensors(self, new)


def _uninitialized_factory(own: Callable[..., Any]) -> Callable[..., Any]:
    """Extends ``own``, which makes an uninitialised tensor, to device ``jax``."""
    signature = inspect.signature(own)

    @functools.wraps(own)
    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(cls, *args, **kwargs)
        empty = torch.empty(0, device=given.arguments.get("device"), dtype=given.arguments.get("dtype"))
        if empty.device.type != "jax":
            return own(cls, *args, **kwargs)
        given.arguments["device"] = "cpu"
        tensor = own(*given.args, **given.kwargs)
        setattr(tensor, _TARGET, (empty.device, empty.dtype))
        return tensor

    return make


def install_lazy_parameters() -> None:
    """Allows uninitialised parameters on device ``jax``."""
    global _original_materialize
    for kind in (UninitializedParameter, UninitializedBuffer):
        _originals[kind] = kind.__new__
        kind.__new__ = staticmethod(_uninitialized_factory(kind.__new__))  # type: ignore[method-assign]
    _original_materialize = _UninitializedMixin.materialize
    _UninitializedMixin.materialize = _materialize


def uninstall_lazy_parameters() -> None:
    """Undoes :func:`install_lazy_parameters`."""
    for kind, own in _originals.items():
        kind.__new__ = staticmethod(own)  # type: ignore[method-assign]
    _UninitializedMixin.materialize = _original_materialize


# ---- Identity of parameters when a model moves -------------------------------------------------------------
# ``Module.to`` makes new parameters if the old ones cannot be converted in place, as from the CPU to a device
# of another type. An optimizer made before would then train unused tensors, and the parameter shared by
# GPT-2's embedding and last layer would become two. So the old objects are kept, as for a move to CUDA.


class _ApplyState(threading.local):
    """Whether this thread is inside ``Module._apply``, which recurses into submodules."""

    inside = False


_running = _ApplyState()
_original_apply: Any = None


def _shared_parameters(root: torch.nn.Module) -> list[list[tuple[torch.nn.Module, str]]]:
    """The modules and names of each shared parameter. The parameters themselves are not kept, because a move
    may replace them."""
    holders: dict[int, list[tuple[torch.nn.Module, str]]] = defaultdict(list)
    for module in root.modules():
        for name, value in module._parameters.items():
            if value is not None:
                holders[id(value)].append((module, name))
    return [places for places in holders.values() if len(places) > 1]


def _apply_one(module: torch.nn.Module, function: Callable[[Any], Any], recurse: bool) -> torch.nn.Module:
    """``Module._apply`` that keeps the identity of the module's own parameters."""
    before = dict(module._parameters)
    result: torch.nn.Module = _original_apply(module, moves_uninitialized(function), recurse)
    for name, old in before.items():
        new = module._parameters[name]
        if old is None or new is None or new is old or not (_is_ours(old) or _is_ours(new)):
            continue
        with contextlib.suppress(RuntimeError):  # C++ or a weak reference holds the old object
            torch.utils.swap_tensors(old, new)
            module._parameters[name] = old
    return result


def _is_ours(x: torch.Tensor) -> bool:
    return x.device.type == "jax"


def _apply(self: torch.nn.Module, function: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
    """``Module._apply`` that keeps the identity of parameters and restores sharing."""
    if _running.inside:
        return _apply_one(self, function, recurse)
    shared = _shared_parameters(self)
    _running.inside = True
    try:
        result = _apply_one(self, function, recurse)
    finally:
        _running.inside = False
    for (first, first_name), *others in shared:
        for module, name in others:
            module._parameters[name] = first._parameters[first_name]
    return result


def install_module_patches() -> None:
    """Patches ``Module._apply``."""
    global _original_apply
    _original_apply = torch.nn.Module._apply
    torch.nn.Module._apply = _apply  # type: ignore[method-assign, assignment]


def uninstall_module_patches() -> None:
    """Undoes :func:`install_module_patches`."""
    torch.nn.Module._apply = _original_apply  # type: ignore[method-assign]
