"""PyTorch's checks of values: indices in range, nonzero divisors, valid probabilities.

PyTorch raises at the call. Here, known values are checked at the call. For a pending value, the compiled
program computes the check (:mod:`lazynb.recording.operation_checks`), and the flush raises the same error
with the line of the call. Arrays are immutable, so the minimum and maximum of an array are computed once.
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
from lazynb.frontends.torch.cpu_tensors import array_to_torch
from lazynb.frontends.torch.dispatch.deferred_integers import known_bounds
from lazynb.frontends.torch.dispatch.known_integers import cpu_values, has_storage_numbers
from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.dispatch.tensor_layout import contiguous
from lazynb.frontends.torch.dispatch.torch_replay import argument_names, arguments_by_name
from lazynb.frontends.torch.graph_tracing import graph_context
from lazynb.frontends.torch.torch_tensor import Tensor, wrap
from lazynb.recording.lazy_mode import is_lazy
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.operation_checks import add_check

aten = torch.ops.aten
MakeError = Callable[[Any], Exception]


class OutOfRange(int):
    """A number out of range; ``place`` is its flat index in the tensor."""

    place: int

    def __new__(cls, value: int, place: int) -> OutOfRange:
        found = super().__new__(cls, value)
        found.place = place
        return found


class IndexRange(NamedTuple):
    """The requirement that the numbers of an argument are at least ``low`` and less than ``high``.

    Attributes:
      error: makes PyTorch's error from the first :class:`OutOfRange` number.
      ignored: a number that is allowed nevertheless, or None.
    """

    low: int
    high: int
    error: MakeError
    ignored: int | None = None


def checked_index(x: Any, demand: IndexRange) -> Any:
    """Checks the integer tensor ``x``. If it is pending, the result carries a check in the program."""
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
    """Whether the numbers of ``x`` are known to satisfy ``demand``.

    Raises:
      Exception: ``demand.error``, if they are known to violate it.
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
    """Whether known bounds of ``x`` satisfy ``demand``."""
    known = bounds_of(x)
    return known is not None and demand.low <= known[0] and known[1] < demand.high


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def check_range(x: Any, low: int, high: int, ignored: int | None) -> tuple[Any, Any]:
    """``x`` with valid numbers, and the report: whether any was out of range, the first one, its flat
    index."""
    bad = (x < low) | (x >= high)
    if ignored is not None:
        bad &= x != ignored
    safe = jnp.where(bad, jnp.asarray(max(low, 0), x.dtype), x)
    place = jnp.argmax(bad.reshape(-1))
    first = x.reshape(-1)[place]
    return safe, jnp.stack([one.astype(np.int64) for one in (bad.any(), first, place)])


@jax.jit
def check_divisor(x: Any) -> tuple[Any, Any]:
    """``x`` with zeros replaced by ones, and whether there were any."""
    bad = x == 0
    return jnp.where(bad, jnp.ones((), x.dtype), x), bad.any()


def raise_if_true(bad: Any, error: MakeError) -> None:
    """Raises ``error(None)`` if ``bad``, a bool array, is true; at the flush if it is pending."""
    add_check(bad, lambda found: error(None) if found.any() else None)


def check_probabilities(p: Any) -> None:
    """Raises PyTorch's error if the array ``p`` has a number that is not a probability."""
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


# ---- Values known without a flush --------------------------------------------------------------------------


def known_values(x: torch.Tensor) -> np.ndarray | None:
    """The values of a tensor, or None if reading them needs a flush or a wait."""
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
    """Bounds of a tensor's numbers, or None if unknown."""
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


_ranges: dict[int, tuple[Any, tuple[int, int]]] = {}  # with a weak reference, by array id


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


# ---- Checks before an operation ----------------------------------------------------------------------------

checkers: dict[Any, Callable[[dict[str, Any]], None]] = {}
"""Functions that check the arguments by name and may replace them, by overload."""
ranges: dict[Any, Callable[[dict[str, Any]], tuple[str, IndexRange]]] = {}
"""Functions that return an argument's name and required range, by overload, if this is the only check."""
option_checks: dict[Any, Callable[[dict[str, Any]], None]] = {}
"""Functions that check the options by name and read no values, by overload."""


def check_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The checked arguments of ``func``. PyTorch has already accepted their shapes and dtypes."""
    checker = checkers.get(func)
    if checker is None:
        return args, kwargs
    bound = arguments_by_name(func, args, kwargs)
    checker(bound)
    positional = tuple([bound[name] for name in argument_names(func)[: len(args)]])
    return positional, {name: bound[name] for name in kwargs}


def _registering(table: dict[Any, Any]) -> Callable[..., Callable[[Any], Any]]:
    """A decorator factory that registers a function in ``table`` for overloads."""

    def of(*overloads: Any) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            table.update(dict.fromkeys(overloads, function))
            return function

        return register

    return of


checker = _registering(checkers)
"""Registers a check of the arguments by name for these overloads."""


def within_range(*overloads: Any) -> Callable[[Any], Any]:
    """Registers a function that takes the arguments by name and returns one name and its range."""

    def register(function: Callable[[dict[str, Any]], tuple[str, IndexRange]]) -> Any:
        def check(bound: dict[str, Any]) -> None:
            name, demand = function(bound)
            bound[name] = checked_index(bound[name], demand)

        checkers.update(dict.fromkeys(overloads, check))
        ranges.update(dict.fromkeys(overloads, function))
        return function

    return register


def range_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int, int] | None:
    """The position of the only checked argument, its least number, and the first number that is too large.

    Depends only on layouts. None if the operation has other checks.
    """
    if func not in ranges:
        return None
    name, demand = ranges[func](arguments_by_name(func, args, kwargs))
    place = argument_names(func).index(name)
    return (place, demand.low, demand.high) if place < len(args) and demand.ignored is None else None


result_counts: dict[Any, Callable[[dict[str, Any]], int]] = {}
"""Functions of the arguments by name that return an exclusive upper bound of the integers in the result, by
overload; the lower bound is 0."""
result_count = _registering(result_counts)
"""Registers such a function for these overloads."""


def bounds_given(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int] | None:
    """The least and largest possible number of the result, or None if unknown."""
    count = result_counts.get(func)
    return None if count is None else (0, count(arguments_by_name(func, args, kwargs)) - 1)


option_check = _registering(option_checks)
"""Registers an option check, which runs when the result layouts are inferred."""


def check_options(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises PyTorch's error for invalid options of ``func``."""
    refusal = option_checks.get(func)
    if refusal is not None:
        refusal(arguments_by_name(func, args, kwargs))


def check_linalg_info(func: Any, args: Any, kwargs: Any) -> None:
    """``_linalg_check_errors``: raises the error that the info codes of a factorisation denote."""
    info, *others = args

    def verdict(found: np.ndarray) -> Exception | None:
        try:
            func(array_to_torch(found, torch.int32), *others, **kwargs)
        except Exception as error:
            return error.with_traceback(None)
        return None

    add_check(info._elem, verdict)
