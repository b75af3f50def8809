"""Recorded code with its input values: the object that numerics examine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.compare.numerics.equation_list import Equations, flattened
from lazynb.errors import LazynbError
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.trace_description import SnapshotBuilder
from lazynb.recording.trie import State
from lazynb.user_code.text_format import size
from lazynb.xla.recorded_operations import RecordedInput, RecordedOperations, recorded_trace

MOST_OPERATIONS = 1_000
"""Maximum number of operations."""

MOST_BYTES = 4 << 30
"""Maximum memory for all values, in two forms in their own type and once in float64."""


class TooLarge(LazynbError):
    """The code has too many operations, or too large arrays."""


@dataclasses.dataclass(frozen=True)
class RecordedCode:
    """Recorded code with its inputs.

    Attributes:
      program: its operations.
      taken: values from outside, by number.
      constants: numbers of the values that are constants of the program.
      settings: JAX's configuration.
    """

    program: Equations
    taken: Mapping[int, Any]
    constants: frozenset[int]
    settings: Any


def code_of(
    waiting: Sequence[PendingTrace],
    wanted: Sequence[LazyTensor],
    given: Mapping[int, Any],
    is_constant: Callable[[Any], bool],
    is_written: Callable[[State], bool],
) -> RecordedCode:
    """Collects the operations of pending traces that some tensors depend on.

    Arguments:
      given: values of inputs for which the traces only have types, by ``id`` of the type.
      is_constant: whether an array from outside is a constant of the program.
      is_written: whether the number of a step is a constant of the program.

    Raises:
      LazynbError: JAX's configuration changes within the code.
      TooLarge: the code exceeds the limits.
    """
    description = SnapshotBuilder(waiting, {}, opens=True)
    recorded = RecordedOperations([recorded_trace(pending, description) for pending in waiting])
    if recorded.root is None:
        raise LazynbError(
            "JAX's configuration changes in this code, so it is no single program: look at its parts"
        )
    values = [description.result(tensor._pending, tensor._slot) for tensor in wanted if tensor._pending]
    program = flattened(recorded, description.snapshot(), values)
    _check(program)
    known = {n: _value(what, given, is_constant, is_written) for n, what in program.taken.items()}
    taken = {number: value for number, (value, _) in known.items()}
    constants = frozenset([number for number, (_, fixed) in known.items() if fixed])
    return RecordedCode(program, taken, constants, recorded.root.config)


def _value(
    what: Any,
    given: Mapping[int, Any],
    is_constant: Callable[[Any], bool],
    is_written: Callable[[State], bool],
) -> tuple[Any, bool]:
    """A value from outside, and whether it is a constant of the program."""
    if not isinstance(what, RecordedInput):  # constant of a jaxpr
        return what, True
    held = what.held()
    if id(held) in given:
        return given[id(held)], False
    if what.step.is_host_scalar:
        return _number(held, what.step.avals[0]), is_written(what.step)
    return held, isinstance(held, jax.Array) and is_constant(held)


def _number(value: Any, aval: Any) -> Any:
    """``value`` as JAX represents a number of this type; a weakly typed number becomes a Python number."""
    number = np.asarray(value, aval.dtype)[()]
    return number.item() if aval.weak_type and np.dtype(aval.dtype).kind in "bifc" else number


def _check(program: Equations) -> None:
    count = len(program.equations)
    if count > MOST_OPERATIONS:
        raise TooLarge(
            f"this is {count:,} operations, and numerics look at up to {MOST_OPERATIONS:,} one by one: take "
            "a part of it, such as one step or one layer"
        )
    elements = sum(
        aval.size for equation in program.equations for aval in equation.avals if not jc.is_key(aval)
    )
    need = elements * _BYTES
    if need > MOST_BYTES:
        raise TooLarge(
            f"the values of this code are {elements:,} numbers, which would take {size(need)} "
            "(they are kept eagerly, compiled and in float64): take smaller arrays"
        )


_BYTES = 24  # of each number, in all three forms
