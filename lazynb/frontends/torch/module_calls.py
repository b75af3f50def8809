"""Replays calls of PyTorch's leaf modules (``Linear``, ``LayerNorm``, ``ReLU``), and records module paths.

Between the call of a leaf module and its one operation run a dozen Python and PyTorch functions, with the
same outcome as long as the module is unchanged. So a call is watched: which operation it makes, with which
attributes of the module. Later calls make the operation directly (lazynb/frontends/torch/_short.c,
``of_leaf``) if these are unchanged: the module's attributes, hooks, the methods of its class, the PyTorch
functions in them, and the layout of the input. Gradients and PyTorch modes must be off. User-defined modules
always run their own code.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as of_all

from lazynb import jax_compat as jc
from lazynb.frontends.torch.dispatch.tensor_layout import results_of
from lazynb.frontends.torch.dispatch.torch_replay import key_and_operands, recallable
from lazynb.frontends.torch.torch_pytrees import register_container
from lazynb.frontends.torch.torch_tensor import Tensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.user_code.call_stack import cache_call_stack, cached_call_stacks, user_frame

_MAX_ATTEMPTS = 3  # the first call of an operation may take a longer path
_MAX_LAYOUTS = 16  # input layouts kept per module


class LeafCall(NamedTuple):
    """The operation that a module call makes.

    Attributes:
      operation: the ``id`` of the operation; None if the module returns its input.
      kinds: a letter for each argument: ``x`` input of the module, ``p`` parameter, ``b`` buffer, ``c``
        constant.
      items: for each argument, the name of the parameter or buffer, or the constant.
      which: the index of the module's result among several; -1 if there is one.
    """

    operation: int | None
    kinds: bytes
    items: tuple[Any, ...]
    which: int


class LeafModule(NamedTuple):
    """The state of a module when it was watched.

    Attributes:
      module: a weak reference to it.
      names, values: its attributes, in order.
      missing: the names of parameters and buffers that are None.
      methods: ``forward`` and the methods it may call, as alternating names and functions.
      functions: the PyTorch functions that these may call, as alternating names and functions.
      calls: a :class:`LeafCall` by input layout, or the number of failed attempts.
    """

    module: Any
    names: tuple[str, ...]
    values: tuple[Any, ...]
    missing: tuple[str, ...]
    methods: tuple[Any, ...]
    functions: tuple[Any, ...]
    calls: dict[Any, Any]


leaf_modules: dict[int, LeafModule] = {}
"""Watched modules, by module id."""
GLOBAL_HOOKS = tuple(
    [hooks for name, hooks in vars(of_all).items() if name.startswith("_global_") and isinstance(hooks, dict)]
)
"""PyTorch's hooks for all modules."""
FUNCTIONS = vars(torch.nn.functional)


record_operations: Callable[[list[Any] | None], None] | None = None
"""Starts and stops recording this thread's operations into a list, see ``lazynb.frontends.torch._short``;
None without that C module."""


