"""Idioms of NumPy code, and calls of libraries with lazy arguments, give what they give eagerly."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from tests.frontends.idioms import IDIOMS
from tests.frontends.library_calls import CALLS
from tests.frontends.pandas_calls import CALLS as PANDAS, plain

ONE_PROGRAM = frozenset(
    """heat rk4 image_filter monte_carlo windows standardize softmax cumulative gram power_iteration rows in_place
    clip_round fft complexes broadcasting einsum filling distance_matrix nbody life life_convolve""".split()
) - {"cumulative"}
"""Idioms that ask for no value."""


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def compare(eager: Any, lazy: Any) -> None:
    expected, found = leaves(eager), leaves(lazy)
    assert len(found) == len(expected)
    for one, other in zip(expected, found):
        if isinstance(one, jax.Array | np.ndarray | np.generic):
            assert other.dtype == one.dtype and other.shape == one.shape, (one, other)
            assert isinstance(other, jax.Array if isinstance(one, jax.Array) else type(one)), (one, other)
            if one.dtype.kind in "fc":
                np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=2e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(np.asarray(other), np.asarray(one))
        elif isinstance(one, float):
            assert other == pytest.approx(one, rel=1e-5)
        else:
            assert bool(other) == one if one.__class__ is bool else other == one


def check(function: Any, name: str) -> None:
    values = np.random.default_rng(len(name)).normal(size=12).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = function(jnp.asarray(values))
        lazynb.sync()
        with lazynb.lazy():
            lazy = function(jnp.asarray(values) * 1)
            broken = lazynb.breaks()
        compare(eager, lazy)
    assert not broken or name not in ONE_PROGRAM, broken


@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_gives_what_it_gives_eagerly(name, clean):
    check(IDIOMS[name], name)


@pytest.mark.parametrize("name", CALLS)
def test_a_library_call_gives_what_it_gives_eagerly(name, clean):
    check(CALLS[name], name)


@pytest.mark.parametrize("name", PANDAS)
def test_a_call_of_pandas_gives_what_it_gives_eagerly(name, clean):
    check(lambda x: plain(PANDAS[name](x)), name)
