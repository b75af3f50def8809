"""NumPy's functions on arrays that can be written to.

Results are such arrays again, ``out=`` is written to, and views share memory as NumPy's do.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends import functions, ufuncs, wide
from lazynb.frontends.indexing import converted, fit
from lazynb.frontends.leaves import Numpy, leaves, map_leaves, shrunken, values_in
from lazynb.frontends.mutable import MutableArray, wrap
from lazynb.frontends.paths import IndexStep, Part, ReadOnly, layout, order_of

Function = Any
numpy: Any = np  # to a type checker these arrays are not NumPy's


def concerned(*trees: Any) -> bool:
    """Whether an array that can be written to is among the arguments."""
    return any(isinstance(leaf, MutableArray) for leaf in leaves(trees))


def _read(tree: Any) -> Any:
    """``tree`` with the values of its arrays that can be written to."""
    return map_leaves(lambda leaf: leaf.value if isinstance(leaf, MutableArray) else leaf, tree)


def _copied(tree: Any, kind: str, detail: str) -> Any:
    """``tree`` with NumPy's own arrays, which can be written to, and scalars."""

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, MutableArray):
            return leaf
        array = np.array(leaf._taken(kind, detail))
        return array[()] if leaf._scalar else array

    return values_in(map_leaves(own, tree), kind, detail)


def _by_numpy(call: Function, args: Any, kwargs: Any, kind: str, detail: str) -> Any:
    """NumPy's own result for the values, which are computed first."""
    return call(*_copied(args, kind, detail), **_copied(kwargs, kind, detail))


def _are_known_places(tree: Any) -> bool:
    """Whether 64-bit integers are among the arguments, in 32-bit mode, and all values are known.

    NumPy goes on with them: each mask of known places would be a run of its own.
    """
    arrays = [leaf for leaf in leaves(tree) if isinstance(leaf, MutableArray | jax.Array)]
    return wide.has_beyond(arrays) and not any(map(_is_pending, arrays))


def _is_pending(array: Any) -> bool:
    value = array._memory.value if isinstance(array, MutableArray) else array
    return getattr(value, "is_pending", False)


def _known(leaf: Any) -> Any:
    """NumPy's own array of values that are known, also of a view; any other leaf as it is."""
    if isinstance(leaf, MutableArray):
        return np.array(_places(np.asarray(leaf._memory.value), leaf))
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _without_out(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key != "out"}


# ---- ufuncs ------------------------------------------------------------------------------------------------


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """See :func:`lazynb.frontends.calls.array_ufunc`."""
    if method == "at":
        return _at(ufunc, *inputs)
    out = kwargs.get("out")
    if out is not None and any(target is not None for target in out):
        return _into(ufunc, method, inputs, kwargs, out)
    call = getattr(ufunc, method)
    if _are_known_places((inputs, kwargs)):
        return call(*map_leaves(_known, inputs), **map_leaves(_known, kwargs))
    try:
        results = ufuncs.record(ufunc, method, _read(inputs), _read(kwargs))
    except Numpy as needed:
        return _by_numpy(call, inputs, kwargs, needed.kind, needed.detail)

    def wrapped(leaf: Any) -> MutableArray:
        return wrap(leaf, _laid_out(call, leaf, inputs, kwargs), leaf.ndim == 0)

    return map_leaves(wrapped, results)


def _into(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: tuple[Any, ...]
) -> Any:
    """The results of the call, written to ``out``."""
    others = _without_out(kwargs)
    call = getattr(ufunc, method)
    if not all(target is None or _is_mutable(target) for target in out):
        if any(isinstance(target, MutableArray | jax.Array) for target in out):
            raise TypeError("return arrays must be of ArrayType")
        name = ufuncs.name_of(ufunc)
        return call(*_copied(inputs, "numpy_out", name), out=out, **_copied(others, "numpy_out", name))
    mask = True
    if method == "__call__":
        mask = others.pop("where", True)
    casting = others.pop("casting", "same_kind")
    try:
        recorded = ufuncs.record(ufunc, method, _read(inputs), _read(others))
    except Numpy as needed:
        return _into_by_numpy(call, inputs, kwargs, out, needed)
    results = recorded if isinstance(recorded, tuple) else (recorded,)
    pairs = list(zip(results, out, strict=True))
    if not all(target is None or _fits(result, target, casting) for result, target in pairs):
        _try_out(call, inputs, kwargs, out)
        raise Numpy("numpy_function", "out=")
    return _one_or_all(tuple([_written(result, target, mask) for result, target in pairs]))


