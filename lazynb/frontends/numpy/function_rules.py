"""Tables of NumPy functions whose recording needs more than the JAX function of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np


def _names(text: str, prefix: str = "np.") -> list[str]:
    return [prefix + name for name in text.split()]


METADATA_FUNCTIONS = frozenset(
    _names("""shape ndim size result_type can_cast iscomplexobj isrealobj common_type einsum_path
    diag_indices_from tril_indices_from triu_indices_from""")
)
"""Functions of dtypes and shapes only: they need no values and record nothing."""

TEXT_FUNCTIONS = frozenset(_names("array2string array_repr array_str"))
"""Functions that convert values to text."""

OUTPUT_FUNCTIONS = TEXT_FUNCTIONS | frozenset(_names("save savetxt savez savez_compressed"))
"""Functions that show or save values; the trace break is reported as such."""

METHOD_FUNCTIONS = frozenset(
    _names("""all amax amin any argmax argmin around array_split choose compress cumprod cumsum dsplit flip
    hsplit imag isreal max mean min moveaxis nonzero prod real repeat reshape rollaxis round searchsorted
    split squeeze std sum swapaxes take take_along_axis transpose trim_zeros unstack var vsplit""")
)
"""Functions that NumPy implements by calling the array's method, so a JAX array stays on its device."""

IN_PLACE_FUNCTIONS = frozenset(_names("copyto put place putmask fill_diagonal put_along_axis"))
"""Functions that write to their first argument."""

INDEX_ARGUMENT_FUNCTIONS = frozenset(
    _names("""take take_along_axis put put_along_axis split array_split vsplit hsplit dsplit delete insert
    repeat roll pad tile transpose moveaxis rollaxis resize reshape choose broadcast_to squeeze expand_dims
    flip rot90 unravel_index ravel_multi_index ix_""")
) | {"np.linalg.matrix_power"}
"""Functions that use integer arrays as indices, widths or counts, and so receive them by value."""

CAST_FIRST_FUNCTIONS = frozenset(
    _names("""vander polyder interp cov corrcoef average median nanmedian percentile quantile nanpercentile
    nanquantile polyval trapezoid unwrap gradient angle sinc i0 fix polyint linspace""")
) | frozenset(_names("norm vector_norm matrix_norm det slogdet multi_dot qr", "np.linalg."))
"""Functions without a ``dtype`` argument whose operands NumPy first casts to the dtype of the result."""

Arguments = tuple[Any, ...]
Options = Mapping[str, Any]
Condition = Callable[[Arguments, Options], bool]


class BreakRule(NamedTuple):
    """The reason why NumPy's function must run.

    Attributes:
      kind: a kind of :data:`lazynb.recording.break_reasons.REASONS`.
      why: what the function does that JAX cannot do.
      condition: whether the rule holds for the given arguments.
    """

    kind: str
    why: str
    condition: Condition


_ERROR = "raises an error that depends on the values"
_SHAPE = "gives a shape that depends on the values"
_TYPE = "gives a type that depends on the values"


def _always(args: Arguments, kwargs: Options) -> bool:
    return True


def _argument(args: Arguments, kwargs: Options, position: int, name: str, default: Any = None) -> Any:
    if len(args) > position:
        return args[position]
    return kwargs.get(name, default)


def _is_argument_pending(position: int, name: str) -> Condition:
    """A condition: the values of the argument are not known yet."""

    def applies(args: Arguments, kwargs: Options) -> bool:
        return _is_unknown(_argument(args, kwargs, position, name))

    return applies


def _is_unknown(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_unknown, value))
    if not isinstance(value, jax.Array):
        return False
    if getattr(value, "is_pending", False):
        return True
    return value.dtype.kind not in "iub" or value.size > 64


def _unless_mode(position: int, name: str, mode: int) -> Condition:
    """A condition: unknown indices, unless ``mode`` wraps or clips them.

    Arguments:
      mode: the position of the argument ``mode``.
    """
    is_pending = _is_argument_pending(position, name)

    def applies(args: Arguments, kwargs: Options) -> bool:
        raises = _argument(args, kwargs, mode, "mode", "raise") == "raise"
        return raises and is_pending(args, kwargs)

    return applies


def _needs_singular_values(args: Arguments, kwargs: Options) -> bool:
    order = _argument(args, kwargs, 1, "ord")
    if order not in ("nuc", 2, -2) or isinstance(order, jax.Array):
        return False
    return isinstance(order, str) or args[0].ndim != 1


def _inverts(args: Arguments, kwargs: Options) -> bool:
    power = _argument(args, kwargs, 1, "n", 0)
    return isinstance(power, jax.Array) or power < 0


def _has_one_argument(args: Arguments, kwargs: Options) -> bool:
    return len(args) == 1


