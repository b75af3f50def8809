"""NumPy's functions of which more has to be said than "as JAX's of the same name": data, by name.

Each entry of ``BREAKS`` holds a kind of :data:`lazynb.reasons.REASONS` and why NumPy's own function must run:
a text, or a function of the arguments that gives one where they are of that kind, and nothing where they are
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np


def _names(text: str, prefix: str = "np.") -> list[str]:
    return [prefix + name for name in text.split()]


ANSWERED_NAMES = frozenset(
    _names("""shape ndim size result_type can_cast iscomplexobj isrealobj common_type einsum_path
    diag_indices_from tril_indices_from triu_indices_from""")
)
"""Answered from types and shapes: no value is needed and nothing is recorded."""

SHOWS = frozenset(_names("array2string array_repr array_str"))
"""What makes text of values."""

CONVERTS_NAMES = SHOWS | frozenset(_names("save savetxt savez savez_compressed"))
"""What shows and saves values, and the break says so."""

METHODS = frozenset(
    _names("""all amax amin any argmax argmin around array_split compress cumprod cumsum flip hsplit imag max
    mean min moveaxis nonzero prod real repeat reshape rollaxis round searchsorted split squeeze std sum
    swapaxes transpose trim_zeros unstack var vsplit""")
)
"""NumPy does these by the array's own methods: of an array of JAX's it gives one of JAX's, committed to a
device as that is."""

WRITES = frozenset(_names("copyto put place putmask fill_diagonal put_along_axis"))
"""They write to their first argument."""

PLACES = frozenset(
    _names("""take take_along_axis put put_along_axis split array_split vsplit hsplit dsplit delete insert
    repeat roll pad tile transpose moveaxis rollaxis resize reshape choose broadcast_to squeeze expand_dims
    flip rot90 unravel_index ravel_multi_index ix_""")
) | {"np.linalg.matrix_power"}
"""Integer arrays of NumPy's among their arguments are places, widths or counts: passed by value."""

CASTS = frozenset(
    _names("""vander polyder interp cov corrcoef average median nanmedian percentile quantile nanpercentile
    nanquantile polyval     trapezoid unwrap gradient angle sinc i0 fix polyint linspace""")
) | frozenset(_names("norm vector_norm matrix_norm det slogdet multi_dot qr", "np.linalg."))
"""Without a ``dtype`` argument: NumPy converts the arrays to the type of the result first."""

_ERROR = "raises an error that depends on the values"
_SHAPE = "gives a shape that depends on the values"
_TYPE = "gives a type that depends on the values"
_OBJECT = "gives a Python object"


def _pending(
    position: int, name: str, why: str = _ERROR
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], str]:
    """``why`` if that argument is not known yet."""

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        value = args[position] if len(args) > position else kwargs.get(name)
        return why if _unknown(value) else ""

    return check


def _unknown(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_unknown, value))
    if not isinstance(value, jax.Array):
        return False
    return not (not getattr(value, "is_pending", False) and value.dtype.kind in "iub" and value.size <= 64)


def _unless_mode(position: int, name: str, mode: int) -> Callable[[tuple[Any, ...], Mapping[str, Any]], str]:
    """An error of places that are not known, unless they are to be wrapped or clipped."""
    inner = _pending(position, name)

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        chosen = kwargs.get("mode", args[mode] if len(args) > mode else "raise")
        return inner(args, kwargs) if chosen == "raise" else ""

    return check


