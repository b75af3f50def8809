"""Operations: a primitive with its parameters, interned, so that equal ones are one object."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from lazynb import _jax_compat as jc
from lazynb.record.structure import params_structure

_OTHERS = frozenset(("ffi_call",))


class Operation:
    """A JAX primitive with its parameters, under one context of JAX's configuration.

    Attributes:
      primitive: the JAX primitive.
      params: its parameters (of the first of the equal operations).
      context: what JAX stores with an equation (mesh, compute type, ...).
      name: what the user would call it: ``softmax`` for a jitted function of that name.
    """

    __slots__ = ("__weakref__", "_calls_back", "_may_fail", "context", "name", "params", "primitive")

    def __init__(self, primitive: Any, params: dict[str, Any]):
        self.primitive = primitive
        self.params = params
        self.context = jc.eqn_context()
        self.name = str(params.get("name") or primitive.name) if primitive.name in jc.JIT_PRIMITIVES else primitive.name

        self._may_fail: bool | None = None
        self._calls_back: bool | None = None

    @property
    def may_fail(self) -> bool:
        """Whether it can fail when it runs: it calls code that is not XLA's, itself or in a jaxpr of its own."""
        if self._may_fail is None:
            self._may_fail = _calls_others(self.primitive, self.params)
        return self._may_fail

    @property
    def calls_back(self) -> bool:
        """Whether it calls a function of Python's when it runs, itself or in a jaxpr of its own."""
        if self._calls_back is None:
            self._calls_back = _calls_others(self.primitive, self.params, frozenset())
        return self._calls_back

    def __repr__(self) -> str:
        return f"Operation({self.name})"


def _calls_others(primitive: Any, params: dict[str, Any], others: frozenset[str] = _OTHERS) -> bool:
    left = [(primitive, params)]
    while left:
        primitive, params = left.pop()
        if "callback" in primitive.name or primitive.name in others:
            return True
        left += [(eqn.primitive, eqn.params) for jaxpr in jc.sub_jaxprs(params) for eqn in jaxpr.eqns]
    return False


class OperationTable:
    """Finds the operation of a primitive and its parameters.

    Two levels: by hash of the parameters as they are (a jaxpr hashes by identity: quick, and misses for a function
    made anew), then by structure. The second holds weakly what the trie holds; the first is cleared when full.

    Arguments:
      plain: gives parameters that cannot be hashed without the arrays among them.
    """

    def __init__(self, plain: Callable[[Any, dict[str, Any]], dict[str, Any]] = lambda primitive, params: params,
                 quick_limit: int = 8192):
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