def _is_mutable(target: Any) -> bool:
    return isinstance(target, MutableArray) and not target._scalar


def _into_by_numpy(
    call: Function, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: tuple[Any, ...], needed: Numpy
) -> Any:
    """The results that NumPy writes to copies of ``out``, written to ``out``."""
    _try_out(call, inputs, kwargs, out)
    copies: list[np.ndarray | None] = []
    for target in out:
        copies.append(None if target is None else np.array(target._taken(needed.kind, needed.detail)))
    others = _without_out(kwargs)
    call(
        *_copied(inputs, needed.kind, needed.detail),
        out=tuple(copies),
        **_copied(others, needed.kind, needed.detail),
    )
    for target, copy in zip(out, copies, strict=True):
        if target is not None:
            target._write(jnp.asarray(copy))
    return _one_or_all(out)


def _one_or_all(results: tuple[Any, ...]) -> Any:
    return results[0] if len(results) == 1 else results


def _fits(result: Any, target: MutableArray, casting: Any) -> bool:
    return np.can_cast(result.dtype, target.dtype, casting) and _goes_into(result.shape, target.shape)


def _written(result: Any, target: MutableArray | None, mask: Any) -> MutableArray:
    """``target`` with ``result`` written to it where ``mask`` is true; a new array if there is no target."""
    if target is None:
        return wrap(result)
    new = jnp.broadcast_to(converted(jnp.asarray(result), target.dtype), target.shape)
    if mask is not True:
        new = jnp.where(jnp.asarray(_read(mask)), new, target.value)
    target._write(new)
    return target