def _singular_values(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    order = kwargs.get("ord", args[1] if len(args) > 1 else None)
    return (
        _ERROR
        if order in ("nuc", 2, -2)
        and order is not None
        and not isinstance(order, jax.Array)
        and (isinstance(order, str) or args[0].ndim != 1)
        else ""
    )


def _negative(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    power = kwargs.get("n", args[1] if len(args) > 1 else 0)
    return _ERROR if isinstance(power, jax.Array) or power < 0 else ""


def _one_argument(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return _SHAPE if len(args) == 1 else ""


def _integers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """NumPy compares integers in 64-bit floats."""
    kinds = [np.dtype(getattr(arg, "dtype", "f4")).kind for arg in args[:2]]
    return "compares integers in float64" if not set(kinds) <= set("fcb") else ""


def _complex(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """JAX has other places for missing parts."""
    return "orders complex numbers" if args and getattr(args[0], "dtype", np.dtype("f4")).kind == "c" else ""


def _truths(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """NumPy adds them as truth values, JAX as numbers."""
    return "of truth values" if args and getattr(args[0], "dtype", np.dtype("f4")).kind == "b" else ""


def _copies(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return "writes to its argument" if not kwargs.get("copy", args[1] if len(args) > 1 else True) else ""


def _calls(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return "calls a Python function" if any(map(callable, (*args[1:], *kwargs.values()))) else ""


def _table(kind: str, why: Any, names: str, prefix: str = "np.") -> dict[str, tuple[str, Any]]:
    return {name: (kind, why) for name in _names(names, prefix)}


BREAKS: dict[str, tuple[str, Any]] = {
    **_table(
        "numpy_values",
        _SHAPE,
        """nonzero flatnonzero argwhere unique unique_all unique_counts unique_inverse unique_values
        extract union1d intersect1d setdiff1d setxor1d trim_zeros bincount polydiv roots polymul""",
    ),
    **_table("numpy_values", _OBJECT, "allclose array_equal array_equiv"),
    **_table("numpy_values", _TYPE, "real_if_close"),
    **_table(
        "numpy_values",
        _ERROR,
        """nanargmax nanargmin unravel_index polyfit histogram histogram2d histogramdd
        histogram_bin_edges""",
    ),
    **_table(
        "numpy_values",
        _ERROR,
        "inv solve cholesky tensorinv tensorsolve lstsq svd svdvals eig eigh eigvals eigvalsh pinv "
        "matrix_rank cond",
        "np.linalg.",
    ),
    **_table("numpy_function", _truths, "trapezoid"),
    **_table(
        "numpy_function",
        _complex,
        """max min amax amin nanmax nanmin ptp sort argsort argmax argmin sort_complex median
        nanmedian partition argpartition searchsorted isin""",
    ),
    "np.linalg.norm": ("numpy_values", _singular_values),
    "np.linalg.matrix_norm": ("numpy_values", _singular_values),
    "np.linalg.matrix_power": ("numpy_values", _negative),
    "np.poly": (
        "numpy_values",
        lambda args, kwargs: "" if args[0].ndim == 1 and args[0].dtype.kind == "f" else _TYPE,
    ),
    "np.choose": ("numpy_values", _unless_mode(0, "a", 3)),
    "np.digitize": ("numpy_values", _pending(1, "bins")),
    "np.where": ("numpy_values", _one_argument),
    "np.isclose": ("numpy_dtype", _integers),
    "np.nan_to_num": ("numpy_out", _copies),
    "np.pad": ("numpy_function", _calls),
    "np.take": ("numpy_values", _unless_mode(1, "indices", 4)),
    "np.ravel_multi_index": ("numpy_values", _unless_mode(0, "multi_index", 2)),
    "np.take_along_axis": ("numpy_values", _pending(1, "indices")),
    "np.repeat": ("numpy_values", _pending(1, "repeats", _SHAPE)),
    "np.delete": ("numpy_values", _pending(1, "obj")),
    "np.insert": ("numpy_values", _pending(1, "obj")),
    "np.percentile": ("numpy_values", _pending(1, "q")),
    "np.quantile": ("numpy_values", _pending(1, "q")),
    "np.nanpercentile": ("numpy_values", _pending(1, "q")),
    "np.nanquantile": ("numpy_values", _pending(1, "q")),
    "np.average": (
        "numpy_values",
        lambda args, kwargs: (
            _ERROR if kwargs.get("weights", args[2] if len(args) > 2 else None) is not None else ""
        ),
    ),  # of weights that sum to zero
}
