"""The array API standard: its functions are there, and SciPy's and scikit-learn's code that is written to it
stays lazy."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.frontends.numpy.mutable_array import MutableArray, mutable
from tests.frontends.calls import CALLS

ROOT = Path(__file__).parent.parent.parent
NAMES = {
    section: names.split()
    for section, _, names in (
        line.partition(":")
        for line in (Path(__file__).parent / "array_api_names.txt").read_text().splitlines()
        if line[0] != "#"
    )
}
EXTENSIONS = ("linalg", "fft")

# What takes no array, or makes one: not in the list of NumPy's functions that are handed arrays.
MADE = {
    "arange": (3,),
    "asarray": ([1.0, 2.0],),
    "empty": (3,),
    "eye": (2,),
    "from_dlpack": (np.ones(2, np.float32),),
    "full": (2, 1.0),
    "linspace": (0, 1, 3),
    "ones": (2,),
    "zeros": (2,),
}
ASKED = {"finfo": ("float32",), "iinfo": ("int32",), "isdtype": (np.dtype("f4"), "real floating")}
FREQUENCIES = {"fftfreq", "rfftfreq"}


def test_every_function_of_the_standard_has_its_calls():
    missing = []
    for section, names in NAMES.items():
        prefix = f"np.{section}." if section in EXTENSIONS else "np."
        if section not in ("constants", "info"):
            missing += [
                name
                for name in names
                if prefix + name not in CALLS and name not in {*MADE, *ASKED, *FREQUENCIES}
            ]
    assert missing == []


def test_the_namespaces_have_every_name(clean):
    with lazynb.lazy():
        spaces = [
            (jnp.ones(2) * 2).__array_namespace__(),
            mutable(np.ones(2, np.float32)).__array_namespace__(),
        ]
    for space in spaces:
        for section, names in NAMES.items():
            owner = getattr(space, section) if section in EXTENSIONS else space
            assert [name for name in names if not hasattr(owner, name)] == []
    assert not lazynb.breaks()


@pytest.mark.parametrize("name", MADE)
def test_each_creation_function_of_the_standard_gives_a_mutable_array(name):
    space = mutable(np.ones(2, np.float32)).__array_namespace__()
    kwargs = {} if name in ("asarray", "from_dlpack") else {"dtype": np.float32, "device": "cpu"}
    found = getattr(space, name)(*MADE[name], **kwargs)
    if name in ("asarray", "from_dlpack"):
        found = space.asarray(found, dtype=np.float32)
    assert isinstance(found, MutableArray) and found.dtype == np.float32
    if name != "empty":
        np.testing.assert_array_equal(np.asarray(found), getattr(np, name)(*MADE[name]).astype(np.float32))


def test_asarray_returns_copies_or_converts_as_asked():
    a = mutable(np.ones(2, np.float32))
    space = a.__array_namespace__()
    assert space.asarray(a) is a and space.asarray(a, copy=True) is not a
    assert isinstance(space.asarray([a, a]), MutableArray) and space.asarray([a[0], a[1]]).shape == (2,)
    with pytest.raises(ValueError, match="avoid"):
        space.asarray(jnp.ones(2), copy=False)
    assert space.asarray(np.ones(2)).dtype == np.float64  # NumPy's own, where JAX has no such type


# ---- SciPy -------------------------------------------------------------------------------------------------

DATA = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)

SCIPY = """
import os, sys
os.environ["LAZYNB_PERSISTENT_CACHE"] = "0"
os.environ["SCIPY_ARRAY_API"] = "1"
import jax.numpy as jnp, numpy as np, lazynb
import scipy, scipy.fft, scipy.integrate, scipy.signal, scipy.special, scipy.stats
A = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
calls = {
    "special.erf": lambda x: scipy.special.erf(x), "special.expit": lambda x: scipy.special.expit(x),
    "special.softmax": lambda x: scipy.special.softmax(x, axis=1), "stats.skew": lambda x: scipy.stats.skew(x),
    "stats.kurtosis": lambda x: scipy.stats.kurtosis(x), "stats.entropy": lambda x: scipy.stats.entropy(abs(x)),
    "stats.gmean": lambda x: scipy.stats.gmean(abs(x)), "integrate.trapezoid": lambda x: scipy.integrate.trapezoid(x),
    "integrate.cumulative_trapezoid": lambda x: scipy.integrate.cumulative_trapezoid(x), "fft.fft": lambda x: scipy.fft.fft(x),
    "signal.fftconvolve": lambda x: scipy.signal.fftconvolve(x[:, 0], x[:, 1]),
    "signal.detrend": lambda x: scipy.signal.detrend(x, axis=0)}
