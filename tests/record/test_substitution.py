"""What a program sees of the names that are substituted while a thread is lazy: a function that it got hold
of is as good as JAX's own, everything is JAX's own again afterwards, and a setting does without."""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import pickle
import subprocess
import sys

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from ownership import assert_own

import lazynb
from lazynb.config import config
from lazynb.recording.lazy_blocks import patches
from lazynb.recording.lazy_tensor import LazyTensor

MODULES = (jnp, jnp.linalg, jax.nn, jax.lax, jax.random)


def held_functions():
    """By module and name, JAX's own function and what a program holds that found it while a thread was
    lazy."""
    own = {module: dict(vars(module)) for module in MODULES}
    with lazynb.lazy():
        return {
            (module, name): (own[module][name], value)
            for module in MODULES
            for name, value in vars(module).items()
            if value is not own[module].get(name, value)
        }


HELD = held_functions()


@pytest.fixture
def no_substitution():
    config.substitute_names = False
    yield
    config.substitute_names = True


# ---- equal to JAX's own ------------------------------------------------------------------------------------


def test_more_than_300_names_in_all_modules_are_substituted():
    assert len(HELD) > 300 and {module for module, _ in HELD} == set(MODULES)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_held_functions_are_equal_to_jax_s(module):
    for own, held in (pair for (owner, _), pair in HELD.items() if owner is module):
        assert own == held and held == own, own
        assert not operator.ne(own, held) and not operator.ne(held, own), own
        assert hash(own) == hash(held) and {own: 1}[held] == {held: 1}[own] == 1, own
        assert held in [own] and own in [held] and len({own, held}) == 1, own
        assert held != jnp.ndarray and held != len and held != 1 and jnp.iinfo != held, own
        assert pickle.loads(pickle.dumps(held)) is own and copy.deepcopy(held) is held, own
        assert repr(held) == repr(own) and held.__name__ == own.__name__, own
        assert held.__doc__ == own.__doc__ and inspect.unwrap(held) is inspect.unwrap(own), own
        assert isinstance(held, jax.stages.Wrapped) == isinstance(own, jax.stages.Wrapped), own


def test_functions_that_gain_nothing_are_not_substituted():
    names = {name for _, name in HELD}
    assert not names & {
        "unique",
        "nonzero",
        "dtype",
        "psum",
        "reduce_window",
        "key_impl",
        "mean",
        "vectorize",
    }


def test_held_functions_have_jax_s_signatures():
    for own, held in HELD.values():
        assert inspect.signature(held) == inspect.signature(own), own


def test_different_functions_stay_different():
    held = [held for _, held in HELD.values()]
    assert len(set(held)) == len({id(own) for own, _ in HELD.values()}) > 300
    with lazynb.lazy():
        sin, cos = jnp.sin, jnp.cos
        assert sin != cos and sin == jnp.sin and len({sin, cos, jnp.sin}) == 2


@pytest.mark.parametrize("lazy_first", [True, False])
def test_caches_of_python_s_and_jax_s_know_a_held_function(lazy_first):
    own = jnp.tanh
    with lazynb.lazy():
        held = jnp.tanh
    first, second = (held, own) if lazy_first else (own, held)
    calls = []
    cached = functools.lru_cache(calls.append)
    cached(first), cached(second)
    assert len(calls) == 1
    x = jnp.arange(3.0)
    leaves = [jax.tree.structure(jax.tree_util.Partial(one, x)) for one in (first, second)]
    assert leaves[0] == leaves[1]

    @jax.jit
    def apply(partial):
        calls.append(partial)
        return partial(x)

    calls.clear()
    for one in (first, second):
        np.testing.assert_array_equal(apply(jax.tree_util.Partial(one)), np.asarray(jnp.tanh(x)))
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["add", "logaddexp"])
def test_ufuncs_are_jax_s_own(name):
    """They are one static argument, lazy or not."""
    own, traced = getattr(jnp, name), []
    with lazynb.lazy():
        held = getattr(jnp, name)
        assert held is own

    @functools.partial(jax.jit, static_argnums=0)
    def apply(function, x):
        traced.append(function)
        return function(x, x)

    x = jnp.arange(3.0)
    for function in (held, own):
        apply(function, x)
        with lazynb.lazy():
            assert isinstance(apply(function, x), LazyTensor)
    assert len(traced) == 1


def test_a_held_function_as_a_static_argument_gives_what_jax_s_gives():
    """JAX compares the types of static arguments first, so it may trace twice."""
    with lazynb.lazy():
        held = [jnp.tanh, jnp.where, jax.random.normal]

    @functools.partial(jax.jit, static_argnames="function")
    def apply(x, function):
        return function(x)

    x = jnp.linspace(0, 1, 3)
    np.testing.assert_array_equal(apply(x, function=held[0]), apply(x, function=jnp.tanh))
    assert held == [jnp.tanh, jnp.where, jax.random.normal]


def test_a_held_jitted_function_has_what_jax_s_has():
    with lazynb.lazy():
        held = jnp.tanh
        inside = held.lower(jnp.ones(3)).as_text()
    x = jnp.ones(3)
    assert held.lower(x).as_text() == jnp.tanh.lower(x).as_text() == inside
    assert str(held.trace(x).jaxpr) == str(jnp.tanh.trace(x).jaxpr) and held.eval_shape(x).shape == (3,)
    partial = functools.partial(held, x)
    assert partial.func == jnp.tanh and partial() == pytest.approx(np.tanh(1.0))
    wrapped = jax.jit(held)
    assert wrapped.lower(x).compile()(x)[0] == pytest.approx(np.tanh(1.0))


# ---- put back ----------------------------------------------------------------------------------------------

