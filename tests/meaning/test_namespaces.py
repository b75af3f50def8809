"""Every public function of JAX's array namespaces gives the same lazily as eagerly; and none goes
untested."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import tiers
from oracle import Call, Different, assert_all_same

import lazynb

from . import cases_array, cases_lax, cases_linalg, cases_nn, cases_numpy, cases_random
from .exceptions import EXCEPTIONS, is_exception

# (namespace, its samples, its public callables that need none)
TABLES = {
    "jax.numpy": (jnp, cases_numpy.CASES, cases_numpy.NOT_ARRAY_FUNCTIONS),
    "jax.numpy.linalg": (jnp.linalg, cases_linalg.NUMPY_LINALG, {}),
    "jax.numpy.fft": (jnp.fft, cases_linalg.NUMPY_FFT, {}),
    "jax.nn": (jax.nn, cases_nn.NN, cases_nn.NN_NOT_ARRAY_FUNCTIONS),
    "jax.nn.initializers": (
        jax.nn.initializers,
        cases_nn.INITIALIZERS,
        cases_nn.INITIALIZERS_NOT_ARRAY_FUNCTIONS,
    ),
    "jax.lax": (jax.lax, cases_lax.LAX, cases_lax.NOT_ARRAY_FUNCTIONS),
    "jax.lax.linalg": (jax.lax.linalg, cases_linalg.LAX_LINALG, cases_linalg.LAX_LINALG_NOT_ARRAY_FUNCTIONS),
    "jax.random": (jax.random, cases_random.RANDOM, cases_random.RANDOM_NOT_ARRAY_FUNCTIONS),
}

# What a function does with given arrays differs little from what it does with pending ones, and compiling
# takes the time.
TWO_OF_THEM = slice(1, 4, 2)


def _functions():
    """Each function with samples that the installed JAX has; the tables cover several versions."""
    for title, (namespace, cases, _) in TABLES.items():
        for name in cases:
            if hasattr(namespace, name):
                yield pytest.param(
                    f"{title}.{name}", getattr(namespace, name), cases[name], id=f"{title}.{name}"
                )


@pytest.mark.parametrize("title, fn, samples", _functions())
@pytest.mark.filterwarnings("ignore")
def test_each_public_function_gives_what_eager_gives(title, fn, samples):
    _check(title, [s.call(fn) for s in some(samples)])


def _uses_of_arrays():
    have = set(dir(jnp.ones(3)))
    for name, samples in cases_array.ARRAY.items():
        if name in have:
            yield pytest.param(f"jax.Array.{name}", samples, id=f"jax.Array.{name}")
    for name, samples in cases_array.PYTHON.items():
        yield pytest.param(f"python.{name}", samples, id=f"python.{name}")


@pytest.mark.parametrize("title, samples", _uses_of_arrays())
@pytest.mark.filterwarnings("ignore")
def test_each_array_attribute_gives_what_eager_gives(title, samples):
    _check(title, [s.call(_attribute(title)) for s in some(samples)])


# ---- by JAX's own dispatch ---------------------------------------------------------------------------------

SHARE = 12
"""Of so many functions one is also tried without substituted names; all of them in `make full`."""


def _share(params):
    return list(params)[:: 1 if tiers.FULL else SHARE]


@pytest.fixture
def no_substitution():
    lazynb.config.substitute_names = False
    yield
    lazynb.config.substitute_names = True


@pytest.mark.parametrize("title, fn, samples", _share(_functions()))
@pytest.mark.filterwarnings("ignore")
def test_functions_give_what_eager_gives_without_substitution(title, fn, samples, no_substitution):
    _check(title, [s.call(fn) for s in some(samples)])


@pytest.mark.parametrize("title, samples", _share(_uses_of_arrays()))
@pytest.mark.filterwarnings("ignore")
def test_array_attributes_give_what_eager_gives_without_substitution(title, samples, no_substitution):
    _check(title, [s.call(_attribute(title)) for s in some(samples)])


def some(samples):
    """Of the samples of a function the last one that works (the first ones are the simplest); all of them in
    `make full`."""
    if tiers.FULL:
        return samples
    return ([sample for sample in samples if not sample.raises] or samples)[-1:]


def _check(title, calls):
    """All the same, but for the honest differences; and those are still there, so that the list stays
    true."""
    expected = [call for call in calls if is_exception(f"{title}{_arguments(call)}")]
    assert_all_same([call for call in calls if all(call is not e for e in expected)], given=TWO_OF_THEM)
    for call in expected:
        with pytest.raises(Different):
            assert_all_same([call])


def _arguments(call):
    return str(call)[len(call.name) :]


def _attribute(name):
    def attribute():
        raise NotImplementedError("each sample of an array's attribute says how it is used")

    attribute.__name__ = name
    return attribute


@pytest.mark.parametrize("title", TABLES)
def test_each_public_function_has_samples(title):
    namespace, cases, others = TABLES[title]
    public = {
        name for name in dir(namespace) if not name.startswith("_") and callable(getattr(namespace, name))
    }
    assert sorted(public - set(cases) - set(others)) == []
    assert sorted(set(cases) & set(others)) == []


def test_each_public_attribute_of_arrays_has_samples():
    names = {name for name in dir(jnp.ones(3)) if not name.startswith("_")}
    assert sorted(names - set(cases_array.ARRAY) - set(cases_array.ARRAY_NOT_TESTED)) == []


def test_each_function_has_a_sample_that_does_not_raise():
    """Each function has at least one sample that works."""
    for _, cases, _ in TABLES.values():
        only_raise = [name for name, samples in cases.items() if all(s.raises for s in samples)]
        assert set(only_raise) <= {"fromfile", "fromiter"}  # JAX has them in order to say why it does not


def test_fewer_than_ten_exceptions_exist_and_each_has_a_reason():
    assert len(EXCEPTIONS) < 10
    assert all(len(difference.reason) > 20 and difference.calls for difference in EXCEPTIONS)


def test_the_oracle_reports_differing_values_and_errors():
    """An oracle that lets everything pass proves nothing."""
    calls = []

    def differs(x):
        calls.append(x)
        return x + (len(calls) > 1)

    def raises_later(x):
        calls.append(x)
        if len(calls) > 1:
            raise ValueError("late")
        return x

    for fn in (differs, raises_later):
        calls.clear()
        with pytest.raises(AssertionError):
            assert_all_same([Call(fn, (jnp.ones(3),))])
