"""Compiles a function for arguments given as arrays or types, without running it."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError, TraceBreakError
from lazynb.jax_compat.substitutes import JITTED
from lazynb.recording.lazy_mode import AbstractArguments, forbid_runs
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.pending_trace import PendingTrace, pending_dependencies
from lazynb.recording.snapshot.variable_names import names_of
from lazynb.running.flush import tensors_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import CompilationBuilder, compile_pending_traces, dumping_passes
from lazynb.xla.external.external_programs import is_jax_stage
from lazynb.xla.jit_equivalent import leaves_of
from lazynb.xla.targets.target_chip import Target


def is_function(obj: Any) -> bool:
    """Whether ``obj`` is to be called. A callable that holds pending tensors (a model) counts as a container
    of tensors; a stage of ``jax.jit`` is already a program."""
    return (
        callable(obj)
        and not is_jax_stage(obj)
        and not any(tensor._pending is not None for tensor in tensors_in([obj]))
    )


def compile_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    namespace: Mapping[str, Any],
    target: Target | None = None,
    as_jit: bool = False,
) -> Compilation:
    """Compiles what ``function(*args, **kwargs)`` computes. Runs nothing.

    A jitted function is recorded operation by operation, like any other.

    Arguments:
      args, kwargs: arrays or types (``jax.ShapeDtypeStruct``) in any pytrees, and any other arguments.
      namespace: the user's variables; the function's parameter names have precedence.
      target: compile for this target.
      as_jit: compile what ``jax.jit(function)`` compiles, instead of what lazynb runs: numbers among the
        arguments are arguments; numbers in the function and arrays that it closes over are constants.

    Raises:
      TraceBreakError: the function needs a value.
      LazynbError: called inside a JAX transformation; ``jax.jit`` could not compile the function.
      Exception: what the function raises.
    """
    __tracebackhide__ = True
    if not (jc.is_eval(jc.current_trace()) or isinstance(jc.current_trace(), LazyTrace)):
        raise LazynbError("A function is compiled for a chip outside of JAX's transformations (jit, grad).")
    called, call = _unjitted(function), _Call(target, as_jit)
    args, kwargs = call.with_types(args, dict(kwargs), jc.static_arguments(function) if as_jit else ())
    names = _names(called, args, kwargs, namespace, call)
    with forbid_runs():
        try:
            result = _called(called, args, kwargs)
            gc.collect()  # a tensor held only by a reference cycle is not a result
            waiting = call.given.put_into(pending_dependencies(tensors_in([result])))
            if as_jit:
                jitted = _jitted(call, waiting, result, names)
                jitted.notes = (*jitted.notes, *_not_taken_over(function))
                return jitted
            return compile_pending_traces(waiting, names, target=call.target, is_function=True)
        finally:
            call.given.close()


class _Call:
    """One call of a function with types in the place of arrays.

    Attributes:
      given: the arguments that have only a type.
      arguments: ids of the arrays passed to the function, in the order of the call.
      passed: pairs of an array passed to the function and the user's array, which has the same memory. As
        under ``jax.jit``, an array that is passed twice, or is also closed over, is an argument each time.
      target: the target of the compilation.
    """

    def __init__(self, target: Target | None, as_jit: bool):
        self.given = AbstractArguments()
        self.arguments: list[int] = []
        self.passed: list[tuple[Any, Any]] = []
        self.target = target
        self._as_jit = as_jit
        self._types: list[tuple[Any, Any]] = []  # (argument, the type that replaces it)

    def with_types(self, args: Any, kwargs: Any, static: Collection[int | str]) -> tuple[Any, Any]:
        """The arguments with arrays replaced by their types.

        Arguments:
          static: positions and names of arguments that keep their values.
        """
        args = tuple([arg if at in static else self._tree(arg) for at, arg in enumerate(args)])
        kwargs = {
            name: kwargs[name] if name in static else self._tree(kwargs[name]) for name in sorted(kwargs)
        }
        if self.target is not None:
            self.target = self.target.with_types(self._types)
        return args, kwargs

    def _tree(self, tree: Any) -> Any:
        return jax.tree.map(self._argument, tree)

    def _argument(self, leaf: Any) -> Any:
        """The object passed to the function. Types, pending tensors and NumPy arrays become tensors without a
        value; so do sharded arrays for a target, and numbers as under ``jax.jit``."""
        type_ = _type(leaf, self.target)
        if type_ is None and self._as_jit and isinstance(leaf, bool | int | float | complex | np.generic):
            aval = jc.typeof(leaf)
            type_ = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        if type_ is None:
            return self._array(leaf)
        if self.target is None:  # shardings apply only on a target
            type_ = jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=type_.weak_type)
        tensor = self.given.tensor(type_)
        self.arguments.append(id(tensor))
        self._types.append((leaf, self.given.types[id(tensor)]))
        return tensor

    def _array(self, leaf: Any) -> Any:
        held = leaf._value if isinstance(leaf, LazyTensor) else leaf  # the operations read the array
        if self._as_jit and isinstance(held, jax.Array):
            self.passed.append((jc.alias(held), held))
            leaf = held = self.passed[-1][0]
        self.arguments.append(id(held))
        return leaf


def _jitted(
    call: _Call, waiting: Sequence[PendingTrace], result: Any, names: Mapping[int, tuple[str, ...]]
) -> Compilation:
    gathering = CompilationBuilder()
    for pending in waiting:
        gathering.describe(pending, names)
    arguments = {*call.arguments, *map(id, call.given.types.values())}
    jitted = gathering.as_jit(leaves_of(result), lambda array: id(array) not in arguments, call.arguments)
    jitted.users_arrays = {id(array): held for array, held in call.passed}
    with dumping_passes():
        return jitted.compile(call.target)


def _not_taken_over(function: Callable[..., Any]) -> list[str]:
    """Notes that the user's ``jax.jit`` options make another program than ``jax.jit(function)``."""
    options = jc.jit_options(function)
    if not options:
        return []
    name = getattr(function, "__name__", "f")
    return [
        f"`{name}` is jitted with {' and '.join(options)}, and this is the program without: "
        f"`lazynb.inspect({name}.lower(...))` shows the one with."
    ]