def _goes_into(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _try_out(call: Function, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: tuple[Any, ...]) -> None:
    """Lets NumPy say what is wrong, if anything is, with ones in place of the values."""

    def stand(leaf: Any) -> Any:
        return np.ones(leaf.shape, leaf.dtype) if isinstance(leaf, MutableArray | jax.Array) else leaf

    with np.errstate(all="ignore"):
        call(*map_leaves(stand, inputs), **map_leaves(stand, {**kwargs, "out": out}))


_AT_METHODS = {np.add: "add", np.multiply: "multiply", np.maximum: "max", np.minimum: "min"}
"""The methods of ``jax.Array.at`` that do what ``ufunc.at`` does."""


def _at(ufunc: np.ufunc, target: Any, places: Any, *values: Any) -> None:
    """``ufunc.at``: repeated places count repeatedly."""
    name = f"{ufuncs.name_of(ufunc)}.at"
    if not isinstance(target, MutableArray):
        return ufunc.at(target, *_copied((places, *values), "numpy_out", name))
    if target._scalar:
        raise TypeError("first operand must be array")
    has_form = getattr(ufuncs.form_of(ufunc), "at", None) is not None
    keeps_dtype = all(_keeps_dtype(target, value) for value in values)
    if not (has_form and _are_known(places) and keeps_dtype and ufunc in _AT_METHODS):
        array = np.array(target._taken("numpy_function", name))
        ufunc.at(array, *_copied((places, *values), "numpy_function", name))
        return target._write(jnp.asarray(array))
    chosen = np.arange(target.size).reshape(target.shape)[places]  # says what is out of bounds
    value = jnp.broadcast_to(fit(values[0], chosen.shape, target.dtype), chosen.shape).reshape(-1)
    at = target.value.reshape(-1).at[chosen.ravel().astype(np.int32)]
    return target._write(getattr(at, _AT_METHODS[ufunc])(value).reshape(target.shape))


def _are_known(places: Any) -> bool:
    """Whether an index can be looked at without computing anything."""
    several = places if isinstance(places, tuple) else (places,)
    return all(isinstance(place, int | slice | list | np.ndarray) for place in several)


def _keeps_dtype(target: MutableArray, value: Any) -> bool:
    """Whether the dtype of an operation on ``target`` and ``value`` is that of ``target``."""
    other = value if value.__class__ in (int, float) else _dtype_of(value)
    return np.result_type(target.dtype, other) == target.dtype


def _dtype_of(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def _laid_out(call: Function, result: Any, inputs: Any, kwargs: Any) -> np.ndarray | None:
    """The layout that NumPy would give a result, or None for C order.

    A result follows its operands if they are not in C order.
    """
    operands = list(leaves((inputs, kwargs)))
    if result.ndim < 2 or all(map(_is_in_c_order, operands)):
        return None
    small = shrunken([leaf.shape for leaf in operands if hasattr(leaf, "shape")])

    def stand_in(leaf: Any) -> Any:
        if isinstance(leaf, MutableArray):
            return _small_alike(leaf, small[leaf.shape])
        if isinstance(leaf, jax.Array | np.ndarray):
            return np.ones(small[leaf.shape], leaf.dtype)
        return leaf

    try:
        with np.errstate(all="ignore"):
            answer = call(*map_leaves(stand_in, inputs), **map_leaves(stand_in, kwargs))
    except Exception:
        return None
    for leaf in leaves(answer):
        if np.ndim(leaf) == result.ndim:
            return layout(result.shape, result.dtype, order_of(leaf))
    return None


def _is_in_c_order(leaf: Any) -> bool:
    """Whether ``leaf`` is no reason to lay out a result in another order."""
    if not isinstance(leaf, MutableArray) or leaf.ndim < 2:
        return True
    return leaf._layout.flags.c_contiguous


def _small_alike(array: MutableArray, shape: tuple[int, ...]) -> np.ndarray:
    """Ones of ``shape``, laid out like ``array``."""
    laid = array._layout
    order = order_of(laid)
    ones = np.ones([shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))
    directions = [slice(None, None, -1) if step < 0 else slice(None) for step in laid.strides]
    return ones[tuple(directions)]


# ---- functions ---------------------------------------------------------------------------------------------


def array_function(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """See :func:`lazynb.frontends.calls.array_function`."""
    name = functions.name_of(function)
    if function in functions.ANSWERED:
        return functions.answered(function, args, kwargs)
    if name in _VIEWS and not _views(function, args, kwargs):
        return function(*map_leaves(_number, args), **map_leaves(_number, kwargs))
    if name in _VIEWS or name in _WRITES:
        return (_VIEWS.get(name) or _WRITES[name])(*args, **kwargs)
    if name in _DUCK:
        return function._implementation(*args, **kwargs)
    if function in functions.CONVERTS:
        return functions.convert(function, _read(args), _read(kwargs))
    if name in _SHARING and _SHARING[name](args, kwargs):
        functions.answered(function, args, kwargs)  # says what is wrong
        raise NotImplementedError(
            f"{name} would give a view of an array that can be written to; copy it first, or use x.value"
        )
    out = kwargs.get("out")
    if isinstance(out, MutableArray):
        return _function_into(function, args, _without_out(kwargs), out)
    if _are_known_places((args, kwargs)):
        return function(*map_leaves(_known, args), **map_leaves(_known, kwargs))
    return _recorded(function, name, args, kwargs)


def _recorded(function: Function, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results as arrays that can be written to; NumPy's own if it has to run."""
    try:
        results = functions.record(function, _read(args), _read(kwargs))
    except Numpy as needed:
        return _by_numpy(function, args, kwargs, needed.kind, needed.detail)
    scalar = _gives_scalar(name)

    def wrapped(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array):
            return leaf
        return wrap(leaf, _laid_out(function, leaf, args, kwargs), scalar and leaf.ndim == 0)

    return map_leaves(wrapped, results)


def _views(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the array that a function of views looks at is one that can be written to.

    If not, an axis or a length is one.
    """
    if functions.name_of(function) in _OF_SEVERAL:
        return True
    first = args[0] if args else kwargs.get(next(iter(inspect.signature(function).parameters)))
    return isinstance(first, MutableArray)


def _number(leaf: Any) -> Any:
    """An axis or a length as the number that it is; any other leaf as it is."""
    return operator.index(leaf) if isinstance(leaf, MutableArray) else leaf


def _gives_scalar(name: str) -> bool:
    """Whether NumPy gives a scalar where no axis is left."""
    return name not in (
        "np.copy",
        "np.where",
        "np.full_like",
        "np.ones_like",
        "np.zeros_like",
        "np.empty_like",
        "np.astype",
    )


def _function_into(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], out: MutableArray
) -> Any:
    """``out`` with the result of the call written to it."""
    stand_ins, options = map_leaves(_ones, _read(args)), map_leaves(_ones, _read(kwargs))
    function(*stand_ins, **options, out=np.empty(out.shape, out.dtype))  # says what does not fit
    if concerned(args, kwargs):
        out[...] = array_function(function, args, kwargs)
    else:
        out[...] = function(*args, **kwargs)
    return out


def _ones(leaf: Any) -> Any:
    return np.ones(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array) else leaf


_DUCK = frozenset(
    f"np.{name}"
    for name in """reshape transpose swapaxes squeeze moveaxis rollaxis flip split array_split
    hsplit vsplit dsplit""".split()
)
"""Functions that NumPy writes upon methods that these arrays have, so that they give views by themselves."""


def _expand_dims(a: MutableArray, axis: Any) -> Any:
    shape = np.expand_dims(a._layout, axis).shape
    return wrap(a.value.reshape(shape)) if a._scalar else a.reshape(shape)


def _atleast(rank: int) -> Callable[..., Any]:
    functions: dict[int, Any] = {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}
    function = functions[rank]

    def raised(a: Any) -> Any:
        if not isinstance(a, MutableArray):
            return function(a)
        if a.ndim >= rank:
            return a
        return a.reshape(function(np.broadcast_to(np.int8(0), a.shape)).shape)

    return lambda *arrays: _one_or_all(tuple(map(raised, arrays)))


def _rot90(m: MutableArray, k: int = 1, axes: Any = (0, 1)) -> Any:
    np.rot90(m._layout, k, axes)  # says what is wrong
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
    return v.diagonal(k) if v.ndim == 2 else wrap(jnp.diag(v.value, k))


def _matrix_transpose(x: MutableArray) -> Any:
    return np.swapaxes(x, -1, -2) if x.ndim > 1 else np.matrix_transpose(x._layout)


def _checked(function: Function, m: MutableArray) -> MutableArray:
    function(m._layout)  # says what is wrong
    return m


def _unstack(x: MutableArray, /, *, axis: int = 0) -> Any:
    numpy.unstack(x._layout, axis=axis)  # says what is wrong
    return tuple(numpy.moveaxis(x, axis, 0)[number, ...] for number in range(x.shape[axis]))


def _shares(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether elements are shared: NumPy compares places in memory."""
    if isinstance(b, np.ndarray):
        a, b = b, a
    if isinstance(a, np.ndarray):
        return not getattr(b._memory.value, "is_pending", False) and np.shares_memory(a, b.__array__())
    if not isinstance(a, MutableArray) or not isinstance(b, MutableArray) or a._memory is not b._memory:
        return False
    places = np.arange(a._memory.value.size).reshape(a._memory.value.shape)
    return bool(np.intersect1d(np.asarray(_places(places, a)), np.asarray(_places(places, b))).size)


def _places(places: np.ndarray, array: MutableArray) -> Any:
    """The ``places`` in memory that ``array`` looks at."""
    for step in array._path:
        if isinstance(step, IndexStep):
            places = places[step.place]
        elif isinstance(step, ReadOnly):
            places = getattr(np, step.function)(places, *step.arguments)
        elif not isinstance(step, Part):
            places = step.get(places)
    return places


_VIEWS: dict[str, Callable[..., Any]] = {
    "np.ravel": lambda a, order="C": a.ravel(order),
    "np.diagonal": lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2),
    "np.expand_dims": _expand_dims,
    "np.atleast_1d": _atleast(1),
    "np.atleast_2d": _atleast(2),
    "np.atleast_3d": _atleast(3),
    "np.fliplr": lambda m: _checked(np.fliplr, m)[:, ::-1],
    "np.flipud": lambda m: _checked(np.flipud, m)[::-1, ...],
    "np.rot90": _rot90,
    "np.broadcast_to": _broadcast_to,
    "np.broadcast_arrays": _broadcast_arrays,
    "np.diag": _diag,
    "np.matrix_transpose": _matrix_transpose,
    "np.linalg.matrix_transpose": _matrix_transpose,
    "np.unstack": _unstack,
    "np.real": lambda val: val.real,
    "np.imag": lambda val: val.imag,
    "np.shares_memory": _shares,
    "np.may_share_memory": _shares,
    "np.copy": lambda a, order="K", subok=False: a.copy(order),
    "np.astype": lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype, copy=copy),
    "np.linalg.diagonal": lambda x, /, *, offset=0: x.diagonal(offset, -2, -1),
}
"""Functions that give views or look at memory, in a form for these arrays."""

_OF_SEVERAL = frozenset(
    f"np.{name}"
    for name in "atleast_1d atleast_2d atleast_3d broadcast_arrays shares_memory may_share_memory".split()
)
"""Those of them that take arrays of all kinds together."""

_SHARING: dict[str, Callable[[Any, Any], bool]] = {
    "np.einsum": lambda args, kwargs: len(args) == 2,
    "np.meshgrid": lambda args, kwargs: not kwargs.get("copy", True),
}
"""Functions that give views that are not followed, if the arguments are such."""


# ---- what writes to its first argument ---------------------------------------------------------------------


def _writes(function: Function, lazily: Callable[..., bool] | None = None) -> Callable[..., Any]:
    """``function`` for a target that can be written to.

    ``lazily`` records it and returns True, or returns False: then NumPy writes to a copy.
    """
    name = functions.name_of(function)

    def call(target: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(target, MutableArray):
            function(target, *_copied(args, "numpy_out", name), **_copied(kwargs, "numpy_out", name))
        elif lazily is None or not lazily(target, *args, **kwargs):
            array = np.array(target._taken("numpy_values", name))
            _by_numpy(function, (array, *args), kwargs, "numpy_values", name)
            target._write(jnp.asarray(array))

    return call


def _copyto(dst: MutableArray, src: Any, casting: Any = "same_kind", where: Any = True) -> bool:
    source = _dtype_of(src)
    if src.__class__ in (int, float, complex):
        np.copyto(np.empty((), dst.dtype), src, casting)
    elif not np.can_cast(source, dst.dtype, casting):
        np.copyto(np.empty((), dst.dtype), np.ones((), source), casting)
    new = jnp.broadcast_to(fit(src, dst.shape, dst.dtype), dst.shape)
    mask = _read(where)
    if mask is not True:
        new = jnp.where(jnp.broadcast_to(jnp.asarray(mask), dst.shape), new, dst.value)
    dst._write(new)
    return True


def _putmask(a: MutableArray, mask: Any, values: Any) -> bool:
    mask = _read(mask)
    if np.shape(mask) != a.shape or np.size(_read(values)) != 1:
        return False
    mask = jnp.asarray(mask)
    value = fit(_read(values), (1,) * a.ndim, a.dtype).reshape(())
    a._write(jnp.where(mask, value, a.value))
    return True


def _fill_diagonal(a: MutableArray, val: Any, wrap: bool = False) -> bool:
    if wrap or np.ndim(_read(val)) or a.ndim != 2:
        return False
    a._write(jnp.fill_diagonal(a.value, fit(val, (), a.dtype), inplace=False))
    return True


def _place(arr: MutableArray, mask: Any, vals: Any) -> bool:
    return np.size(_read(vals)) == 1 and _putmask(arr, mask, vals)


def _put_along_axis(arr: MutableArray, indices: Any, values: Any, axis: Any = -1) -> bool:
    """Known places are looked at first."""
    if isinstance(_read(indices), jax.Array) or axis is None:
        return False
    probe = np.zeros(arr.shape, bool)
    np.put_along_axis(probe, indices, True, axis)  # says what is out of bounds
    chosen = np.take_along_axis(np.arange(arr.size).reshape(arr.shape), indices, axis)
    new = jnp.broadcast_to(fit(values, chosen.shape, arr.dtype), chosen.shape)
    arr.flat[chosen.ravel()] = new.reshape(-1)
    return True


def _put(a: MutableArray, ind: Any, v: Any, mode: str = "raise") -> bool:
    if isinstance(_read(ind), jax.Array) or mode != "raise":
        return False
    a.flat[np.asarray(ind).ravel()] = v
    return True


_WRITES: dict[str, Callable[..., Any]] = {
    "np.copyto": _writes(np.copyto, _copyto),
    "np.putmask": _writes(np.putmask, _putmask),
    "np.place": _writes(np.place, _place),
    "np.fill_diagonal": _writes(np.fill_diagonal, _fill_diagonal),
    "np.put": _writes(np.put, _put),
    "np.put_along_axis": _writes(np.put_along_axis, _put_along_axis),
}
