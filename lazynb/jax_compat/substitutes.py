"""Dormant substitutes: installed, though no thread is lazy, and invisible to the program.

Installing 700 substitutes and restoring JAX's names takes 0.24 ms, which a small function decorated with
``lazynb.lazy()`` would pay at each call. So most substitutes stay installed when the last lazy block ends,
and the program still gets JAX's own functions:

- A public module of JAX gets another class while substitutes are dormant in it. That class returns JAX's
  function for the name of a substitute: ``jax.numpy.sin`` is JAX's own, and its lookup takes 0.2 µs more. A
  change of a module's class takes 0.05 µs. An access to the whole module (``vars``, ``dir``,
  ``importlib.reload``), and setting or deleting such a name, restores all names first, so no assignment is
  lost.
- Classes and private modules cannot be guarded so. Their substitutes call the original functions, as they do
  in other threads than the lazy one. An array operator then takes a fifth longer.
- The names in other modules than JAX's (``numpy.asarray``) are few, and are always restored.

After :data:`MAX_DORMANT_USES` uses all names are restored: by then the uses have cost as much as the
restoration. So a program that has left its lazy blocks runs JAX's own functions again, and no program loses
more than it would without dormant substitutes.

Nothing is dormant if other code set a name before the substitutes were installed, or gave a module another
class. Then each name must be checked.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

MAX_DORMANT_USES = 300
"""Uses of dormant substitutes. One costs 0.2 µs (a name lookup) to 0.8 µs (an operator)."""


class DormantSubstitutes:
    """Whether the substitutes are dormant, and how many uses are left.

    Attributes:
      on: whether they are dormant.
      left: number of uses that are left.
      end: restores JAX's own names.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self.on = False
        self.left = MAX_DORMANT_USES
        self.end = end

    def over(self) -> None:
        """Called when no use is left. In a thread beside a lazy one nothing is dormant, and nothing ends."""
        self.left = MAX_DORMANT_USES
        if self.on:
            self.end()

    def count(self) -> None:
        """Counts a use of a substitute that is dormant."""
        self.left -= 1
        if self.left < 0:
            self.over()

    def count_calls(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """JAX's own function ``plain``, for a substitute that may be dormant; it counts the calls."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.on:
                self.count()
            return plain(*args, **kwargs)

        return call


_MISSING = object()
_set_class: Callable[[Any, type], None] = vars(object)["__class__"].__set__


class ModuleAttributeGuards:
    """Makes modules return JAX's own functions while substitutes are dormant in them.

    Arguments:
      replaced: owners of names, with the substitutes and JAX's own functions; only JAX's public modules among
        them are guarded.
    """

    def __init__(
        self, replaced: Iterable[tuple[Any, Mapping[str, Any], Mapping[str, Any]]], rest: DormantSubstitutes
    ):
        modules: dict[types.ModuleType, dict[str, tuple[Any, Any]]] = {}
        for owner, ours, plain in replaced:
            if is_jax_module(owner) and "._" not in owner.__name__:
                names = modules.setdefault(owner, {})
                names.update({name: (ours[name], plain[name]) for name in ours})
        self._seen = [
            (module, _guarded_module_class(vars(module), names, rest)) for module, names in modules.items()
        ]

    def activate(self) -> bool:
        """Activates the guards; returns False if other code has given a module another class."""
        for module, seen in self._seen:
            if type(module) is types.ModuleType:
                _set_class(module, seen)
            elif type(module) is not seen:
                return False
        return True

    def lower(self) -> None:
        """Deactivates the guards."""
        for module, seen in self._seen:
            if type(module) is seen:
                _set_class(module, types.ModuleType)


def _guarded_module_class(
    contents: dict[str, Any], names: Mapping[str, tuple[Any, Any]], rest: DormantSubstitutes
) -> type:
    """The class of a guarded module with ``contents``. Only ``type`` reveals it."""

    def whole(_: Any) -> dict[str, Any]:
        rest.end()
        return contents

    def become(module: Any, cls: type) -> None:
        rest.end()
        _set_class(module, cls)

    def reduce_ex(module: Any, _: Any) -> Any:  # cloudpickle chooses its reducer for a module by the type
        return importlib.import_module, (module.__name__,)

    members: dict[str, Any] = {
        name: _guarded_attribute(contents, name, *pair, rest) for name, pair in names.items()
    }
    members["__dict__"] = property(whole)
    members["__class__"] = property(lambda _: types.ModuleType, become)
    members["__reduce_ex__"] = reduce_ex
    return type("module", (types.ModuleType,), {**members, "__slots__": (), "__module__": "builtins"})


def _guarded_attribute(
    contents: dict[str, Any], name: str, ours: Any, own: Any, rest: DormantSubstitutes
) -> property:
    """The attribute ``name`` of a guarded module: ``own`` if the value is ``ours``, otherwise the value
    itself."""

    def read(_: Any) -> Any:
        rest.count()
        value = contents.get(name, _MISSING)
        if value is ours:
            return own
        if value is _MISSING:
            raise AttributeError(name)
        return value

    def write(_: Any, value: Any) -> None:
        rest.end()
        contents[name] = value

    def delete(_: Any) -> None:
        rest.end()
        if contents.pop(name, _MISSING) is _MISSING:
            raise AttributeError(name)

    return property(read, write, delete)


def is_jax_module(owner: Any) -> bool:
    """Whether ``owner`` is a module of JAX."""
    return isinstance(owner, types.ModuleType) and owner.__name__.partition(".")[0] == "jax"


# ---- Function substitutes -------------------------------------------------------------------------------

JITTED: Any = type(jax.numpy.sin)
"""The type of JAX's own jitted functions."""


class FunctionSubstitute(functools.partial[Any]):
    """The substitute for a function of JAX.

    Code that took it while a thread was lazy keeps it. So it equals JAX's own function and has its hash, it
    pickles as the name of JAX's own, and its copy is itself, as for any function. Only as a static argument
    of a jitted function it differs, because JAX compares the types of static arguments before their values.
    The jitted function is then traced once for each of the two.

    It is a partial because pickle refuses a plain function that is not found under its name. A partial adds
    almost no time to a call, and no frame. A function of JAX leaves ``==`` to the other operand.
    """

    def __eq__(self, other: object) -> Any:
        own = other.__wrapped__ if isinstance(other, FunctionSubstitute) else other  # type: ignore[attr-defined]
        return self.__wrapped__ is own or NotImplemented  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.__wrapped__)  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return pkgutil.resolve_name, (f"{self.__module__}:{self.__qualname__}",)  # type: ignore[attr-defined]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        # ``lower`` and ``trace`` are not set on the object, because a wrapper of a function copies its
        # attributes: ``jax.jit(jax.grad(jnp.sin)).lower`` would be that of sin.
        return getattr(vars(self).get("__wrapped__"), name)

    def __copy__(self) -> FunctionSubstitute:
        return self

    def __deepcopy__(self, memo: Any) -> FunctionSubstitute:
        return self

    def __repr__(self) -> str:
        return repr(self.__wrapped__)  # type: ignore[attr-defined]


def _of_own(name: str) -> property:
    return property(lambda stand_in: getattr(stand_in.__wrapped__, name))


class JittedFunctionSubstitute(FunctionSubstitute):
    """The substitute for a jitted function of JAX; ``isinstance`` reports ``jax.stages.Wrapped``."""

    clear_cache, eval_shape = _of_own("clear_cache"), _of_own("eval_shape")
    lower, trace = _of_own("lower"), _of_own("trace")


def substitute_for(
    call: Callable[..., Any], plain: Any, module: types.ModuleType, name: str
) -> FunctionSubstitute:
    """``call`` as the substitute for ``plain``, the function ``name`` of ``module``."""
    kind = JittedFunctionSubstitute if isinstance(plain, JITTED) else FunctionSubstitute
    function = kind(call)
    functools.update_wrapper(function, plain)
    vars(function).update(__module__=module.__name__, __qualname__=name)  # pickle finds it there, also later
    return function
