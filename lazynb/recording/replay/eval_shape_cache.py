"""Cached ``jax.eval_shape``, for functions whose result depends only on immutable values.

Flax checks the shape of each parameter at each call of a module, by tracing the initialiser again as a new
function. That was a quarter of an unmodified training step.

Two functions are equal if their code, closures, defaults and named globals are. JAX's own functions depend
only on their arguments and JAX's configuration. The code of another function is checked: it may use JAX's
modules and functions and constants, and write to nothing. Any other function is traced each time.
"""

from __future__ import annotations

import copy
import dis
import functools
import inspect
import os
from collections.abc import Callable, Hashable
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.jax_compat.substitutes import substitute_for
from lazynb.recording.replay.replay_edge import NotReplayable

MAX_SHAPES = 4096

_JAX = os.path.join(os.path.dirname(jax.__file__), "")
_CONSTANTS = (bool, int, str, bytes, type(None), type(Ellipsis))


def function_key(value: Any) -> Hashable:
    """Returns a key that is equal for values with the same effect in a function.

    Raises:
      NotReplayable: the value may change, or its type is unknown.
    """
    cls = type(value)
    if cls in _CONSTANTS:
        return (cls, _reject_64_bit(value, value) if cls is str else value)
    if isinstance(value, type):
        return (cls, _reject_64_bit(value, value.__name__))
    if isinstance(value, np.dtype):
        return (cls, _reject_64_bit(value, value.name))
    if cls is float or cls is complex:
        return (cls, repr(value))
    if cls is tuple:
        return (cls, *map(function_key, value))
    if cls is dict:
        return (cls, *[(function_key(key), function_key(one)) for key, one in value.items()])
    if cls is FunctionType:
        return _of_function(value)
    if cls is ModuleType and _is_jax(value.__name__):
        return (cls, value.__name__)
    raise NotReplayable


def _reject_64_bit(value: Any, name: str) -> Any:
    """Returns ``value`` unless it may be a 64-bit type, of which JAX warns each time without 64-bit mode."""
    if name.endswith("64"):
        raise NotReplayable
    return value


def _is_jax(module: str) -> bool:
    return module == "jax" or module.startswith("jax.")


def _of_function(function: FunctionType) -> Hashable:
    code, names = function.__code__, cast(tuple[Any, ...], ())
    if not code.co_filename.startswith(_JAX):
        names = _of_names(code, function.__globals__)
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # not set yet
        raise NotReplayable from None
    given = (function.__defaults__, function.__kwdefaults__)
    return (CodeKey(code), names, *map(function_key, cells), *map(function_key, given))


class CodeKey:
    """A code object in a key, by identity: its own hash walks through it."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType):
        self.code = code

    def __hash__(self) -> int:
        return id(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodeKey) and other.code is self.code


def _of_names(code: CodeType, variables: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the globals that ``code`` names. Its other names must be attributes of JAX's modules among
    them, so that it calls nothing else."""
    if not _only_computes(CodeKey(code)):
        raise NotReplayable
    named = {name: variables[name] for name in code.co_names if name in variables}
    modules = [one for one in named.values() if type(one) is ModuleType]
    for name in code.co_names:
        if name not in named and not any(hasattr(module, name) for module in modules):
            raise NotReplayable
    return tuple([(name, function_key(one)) for name, one in named.items()])


@functools.lru_cache(4096)
def _only_computes(key: CodeKey) -> bool:
    """Whether code makes no function, imports nothing, and only writes to its own variables."""
    code = key.code
    if code.co_flags & _GENERATORS or any(isinstance(constant, CodeType) for constant in code.co_consts):
        return False
    for step in dis.get_instructions(code):
        writes = step.opname.startswith(_WRITING) and "_FAST" not in step.opname
        if writes or (step.opname == "BINARY_OP" and step.argrepr.endswith("=")):
            return False
    return not any(name.startswith(("set_", "clear_")) for name in code.co_names)


_WRITING = ("STORE_", "DELETE_", "IMPORT_")
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


_known: dict[Hashable, tuple[list[Any], Any]] = {}


def _remembering(plain: Callable[..., Any]) -> Callable[..., Any]:
    def eval_shape(fun: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or type(fun) is not FunctionType or jc.is_eval(jc.current_trace()):
            return plain(fun, *args, **kwargs)
        try:
            key = (function_key(fun), jc.raw_context(), jax.config.jax_default_prng_impl)  # type: ignore[attr-defined]
            known = _known.get(key)
        except (NotReplayable, TypeError, RecursionError):
            key = None
        if key is None:
            return plain(fun)
        if known is None:
            result = plain(fun)
            if len(_known) >= MAX_SHAPES:
                _known.clear()
            known = _known[key] = jax.tree.flatten(result)
        return jax.tree.unflatten(known[1], [copy.copy(leaf) for leaf in known[0]])

    return functools.wraps(plain)(eval_shape)


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """Returns the substitute while a thread is lazy."""
    plain = jax.eval_shape
    return [(jax, {"eval_shape": substitute_for(_remembering(plain), plain, jax, "eval_shape")})]