def _unjitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside ``jax.jit``, if ``function`` is jitted."""
    while isinstance(function, JITTED):
        function = function.__wrapped__
    return function


def _type(leaf: Any, target: Target | None) -> jax.ShapeDtypeStruct | None:
    """The type of an argument without a value; None for one that keeps its value."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    if isinstance(leaf, LazyTensor) and leaf._pending is not None:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type)
    if isinstance(leaf, np.ndarray) and jax.dtypes.issubdtype(leaf.dtype, np.number):
        return jax.eval_shape(lambda array: array, leaf)  # type: ignore[no-any-return]
    if target is not None and isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type, sharding=leaf.sharding)
    return None


def _called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    __tracebackhide__ = True
    try:
        return function(*args, **kwargs)
    except TraceBreakError as error:
        error.add_note(
            "lazynb compiles a function for its arguments' types and runs nothing, so none of its arrays has "
            "a value: as under jax.jit."
        )
        raise


def _names(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    namespace: Mapping[str, Any],
    call: _Call,
) -> dict[int, tuple[str, ...]]:
    """The names of arrays and types, with the function's parameters first."""
    known = names_of(namespace)
    known.update({id(array): known.get(id(held), ()) for array, held in call.passed})
    try:
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # no signature, or the call itself raises the error
        arguments = {}
    for identity, names in names_of(arguments).items():
        known[identity] = tuple(dict.fromkeys([*names, *known.get(identity, ())]))
    for identity, type_ in call.given.types.items():
        known[id(type_)] = known.get(identity, ())
    return known
