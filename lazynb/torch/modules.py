"""Parameters that two modules share stay one when a model is moved to device ``jax``.

``Module.to`` gives each module a new parameter if the old one cannot be turned into the new, as from the CPU
to a device of another kind. The parameter that GPT-2's embedding and last layer share would become two.
PyTorch/XLA asks its users to tie them again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch


class _Running(threading.local):
    """Whether this thread is inside ``Module._apply``, which calls itself for the modules inside."""

    inside = False


_running = _Running()
_original_apply: Any = None


def _holders(root: torch.nn.Module) -> list[list[tuple[torch.nn.Module, str]]]:
    """Where each shared parameter is held: the modules, and its name in each.

    The parameters themselves are not kept, as a move may replace them.
    """
    holders: dict[int, list[tuple[torch.nn.Module, str]]] = defaultdict(list)
    for module in root.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                holders[id(parameter)].append((module, name))
    return [places for places in holders.values() if len(places) > 1]


def _apply(self: torch.nn.Module, function: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
    """``Module._apply``, after which shared parameters are shared again."""
    if _running.inside:
        return _original_apply(self, function, recurse)
    shared = _holders(self)
    _running.inside = True
    try:
        result = _original_apply(self, function, recurse)
    finally:
        _running.inside = False
    for (first, first_name), *others in shared:
        for module, name in others:
            module._parameters[name] = first._parameters[first_name]
    return result


def install() -> None:
    """Keeps shared parameters shared."""
    global _original_apply
    _original_apply = torch.nn.Module._apply
    torch.nn.Module._apply = _apply  # type: ignore[method-assign, assignment]


def uninstall() -> None:
    """Undoes :func:`install`."""
    torch.nn.Module._apply = _original_apply  # type: ignore[method-assign]
