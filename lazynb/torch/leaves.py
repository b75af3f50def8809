"""PyTorch's own modules without parts (``Linear``, ``LayerNorm``, ``ReLU``): a call is one look-up, in C.

Between the call of a module and its one operation lie a dozen of Python's and PyTorch's functions, which come
to the same each time as long as the module is what it was. So a call is watched: which operation it comes to,
and what of the module's it takes. Later ones go there at once (lazynb/torch/_short.c, ``of_leaf``) if nothing
has changed: the module's attributes, hooks, the methods of its class and PyTorch's functions in them, the
layout of what it is given. No gradient may be wanted, and no mode be on. Modules of users' are never taken
for such: what they do is theirs to say, at each call.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as of_all

from lazynb.torch.dispatch.dispatch import recallable
from lazynb.torch.dispatch.keys import key_and_row
from lazynb.torch.dispatch.layout import results_of
from lazynb.torch.tensor import Tensor

_TRIES = 3  # at the first call of all an operation may go a longer way
_MOST = 16  # layouts of what a module is given


class Way(NamedTuple):
    """What a call comes to.

    Attributes:
      operation: the ``id`` of an operation; None if the module gives back what it is given.
      kinds: a letter for each argument: ``x`` is what the module is given, ``p`` a parameter, ``b`` a buffer,
        ``c`` a constant.
      items: the names of parameters and buffers, and the constants, in their places.
      which: of several results, the module's; -1 if there is one.
    """

    operation: int | None
    kinds: bytes
    items: tuple[Any, ...]
    which: int


class Leaf(NamedTuple):
    """A module as it was when it was watched.

    Attributes:
      module: a weak reference to it.
      names: of its attributes, in order.
      values: of its attributes.
      missing: the names of parameters and buffers that it could have.
      methods: the names of what its class defines and ``forward`` may call, each followed by the function.
      functions: the names of PyTorch's functions that these may call, each followed by the function.
      ways: by the layout of what it is given. A number of attempts instead of a way says that none was found.
    """

    module: Any
    names: tuple[str, ...]
    values: tuple[Any, ...]
    missing: tuple[str, ...]
    methods: tuple[Any, ...]
    functions: tuple[Any, ...]
    ways: dict[Any, Any]


leaves: dict[int, Leaf] = {}
"""By the ids of modules."""
GLOBAL_HOOKS = tuple(
    [hooks for name, hooks in vars(of_all).items() if name.startswith("_global_") and isinstance(hooks, dict)]
)
"""PyTorch's hooks for all modules."""
FUNCTIONS = vars(torch.nn.functional)


watch: Callable[[list[Any] | None], None] | None = None
"""Has the operations of this thread noted, see ``lazynb.torch._short``; None where that was not built."""


def at_once(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``module`` gives, or ``NotImplemented`` where a call is not known or C was not built."""
    return NotImplemented


def is_watched(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of ``module`` is to be watched."""
    if watch is None or module._modules or kwargs or len(args) != 1 or args[0].__class__ is not Tensor:
        return False
    if torch.is_grad_enabled():
        return False
    if not type(module).__module__.startswith("torch.nn.modules."):
        return False
    leaf = leaves.get(id(module))
    if leaf is None or leaf.module() is not module or leaf.values != tuple(vars(module).values()):
        return True
    known = leaf.ways.get(args[0]._layout, 0)
    return isinstance(known, int) and known < _TRIES


def watched(module: torch.nn.Module, x: Any) -> Any:
    """What ``module`` gives for ``x``; later calls may go at once."""
    assert watch is not None
    calls: list[Any] = []
    watch(calls)
    try:
        result = module._call_impl(x)
    finally:
        watch(None)
    _keep(module, x._layout, _way(module, x, calls, result))
    return result


def _way(module: torch.nn.Module, x: Any, calls: list[Any], result: Any) -> Way | None:
    if not calls:
        return Way(None, b"", (), -1) if result is x else None
    (func, args, kwargs, given), *others = calls
    flags = recallable.get(id(func))
    if others or kwargs or flags is None:
        return None
    found = results_of.get(key_and_row(func, args, {}, flags[0])[0])
    if found is None or found.steps or not found.recalled or (flags[1] and found.range is None):
        return None
    which = -1 if result is given else next((at for at, one in enumerate(given) if one is result), None)
    named = [found for found in (_named(module, x, one) for one in args) if found is not None]
    if which is None or len(named) < len(args):
        return None
    return Way(id(func), b"".join(kind for kind, _ in named), tuple([item for _, item in named]), which)


def _named(module: torch.nn.Module, x: Any, argument: Any) -> tuple[bytes, Any] | None:
    """What an argument of the operation is, see :class:`Way`; None if that is not certain."""
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


def _keep(module: torch.nn.Module, layout: Any, way: Way | None) -> None:
    key, values = id(module), tuple(vars(module).values())
    leaf = leaves.get(key)
    if leaf is None or leaf.module() is not module or leaf.values != values:
        if any(isinstance(value, list) for name, value in vars(module).items() if not name.startswith("_")):
            way = None  # it may be written to, and be the same object
        leaf = leaves[key] = _leaf(module, values)
    if len(leaf.ways) > _MOST:
        leaf.ways.clear()
    leaf.ways[layout] = way or leaf.ways.get(layout, 0) + 1


def _leaf(module: torch.nn.Module, values: tuple[Any, ...]) -> Leaf:
    key = id(module)

    def forget(gone: Any, known: dict[int, Leaf] = leaves) -> None:  # the name is gone when Python ends
        if key in known and known[key].module is gone:
            del known[key]

    held = (*module._parameters.items(), *module._buffers.items())
    methods, called = _methods(type(module))
    functions = [item for name in called if callable(FUNCTIONS.get(name)) for item in (name, FUNCTIONS[name])]
    return Leaf(
        module=weakref.ref(module, forget),
        names=tuple(vars(module)),
        values=values,
        missing=tuple([name for name, one in held if one is None]),
        methods=methods,
        functions=tuple(functions),
        ways={},
    )


def _methods(kind: type) -> tuple[tuple[Any, ...], list[str]]:
    """``forward`` and the methods that it calls, each after its name, and all names in them."""
    found: dict[str, Any] = {}
    names = ["forward"]
    for name in names:  # it grows
        function = getattr(kind, name, None)
        if name not in found and isinstance(function, types.FunctionType):
            found[name] = function
            names += [one for one in function.__code__.co_names if one not in names]
    return tuple([item for pair in found.items() for item in pair]), names