def _is_no_real_vector(args: Arguments, kwargs: Options) -> bool:
    return args[0].ndim != 1 or args[0].dtype.kind != "f"


def _has_weights(args: Arguments, kwargs: Options) -> bool:
    """Whether weights are given; they may sum to zero."""
    return _argument(args, kwargs, 2, "weights") is not None


def _kinds(args: Arguments) -> set[str]:
    """The kinds of the arguments' dtypes; an argument without a dtype counts as float."""
    return {np.dtype(getattr(arg, "dtype", "f4")).kind for arg in args}


def _has_integers(args: Arguments, kwargs: Options) -> bool:
    return not _kinds(args[:2]) <= set("fcb")


def _is_complex(args: Arguments, kwargs: Options) -> bool:
    """Whether the array is complex; NumPy and JAX order NaN differently there."""
    return _kinds(args[:1]) == {"c"}


def _has_bools(args: Arguments, kwargs: Options) -> bool:
    """Whether the array is boolean; NumPy adds booleans with a logical or, JAX as numbers."""
    return _kinds(args[:1]) == {"b"}


def _is_in_place(args: Arguments, kwargs: Options) -> bool:
    return not _argument(args, kwargs, 1, "copy", True)


def _pads_unlike_jax(args: Arguments, kwargs: Options) -> bool:
    if any(map(callable, (*args[1:], *kwargs.values()))):
        return True
    return _argument(args, kwargs, 2, "mode") == "linear_ramp" and _kinds(args[:1]) <= set("iub")


def _table(
    kind: str, why: str, names: str, applies: Condition = _always, prefix: str = "np."
) -> dict[str, BreakRule]:
    return {name: BreakRule(kind, why, applies) for name in _names(names, prefix)}


BREAKS: dict[str, BreakRule] = {
    **_table(
        "numpy_values",
        _SHAPE,
        """nonzero flatnonzero argwhere unique unique_all unique_counts unique_inverse unique_values
        extract union1d intersect1d setdiff1d setxor1d trim_zeros bincount polydiv roots polymul piecewise""",
    ),
    **_table("numpy_values", _TYPE, "real_if_close"),
    **_table(
        "numpy_values",
        _TYPE,
        "sqrt log log2 log10 logn power arccos arcsin arctanh",
        prefix="np.emath.",
    ),
    **_table(
        "numpy_values",
        _ERROR,
        """nanargmax nanargmin unravel_index polyfit histogram histogram2d histogramdd
        histogram_bin_edges""",
    ),
    **_table(
        "numpy_values",
        _ERROR,
        "tensorinv tensorsolve lstsq eig eigvals",
        prefix="np.linalg.",
    ),
    **_table("numpy_values", _ERROR, "choose", _unless_mode(0, "a", 3)),
    **_table("numpy_values", _ERROR, "take", _unless_mode(1, "indices", 4)),
    **_table("numpy_values", _ERROR, "ravel_multi_index", _unless_mode(0, "multi_index", 2)),
    **_table("numpy_values", _ERROR, "digitize", _is_argument_pending(1, "bins")),
    **_table("numpy_values", _ERROR, "take_along_axis", _is_argument_pending(1, "indices")),
    **_table("numpy_values", _ERROR, "delete insert", _is_argument_pending(1, "obj")),
    **_table(
        "numpy_values", _ERROR, "percentile quantile nanpercentile nanquantile", _is_argument_pending(1, "q")
    ),
    **_table("numpy_values", _ERROR, "average", _has_weights),
    **_table("numpy_values", _SHAPE, "repeat", _is_argument_pending(1, "repeats")),
    **_table("numpy_values", _SHAPE, "where", _has_one_argument),
    **_table("numpy_values", _TYPE, "poly", _is_no_real_vector),
    **_table("numpy_dtype", "compares integers in float64", "isclose", _has_integers),
    **_table("numpy_out", "writes to its argument", "nan_to_num", _is_in_place),
    **_table("numpy_function", "calls a function, or rounds a ramp of integers", "pad", _pads_unlike_jax),
    **_table("numpy_function", "of truth values", "trapezoid", _has_bools),
    **_table(
        "numpy_function",
        "orders complex numbers",
        """max min amax amin nanmax nanmin ptp sort argsort argmax argmin sort_complex median
        nanmedian partition argpartition searchsorted isin""",
        _is_complex,
    ),
}
"""Functions for which NumPy must run, always or under a condition on the arguments."""

CHECKED_LINALG: dict[str, Condition] = {
    **dict.fromkeys(
        _names("inv solve cholesky svd svdvals eigh eigvalsh pinv matrix_rank cond", "np.linalg."), _always
    ),
    **dict.fromkeys(_names("norm matrix_norm", "np.linalg."), _needs_singular_values),
    "np.linalg.matrix_power": _inverts,
}
"""Functions that raise depending on the values, with the condition; the compiled program does the check."""
