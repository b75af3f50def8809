"""NumPy functions that return views of mutable arrays or compare their memory."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from lazynb.frontends.numpy import function_names, function_recording
from lazynb.frontends.numpy.function_names import Function
from lazynb.frontends.numpy.mutable_array import MutableArray, wrap
from lazynb.frontends.numpy.mutable_functions import one_or_all
from lazynb.frontends.numpy.numpy_arguments import leaves
from lazynb.frontends.numpy.view_memory import ReadOnly, numpy_view

numpy: Any = np  # hides NumPy's signatures, which reject these arrays, from type checkers


def gives_view(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the argument of a view function is a mutable array."""
    if function_names.name_of(function) in _SEVERAL_ARRAY_VIEWS:
        return any(isinstance(leaf, MutableArray) for leaf in leaves((args, kwargs)))
    first = args[0] if args else kwargs.get(next(iter(inspect.signature(function).parameters)))
    return isinstance(first, MutableArray)


def _index_value(leaf: Any) -> Any:
    """An axis or length as a Python number; any other leaf unchanged."""
    return operator.index(leaf) if isinstance(leaf, MutableArray) else leaf


def _by_methods(name: str) -> Callable[..., Any]:
    """NumPy's Python implementation, which returns views because it calls methods of these arrays."""
    module: Any = np
    return lambda *args, **kwargs: getattr(module, name)._implementation(*args, **kwargs)


def _expand_dims(a: MutableArray, axis: Any) -> Any:
    return a.reshape(np.expand_dims(a._layout, _index_value(axis)).shape)


def _atleast(rank: int) -> Callable[..., Any]:
    functions: dict[int, Any] = {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}
    function = functions[rank]

    def raised(a: Any) -> Any:
        if not isinstance(a, MutableArray):
            return function(a)
        if a.ndim >= rank:
            return a
        return a.reshape(function(np.broadcast_to(np.int8(0), a.shape)).shape)

    return lambda *arrays: one_or_all(tuple(map(raised, arrays)))


def _rot90(m: MutableArray, k: int = 1, axes: Any = (0, 1)) -> Any:
    np.rot90(m._layout, k, axes)  # raises NumPy's error
    first, second = (axis % m.ndim for axis in axes)
    order = list(range(m.ndim))
    order[first], order[second] = order[second], order[first]
    turns = k % 4
    if turns == 0:
        return m[:]
    if turns == 2:
        return np.flip(np.flip(m, first), second)
    if turns == 1:
        return np.transpose(np.flip(m, second), order)
    return np.flip(np.transpose(m, order), second)


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    laid = np.broadcast_to(array._layout, shape)
    return array._view(ReadOnly("broadcast_to", (laid.shape,)), laid)


def _broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*map(np.shape, args))
    return tuple([np.broadcast_to(array, shape) if np.shape(array) != shape else array for array in args])


def _diag(v: MutableArray, k: int = 0) -> Any:
    if v.ndim == 2:
        return v.diagonal(k)
    return wrap(function_recording.record(np.diag, (v.value, k), {}))


def _matrix_transpose(x: MutableArray) -> Any:
    return x.mT if x.ndim > 1 else np.matrix_transpose(x._layout)  # the trial call raises NumPy's error


def _check_with_numpy(function: Function, m: MutableArray) -> MutableArray:
    function(m._layout)  # raises NumPy's error
    return m


def _unstack(x: MutableArray, /, *, axis: int = 0) -> Any:
    numpy.unstack(x._layout, axis=axis)  # raises NumPy's error
    return tuple(numpy.moveaxis(x, axis, 0)[number, ...] for number in range(x.shape[axis]))


def _shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether two arrays share elements; NumPy compares memory addresses."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, MutableArray) and not isinstance(other, MutableArray):
            present = one._memory.current
            is_own = isinstance(present, np.ndarray) and isinstance(other, np.ndarray)
            return is_own and bool(np.shares_memory(numpy_view(present, one._path), other))
    if not isinstance(a, MutableArray) or not isinstance(b, MutableArray) or a._memory is not b._memory:
        return False
    one, other = (numpy_view(array._memory.layout_array, array._path) for array in (a, b))
    return bool(np.shares_memory(one, other))


VIEW_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f"np.{name}": _by_methods(name)
        for name in """reshape transpose swapaxes squeeze moveaxis rollaxis flip split array_split hsplit
        vsplit dsplit""".split()
    },
    "np.ravel": lambda a, order="C": a.ravel(order),
    "np.diagonal": lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2),
    "np.expand_dims": _expand_dims,
    "np.atleast_1d": _atleast(1),
    "np.atleast_2d": _atleast(2),
    "np.atleast_3d": _atleast(3),
    "np.fliplr": lambda m: _check_with_numpy(np.fliplr, m)[:, ::-1],
    "np.flipud": lambda m: _check_with_numpy(np.flipud, m)[::-1, ...],
    "np.rot90": _rot90,
    "np.broadcast_to": _broadcast_to,
    "np.broadcast_arrays": _broadcast_arrays,
    "np.diag": _diag,
    "np.matrix_transpose": _matrix_transpose,
    "np.linalg.matrix_transpose": _matrix_transpose,
    "np.unstack": _unstack,
    "np.real": lambda val: val.real,
    "np.imag": lambda val: val.imag,
    "np.shares_memory": _shares_memory,
    "np.may_share_memory": _shares_memory,
    "np.copy": lambda a, order="K", subok=False: a.copy(order),
    "np.astype": lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype, copy=copy),
    "np.linalg.diagonal": lambda x, /, *, offset=0: x.diagonal(offset, -2, -1),
}
"""Functions that return views or inspect memory, by name, in a form for mutable arrays."""

_SEVERAL_ARRAY_VIEWS = frozenset(
    f"np.{name}"
    for name in "atleast_1d atleast_2d atleast_3d broadcast_arrays shares_memory may_share_memory".split()
)
"""The functions above that take several arrays, of any type."""