REMAINING = {
    "jax._src.stages.Traced.__init__": "a lazy array that outlives lazy mode may be a constant of what is lowered",
    "jax._src.pjit.convert_to_metaty": "a lazy array that outlives lazy mode may be an argument of what is lowered",
    "jax._src.api._infer_src_sharding": "a gradient goes back to where a lazy array is that outlives lazy mode",
    "jax._src.interpreters.pxla.batched_device_put": "arrays that share a NumPy array's memory, whenever made",
    "jax._src.dlpack._place_array": "arrays that share memory through DLPack, whenever made",
    "jax._src.dlpack._to_dlpack": "arrays that share memory through DLPack, whenever shared",
    "jaxlib._jax.ArrayImpl.__init__": "an array is put together of lazy ones that outlive lazy mode",
    "jax._src.random.prng.KeyTyRules.make_sharded_array": "so is an array of keys",
    "jax._src.array.core": "what a callback returns to make_array_from_callback may be lazy",
    "jax._src.array.dtypes": "and is given its type as an array is",
    "jax._src.shard_map.ShardMapTrace.to_val_mat_pair": "a function that is mapped closes over a lazy array that outlives lazy mode",
}
"""What lazynb's import replaces for good, with the reason: none of it is a name that users call."""

PROGRAM = """
import sys, threading, types, warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp, jax.experimental.ode, jax.export, jax.scipy, jax.test_util
import numpy as np

def of_jax(name):
    return str(name).partition(".")[0] in ("jax", "jaxlib")

def everything():
    found, seen = {}, set()
    owners = [(n, m) for n, m in list(sys.modules.items()) if isinstance(m, types.ModuleType) and of_jax(n)]
    while owners:
        owner, value = owners.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        for name, attribute in list(vars(value).items()):
            found[f"{owner}.{name}"] = attribute
            if isinstance(attribute, type) and of_jax(attribute.__module__):
                owners.append((f"{attribute.__module__}.{attribute.__qualname__}", attribute))
    return found

class Failing:
    def copy_to_host_async(self):
        raise ValueError

def use():
    x = jnp.arange(4.0) + 1
    y = jax.jit(lambda x: x * 2)(jnp.tanh(x)) + jnp.where(x > 1, jnp.add(x, 1), x)
    z = jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2))(x) + jax.lax.full((4,), 1.0)
    return x, y, z, jax.random.normal(jax.random.key(0), (3,)), jax.vmap(jnp.dot)(jnp.ones((2, 3)), jnp.ones((2, 3)))

def failing():
    try:
        jax.device_get((held[0], Failing()))
    except ValueError:
        pass

held = use()
jax.device_get(held)
before = everything()
import lazynb
try:
    with lazynb.lazy():
        held = use()
        thread = threading.Thread(target=lambda: lazynb.lazy()(use)())
        thread.start()
        thread.join()
        jax.device_get(held)
        failing()
        while_lazy = everything()
        held = use()
        raise KeyError
except KeyError:
    pass
failing()
np.asarray(held[0]), jax.device_get(held), use()
lazynb.config.substitute_names = False
with lazynb.lazy():
    held = use()
after = everything()
def changed(now):
    return sorted(name for name in before if now.get(name, before) is not before[name])
assert "jax.numpy.tanh" in changed(while_lazy), changed(while_lazy)
print(*changed(after))
"""


def test_all_attributes_of_jax_are_restored_after_lazy_mode():
    """All attributes of all modules and classes of JAX's, against those before lazynb was imported."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == set(REMAINING)


# ---- without substitution ----------------------------------------------------------------------------------


def test_without_substitution_the_names_are_jax_s(no_substitution):
    with lazynb.lazy():
        others = {name for (module, name), (own, _) in HELD.items() if vars(module)[name] is not own}
        assert others == {"full", "full_like", "composite"}
        x = jnp.arange(3.0)
        y = jnp.tanh(x) * 2 + jnp.where(x > 1, x, -x)
        assert isinstance(y, LazyTensor) and y.is_pending and len(lazynb.graph(y)) > 3
    expected = jnp.tanh(jnp.arange(3.0)) * 2 + jnp.array([0.0, -1.0, 2.0])
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert_own()


def test_substitute_names_takes_effect_in_the_next_body():
    own = jnp.tanh
    try:
        with lazynb.lazy():
            assert jnp.tanh is not own
            config.substitute_names = False
            with lazynb.lazy():
                assert jnp.tanh is own and patches.on
                x = jnp.ones(3)
                assert isinstance(x + 1, LazyTensor) and isinstance(np.float32(1) + x, LazyTensor)
            config.substitute_names = True
            with lazynb.lazy():
                assert jnp.tanh is not own
    finally:
        config.substitute_names = True
    assert jnp.tanh is own
    assert_own()


def test_concrete_arrays_are_recorded_without_substitution(no_substitution):
    x = jnp.arange(4.0)
    with lazynb.lazy():
        for value in (x + x, x * 2, x[1], x.sum(), -x, x @ x, jnp.add(x, x), jax.jit(lambda x: x * 2)(x)):
            assert isinstance(value, LazyTensor)
        gradient = jax.grad(lambda x: (jnp.sin(x) * x).sum())(x)
    np.testing.assert_allclose(gradient, np.cos(x) * x + np.sin(x), rtol=1e-5)


def test_the_opaque_trace_state_is_that_of_eager_code():
    made = jax.extend.core.get_opaque_trace_state()
    with lazynb.lazy():
        assert jax.extend.core.get_opaque_trace_state() == made
        levels = []
        jax.jit(lambda x: levels.append(jax.extend.core.get_opaque_trace_state()) or x)(jnp.ones(2))
    assert levels != [made] and jax.extend.core.get_opaque_trace_state() == made
