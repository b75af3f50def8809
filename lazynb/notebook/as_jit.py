"""What ``%%compile --as-jit`` takes for the results, the arguments and the constants of a cell."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from IPython.core.error import UsageError

from lazynb import _jax as jc
from lazynb.execute.flush import tensors_in
from lazynb.execute.observers import Broke
from lazynb.reasons import REASONS
from lazynb.record.tensor import LazyTensor
from lazynb.session.liveness import listed
from lazynb.units import size
from lazynb.view.words import clip
from lazynb.xla.as_jit import NotOneFunction, leaves_of

NO_RESULT = (
    "the cell ends in no expression, so a jitted function of it would return nothing: end it in one, or name "
    "the results, such as --returns loss,params"
)
_COMPARED = 1 << 20  # bytes of an array that is compared with others unasked


class JitForm:
    """What a cell returns, and which arrays it makes itself. Keeps no array alive.

    Arguments:
      names: variables that are the results; without any, the cell's value.
      namespace: the user's variables, before the cell runs.
      is_asked: whether the user asked for it, who waits then for large arrays to be compared.
    """

    def __init__(self, names: Sequence[str], namespace: Mapping[str, Any], is_asked: bool = True):
        self._is_asked = is_asked
        self._names = names
        self._namespace = namespace
        with jc.set_current_trace(jc.eval_trace):
            self._arrays = {id(array): weakref.ref(array) for array in jax.live_arrays()}
        leaves = jax.tree.leaves([value for value in namespace.values() if _is_plain(value)])
        self._host = [weakref.ref(leaf) for leaf in leaves if type(leaf) is np.ndarray]

    def is_made_within(self, array: Any) -> bool:
        """Whether the cell made ``array``: it was not there before, nor does it hold what an array of NumPy's
        held that was."""
        if isinstance(array, LazyTensor):  # pending in another trace
            return False
        if isinstance(array, np.ndarray):
            return not any(one() is array for one in self._host)
        base = jc.plain_array(array)
        known = self._arrays.get(id(base))
        if known is not None and known() is base:
            return False
        if base is not array:
            return True
        hosts = [host for one in self._host if (host := one()) is not None and host.shape == array.shape]
        if hosts and not self._is_asked and array.nbytes > _COMPARED:
            raise NotOneFunction(
                f"whether the cell itself made an array of {size(array.nbytes)} takes long to find out: "
                "%%compile --as-jit does"
            )
        return not any(_holds(array, host) for host in hosts)

    def leaves(self, value: Any) -> list[Any]:
        """The arrays and numbers that the function returns, once the cell has run.

        Arguments:
          value: of the cell's last expression.

        Raises:
          UsageError: a name is not there, or holds no array.
          NotOneFunction: the cell's value is no array.
        """
        if not self._names:
            return leaves_of(value)
        return [leaf for name in self._names for leaf in self._named(name)]

    def _named(self, name: str) -> list[Any]:
        made = [each for each, value in self._namespace.items() if each[0] != "_" and is_pending(value)]
        there = f"; the cell gave {listed(made)}" if made else ""
        if name not in self._namespace:
            raise UsageError(f"%%compile --returns: there is no {clip(name, 40)}{there}")
        try:
            return leaves_of(self._namespace[name])
        except NotOneFunction:
            kind = type(self._namespace[name]).__name__
            raise UsageError(f"%%compile --returns: {name} is no array, but {kind}{there}") from None


def is_pending(value: Any) -> bool:
    """Whether a variable holds, perhaps in a container, what was recorded and has not run."""
    return any(tensor._pending is not None for tensor in tensors_in([value]))


def _is_plain(value: Any) -> bool:
    return type(value) in (np.ndarray, dict, list, tuple)


def _holds(array: Any, host: np.ndarray) -> bool:
    """Whether ``array`` is ``host``, of the same shape, as JAX takes it."""
    taken = host.astype(array.dtype)
    return array.dtype == jax.dtypes.canonicalize_dtype(host.dtype) and np.array_equal(
        taken, np.asarray(array), equal_nan=taken.dtype.kind in "fc"
    )


def has_value(body: str) -> bool:
    """Whether a cell ends in an expression. A cell that is no Python may: who runs it says what is wrong."""
    try:
        last = ast.parse(body).body[-1:]
    except SyntaxError:
        return True
    return bool(last) and isinstance(last[0], ast.Expr)


def why_not(broke: Broke) -> str:
    """Why a cell with a trace break is no jitted function."""
    place = broke.spot.place
    return (
        f"{place.label} needed a value before the cell's end ({REASONS[broke.kind].text}), which a jitted "
        f"function does not have: {clip(place.text, 60)}"
    )
