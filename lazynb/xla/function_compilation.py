"""A function compiled for some arguments, of which types are enough. Nothing is run."""

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
    """Whether ``obj`` is to be called. A callable that holds pending tensors (a model) is a container of
    these; what ``jax.jit`` compiled is a program already."""
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
    """Compiles what ``function(*args, **kwargs)`` computes, and runs nothing.

    A function that is jitted is recorded operation by operation, as one that is not.

    Arguments:
      args, kwargs: arrays or types (``jax.ShapeDtypeStruct``), in any pytrees, and whatever else the function
        takes.
      namespace: the user's variables; the function's parameters come before them.
      target: compile for this one.
      as_jit: compile what ``jax.jit(function)`` compiles, rather than what lazynb runs: numbers among the
        arguments are arguments, those in the function are constants, and so are the arrays that it closes
        over.

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
    names = _names(called, args, kwargs, namespace, call.given)
    with forbid_runs():
        try:
            result = _called(called, args, kwargs)
            gc.collect()  # what only a cycle of references holds is no result
            waiting = call.given.put_into(pending_dependencies(tensors_in([result])))
            if as_jit:
                jitted = _jitted(call, waiting, result, names)
                jitted.notes = (*jitted.notes, *_not_taken_over(function))
                return jitted
            return compile_pending_traces(waiting, names, target=call.target, is_function=True)
        finally:
            call.given.close()


class _Call:
    """One call for types.

    Attributes:
      given: the arguments that have a type only.
      arguments: ids of what the function gets for arrays, in the order of the call.
      target: what is compiled for.
    """

    def __init__(self, target: Target | None, as_jit: bool):
        self.given = AbstractArguments()
        self.arguments: list[int] = []
        self.target = target
        self._as_jit = as_jit
        self._types: list[tuple[Any, Any]] = []  # arguments with the types that stand for them

    def with_types(self, args: Any, kwargs: Any, static: Collection[int | str]) -> tuple[Any, Any]:
        """The arguments, of which arrays have their types alone.

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
        """What the function gets: a type, a pending tensor and a NumPy array become tensors without a value;
        for a target, an array that is spread over devices too; as under ``jax.jit``, a number too."""
        type_ = _type(leaf, self.target)
        if type_ is None and self._as_jit and isinstance(leaf, bool | int | float | complex | np.generic):
            aval = jc.typeof(leaf)
            type_ = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        if type_ is None:
            held = leaf._value if isinstance(leaf, LazyTensor) else leaf  # the operations take the array
            self.arguments.append(id(held))
            return leaf
        if self.target is None:  # a sharding is the target's
            type_ = jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=type_.weak_type)
        tensor = self.given.tensor(type_)
        self.arguments.append(id(tensor))
        self._types.append((leaf, self.given.types[id(tensor)]))
        return tensor


def _jitted(
    call: _Call, waiting: Sequence[PendingTrace], result: Any, names: Mapping[int, tuple[str, ...]]
) -> Compilation:
    """What ``jax.jit`` compiles of a function that was recorded."""
    gathering = CompilationBuilder()
    for pending in waiting:
        gathering.describe(pending, names)
    arguments = {*call.arguments, *map(id, call.given.types.values())}
    jitted = gathering.as_jit(leaves_of(result), lambda array: id(array) not in arguments, call.arguments)
    with dumping_passes():
        return jitted.compile(call.target)


def _not_taken_over(function: Callable[..., Any]) -> list[str]:
    """That the user's ``jax.jit`` compiles another program than ``jax.jit(function)`` alone."""
    options = jc.jit_options(function)
    if not options:
        return []
    name = getattr(function, "__name__", "f")
    return [
        f"`{name}` is jitted with {' and '.join(options)}, and this is the program without: "
        f"`lazynb.inspect({name}.lower(...))` shows the one with."
    ]


def _unjitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that ``jax.jit`` was given, if ``function`` came from it."""
    while isinstance(function, JITTED):
        function = function.__wrapped__
    return function


def _type(leaf: Any, target: Target | None) -> jax.ShapeDtypeStruct | None:
    """The type of an argument that is given without a value; None for one that keeps its value."""
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
    given: AbstractArguments,
) -> dict[int, tuple[str, ...]]:
    """The names of arrays and types, the function's parameters first."""
    known = names_of(namespace)
    try:
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # no signature, or the call says what is wrong
        arguments = {}
    for identity, names in names_of(arguments).items():
        known[identity] = tuple(dict.fromkeys([*names, *known.get(identity, ())]))
    for identity, type_ in given.types.items():
        known[id(type_)] = known.get(identity, ())
    return known
