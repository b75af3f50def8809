"""Every public callable of NumPy's and its submodules, with plain arguments of several kinds: what it makes
of lazy tensors is what it makes of NumPy's arrays, or what it makes of arrays of JAX's.

Most of them have no protocol. They take the values, or look at types, and are to do that as eagerly.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.frontends.numpy.mutable_array import mutable
from tests.frontends.compare import difference

MODULES = """numpy numpy.linalg numpy.fft numpy.lib numpy.lib.stride_tricks numpy.lib.scimath
    numpy.lib.array_utils numpy.lib.recfunctions numpy.polynomial numpy.polynomial.polynomial
    numpy.polynomial.chebyshev numpy.polynomial.legendre numpy.polynomial.hermite numpy.polynomial.hermite_e
    numpy.polynomial.laguerre numpy.polynomial.polyutils numpy.char numpy.strings numpy.rec numpy.ma
    numpy.testing numpy.random numpy.ctypeslib""".split()

SKIPPED = frozenset(
    """test show_config show_runtime info run_module_suite rundocs runstring measure assert_no_gc_cycles save
    savez savez_compressed savetxt fromfile memmap load loadtxt genfromtxt seterr seterrcall setbufsize
    set_printoptions set_state seed ndenumerate nditer nested_iters break_cycles check_support_sve
    clear_and_catch_warnings suppress_warnings tempdir temppath load_library as_ctypes""".split()
)
"""They write files, settings or addresses, run tests, or give objects that have no values to compare."""

OTHERWISE = frozenset(
    """empty_like empty ids partition argpartition str_ format_float assign_fields_by_name join_by rec_join
    array2string array_repr array_str set_default_printstyle default_rng masked_all_like fix isneginf isposinf
    fromstring""".split()
)
"""They give what is in memory, where it lies, an order that is open, how an array is written, or refuse what
is no array of NumPy's in words of their own."""

CALLS = ["F", "F, G", "U", "U, V", "I, I", "U, K", "K, 2", "[U, V]", "B", "F, axis=0", "F[0, 0]"]

ARRAYS: dict[str, Any] = {
    "F": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32),
    "G": np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32),
    "U": np.array([0.5, 1.5, -2, 3], np.float32),
    "V": np.array([1, 2, 3, 4], np.float32),
    "I": np.arange(1, 13, dtype=np.int32).reshape(3, 4),
    "K": np.array([2, 0, 1, 1], np.int32),
    "B": np.array([True, False, True, True]),
}


def callables(module: str) -> Iterator[tuple[str, Any]]:
    owner = importlib.import_module(module)
    names = getattr(owner, "__all__", None) or [name for name in vars(owner) if name[0] != "_"]
    for name in sorted(names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = getattr(owner, name, None)
        is_error = isinstance(found, type) and issubclass(found, BaseException)
        is_tested_elsewhere = isinstance(found, np.ufunc)
        if callable(found) and not is_error and not is_tested_elsewhere and name not in SKIPPED | OTHERWISE:
            yield name, found


def run(function: Any, text: str, make: Any) -> tuple[Any, Exception | None]:
    values = {name: make(value) for name, value in ARRAYS.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        np.random.seed(0)
        try:
            return eval(f"function({text})", {"function": function, **values}), None
        except Exception as error:
            return None, error.with_traceback(None)


def pending(value: Any) -> Any:
    return jax.lax.optimization_barrier(jnp.asarray(value))


def is_alike(expected: Any, error: Exception | None, found: Any, lazy_error: Exception | None) -> bool:
    if error is not None or lazy_error is not None:
        return type(error) is type(lazy_error)
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(expected)):  # the same as eagerly
        expected, found = jax.tree.map(np.asarray, (expected, found))
    try:
        problem = difference(expected, found)
    except Exception:  # objects of other kinds
        return True
    return problem is None or " at 0x" in problem


def wrong(module: str, make: Any) -> list[str]:
    """The calls that come to neither of what the two kinds of concrete arrays come to."""
    problems = []
    for name, function in callables(module):
        for text in CALLS:
            with lazynb.lazy():
                found = run(function, text, make)
            if is_alike(*run(function, text, np.copy), *found):
                continue
            if not is_alike(*run(function, text, jnp.asarray), *found):
                problems.append(f"{module}.{name}({text}): {found[1] or found[0]!r}")
    return problems


@pytest.mark.parametrize("module", MODULES)
def test_numpy_callables_treat_lazy_tensors_as_concrete_arrays(module, clean):
    assert wrong(module, pending) == []


@pytest.mark.parametrize("module", ["numpy.lib.scimath", "numpy.linalg", "numpy.fft"])
def test_numpy_callables_treat_mutable_arrays_as_concrete_arrays(module, clean):
    assert wrong(module, lambda value: mutable(pending(value))) == []


def test_the_sweep_detects_a_differing_exception():
    def bare(x: Any) -> Any:
        raise KeyError(x) if isinstance(x, lazynb.LazyTensor) else ValueError

    with lazynb.lazy():
        found = run(bare, "F", pending)
    assert not is_alike(*run(bare, "F", np.copy), *found)
