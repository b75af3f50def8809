"""Numerics of a function: it is recorded once, and run eagerly, compiled and in float64."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc
from lazynb.errors import LazynbError, TraceBreakError
from lazynb.execute.flush import tensors_in
from lazynb.numerics.code import Code, code_of
from lazynb.numerics.comparison import Comparison
from lazynb.numerics.numerics import Numerics
from lazynb.record.pending import closure
from lazynb.record.stand_in import JITTED
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace
from lazynb.record.types_only import TypesOnly, running_nothing


def numerics_of(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Numerics:
    """The numerics of ``function(*args, **kwargs)``, compiled as under ``jax.jit``.

    Raises:
      TypeError: ``function`` cannot be called.
      TraceBreakError: it needs a value in the middle.
      LazynbError: called inside a JAX transformation; the code is too large.
    """
    __tracebackhide__ = True
    _check(function, args, kwargs)
    call = _Call(jc.static_arguments(function))
    while isinstance(function, JITTED):
        function = function.__wrapped__
    name = getattr(function, "__name__", type(function).__name__)
    code = _recorded(function, call, args, kwargs)
    if code is None:
        return Numerics(name, None, (NOTHING_RECORDED,))
    return Numerics(name, Comparison(code))


def _recorded(
    function: Callable[..., Any], call: _Call, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Code | None:
    """The operations of one call; None if there are none."""
    __tracebackhide__ = True
    taken_args, taken_kwargs = call.with_types(args, kwargs)
    with running_nothing():
        try:
            result = _called(function, taken_args, taken_kwargs)
            gc.collect()  # what only a cycle of references holds is no result
            waiting = call.given.put_into(closure(tensors_in([result])))
            tensors = [tensor for tensor in tensors_in([result]) if tensor._pending in waiting]
            if not tensors:
                return None
            return code_of(waiting, tensors, call.values, call.is_constant, lambda step: True)
        finally:
            call.given.close()


NOTHING_RECORDED = "nothing was recorded: it computed no JAX array while lazy"


class _Call:
    """The arguments of one call: those that a program takes are tensors without a value, whose values are
    known here.

    Arguments:
      static: positions and names of arguments that are no arrays.

    Attributes:
      given: the tensors.
      values: by the id of a tensor's type, the value.
      arguments: ids of the arrays that the function gets.
    """

    def __init__(self, static: Collection[int | str]):
        self._static = static
        self.given = TypesOnly()
        self.values: dict[int, Any] = {}
        self.arguments: set[int] = set()

    def with_types(self, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """The arguments as the function gets them."""
        fixed = self._static
        taken = tuple([arg if at in fixed else self._tree(arg) for at, arg in enumerate(args)])
        return taken, {name: arg if name in fixed else self._tree(arg) for name, arg in kwargs.items()}

    def is_constant(self, array: Any) -> bool:
        """Whether the function has an array from elsewhere than its arguments."""
        return id(array) not in self.arguments

    def _tree(self, tree: Any) -> Any:
        return jax.tree.map(self._argument, tree)

    def _argument(self, leaf: Any) -> Any:
        if isinstance(leaf, LazyTensor) and leaf._pending is not None:
            jax.block_until_ready(leaf)
        if isinstance(leaf, LazyTensor):
            leaf = leaf._value
        if isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1:
            self.arguments.add(id(leaf))
            return leaf
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
            return leaf
        aval = jc.typeof(leaf)
        tensor = self.given.tensor(
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
        )
        self.values[id(self.given.types[id(tensor)])] = leaf
        return tensor


def _check(function: Any, args: Any, kwargs: Any) -> None:
    if not callable(function):
        raise TypeError(
            f"numerics takes a function and its arguments, not {type(function).__name__}: "
            "lazynb.numerics(f, *args)"
        )
    if not (jc.is_eval(jc.current_trace()) or isinstance(jc.current_trace(), LazyTrace)):
        raise LazynbError(
            "numerics runs a function, and inside a JAX transformation (jit, grad, vmap) nothing runs"
        )
    for leaf in jax.tree.leaves((args, kwargs)):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise TypeError(
                "numerics compares values, and a jax.ShapeDtypeStruct has none: give arrays, such as "
                f"jnp.ones({leaf.shape}, {leaf.dtype})"
            )


def _called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    __tracebackhide__ = True
    try:
        return function(*args, **kwargs)
    except TraceBreakError as error:
        error.add_note(
            "lazynb.numerics compiles the function as one program, as jax.jit does, and what Python needs a "
            "value for ends a program: leave that line out, or look at the code before and after it apart."
        )
        raise
