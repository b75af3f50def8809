"""A model's parameters stay the same objects when it is moved to device ``jax``, as when it moves to CUDA.

``Module.to`` gives each module a new parameter if the old one cannot be turned into the new, as from the CPU
to a device of another kind. An optimizer that was made before would train what nobody uses, and the
parameter that GPT-2's embedding and last layer share would become two. So the old object takes the place of
the new one.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from lazynb.torch import shapeless


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


def _applied(module: torch.nn.Module, function: Callable[[Any], Any], recurse: bool) -> torch.nn.Module:
    """``Module._apply``, after which the module's own parameters are the objects that they were."""
    before = dict(module._parameters)
    result: torch.nn.Module = _original_apply(module, shapeless.moving(function), recurse)
    for name, old in before.items():
        new = module._parameters[name]
        if old is None or new is None or new is old or not (_is_ours(old) or _is_ours(new)):
            continue
        with contextlib.suppress(RuntimeError):  # somebody holds it in C++, or by a weak reference
            torch.utils.swap_tensors(old, new)
            module._parameters[name] = old
    return result


def _is_ours(x: torch.Tensor) -> bool:
    return x.device.type == "jax"


def _apply(self: torch.nn.Module, function: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
    """``Module._apply``, after which parameters are the objects that they were, and shared again."""
    if _running.inside:
        return _applied(self, function, recurse)
    shared = _holders(self)
    _running.inside = True
    try:
        result = _applied(self, function, recurse)
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