for name, call in calls.items():
    with lazynb.lazy():
        found = call(jnp.asarray(A) * 1)
    assert not lazynb.breaks() and found.is_pending, (name, lazynb.breaks())
    np.testing.assert_allclose(np.asarray(found), call(A), rtol=1e-3, atol=1e-4, err_msg=name)
    lazynb.clear_cache()
with lazynb.lazy():
    scipy.integrate.simpson(jnp.asarray(A) * 1)
found = [(row.code, row.detail) for row in lazynb.breaks()]
older = [("LNB110", "scipy.simpson")]  # SciPy before 1.18 makes an array of NumPy's there
assert found == (older if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 18) else []), found
print("fine")
"""


def test_scipy_stays_lazy():
    pytest.importorskip("scipy", "1.16")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCIPY],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert found.stdout == "fine\n", found.stderr


# ---- scikit-learn: its code writes to arrays, so that most of it needs mutable ones ------------------------

# whether all numbers are finite; sklearn.config_context(assume_finite=True) leaves it out
FINITE = "if first_pass_isfinite:"


def estimators():
    from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances, linear_kernel, rbf_kernel
    from sklearn.preprocessing import Binarizer, KernelCenterer, Normalizer

    return {
        "Normalizer": (lambda x: Normalizer().fit_transform(x), mutable),
        "Binarizer": (lambda x: Binarizer().fit_transform(x), mutable),
        "cosine_similarity": (cosine_similarity, mutable),
        "rbf_kernel": (rbf_kernel, mutable),
        "euclidean_distances": (euclidean_distances, mutable),
        "linear_kernel": (linear_kernel, lambda x: x),
        "KernelCenterer": (lambda x: KernelCenterer().fit_transform(x @ x.T), lambda x: x),
    }


@pytest.fixture
def dispatching(monkeypatch):
    sklearn = pytest.importorskip("sklearn", "1.6")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with sklearn.config_context(array_api_dispatch=True):
                yield sklearn
    except RuntimeError:  # SciPy was imported before the variable was set
        pytest.skip("SCIPY_ARRAY_API=1 has to be set before SciPy is imported")


@pytest.mark.parametrize(
    "name",
    [
        "Normalizer",
        "Binarizer",
        "cosine_similarity",
        "rbf_kernel",
        "euclidean_distances",
        "linear_kernel",
        "KernelCenterer",
    ],
)
def test_scikit_learn_functions_stay_lazy_but_for_the_finiteness_check(name, dispatching, clean):
    function, make = estimators()[name]
    expected = function(DATA)
    with lazynb.lazy():
        found = function(make(jnp.asarray(DATA) * 1))
    assert {(row.code, row.library.text) for row in lazynb.breaks()} == {("LNB101", FINITE)}
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-3, atol=1e-3)
    lazynb.clear_cache()
    with lazynb.lazy(), dispatching.config_context(assume_finite=True):
        again = function(make(jnp.asarray(DATA) * 1))
    wide = name in (
        "euclidean_distances",
        "rbf_kernel",
    )  # they compute distances in float64, where float64 is left
    assert [(row.code, row.detail) for row in lazynb.breaks()] == [("LNB311", "astype to float64")] * wide
    np.testing.assert_allclose(np.asarray(again), expected, rtol=1e-3, atol=1e-3)


def test_scalers_write_to_their_arrays(dispatching, clean):
    from sklearn.preprocessing import MaxAbsScaler

    with lazynb.lazy(), dispatching.config_context(assume_finite=True):
        found = MaxAbsScaler().fit_transform(mutable(jnp.asarray(DATA) * 1))
    assert [row.code for row in lazynb.breaks()] == ["LNB101"]
    np.testing.assert_allclose(np.asarray(found), MaxAbsScaler().fit_transform(DATA), rtol=1e-5)
    with lazynb.lazy(), pytest.raises(TypeError, match="immutable"):
        MaxAbsScaler().fit_transform(jnp.asarray(DATA) * 1)
