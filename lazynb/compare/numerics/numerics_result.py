"""``lazynb.numerics``: records a function once, and compares its eager, compiled and float64 values."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.compare.numerics.numerics_causes import NumericsCause, cause_of
from lazynb.compare.numerics.numerics_code import RecordedCode, code_of
from lazynb.compare.numerics.numerics_table import (
    ComparedOperation,
    Nonfinite,
    nonfinite_row,
    nonfinite_rows,
    operation_of,
    operation_row,
)
from lazynb.compare.numerics.program_values import CHANGED, KEPT
from lazynb.compare.numerics.rounding_bounds import ULPS
from lazynb.compare.numerics.value_comparison import PARTS, ROUNDING, ComparedEquation, ValueComparison
from lazynb.errors import LazynbError, TraceBreakError
from lazynb.jax_compat.substitutes import JITTED
from lazynb.recording.lazy_mode import AbstractArguments, forbid_runs
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.pending_trace import pending_dependencies
from lazynb.recording.runtime_interface import runtime
from lazynb.running.flush import tensors_in
from lazynb.running.record_table import Records, plural
from lazynb.running.time_log import analysis
from lazynb.xla.targets.target_chip import parse_target

# ---- Result of a comparison -------------------------------------------------------------------------------


class Numerics:
    """The result of :func:`lazynb.numerics`; displays as text and as HTML.

    Attributes:
      name: name of the function or the cell.
      operations: each operation, in order.
      first: the first operation that differs by more than rounding; None if there is none.
      nonfinite: origins of NaNs and infinities, in order.
      nan_results: of the elements of the results, how many are NaN eagerly and compiled, and how many there
        are.
      notes: further remarks, a sentence each.
    """

    def __init__(self, name: str, comparison: ValueComparison | None, notes: tuple[str, ...] = ()):
        self.name = name
        self._comparison = comparison
        compared = comparison.operations if comparison is not None else []
        self._shown = [one for one in compared if not _is_of_keys(one)]
        rows = [operation_of(comparison, one) for one in self._shown] if comparison is not None else []
        self.operations: Records[ComparedOperation] = Records(
            rows, "no operations", operation_row, ranked=True
        )
        self.first = next((row for row in rows if row.parts), None)
        births = []
        if comparison is not None:
            births = [birth for one in self._shown for birth in nonfinite_rows(comparison, one)]
        self.nonfinite: Records[Nonfinite] = Records(births, "no NaN, no Inf", nonfinite_row, ranked=True)
        self.nan_results = comparison.nan_results() if comparison is not None else (0, 0)
        self.notes = (*notes, *self._notes())

    @property
    def largest(self) -> ComparedOperation | None:
        """The operation with the largest difference between eager and compiled values, without those that
        only differ because of their operands; None if there is none."""
        own = [row for row in self.operations if row.verdict in (ROUNDING, PARTS)]
        return max(own, key=lambda row: row.ulps or 0.0, default=None)

    @cached_property
    def cause(self) -> NumericsCause | None:
        """The cause of :attr:`first`, or of :attr:`largest` if that exceeds four ULPs; otherwise None.

        First access compiles and runs the program again; until then its values are kept alive.
        """
        row = self.first
        if row is None and self.largest is not None and (self.largest.ulps or 0.0) > ULPS:
            row = self.largest
        if row is None or self._comparison is None:
            return None
        compared = self._shown[list(self.operations).index(row)]
        return cause_of(self._comparison, compared)

    @analysis
    def settle(self) -> None:
        """Computes the cause now and releases the program's values."""
        self.cause  # noqa: B018
        self._comparison = None

    def to_dicts(self) -> dict[str, Any]:
        """Everything as plain data; numbers may be infinite."""
        cause = self.cause
        return {
            "name": self.name,
            "first": dataclasses.asdict(self.first) if self.first is not None else None,
            "cause": dataclasses.asdict(cause) if cause is not None else None,
            "operations": self.operations.to_dicts(),
            "nonfinite": self.nonfinite.to_dicts(),
            "nan_results": self.nan_results[0],
            "notes": list(self.notes),
        }

    def _notes(self) -> Iterator[str]:
        comparison = self._comparison
        if comparison is None:
            return
        yield from _how_seen(self._shown)
        if any(one.equation.unit is not None and one.equation.within for one in self._shown):
            yield (
                "the eager results of a jitted function are from JAX's compiled call; the values inside it "
                "were computed one operation at a time"
            )
        names = {one.equation.name for one in self._shown if one.equation.name in WHOLE}
        if names:
            yield f"{' and '.join(sorted(names))}: one operation with all that is inside of it"
        narrow = {one.equation.name for one in self._shown if one.equation.number in comparison.narrow}
        if narrow:
            yield f"without a form in float64, run in their own type: {', '.join(sorted(narrow))}"
        if any(
            aval.dtype in (np.float64, np.complex128) for one in self._shown for aval in one.equation.avals
        ):
            yield "the reference is no more precise than float64 itself"

    def __repr__(self) -> str:
        return runtime().displays.report_text(self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return runtime().displays.report_bundle(self)


WHOLE = frozenset({"scan", "while", "cond"})
"""Loops and branches."""


def _how_seen(shown: list[ComparedEquation]) -> Iterator[str]:
    """Notes on how the values inside the compiled program were observed."""
    changed = sum(one.how == CHANGED for one in shown)
    kept = sum(one.how == KEPT for one in shown)
    if kept:
        yield (
            f"{plural(kept, 'operation')} inside of the compiled program: made results beside its own, which "
            "stayed the same to the bit"
        )
    if changed:
        yield (
            f"{plural(changed, 'operation')} inside of the compiled program: made results beside its own, of "
            "which some bits changed, so that the values are inferred"
        )


def _is_of_keys(one: ComparedEquation) -> bool:
    return any(jc.is_key(aval) for aval in one.equation.avals)


def numerics_of(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Numerics:
    """The numerics of ``function(*args, **kwargs)``, compiled as under ``jax.jit``.

    Raises:
      TypeError: ``function`` is not callable.
      TraceBreakError: it needs the value of an array.
      LazynbError: called inside a JAX transformation, or the code is too large.
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
    return Numerics(name, ValueComparison(code))


def _recorded(
    function: Callable[..., Any], call: _Call, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> RecordedCode | None:
    """The operations of one call; None if there are none."""
    __tracebackhide__ = True
    taken_args, taken_kwargs = call.with_types(args, kwargs)
    with forbid_runs():
        try:
            result = _called(function, taken_args, taken_kwargs)
            gc.collect()  # values that only a reference cycle keeps alive are not results
            waiting = call.given.put_into(pending_dependencies(tensors_in([result])))
            tensors = [tensor for tensor in tensors_in([result]) if tensor._pending in waiting]
            if not tensors:
                return None
            return code_of(waiting, tensors, call.values, call.is_constant, lambda step: True)
        finally:
            call.given.close()


NOTHING_RECORDED = "nothing was recorded: it computed no JAX array while lazy"


class _Call:
    """The arguments of one call. Arrays and numbers become tensors without value; the values are kept here.

    Arguments:
      static: positions and names of static arguments.

    Attributes:
      given: the tensors.
      values: id of a tensor's type → value.
      arguments: ids of the arrays that are passed to the function.
    """

    def __init__(self, static: Collection[int | str]):
        self._static = static
        self.given = AbstractArguments()
        self.values: dict[int, Any] = {}
        self.arguments: set[int] = set()

    def with_types(self, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """The arguments to pass to the function."""
        fixed = self._static
        taken = tuple([arg if at in fixed else self._tree(arg) for at, arg in enumerate(args)])
        return taken, {name: arg if name in fixed else self._tree(arg) for name, arg in kwargs.items()}

    def is_constant(self, array: Any) -> bool:
        """Whether an array does not come from the arguments."""
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


@analysis
def numerics(f: Any, /, *args: Any, target: str | None = None, **kwargs: Any) -> Numerics:
    """Compares compiled values of ``f(*args, **kwargs)`` with eager JAX: where and why they differ, in ULPs.

    The function, jitted or not, is called once and recorded operation by operation. Each operation is then
    run as in eager JAX, as part of the program that ``jax.jit(f)`` compiles, and in float64.

    Arguments:
      f: must not need the value of an array; arrays that it closes over are constants, as under ``jax.jit``.
      args, kwargs: its arguments: arrays and numbers in any pytrees, and other objects.
      target: only this machine (``cpu``, or None) has values to compare.

    Returns:
      A :class:`Numerics`: ``operations``, ``first`` (the first that differs by more than rounding, or None),
      ``cause``, ``nonfinite``, ``to_dicts()``.

    Raises:
      TypeError: ``f`` is not callable, or an argument has no value.
      TraceBreakError: the function needs the value of an array.
      LazynbError: ``target`` is another chip, the code is too large, or a JAX transformation is active.
      Exception: what the function raises.
    """
    __tracebackhide__ = True
    if parse_target(target) is not None:
        raise LazynbError(
            f"numerics compares values, and values of {target} cannot be had on a machine without one: "
            f"lazynb.compile(f, ..., target={target!r}) shows its program. Leave `target` out for the values "
            "here."
        )
    try:
        return numerics_of(f, args, kwargs)
    except TraceBreakError:
        raise
    except LazynbError as error:  # the message is sufficient; the traceback is dropped
        raise error.with_traceback(None) from None
