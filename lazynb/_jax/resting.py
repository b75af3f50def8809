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

import importlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

LEEWAY = 300
"""Uses of substitutes at rest. One costs 0.2 µs (a name that is read) to 0.8 µs (an operator)."""


class Rest:
    """Whether the substitutes rest, and how often they may be used meanwhile.

    Attributes:
      on: whether they rest.
      left: how many uses are left.
      end: puts JAX's own names back.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self.on = False
        self.left = LEEWAY
        self.end = end

    def over(self) -> None:
        """To be called when no use is left. In a thread beside a lazy one nothing rests, and nothing ends."""
        self.left = LEEWAY
        if self.on:
            self.end()

    def counted(self, plain: Callable[..., Any]) -> Callable[..., Any]:
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


class Guards:
    """Lets modules show JAX's own functions while substitutes rest in them.

    Arguments:
      replaced: owners of names, with the substitutes and JAX's own; of these the public modules of JAX's.
    """

    def __init__(self, replaced: Iterable[tuple[Any, Mapping[str, Any], Mapping[str, Any]]], rest: Rest):
        modules: dict[types.ModuleType, dict[str, tuple[Any, Any]]] = {}
        for owner, ours, plain in replaced:
            if is_jax_module(owner) and "._" not in owner.__name__:
                names = modules.setdefault(owner, {})
                names.update({name: (ours[name], plain[name]) for name in ours})
        self._seen = [(module, _seen(vars(module), names, rest)) for module, names in modules.items()]

    def raise_(self) -> bool:
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


def _seen(contents: dict[str, Any], names: Mapping[str, tuple[Any, Any]], rest: Rest) -> type:
    """The class of a module with ``contents`` at rest. Only ``type`` tells it from that of other modules."""

    def whole(_: Any) -> dict[str, Any]:
        rest.end()
        return contents

    def become(module: Any, cls: type) -> None:
        rest.end()
        _set_class(module, cls)

    def reduce_ex(module: Any, _: Any) -> Any:  # cloudpickle finds what it does with a module by its type
        return importlib.import_module, (module.__name__,)

    members: dict[str, Any] = {name: _name(contents, name, *pair, rest) for name, pair in names.items()}
    members["__dict__"] = property(whole)
    members["__class__"] = property(lambda _: types.ModuleType, become)
    members["__reduce_ex__"] = reduce_ex
    return type("module", (types.ModuleType,), {**members, "__slots__": (), "__module__": "builtins"})


def _name(contents: dict[str, Any], name: str, ours: Any, own: Any, rest: Rest) -> property:
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
