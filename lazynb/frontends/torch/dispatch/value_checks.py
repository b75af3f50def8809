"""What PyTorch demands of values: indices within range, divisors other than zero, probabilities.

PyTorch raises at the call. Here, a value that is known already is looked at, and the call raises. A pending
value is checked by the program itself (:mod:`lazynb.recording.operation_checks`), and the flush raises the
same error with the line of the call. Arrays are never written to, so the least and largest value of one are
found once.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb import jax_compat as jc
from lazynb.frontends.torch.dispatch.deferred_integers import known_bounds
from lazynb.frontends.torch.dispatch.known_integers import cpu_values, has_storage_numbers
from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.dispatch.tensor_layout import contiguous
from lazynb.frontends.torch.dispatch.torch_replay import argument_names, arguments_by_name
from lazynb.frontends.torch.graph_tracing import graph_context
from lazynb.frontends.torch.torch_tensor import Tensor, array_to_torch, wrap
from lazynb.recording.lazy_mode import is_lazy
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.operation_checks import add_check

aten = torch.ops.aten
MakeError = Callable[[Any], Exception]


class OutOfRange(int):
    """A number out of range; ``place`` is where it is among all numbers of the tensor."""

    place: int

    def __new__(cls, value: int, place: int) -> OutOfRange:
        found = super().__new__(cls, value)
        found.place = place
        return found


class IndexRange(NamedTuple):
    """The demand that the numbers of an argument are at least ``low`` and less than ``high``.

    Attributes:
      error: makes PyTorch's error from the first number that is not, an :class:`Offender`.
      ignored: a number that is allowed all the same, or None.
    """

    low: int
    high: int
    error: MakeError
    ignored: int | None = None


def checked_index(x: Any, demand: IndexRange) -> Any:
    """``x``, a tensor of whole numbers, checked. While it is pending, it is one that the program checks."""
    if not x.numel() or check_known_range(x, demand):
        return x
    if graph_context.graph is not None and graph_context.graph.assume(x, demand):
        return x
    limits = demand.low, demand.high, demand.ignored
    safe, report = record_or_replay(
        (check_range, limits), lambda values: check_range(values, *limits), (x._elem,)
    )
    add_check(report, lambda found: demand.error(OutOfRange(*map(int, found[1:]))) if found[0] else None)
    new = wrap(safe, contiguous(tuple(x.shape), x.dtype))
    if demand.ignored is None:
        new._storage.bounds = demand.low, demand.high - 1
    return new


def check_known_range(x: Any, demand: IndexRange) -> bool:
    """Whether the numbers of ``x`` are known to be as demanded.

    Raises:
      Exception: ``demand.error``, if they are known not to be.
    """
    if is_within(x, demand):
        return True
    values = known_values(x)
    if values is None:
        return False
    offender = _first_out_of_range(values, demand)
    if offender is not None:
        raise demand.error(offender)
    return True


def is_within(x: Any, demand: IndexRange) -> bool:
    """Whether the bounds of the numbers of ``x`` are known, and as demanded."""
    known = bounds_of(x)
    return known is not None and demand.low <= known[0] and known[1] < demand.high


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def check_range(x: Any, low: int, high: int, ignored: int | None) -> tuple[Any, Any]:
    """``x`` without numbers out of range, and the report: whether there were any, the first, its place."""
    bad = (x < low) | (x >= high)
    if ignored is not None:
        bad &= x != ignored
    safe = jnp.where(bad, jnp.asarray(max(low, 0), x.dtype), x)
    place = jnp.argmax(bad.reshape(-1))
    first = x.reshape(-1)[place]
    return safe, jnp.stack([one.astype(np.int64) for one in (bad.any(), first, place)])


@jax.jit
def check_divisor(x: Any) -> tuple[Any, Any]:
    """``x`` with ones in place of zeros, and the report: whether there were any."""
    bad = x == 0
    return jnp.where(bad, jnp.ones((), x.dtype), x), bad.any()


def raise_if_true(bad: Any, error: MakeError) -> None:
    """Raises ``error(None)`` where ``bad``, an array of one bool, is true; in time, if it is pending."""
    add_check(bad, lambda found: error(None) if found.any() else None)


def check_probabilities(p: Any) -> None:
    """Raises PyTorch's error where ``p``, an array, has a number that is no probability."""
    text = (
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  "
        "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
    )
    raise_if_true(~((p >= 0) & (p <= 1)).all(), lambda _: RuntimeError(text))


def _first_out_of_range(values: np.ndarray, demand: IndexRange) -> OutOfRange | None:
    bad = (values < demand.low) | (values >= demand.high)
    if demand.ignored is not None:
        bad &= values != demand.ignored
    places = np.flatnonzero(bad)
    if not places.size:
        return None
    return OutOfRange(int(values.reshape(-1)[places[0]]), int(places[0]))


# ---- what is known without a run ---------------------------------------------------------------------------