def call_replayed(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a replayed call, or ``NotImplemented`` for an unknown call or without the C module."""
    return NotImplemented


def should_watch(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether to watch a call of ``module``."""
    if (
        record_operations is None
        or module._modules
        or kwargs
        or len(args) != 1
        or args[0].__class__ is not Tensor
    ):
        return False
    if torch.is_grad_enabled():
        return False
    if not type(module).__module__.startswith("torch.nn.modules."):
        return False
    leaf = leaf_modules.get(id(module))
    if leaf is None or leaf.module() is not module or leaf.values != tuple(vars(module).values()):
        return True
    known = leaf.calls.get(args[0]._layout, 0)
    return isinstance(known, int) and known < _MAX_ATTEMPTS


def call_watched(module: torch.nn.Module, x: Any) -> Any:
    """Calls ``module`` on ``x`` and stores the call for replay."""
    assert record_operations is not None
    calls: list[Any] = []
    record_operations(calls)
    try:
        result = module._call_impl(x)
    finally:
        record_operations(None)
    _store_call(module, x._layout, _leaf_call(module, x, calls, result))
    return result


def _leaf_call(module: torch.nn.Module, x: Any, calls: list[Any], result: Any) -> LeafCall | None:
    if not calls:
        return LeafCall(None, b"", (), -1) if result is x else None
    (func, args, kwargs, given), *others = calls
    flags = recallable.get(id(func))
    if others or kwargs or flags is None:
        return None
    found = results_of.get(key_and_operands(func, args, {}, flags[0])[0])
    if found is None or found.steps or not found.is_replayed or (flags[1] and found.range is None):
        return None
    which = -1 if result is given else next((at for at, one in enumerate(given) if one is result), None)
    named = [found for found in (_argument_source(module, x, one) for one in args) if found is not None]
    if which is None or len(named) < len(args):
        return None
    return LeafCall(id(func), b"".join(kind for kind, _ in named), tuple([item for _, item in named]), which)


def _argument_source(module: torch.nn.Module, x: Any, argument: Any) -> tuple[bytes, Any] | None:
    """The kind and item of an argument of the operation, see :class:`LeafCall`; None if uncertain."""
    if argument is x:
        return b"x", None
    for kind, tensors in ((b"p", module._parameters), (b"b", module._buffers)):
        for name, tensor in tensors.items():
            if tensor is argument and tensor is not None:
                return kind, name
    has_tensors = isinstance(argument, (torch.Tensor, dict)) or (
        isinstance(argument, (list, tuple)) and any(isinstance(one, torch.Tensor) for one in argument)
    )
    return None if has_tensors else (b"c", argument)


def _store_call(module: torch.nn.Module, layout: Any, way: LeafCall | None) -> None:
    key, values = id(module), tuple(vars(module).values())
    leaf = leaf_modules.get(key)
    if leaf is None or leaf.module() is not module or leaf.values != values:
        if any(isinstance(value, list) for name, value in vars(module).items() if not name.startswith("_")):
            way = None  # a list may be modified in place
        leaf = leaf_modules[key] = _leaf_module(module, values)
    if len(leaf.calls) > _MAX_LAYOUTS:
        leaf.calls.clear()
    leaf.calls[layout] = way or leaf.calls.get(layout, 0) + 1


def _leaf_module(module: torch.nn.Module, values: tuple[Any, ...]) -> LeafModule:
    key = id(module)

    def forget(
        gone: Any, known: dict[int, LeafModule] = leaf_modules
    ) -> None:  # module globals are gone at interpreter exit
        if key in known and known[key].module is gone:
            del known[key]

    held = (*module._parameters.items(), *module._buffers.items())
    methods, called = _methods(type(module))
    functions = [item for name in called if callable(FUNCTIONS.get(name)) for item in (name, FUNCTIONS[name])]
    return LeafModule(
        module=weakref.ref(module, forget),
        names=tuple(vars(module)),
        values=values,
        missing=tuple([name for name, one in held if one is None]),
        methods=methods,
        functions=tuple(functions),
        calls={},
    )


def _methods(kind: type) -> tuple[tuple[Any, ...], list[str]]:
    """``forward`` and the methods that it calls, each after its name, and all names in them."""
    found: dict[str, Any] = {}
    names = ["forward"]
    for name in names:  # the loop extends the list
        function = getattr(kind, name, None)
        if name not in found and isinstance(function, types.FunctionType):
            found[name] = function
            names += [one for one in function.__code__.co_names if one not in names]
    return tuple([item for pair in found.items() for item in pair]), names


# ---- Module paths in JAX's name stack ----------------------------------------------------------------------
# The path of the running module (``encoder.layer.1.attention``) is written to the name stack, as Flax does;
# graph drawings group by it. It is in no cache key, so modules of equal layers share executables. A module
# with submodules runs in a frame that ends the search for the user's line. PyTorch's global module hooks
# would give the same information, but with any hook each call takes the slow path of ``Module._call_impl``.

Module = torch.nn.Module
_MAX_NAMES = 10_000  # names and scopes that are cached
_LISTS = (torch.nn.ModuleList, torch.nn.ModuleDict)


class _Running(threading.local):
    """The modules that this thread runs.

    Attributes:
      modules: outermost first.
      unrelated: ids of modules that are called in the outermost one but are not submodules of it.
    """

    def __init__(self) -> None:
        self.modules: list[torch.nn.Module] = []
        self.unrelated: set[int] = set()


module_stack = _Running()


class _ModulePath(NamedTuple):
    """How a module is reached from a running one.

    Attributes:
      path: the keys that lead to it.
      from_root: whether the path starts at the outermost running module, else at the innermost.
      name: the last key, with the name of the list for a list item: ``layer.1``.
    """

    path: tuple[str, ...]
    from_root: bool
    name: str


# By module id. Ids may be reused, so each use follows the path and compares.
module_paths: dict[int, _ModulePath] = {}


def _name_of(module: torch.nn.Module) -> str:
    """The name of ``module`` in its parent; its class name if it is no submodule of a running module."""
    modules = module_stack.modules
    if not modules:
        module_stack.unrelated.clear()
        return type(module).__name__
    known = module_paths.get(id(module))
    if known is not None:
        found: Any = modules[0] if known.from_root else modules[-1]
        for key in known.path:
            found = found._modules.get(key)
            if found is None:
                break
        if found is module:
            return known.name
    if id(module) in module_stack.unrelated:
        return type(module).__name__
    return _searched(module, modules)


def _searched(module: torch.nn.Module, modules: Sequence[torch.nn.Module]) -> str:
    for from_root in (False, True):
        start = modules[0] if from_root else modules[-1]
        for path, found in start.named_modules():
            if found is module and path:
                keys = tuple(path.split("."))
                if len(module_paths) > _MAX_NAMES:
                    module_paths.clear()
                module_paths[id(module)] = _ModulePath(keys, from_root, _last_name(start, keys))
                return module_paths[id(module)].name
    module_stack.unrelated.add(id(module))
    return type(module).__name__


def _last_name(start: torch.nn.Module, keys: Sequence[str]) -> str:
    """The last of ``keys``, preceded by the keys of the lists that contain it."""
    holders: list[Any] = [start]
    for key in keys[:-1]:
        holders.append(holders[-1]._modules[key])
    first = len(keys) - 1
    while first and isinstance(holders[first], _LISTS):
        first -= 1
    return ".".join(keys[first:])


# Inner scopes, by id of the outer scope and name; the outer scope is kept alive.
scopes_inside: dict[tuple[int, str], tuple[Any, Any]] = {}


def _scope_inside(outer: Any, name: str) -> Any:
    """The scope ``name`` inside ``outer``: always the same object, because recording compares identities."""
    known = scopes_inside.get((id(outer), name))
    if known is None:
        if len(scopes_inside) > _MAX_NAMES:
            scopes_inside.clear()
        known = scopes_inside[id(outer), name] = outer, jc.extend_scope(outer, name)
    return known[1]


class _CallStandIn(NamedTuple):
    """Stands for the frame of the module that the user's line calls."""

    f_code: CodeType


@functools.lru_cache(_MAX_NAMES)
def _code_named(name: str) -> CodeType:
    return (lambda: None).__code__.replace(co_name=name)


def _add_landmark(frame: FrameType, module: torch.nn.Module) -> None:
    """Caches the user's line for ``frame``, in which ``module`` is about to run."""
    user, called, call = user_frame(frame)
    if not call:
        called = (_CallStandIn(_code_named(_name_of(module))),)  # type: ignore[assignment]
    cache_call_stack(frame, user, called, call)


def scope_of(module: torch.nn.Module) -> Any:
    """The scope in which ``module`` runs now, or None if unknown or without the C module."""
    return None


def _with_scope(own: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's ``Module.__call__``, run in a scope while this thread is lazy."""
    ambient, scopes, this = jc.trace_state, jc.source_context, module_stack

    @functools.wraps(own)
    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if ambient.value.__class__ is not LazyTrace or self._compiled_call_impl is not None:
            return own(self, *args, **kwargs)
        result = call_replayed(self, args, kwargs)
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
                _add_landmark(frame, self)
            modules.append(self)
            scopes.context = scope
            if not has_parts and should_watch(self, args, kwargs):
                result = call_watched(self, args[0])
            else:
                result = self._call_impl(*args, **kwargs)
            if not depth:
                register_container(type(result))
            return result
        finally:
            del modules[depth:]
            scopes.context = outer
            if frame is not None:
                cached_call_stacks.pop(id(frame), None)
                del frame

    return __call__


_original_call: Callable[..., Any] | None = None
_scoped_call: Callable[..., Any] | None = None


def install() -> None:
    """Patches ``Module.__call__``."""
    global _original_call, _scoped_call
    if _scoped_call is None:
        _original_call = Module.__call__
        _scoped_call = Module.__call__ = _with_scope(_original_call)  # type: ignore[method-assign]


def uninstall() -> None:
    """Undoes :func:`install`, unless other code has patched the method since."""
    global _original_call, _scoped_call
    if _scoped_call is not None and Module.__call__ is _scoped_call:
        Module.__call__ = _original_call  # type: ignore[method-assign,assignment]
    _original_call = _scoped_call = None
