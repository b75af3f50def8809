"""The path of the running module (``encoder.layer.1.attention``), written to JAX's name stack, as Flax does.

Drawings group by it. It enters no key: two modules of equal layers share their executables. A module runs in
a frame that is a landmark on the way to the line of the user.
"""

from __future__ import annotations

import sys
import threading
import weakref
from types import FrameType
from typing import Any

import jax
import torch

from lazynb.landmarks import landmarks, place
from lazynb.record.mode import is_lazy
from lazynb.source import user_frame
from lazynb.torch.dispatch.trees import learn

_handles: list[Any] = []
# What the parent of each module calls it, as far as it was looked up.
_names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()


class _Running(threading.local):
    """The modules that this thread is in, outermost first, with their open scopes and their frames."""

    def __init__(self) -> None:
        self.modules: list[tuple[torch.nn.Module, Any, FrameType]] = []


_running = _Running()


def _last_names(root: torch.nn.Module) -> None:
    """Notes what the parent of each module below ``root`` calls it.

    An item of a list gets the name of the list too: ``layer.1``.
    """
    for parent in root.modules():
        lead = ""
        if isinstance(parent, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            lead = _names.get(parent, "")
        for name, child in parent._modules.items():
            if child is not None:
                _names[child] = f"{lead}.{name}" if lead else name


def _enter(module: torch.nn.Module, args: Any) -> None:
    """Opens the scope of a module that is called."""
    if not is_lazy():
        return
    running = _running.modules
    if not running:
        name = type(module).__name__
        _last_names(module)
    else:
        name = _names.get(module) or type(module).__name__
    scope = jax.named_scope(name)
    scope.__enter__()
    frame = sys._getframe(1)  # PyTorch's, which runs the module after this hook
    place(frame, *user_frame(frame))
    running.append((module, scope, frame))


def _leave(module: torch.nn.Module, args: Any, result: Any) -> None:
    """Closes the scope of a module that ends, and those of inner modules that did not end themselves."""
    running = _running.modules
    while running:
        entered, scope, frame = running.pop()
        landmarks.pop(id(frame), None)
        scope.__exit__(None, None, None)
        if entered is module:
            break
    if not running:
        learn(type(result))


def install() -> None:
    """Follows the modules that are called."""
    register = torch.nn.modules.module
    _handles.append(register.register_module_forward_pre_hook(_enter))
    _handles.append(register.register_module_forward_hook(_leave, always_call=True))


def uninstall() -> None:
    """Undoes :func:`install`."""
    while _handles:
        _handles.pop().remove()