def known_values(x: torch.Tensor) -> np.ndarray | None:
    """The values of a tensor, or None if a run or a wait would be needed for them."""
    if not isinstance(x, Tensor):
        return x.detach().numpy()
    plain = cpu_values(x)
    if plain is not None:
        return plain.numpy()
    if x._steps:
        return None
    array = _known_array(x._storage)
    return None if array is None else np.asarray(array)


def bounds_of(x: torch.Tensor) -> tuple[int, int] | None:
    """Bounds of the numbers of a tensor, or None if they are not known."""
    if not isinstance(x, Tensor):
        return None
    storage = x._storage
    if storage.host is not None or storage.bounds is not None:
        return known_bounds(x)
    array = _known_array(storage) if has_storage_numbers(x) else None
    return None if array is None else _array_range(array)


def _known_array(storage: Any) -> Any:
    value = storage.value
    if value.__class__ is LazyTensor:
        value = value._value
    if value.__class__ is not jc.ArrayImpl or value.is_deleted():
        return None
    devices: set[Any] = value.devices()
    if not value.is_fully_addressable or next(iter(devices)).platform != "cpu":
        return None
    if is_lazy() and not jc.is_ready(value):
        return None
    return value


_ranges: dict[int, tuple[Any, tuple[int, int]]] = {}  # with a weak reference, by the id of the array


def _array_range(array: Any) -> tuple[int, int] | None:
    kept = _ranges.get(id(array))
    if kept is not None and kept[0]() is array:
        return kept[1]
    values = np.asarray(array)
    if not values.size or values.dtype.kind not in "iu":
        return None
    key = id(array)
    found = int(values.min()), int(values.max())
    _ranges[key] = weakref.ref(array, lambda _: _ranges.pop(key, None)), found
    return found


# ---- before an operation -----------------------------------------------------------------------------------

checkers: dict[Any, Callable[[dict[str, Any]], None]] = {}
"""By overload: functions that take the arguments by name and may replace them."""
ranges: dict[Any, Callable[[dict[str, Any]], tuple[str, IndexRange]]] = {}
"""By overload, where all that is demanded is that one argument lie in a range: its name and the range."""
option_checks: dict[Any, Callable[[dict[str, Any]], None]] = {}
"""By overload: functions that take the arguments by name and look at no values."""


def check_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments of ``func``, checked. PyTorch has accepted their shapes and dtypes."""
    checker = checkers.get(func)
    if checker is None:
        return args, kwargs
    bound = arguments_by_name(func, args, kwargs)
    checker(bound)
    positional = tuple([bound[name] for name in argument_names(func)[: len(args)]])
    return positional, {name: bound[name] for name in kwargs}


def _registering(table: dict[Any, Any]) -> Callable[..., Callable[[Any], Any]]:
    """What registers a function in ``table`` for overloads."""

    def of(*overloads: Any) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            table.update(dict.fromkeys(overloads, function))
            return function

        return register

    return of


checker = _registering(checkers)
"""Registers a function of the arguments by name for these operations."""


def within_range(*overloads: Any) -> Callable[[Any], Any]:
    """Registers a function of the arguments by name: it gives the name of one, and its range."""

    def register(function: Callable[[dict[str, Any]], tuple[str, IndexRange]]) -> Any:
        def check(bound: dict[str, Any]) -> None:
            name, demand = function(bound)
            bound[name] = checked_index(bound[name], demand)

        checkers.update(dict.fromkeys(overloads, check))
        ranges.update(dict.fromkeys(overloads, function))
        return function

    return register


def range_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int, int] | None:
    """Which of ``args`` has to be within a range, the least number, and the first that is too large.

    None where more is demanded. It depends on layouts alone."""
    if func not in ranges:
        return None
    name, demand = ranges[func](arguments_by_name(func, args, kwargs))
    place = argument_names(func).index(name)
    return (place, demand.low, demand.high) if place < len(args) and demand.ignored is None else None


result_counts: dict[Any, Callable[[dict[str, Any]], int]] = {}
"""By overload, for what gives whole numbers from 0: functions of the arguments by name, how many they are."""
result_count = _registering(result_counts)
"""Registers such a function for these operations."""


def bounds_given(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int] | None:
    """The least and largest number that the result of a call can have, if that is known of it."""
    count = result_counts.get(func)
    return None if count is None else (0, count(arguments_by_name(func, args, kwargs)) - 1)


option_check = _registering(option_checks)
"""The same, for one that raises for options and looks at no values: it is asked where the layouts of the
results are."""


def check_options(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises what PyTorch raises for such options of ``func``."""
    refusal = option_checks.get(func)
    if refusal is not None:
        refusal(arguments_by_name(func, args, kwargs))


def check_linalg_info(func: Any, args: Any, kwargs: Any) -> None:
    """``_linalg_check_errors``: the error that the numbers of a factorisation say, if any."""
    info, *others = args

    def verdict(found: np.ndarray) -> Exception | None:
        try:
            func(array_to_torch(found, torch.int32), *others, **kwargs)
        except Exception as error:
            return error.with_traceback(None)
        return None

    add_check(info._elem, verdict)
