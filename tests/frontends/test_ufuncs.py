"""Each ufunc for each pair of types, on values at the edges: what is recorded is what NumPy gives, or NumPy
gives it."""

from __future__ import annotations

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from tests.frontends.compare import difference

UFUNCS = sorted(
    {getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc)},
    key=lambda one: one.__name__,
)
NARROW = ["bool", "int8", "int32", "uint8", "uint32", "float16", "float32", "complex64"]
NUMBERS = [2, -3, 2.5, True, 0]

# Complex numbers with infinite or missing parts are left out: NumPy (the C library) and XLA follow C99's
# annex G each in part.
_EDGES_OF_COMPLEX = {
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arcsin",
    "arccos",
    "arctan",
    "arcsinh",
    "arccosh",
    "arctanh",
    "power",
    "multiply",
    "divide",
    "reciprocal",
    "square",
    "sign",
    "absolute",
    "float_power",
    "matmul",
    "vecdot",
    "matvec",
    "vecmat",
}


def values(dtype: str, complete: bool) -> np.ndarray:
    """Values of ``dtype``; ``complete`` with those at the edges."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([True, False, True, False])
    if kind in "iu":
        found = [0, 1, 2, 3, 7, 100] + ([-1, -2, -7] if kind == "i" else [])
        edges = [np.iinfo(dtype).max, np.iinfo(dtype).min]
    else:
        found = [0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 7.25, -0.75] + [
            100.0
        ] * complete  # a power of complex numbers that overflows is at an edge
        edges = [-0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny]
    every = found + (edges if complete else [])
    if kind == "c":
        return np.array(
            [complex(a, b) for a, b in itertools.product(found[:6], found[2:7])]
            + ([complex(np.inf, 1)] if complete else []),
            dtype,
        )
    return np.array(every, dtype)


def pairs(one: str, other: str, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    a, b = values(one, complete), values(other, complete)
    return np.repeat(a, len(b)), np.tile(b, len(a))


def combinations(dtypes: list[str]) -> list[tuple[str, str]]:
    """Each type with itself, and with each of two others."""
    centres = [dtype for dtype in dtypes if dtype in ("int32", "float32", "float64")]
    found = [(one, one) for one in dtypes] + [(one, centre) for one in dtypes for centre in centres]
    return list(dict.fromkeys(found + [(centre, one) for one, centre in found[len(dtypes) :][::2]]))


def operands(ufunc: np.ufunc, dtypes: list[str]):
    """Operands to call ``ufunc`` with."""
    complete = ufunc.__name__ not in _EDGES_OF_COMPLEX
    if ufunc.nin == 1:
        for dtype in dtypes:
            yield (values(dtype, complete or np.dtype(dtype).kind != "c"),)
        return
    shape = {
        "matmul": ((2, 3), (3, 2)),
        "matvec": ((2, 3), (3,)),
        "vecmat": ((3,), (3, 2)),
        "vecdot": ((2, 3), (2, 3)),
    }.get(ufunc.__name__)
    for one, other in combinations(dtypes):
        if shape is not None:
            yield np.resize(values(one, False), shape[0]), np.resize(values(other, False), shape[1])
        else:
            yield pairs(one, other, complete or {np.dtype(one).kind, np.dtype(other).kind}.isdisjoint("c"))
    if shape is None:
        for turn, (dtype, number) in enumerate(itertools.product(dtypes[-5:], NUMBERS)):
            given = values(dtype, complete or np.dtype(dtype).kind != "c")
            yield (given, number) if turn % 2 else (number, given)


def outcome(ufunc, args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return ufunc(*args), None
        except Exception as error:
            return None, error.with_traceback(None)


def check(ufunc: np.ufunc, dtypes: list[str]) -> list[str]:
    problems, pending = [], []
    with lazynb.lazy():
        for args in operands(ufunc, dtypes):
            lazy = [jnp.asarray(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
            pending.append((args, *outcome(ufunc, args), *outcome(ufunc, lazy)))
    lazynb.sync()
    for args, own, error, found, lazy_error in pending:
        shown = ", ".join(str(getattr(arg, "dtype", repr(arg))) for arg in args)
        if error is not None or lazy_error is not None:
            if type(error) is not type(lazy_error) or str(error) != str(lazy_error):
                problems.append(f"{shown}: {lazy_error!r}, NumPy {error!r}")
        elif (problem := difference(own, found)) is not None:
            problems.append(f"{shown}: {problem}")
    return problems


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda one: one.__name__)
def test_each_ufunc_equals_numpy_for_each_pair_of_types(ufunc, clean):
    assert check(ufunc, NARROW) == []


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda one: one.__name__)
def test_each_ufunc_equals_numpy_in_64_bit_mode(ufunc, clean):
    with jax.enable_x64(True):
        assert check(ufunc, ["int32", "float32", "int64", "float64", "complex128"]) == []
