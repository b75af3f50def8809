"""Operations: a primitive with its parameters, interned, so that equal ones are one object."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from lazynb import _jax as jc
from lazynb.record.structure import params_structure


class Operation:
    """A JAX primitive with its parameters, under one context of JAX's configuration.

    Attributes:
      primitive: the JAX primitive.
      params: its parameters (of the first of the equal operations).
      context: what JAX stores with an equation (mesh, compute type, ...).
      name: what the user would call it: ``softmax`` for a jitted function of that name.
    """

    __slots__ = ("__weakref__", "_outside", "context", "name", "params", "primitive")

    def __init__(self, primitive: Any, params: dict[str, Any]):
        self.primitive = primitive
        self.params = params
        self.context = jc.eqn_context()
        self.name = (
            str(params.get("name") or primitive.name)
            if primitive.name in jc.JIT_PRIMITIVES
            else primitive.name
        )
        self._outside: frozenset[str] | None = None

    @property
    def outside(self) -> frozenset[str]:
        """The names of the primitives in it, in jaxprs of its own too, that call code which is not XLA's."""
        if self._outside is None:
            self._outside = frozenset(_calls_outside(self.primitive, self.params))
        return self._outside

    @property
    def is_hashable(self) -> bool:
        """Whether each parameter can be hashed: JAX lowers nothing else."""
        try:
            hash(tuple(self.params.values()))
        except TypeError:
            return False
        return True

    @property
    def may_fail(self) -> bool:
        """Whether it can fail when it runs."""
        return bool(self.outside)

    @property
    def calls_back(self) -> bool:
        """Whether it calls a function of Python's when it runs."""
        return any(map(_is_callback, self.outside))

    def __repr__(self) -> str:
        return f"Operation({self.name})"


def _calls_outside(primitive: Any, params: dict[str, Any]) -> Iterator[str]:
    left = [(primitive, params)]
    while left:
        primitive, params = left.pop()
        if _is_callback(primitive.name) or primitive.name == "ffi_call":
            yield primitive.name
        left += [(eqn.primitive, eqn.params) for jaxpr in jc.jaxprs_in(params) for eqn in jaxpr.eqns]


def _is_callback(name: str) -> bool:
    return "callback" in name


class OperationTable:
    """Finds the operation of a primitive and its parameters.

    Two levels: by hash of the parameters as they are (a jaxpr hashes by identity: quick, and misses for a
    function made anew), then by structure. The second holds weakly what the trie holds; the first is cleared
    when full.

    Arguments:
      plain: gives parameters that cannot be hashed without the arrays among them.
    """

    def __init__(
        self,
        plain: Callable[[Any, dict[str, Any]], dict[str, Any]] = lambda primitive, params: params,
        quick_limit: int = 8192,
    ):
        self._plain = plain
        self._quick: dict[Any, Operation] = {}
        self._by_structure: weakref.WeakValueDictionary[Any, Operation] = weakref.WeakValueDictionary()
        self._quick_limit = quick_limit

    def find(self, primitive: Any, params: dict[str, Any], context: Any) -> Operation:
        """The one operation for ``primitive`` and ``params``; ``context`` stands for JAX's configuration."""
        values = tuple(params.values())
        quick = (primitive, context, values, tuple(map(type, values)))
        try:
            return self._quick[quick]
        except KeyError:
            hashable = True
        except TypeError:
            hashable = False
            params = self._plain(primitive, params)
        key = (primitive, context, params_structure(primitive, params))
        operation = self._by_structure.get(key)
        if operation is None:
            operation = self._by_structure[key] = Operation(primitive, params)
        if hashable:
            if len(self._quick) >= self._quick_limit:
                self._quick.clear()
            self._quick[quick] = operation
        return operation

    def clear(self) -> None:
        """Forgets all."""
        self._quick.clear()
        self._by_structure.clear()
