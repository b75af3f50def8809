"""Operations: primitives with their parameters, interned so that equal operations are one object."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.jaxpr_structure import params_structure, user_function_key, with_position_scopes
from lazynb.user_code.function_purity import mutable_state_read


class Operation:
    """A JAX primitive with its parameters, under one context of JAX's configuration.

    Attributes:
      primitive: the JAX primitive.
      params: the parameters of the first of the equal operations.
      context: the context that JAX stores with an equation (mesh, compute type, ...).
      name: see :func:`operation_name`.
      weight: number of operations that it counts for in a program: those of a jitted function or loop body,
        if there are more than a few.
      devices: devices to which it commits its results; None if its operands decide.
    """

    __slots__ = (
        "__weakref__",
        "_changing",
        "_nameless",
        "_outside",
        "_positioned",
        "context",
        "devices",
        "name",
        "params",
        "primitive",
        "weight",
    )

    def __init__(self, primitive: Any, params: dict[str, Any], devices: tuple[Any, ...] | None = None):
        self.primitive = primitive
        self.params = params
        self.devices = devices
        self.context = jc.eqn_context()
        self.name = operation_name(primitive, params)
        inside = jc.equations_in(params)
        self.weight = inside if inside > _MAX_LIGHT_EQUATIONS else 1
        self._outside: frozenset[str] | None = None
        self._changing: str | None = None
        self._nameless: Operation | None = None
        self._positioned: dict[str, Any] | None = None

    @property
    def params_with_positions(self) -> dict[str, Any]:
        """The parameters with position scopes in the jaxprs, see :mod:`lazynb.recording.jaxpr_structure`."""
        if self._positioned is None:
            self._positioned = with_position_scopes(self.primitive, self.params)
        return self._positioned

    @property
    def canonical(self) -> Operation:
        """The first of the operations that differ only in names of jitted functions and scopes.

        Programs are built from canonical operations, so a new name is a cache hit. The recorded trace keeps
        the names.
        """
        if self._nameless is None:
            self._nameless = self._canonical()
        return self._nameless

    def _canonical(self) -> Operation:
        if not jc.jaxprs_in(self.params):
            return self
        alike = params_structure(self.primitive, self.params, nameless=True)
        key = (self.primitive, self.context, alike, user_function_key(self.primitive, self.params))
        return _nameless.setdefault(key, self)

    @property
    def outside(self) -> frozenset[str]:
        """The names of its primitives, inner jaxprs included, that call code outside of XLA."""
        if self._outside is None:
            self._outside = frozenset(_calls_outside(self.primitive, self.params))
        return self._outside

    @property
    def is_hashable(self) -> bool:
        """Whether each parameter can be hashed, without which JAX cannot lower the operation."""
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
        """Whether it calls a Python function when it runs."""
        return any(map(_is_callback, self.outside))

    @property
    def mutable_state_read(self) -> str:
        """The mutable state that a callback reads, in words; empty without one."""
        if self._changing is None:
            functions = _called_back(self.primitive, self.params) if self.calls_back else ()
            self._changing = next(filter(None, map(mutable_state_read, functions)), "")
        return self._changing

    def __repr__(self) -> str:
        return f"Operation({self.name})"


_MAX_LIGHT_EQUATIONS = 16
"""Number of equations up to which a jitted function of JAX (``jax.nn.softmax``) counts as one operation."""

_nameless: weakref.WeakValueDictionary[Any, Operation] = weakref.WeakValueDictionary()


def operation_name(primitive: Any, params: dict[str, Any]) -> str:
    """Returns the user's name of an operation, such as ``softmax`` for a jitted function of that name."""
    if primitive.name in jc.JIT_PRIMITIVES:
        return str(params.get("name") or primitive.name)
    return primitive.name


def _calls_outside(primitive: Any, params: dict[str, Any]) -> Iterator[str]:
    for inner, _ in _with_inner(primitive, params):
        if _is_callback(inner.name) or inner.name == "ffi_call":
            yield inner.name


def _called_back(primitive: Any, params: dict[str, Any]) -> Iterator[Callable[..., Any]]:
    """Yields the user's functions that ``pure_callback`` calls."""
    for inner, given in _with_inner(primitive, params):
        if inner.name == "pure_callback":
            yield jc.function_called_back(given)


def _with_inner(primitive: Any, params: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yields a primitive with its parameters, and those of its inner jaxprs."""
    left = [(primitive, params)]
    while left:
        primitive, params = left.pop()
        yield primitive, params
        for jaxpr in jc.jaxprs_in(params):
            left += [(eqn.primitive, eqn.params) for eqn in jaxpr.eqns]


def _is_callback(name: str) -> bool:
    return "callback" in name


class OperationTable:
    """Finds the interned operation of a primitive and its parameters.

    The look-up has two levels. The first hashes the parameters themselves. It is quick, but a jaxpr hashes by
    identity, so it misses a function that was defined again. The second hashes their structure. It holds weak
    references to operations of the trie; the first level is cleared when it is full.

    Attributes:
      cleared: how often all operations were dropped.

    Arguments:
      plain: converts parameters that cannot be hashed to ones without arrays.
    """

    def __init__(
        self,
        plain: Callable[[Any, dict[str, Any]], dict[str, Any]] = lambda primitive, params: params,
        quick_limit: int = 8192,
    ):
        self.cleared = 0
        self._plain = plain
        self._quick: dict[Any, Operation] = {}
        self._by_structure: weakref.WeakValueDictionary[Any, Operation] = weakref.WeakValueDictionary()
        self._quick_limit = quick_limit

    def find(
        self, primitive: Any, params: dict[str, Any], context: Any, devices: tuple[Any, ...] | None = None
    ) -> Operation:
        """Returns the operation under JAX's configuration ``context``; ``devices`` as in
        :class:`Operation`."""
        values = tuple(params.values())
        quick = (primitive, context, devices, values, tuple(map(type, values)))
        try:
            return self._quick[quick]
        except KeyError:
            hashable = True
        except TypeError:
            hashable = False
            params = self._plain(primitive, params)
        key = (
            primitive,
            context,
            devices,
            params_structure(primitive, params),
            user_function_key(primitive, params),
        )
        operation = self._by_structure.get(key)
        if operation is None:
            operation = self._by_structure[key] = Operation(primitive, params, devices)
        if hashable:
            if len(self._quick) >= self._quick_limit:
                self._quick.clear()
            self._quick[quick] = operation
        return operation

    def clear(self) -> None:
        self.cleared += 1
        self._quick.clear()
        self._by_structure.clear()
        _nameless.clear()
