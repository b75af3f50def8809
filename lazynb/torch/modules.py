"""Parameters that two modules share stay one when a model is moved to device ``jax``.

``Module.to`` gives each module a new parameter where the old one cannot be turned into the new, as from the
CPU to a device of another kind; GPT-2's embedding and its last layer would become two. PyTorch/XLA asks its
users to tie them again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch


class _Running(threading.local):
    inside = False


_running = _Running()
_before: Any = None


def _holders(root: torch.nn.Module) -> list[list[tuple[torch.nn.Module, str]]]:
    """Where each shared parameter is held; the parameters themselves are not kept: they may be replaced."""
    found: dict[int, list[tuple[torch.nn.Module, str]]] = defaultdict(list)
    for module in root.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                found[id(parameter)].append((module, name))
    return [places for places in found.values() if len(places) > 1]


def _apply(self: torch.nn.Module, function: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
    if _running.inside:
        return _before(self, function, recurse)
    shared = _holders(self)
    _running.inside = True
    try:
        result = _before(self, function, recurse)
    finally:
        _running.inside = False
    for (first, its_name), *others in shared:
        for module, name in others:
            module._parameters[name] = first._parameters[its_name]
    return result


def install() -> None:
    """Keeps shared parameters shared."""
    global _before
    _before = torch.nn.Module._apply
    torch.nn.Module._apply = _apply  # type: ignore[method-assign, assignment]


def uninstall() -> None:
    """Undoes :func:`install`."""
    torch.nn.Module._apply = _before  # type: ignore[method-assign]
