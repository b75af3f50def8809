"""Trial calls of NumPy with stand-ins for arrays, which give the dtypes, ranks and errors of its results."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np

from lazynb.frontends.numpy.function_names import Function
from lazynb.frontends.numpy.numpy_arguments import leaves, map_leaves, small_shapes

MAX_INDEX_VALUES = 64  # elements: largest integer array that is passed by value
_MAX_STAND_IN_ELEMENTS = 4096  # elements: larger stand-ins get smaller shapes


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayStandIn:
    """A stand-in for an array in the key and in the answer of a plan.

    Attributes:
      is_scalar: whether NumPy returns a scalar.
    """

    shape: tuple[int, ...]
    dtype: Any
    is_scalar: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ValueStandIn:
    """A stand-in for a small NumPy array with its values: indices, counts, widths."""

    shape: tuple[int, ...]
    dtype: Any
    values: bytes


def numpy_answer(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's result for arrays of these dtypes and ranks, with an :class:`ArrayStandIn` for each array.

    Large shapes are replaced by small ones; equal sizes stay equal. If NumPy refuses the small shapes, the
    call is repeated with the true shapes.

    Raises: NumPy's error for the true shapes.
    """
    shapes = [leaf.shape for leaf in leaves((args, kwargs)) if isinstance(leaf, jax.Array | np.ndarray)]

    def answer(small: dict[tuple[int, ...], tuple[int, ...]] | None) -> Any:
        return _ask_numpy(function, *map_leaves(lambda leaf: _stand_in(leaf, small), (args, kwargs)))

    if sum(int(np.prod(shape)) for shape in shapes) > _MAX_STAND_IN_ELEMENTS:
        try:
            return answer(small_shapes(shapes))
        except Exception:
            pass  # the small sizes are inconsistent, or the true sizes raise too
    return answer(None)


def _stand_in(leaf: Any, small: dict[tuple[int, ...], tuple[int, ...]] | None) -> Any:
    """The stand-in for ``leaf`` in a trial call of NumPy.

    Arguments:
      small: small shapes by true shape, or None to use the true shapes.
    """
    if not isinstance(leaf, jax.Array | np.ndarray):
        return leaf
    if isinstance(leaf, np.ndarray) and (small is None or leaf.size <= MAX_INDEX_VALUES):
        return leaf
    return np.ones(leaf.shape if small is None else small[leaf.shape], leaf.dtype)


def _ask_numpy(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        answer = function(*args, **kwargs)

    def standing(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray | np.generic):
            return ArrayStandIn(leaf.shape, leaf.dtype, isinstance(leaf, np.generic))
        return leaf

    return map_leaves(standing, answer)


def answer_metadata(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls ``function`` with stand-ins, because it only reads dtypes and shapes. Nothing is recorded."""

    def ones(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) or hasattr(leaf, "_layout"):
            return np.broadcast_to(np.ones((), leaf.dtype), leaf.shape)
        return leaf

    return function(*map_leaves(ones, args), **map_leaves(ones, kwargs))
