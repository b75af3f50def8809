"""The path of the running module (``encoder.layer.1.attention``), written to JAX's name stack, as Flax does.

Drawings group by it. It enters no key: two modules of equal layers share their executables. A module with
parts runs in a frame that is a landmark on the way to the line of the user.

PyTorch's hooks for all modules would tell the same, but where there are any, each call of a module goes the
long way through ``Module._call_impl``.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from lazynb import _jax as jc
from lazynb.landmarks import landmarks, place
from lazynb.record.trace import LazyTrace
from lazynb.source import user_frame
from lazynb.torch import leaves
from lazynb.torch.dispatch.trees import learn

Module = torch.nn.Module
_MOST = 10_000  # names, and scopes, that are kept
_LISTS = (torch.nn.ModuleList, torch.nn.ModuleDict)


class _Running(threading.local):
    """What this thread is in.

    Attributes:
      modules: outermost first.
      strangers: the ids of modules that are called in the outermost one and are no part of it.
    """

    def __init__(self) -> None:
        self.modules: list[torch.nn.Module] = []
        self.strangers: set[int] = set()


running = _Running()


class _Named(NamedTuple):
    """What a module is called by, below another one that runs.

    Attributes:
      path: the keys that lead to it.
      from_root: whether from the outermost module; otherwise from the module that runs.
      name: the last key. An item of a list has the name of the list too: ``layer.1``.
    """

    path: tuple[str, ...]
    from_root: bool
    name: str


# By the id of the module, which may be another module's by now: each use goes the path.
names: dict[int, _Named] = {}


def _name_of(module: torch.nn.Module) -> str:
    """What the parent of ``module`` calls it; its class's name if it is no part of what runs."""
    modules = running.modules
    if not modules:
        running.strangers.clear()
        return type(module).__name__
    known = names.get(id(module))
    if known is not None:
        found: Any = modules[0] if known.from_root else modules[-1]
        for key in known.path:
            found = found._modules.get(key)
            if found is None:
                break
        if found is module:
            return known.name
    if id(module) in running.strangers:
        return type(module).__name__
    return _searched(module, modules)


def _searched(module: torch.nn.Module, modules: Sequence[torch.nn.Module]) -> str:
    for from_root in (False, True):
        start = modules[0] if from_root else modules[-1]
        for path, found in start.named_modules():
            if found is module and path:
                keys = tuple(path.split("."))
                if len(names) > _MOST:
                    names.clear()
                names[id(module)] = _Named(keys, from_root, _last_name(start, keys))
                return names[id(module)].name
    running.strangers.add(id(module))
    return type(module).__name__


def _last_name(start: torch.nn.Module, keys: Sequence[str]) -> str:
    """The last of ``keys``, with those before it that are lists."""
    holders: list[Any] = [start]
    for key in keys[:-1]:
        holders.append(holders[-1]._modules[key])
    first = len(keys) - 1
    while first and isinstance(holders[first], _LISTS):
        first -= 1
    return ".".join(keys[first:])


# The scopes inside of a scope, by its id and the name. They keep the outer scope.
scopes_inside: dict[tuple[int, str], tuple[Any, Any]] = {}


def _scope_inside(outer: Any, name: str) -> Any:
    """The scope ``name`` inside of ``outer``: the same object each time, by which recording knows it."""
    known = scopes_inside.get((id(outer), name))
    if known is None:
        if len(scopes_inside) > _MOST:
            scopes_inside.clear()
        known = scopes_inside[id(outer), name] = outer, jc.scope_inside(outer, name)
    return known[1]


class _Call(NamedTuple):
    """Stands for the frame of the module that the user's line calls."""

    f_code: CodeType


@functools.lru_cache(_MOST)
def _code_named(name: str) -> CodeType:
    return (lambda: None).__code__.replace(co_name=name)


def _mark(frame: FrameType, module: torch.nn.Module) -> None:
    """Makes ``frame``, in which ``module`` is to run, a landmark."""
    user, called, call = user_frame(frame)
    if not call:
        called = (_Call(_code_named(_name_of(module))),)  # type: ignore[assignment]
    place(frame, user, called, call)


def scope_of(module: torch.nn.Module) -> Any:
    """The scope in which ``module`` runs now, in C, or None where it is not known or C was not built."""
    return None


def _followed(own: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's ``own`` call of a module, in a scope while this thread is lazy."""
    ambient, scopes, this = jc.ambient, jc.scopes, running

    @functools.wraps(own)
    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if ambient.value.__class__ is not LazyTrace or self._compiled_call_impl is not None:
            return own(self, *args, **kwargs)
        result = leaves.at_once(self, args, kwargs)
        if result is not NotImplemented:
            return result
        modules, outer = this.modules, scopes.context
        depth, frame = len(modules), None
        try:
            scope = scope_of(self)
            if scope is None:
                scope = _scope_inside(outer, _name_of(self))
            has_parts = bool(self._modules)
            if has_parts:
                frame = sys._getframe()
                _mark(frame, self)
            modules.append(self)
            scopes.context = scope
            if not has_parts and leaves.is_watched(self, args, kwargs):
                result = leaves.watched(self, args[0])
            else:
                result = self._call_impl(*args, **kwargs)
            if not depth:
                learn(type(result))
            return result
        finally:
            del modules[depth:]
            scopes.context = outer
            if frame is not None:
                landmarks.pop(id(frame), None)
                del frame

    return __call__


_own: Callable[..., Any] | None = None
_ours: Callable[..., Any] | None = None


def install() -> None:
    """Follows the modules that are called."""
    global _own, _ours
    if _ours is None:
        _own = Module.__call__
        _ours = Module.__call__ = _followed(_own)  # type: ignore[method-assign]


def uninstall() -> None:
    """Undoes :func:`install`; what others have put in place since stays."""
    global _own, _ours
    if _ours is not None and Module.__call__ is _ours:
        Module.__call__ = _own  # type: ignore[method-assign,assignment]
    _own = _ours = None
