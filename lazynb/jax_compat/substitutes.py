"""Substitutes at rest: no thread is lazy, and they are still in place, though no program sees them.

To substitute 700 names and to put them back takes 0.24 ms, which a small function that is decorated with
``lazynb.lazy()`` would pay at each call. So most substitutes stay where they are when the last lazy block
ends, and a program finds JAX's own all the same:

- A public module of JAX's has another class while it rests, which gives JAX's function for the name of a
  substitute: ``jax.numpy.sin`` is JAX's own, and takes 0.2 µs more to find. To change a module's class takes
  0.05 µs. Whoever asks for the whole module (``vars``, ``dir``, ``importlib.reload``), and whoever sets or
  deletes such a name, has everything put back first, so what is set is neither lost nor undone.
- Classes and private modules cannot be guarded so. What stands there calls what stood there before, as it
  always did in other threads than the lazy one. An operator of an array then takes a fifth longer.
- The names of modules that are not JAX's (``numpy.asarray``) are few, and do not rest.

After :data:`LEEWAY` uses everything is put back: by then the rest has cost what to put back costs. So a
program that is done with lazy blocks runs JAX's own again, and no program loses more than without any rest.

Nothing rests where other code had set a name before the substitutes came, or has given a module a class of
its own. Each name has to be looked at then.
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
"""Uses of substitutes at rest. One costs 0.2 µs (a name that is read) to 0.8 µs (an operator)."""


class DormantSubstitutes:
    """Whether the substitutes rest, and how often they may be used meanwhile.

    Attributes:
      on: whether they rest.
      left: how many uses are left.
      end: puts JAX's own names back.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self.on = False
        self.left = MAX_DORMANT_USES
        self.end = end

    def over(self) -> None:
        """To be called when no use is left. In a thread beside a lazy one nothing rests, and nothing ends."""
        self.left = MAX_DORMANT_USES
        if self.on:
            self.end()

    def count_calls(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """``plain``, JAX's own function, as a substitute calls it that may rest."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.on:
                self.left -= 1
                if self.left < 0:
                    self.over()
            return plain(*args, **kwargs)

        return call


_MISSING = object()
_set_class: Callable[[Any, type], None] = vars(object)["__class__"].__set__


class ModuleAttributeGuards:
    """Lets modules show JAX's own functions while substitutes rest in them.

    Arguments:
      replaced: owners of names, with the substitutes and JAX's own; of these the public modules of JAX's.
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
        """Begins; returns False if other code has given a module a class of its own."""
        for module, seen in self._seen:
            if type(module) is types.ModuleType:
                _set_class(module, seen)
            elif type(module) is not seen:
                return False
        return True

    def lower(self) -> None:
        """Ends."""
        for module, seen in self._seen:
            if type(module) is seen:
                _set_class(module, types.ModuleType)


def _guarded_module_class(
    contents: dict[str, Any], names: Mapping[str, tuple[Any, Any]], rest: DormantSubstitutes
) -> type:
    """The class of a module with ``contents`` at rest. Only ``type`` tells it from that of other modules."""

    def whole(_: Any) -> dict[str, Any]:
        rest.end()
        return contents

    def become(module: Any, cls: type) -> None:
        rest.end()
        _set_class(module, cls)

    def reduce_ex(module: Any, _: Any) -> Any:  # cloudpickle finds what it does with a module by its type
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
    """The ``name`` of a module at rest: ``own`` where ``ours`` stands, otherwise what other code set."""

    def read(_: Any) -> Any:
        rest.left -= 1
        if rest.left < 0:
            rest.over()
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
    """Whether ``owner`` is a module of JAX's."""
    return isinstance(owner, types.ModuleType) and owner.__name__.partition(".")[0] == "jax"


# ---- The substitutes for functions of JAX's that users call by their names --------------------------------

JITTED: Any = type(jax.numpy.sin)
"""The type of JAX's own jitted functions."""


class FunctionSubstitute(functools.partial[Any]):
    """The substitute for a function of JAX's.

    Code that took it while a thread was lazy keeps it for good. So it is equal to JAX's own function and has
    its hash, it pickles as the name of JAX's own, and its copy is itself, as for any function. Only as a
    static argument of a jitted function it is another one, because JAX compares the types of static arguments
    before their values. The jitted function is then traced once for each of the two.

    It is a partial because pickle refuses a plain function that its name does not lead to. A partial adds
    almost no time to a call, and no frame. A function of JAX's leaves ``==`` to the other operand.
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
    """The substitute for a jitted function of JAX's: to ``isinstance`` it is one (``jax.stages.Wrapped``)."""

    clear_cache, eval_shape = _of_own("clear_cache"), _of_own("eval_shape")
    lower, trace = _of_own("lower"), _of_own("trace")


def substitute_for(
    call: Callable[..., Any], plain: Any, module: types.ModuleType, name: str
) -> FunctionSubstitute:
    """``call`` as the substitute for ``plain``, the function ``name`` of ``module``."""
    kind = JittedFunctionSubstitute if isinstance(plain, JITTED) else FunctionSubstitute
    function = kind(call)
    functools.update_wrapper(function, plain)
    vars(function).update(__module__=module.__name__, __qualname__=name)  # where pickle finds it, also later
    return function
