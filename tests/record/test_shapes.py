"""``jax.eval_shape`` of what can depend on nothing that changes is remembered; of anything else it is not."""

from __future__ import annotations

import functools
import pickle
import warnings

import jax
import jax.numpy as jnp
import pytest
from jax import random
from oracle import assert_same

import lazynb
from lazynb.recording.replay import eval_shape_cache

SIZE = 3
COUNT = [0]
total = 0


def fresh(init, *args, **kwargs):
    """A new function, as Flax makes one of an initialiser."""
    return lambda: init(random.key(0), *args, **kwargs)


@pytest.fixture
def known():
    """The memory, empty."""
    eval_shape_cache._known.clear()
    return eval_shape_cache._known


def lazily(function, times=2):
    with lazynb.lazy():
        return [jax.eval_shape(function()) for _ in range(times)]


INITIALISERS = {
    "normal": jax.nn.initializers.normal(),
    "lecun": jax.nn.initializers.lecun_normal(dtype=jnp.bfloat16),
    "zeros": jax.nn.initializers.zeros,
    "orthogonal": jax.nn.initializers.orthogonal(),
    "partial": lambda key, shape: random.normal(key, shape),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_an_initialiser_is_traced_once(name, known):
    init = INITIALISERS[name]
    eager = jax.eval_shape(fresh(init, (4, 2)))
    assert lazily(lambda: fresh(init, (4, 2)), 3) == [eager] * 3 and len(known) == 1
    other = jax.eval_shape(fresh(init, (2, 4)))
    assert lazily(lambda: fresh(init, (2, 4))) == [other] * 2 and len(known) == 2


def test_flax_s_parameters_are_remembered(known):
    nn = pytest.importorskip("flax.linen")
    model, x = nn.Dense(64), jnp.ones((2, 4))
    params = model.init(jax.random.key(0), x)
    with lazynb.lazy():
        for _ in range(2):
            model.apply(params, x)
    assert len(known) == 2


def test_repeated_results_are_distinct_objects(known):
    one, two = lazily(lambda: fresh(INITIALISERS["normal"], (4, 2)))
    assert one == two and one is not two


def test_a_changed_setting_is_traced_again(known):
    function = lambda: fresh(jax.nn.initializers.normal(dtype=float), (2,))  # noqa: E731
    assert lazily(function)[0].dtype == jnp.float32
    with jax.enable_x64(True):
        assert lazily(function)[0].dtype == jnp.float64
    assert lazily(function)[0].dtype == jnp.float32


def test_a_changed_global_or_default_is_traced_again(known, monkeypatch):
    function = lambda: lambda: jnp.zeros(SIZE)  # noqa: E731
    assert [out.shape for out in lazily(function)] == [(3,)] * 2 and len(known) == 1
    monkeypatch.setitem(globals(), "SIZE", 5)
    assert [out.shape for out in lazily(function)] == [(5,)] * 2
    sized = lambda size: lambda shape=(size,): jnp.zeros(shape)  # noqa: E731
    assert [lazily(lambda size=size: sized(size))[1].shape for size in (1, 2)] == [(1,), (2,)]


def counts_in_a_list():
    def function():
        COUNT[0] += 1
        return jnp.zeros(COUNT[0])

    return function


def counts_in_a_global():
    global total
    total = total + 1
    return jnp.zeros(1)


def calls(function):
    def called():
        return function(jnp.zeros(2))

    return called


def counts_in_a_closure():
    number = 0

    def function():
        nonlocal number
        number = number + 1
        return jnp.zeros(number)

    return function


def grows(sizes):
    def function():
        sizes.append(1)
        return jnp.zeros(len(sizes))

    return function


def imports():
    import math

    return jnp.zeros(int(math.sqrt(4)))


@pytest.mark.parametrize(
    "function",
    [
        counts_in_a_list,
        lambda: counts_in_a_global,
        counts_in_a_closure,
        lambda: grows([]),
        lambda: imports,
        lambda: calls(functools.partial(jnp.add, 1)),
        lambda: calls(jax.jit(jnp.sin)),
        lambda: lambda: jnp.zeros(len("ab")),
        lambda: lambda: print("seen") or jnp.zeros(2),
        lambda: functools.partial(jnp.zeros, 2),
        lambda: lambda: jax.config.update("jax_log_compiles", False),
        lambda: lambda: jnp.set_printoptions(precision=8),
    ],
)
def test_functions_with_mutable_state_are_traced_each_time(function, known):
    lazily(function)
    assert not known


def test_a_counter_in_the_traced_function_advances_at_each_call(known):
    before = COUNT[0]
    assert [out.shape for out in lazily(counts_in_a_list, 3)] == [(before + n,) for n in (1, 2, 3)]


def test_an_error_is_raised_each_time(known):
    for _ in range(2):
        assert_same(lambda: jax.eval_shape(fresh(INITIALISERS["lecun"], (4,))))
    assert not known


def test_a_warning_is_given_each_time(known):
    function = lambda: fresh(jax.nn.initializers.zeros, (2,), jnp.float64)  # noqa: E731
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        lazily(function, 3)
    assert len([one for one in seen if "float64" in str(one.message)]) == 3


def test_eval_shape_with_arguments_and_under_transformations_equals_eager(known):
    assert_same(lambda x: jax.eval_shape(lambda y: y + x, x).shape[0] * x, jnp.ones(2))
    assert_same(jax.grad(lambda x: x * jax.eval_shape(fresh(INITIALISERS["normal"], (2,))).shape[0]), 2.0)
    assert_same(jax.vmap(lambda x: x * jax.eval_shape(lambda: x + 1).size), jnp.ones(2))


def test_the_substitute_equals_and_pickles_as_jax_eval_shape():
    plain = jax.eval_shape
    with lazynb.lazy():
        assert jax.eval_shape == plain and pickle.loads(pickle.dumps(jax.eval_shape)) == plain
        assert jax.eval_shape.__doc__ == plain.__doc__
    assert jax.eval_shape is plain


def test_flax_still_finds_a_parameter_of_another_shape():
    nn = pytest.importorskip("flax.linen")
    model, x = nn.Dense(3), jnp.ones((2, 4))
    params = model.init(jax.random.key(0), x)
    with lazynb.lazy():
        for _ in range(2):
            model.apply(params, x)
            with pytest.raises(Exception, match="shape"):
                model.apply(params, jnp.ones((2, 5)))
            with pytest.raises(Exception, match="shape"):
                nn.Dense(2).apply(params, x)
