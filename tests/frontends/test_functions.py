"""Every public function of NumPy's: what it comes to is what docs/numpy.md says, and what it gives is what
NumPy gives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from tests.frontends import listing
from tests.frontends.calls import CALLS

# The list was written with these; other releases of the two have other functions, and refuse other arguments.
LISTED = np.__version__.startswith("2.4.") and jax.__version__.startswith("0.10.")
NAMES = sorted(set(CALLS) & listing.public())
GROUPS = [NAMES[start : start + 40] for start in range(0, len(NAMES), 40)]


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_calls_give_what_numpy_gives(names, clean):
    check(names, listing.stored("32"))


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_calls_give_what_numpy_gives_in_64_bit_mode(names, clean):
    with jax.enable_x64(True):
        check(names, listing.stored("64"))


def check(names, stored):
    found = listing.outcomes(names)
    wrong = [
        (text, one.problem) for name in names for text, one in zip(CALLS[name], found[name]) if one.problem
    ]
    assert wrong == []
    if not LISTED:
        return
    assert {name: listing.row(found[name]) for name in names} == {name: stored[name] for name in names}, (
        "run scripts/numpy_page.py"
    )


def test_every_public_function_is_listed():
    missing = listing.public() ^ set(CALLS)
    assert missing == set() or not LISTED, missing


def test_at_least_85_percent_of_the_functions_stay_lazy():
    assert listing.share("32") >= 0.85
    assert listing.share_of_all("64") >= 0.85


def test_the_page_is_up_to_date():
    assert listing.PAGE.read_text() == listing.page(), "run scripts/numpy_page.py"


def test_the_comparison_reports_each_kind_of_difference():
    from tests.frontends.compare import difference

    assert difference(np.float32(1), np.float32(1)) is None
    assert "float64" in difference(np.ones(2, np.float32), np.ones(2))
    assert "shape" in difference(np.ones(2, np.float32), np.ones(3, np.float32))
    assert "eagerly" in difference(np.ones(2, np.float32), np.zeros(2, np.float32))
    assert "list" in difference([np.ones(2)], (np.ones(2),))


def test_nan_to_num_replaces_each_place_once(clean):
    values = np.array([-np.inf, np.nan, np.inf, 1], np.float32)
    settings = {"nan": np.inf, "posinf": 999, "neginf": -np.inf}
    for array in (values, values + 1j * values[::-1]):
        lazynb.clear_cache()
        expected = np.nan_to_num(array, **settings)
        with lazynb.lazy():
            found = np.nan_to_num(jnp.asarray(array) + 0, **settings)
            assert not lazynb.breaks()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(found), expected)
