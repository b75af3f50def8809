"""Between two lazy blocks the substitutes rest where they are. No program sees that: JAX's names are JAX's own, what
it sets stays, and what it uses eagerly is soon put back for good."""

from __future__ import annotations

import asyncio
import copyreg
import importlib
import inspect
import pickle
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from lazy_thread import lazy_thread
from record.ownership import assert_own, assert_put_back, may_rest

import lazynb
from lazynb.config import config
from lazynb.jax_compat.substitutes import MAX_DORMANT_USES
from lazynb.recording.lazy_blocks import blocks, patches

PUBLIC = (jnp, jnp.linalg, jax.nn, jax.lax, jax.random, jax.extend.core)

blocks.put_back()
OWN = {module: dict(vars(module)) for module in PUBLIC}


def pair():
    with lazynb.lazy():
        pass


@pytest.fixture(autouse=True)
def at_rest():
    blocks.put_back()
    pair()
    assert patches.rest.on
    yield
    blocks.put_back()
    for module, own in OWN.items():
        assert type(module) is types.ModuleType
        assert {name for name in own if vars(module).get(name) is not own[name]} == set()
    assert_put_back()


@pytest.fixture
def looking():
    """Any number of uses."""
    patches.rest.left = 1_000_000


def stands(owner, name):
    """What stands in a module, whoever rests there."""
    return types.ModuleType.__dict__["__dict__"].__get__(owner)[name]


# ---- what it costs -----------------------------------------------------------------------------------------


def calls(function):
    """How many functions of Python and of C ``function`` calls."""
    count = 0

    def note(_, event, __):
        nonlocal count
        count += event in ("call", "c_call")

    function()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def eagerly():
    with lazynb.eager():
        pass


REGION = lazynb.lazy()


def same_region():
    with REGION:
        pass


async def entering():
    return calls(pair)


@pytest.mark.parametrize(
    "enter, most",
    [
        (pair, 100),
        (lazynb.lazy()(lambda: None), 100),
        (same_region, 100),
        (eagerly, 70),
        (lazynb.eager()(lambda: None), 70),
        (lazynb.lazy()(eagerly), 190),
    ],
    ids=["lazy", "decorated", "again", "eager", "eagerly decorated", "eager in lazy"],
)
def test_entering_and_leaving_takes_few_calls(enter, most):
    """JAX has 700 names that are substituted; the first time takes 2,300 calls."""
    assert calls(enter) <= most
    blocks.put_back()
    pair()
    assert calls(enter) <= most


def test_entering_and_leaving_in_a_task_takes_few_calls(no_other_loop):
    assert asyncio.run(entering()) <= 110


def test_a_loop_that_works_eagerly_in_between_stays_at_rest():
    for _ in range(MAX_DORMANT_USES):
        pair()
        x = jnp.ones(3) + 1
        assert isinstance(x, jax.Array) and not isinstance(x, lazynb.LazyTensor)
    assert patches.rest.on


# ---- what a program sees -----------------------------------------------------------------------------------


def test_names_give_the_functions_of_jax_at_rest(looking):
    for module, own in OWN.items():
        names = [name for name in own if not name.startswith("__")]
        assert [name for name in names if getattr(module, name) is not own[name]] == []
    assert stands(jnp, "sin") is not jnp.sin and patches.rest.on
    from jax.numpy import linalg, sin

    assert sin is OWN[jnp]["sin"] and linalg.norm is OWN[jnp.linalg]["norm"]
    assert jnp.sin.__module__ == OWN[jnp]["sin"].__module__ and type(jnp.sin) is type(OWN[jnp]["sin"])
    assert inspect.signature(jnp.where) == inspect.signature(OWN[jnp]["where"])
    assert pickle.loads(pickle.dumps(jnp.where)) is OWN[jnp]["where"]
    assert np.asarray is patches_of_numpy()["asarray"]


def patches_of_numpy():
    return next(plain for owner, _, plain in patches._replaced if owner is np)


def test_modules_keep_their_type_and_repr_at_rest():
    for module in PUBLIC:
        assert isinstance(module, types.ModuleType) and inspect.ismodule(module)
        assert module.__class__ is types.ModuleType
        assert repr(module) == f"<module {module.__name__!r} from {module.__file__!r}>"
        assert repr(type(module)) == "<class 'module'>"
        assert importlib.import_module(module.__name__) is module
    assert patches.rest.on
    with pytest.raises(AttributeError, match=r"jax\.numpy.*no attribute 'absent'"):
        jnp.absent  # noqa: B018
    assert not hasattr(jnp, "absent") and patches.rest.on


def test_cloudpickle_pickles_a_module_at_rest():
    """cloudpickle does, for the globals of a function."""
    cloudpickle = pytest.importorskip("cloudpickle")
    found = pickle.loads(cloudpickle.dumps({"module": jnp}))
    assert found["module"] is jnp and patches.rest.on


def test_a_module_that_is_pickled_is_found_by_its_name():
    assert copyreg.dispatch_table.get(types.ModuleType) is None
    assert pickle.loads(pickle.dumps(jnp)) is jnp


@pytest.mark.parametrize(
    "look",
    [vars, dir, lambda module: module.__dict__, lambda module: exec("from jax.numpy import *", {})],
    ids=["vars", "dir", "__dict__", "star"],
)
def test_reading_the_module_dict_restores_the_module(look):
    look(jnp)
    assert_put_back()
    assert stands(jnp, "sin") is jnp.sin is OWN[jnp]["sin"]


def test_operations_at_rest_are_eager():
    x = jnp.arange(6.0).reshape(2, 3)
    values = [x + x, x * 2, -x, x[1], x.sum(), jnp.sin(x), jnp.add(x, x), jax.lax.full((2,), 1.0), x @ x.T]
    values += [jax.grad(lambda x: (jnp.sin(x) * x).sum())(x), jax.jit(lambda x: x * 2).lower(x).compile()(x)]
    values += [jax.random.normal(jax.random.key(0), (2,)), jax.vmap(jnp.dot)(x, x), x.astype("int32")]
    rested = [np.asarray(value) for value in values]
    assert patches.rest.on and not any(isinstance(value, lazynb.LazyTensor) for value in values)
    blocks.put_back()
    values = [x + x, x * 2, -x, x[1], x.sum(), jnp.sin(x), jnp.add(x, x), jax.lax.full((2,), 1.0), x @ x.T]
    values += [jax.grad(lambda x: (jnp.sin(x) * x).sum())(x), jax.jit(lambda x: x * 2).lower(x).compile()(x)]
    values += [jax.random.normal(jax.random.key(0), (2,)), jax.vmap(jnp.dot)(x, x), x.astype("int32")]
    for value, other in zip(values, rested, strict=True):
        np.testing.assert_array_equal(value, other)


def test_work_submitted_to_a_pool_at_rest_is_not_wrapped():
    def caller():
        return sys._getframe(1).f_code.co_qualname

    with ThreadPoolExecutor(1) as pool:
        eagerly = pool.submit(caller).result()
        with lazynb.lazy():
            lazily = pool.submit(caller).result()
        assert pool.submit(caller).result() == eagerly != lazily


def test_a_static_argument_is_traced_once():
    traced = []
    apply = jax.jit(lambda x, f: traced.append(f) or f(x), static_argnames="f")
    apply(1.0, f=jnp.tanh)
    blocks.put_back()
    apply(1.0, f=jnp.tanh)
    assert len(traced) == 1


# ---- what a program sets -----------------------------------------------------------------------------------


def mine(*args, **kwargs):
    return "mine"


def eager_and_lazy(find):
    """What a program finds eagerly, in a lazy block, and afterwards."""
    found = [find()]
    with lazynb.lazy():
        found.append(find())
    return [*found, find()]


OWNERS = [
    (jnp, "sin"),
    (jax.lax, "full"),
    (jax.stages.Compiled, "__call__"),
    (np, "asarray"),
    (jax.nn, "gelu"),
]


@pytest.mark.parametrize("owner, name", OWNERS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("when", ["before", "within", "at rest"])
def test_an_attribute_set_by_the_program_stays_until_reset(owner, name, when, monkeypatch):
    if when == "before":
        blocks.put_back()
        monkeypatch.setattr(owner, name, mine)
    elif when == "within":
        with lazynb.lazy():
            monkeypatch.setattr(owner, name, mine)
    else:
        monkeypatch.setattr(owner, name, mine)
    for _ in range(3):
        assert eager_and_lazy(lambda: getattr(owner, name)) == [mine] * 3
    monkeypatch.undo()
    eager, lazy, after = eager_and_lazy(lambda: getattr(owner, name))
    if not may_rest(owner):  # what was found within a block is the substitute
        assert after is OWN.get(owner, patches_of_numpy())[name] == eager
    assert lazy is not mine and lazy is next(
        names[name] for known, names, _ in patches._replaced if known is owner and name in names
    )


def test_a_value_set_in_the_module_dict_stays():
    contents = types.ModuleType.__dict__["__dict__"].__get__(jnp)  # as if it had been held since before
    own = jnp.sin
    contents["sin"] = mine
    assert patches.rest.on and eager_and_lazy(lambda: jnp.sin) == [mine] * 3
    contents["sin"] = own
    assert eager_and_lazy(lambda: jnp.sin) == [own] * 3


def test_a_mock_patch_applies_and_is_undone():
    own = jnp.sin
    for _ in range(2):
        with mock.patch.object(jnp, "sin", mine):
            assert eager_and_lazy(lambda: jnp.sin) == [mine] * 3
        assert jnp.sin is own
    with lazynb.lazy(), mock.patch.object(jnp, "sin", mine):
        assert jnp.sin is mine
    eager, lazy, after = eager_and_lazy(lambda: jnp.sin)
    assert eager is after is own and lazy is not own


def test_a_deleted_name_stays_deleted_in_lazy_mode():
    own = jnp.sin
    del jnp.sin
    try:
        assert not hasattr(jnp, "sin")
        with lazynb.lazy():
            assert not hasattr(jnp, "sin")
        pair()
        assert not hasattr(jnp, "sin")
        with pytest.raises(AttributeError):
            del jnp.sin
    finally:
        jnp.sin = own
    with lazynb.lazy():
        del jnp.cos
    assert not hasattr(jnp, "cos")
    jnp.cos = OWN[jnp]["cos"]


def test_a_module_class_set_by_the_program_stays():
    class Mine(types.ModuleType):
        pass

    jnp.__class__ = Mine
    try:
        own = jnp.sin
        for _ in range(2):
            eager, lazy, after = eager_and_lazy(lambda: jnp.sin)
            assert eager is after is own and lazy is not own and type(jnp) is Mine
    finally:
        jnp.__class__ = types.ModuleType


def test_unsubstituted_names_can_be_set_and_deleted():
    jnp.absent = 1
    assert jnp.absent == 1 and eager_and_lazy(lambda: jnp.absent) == [1] * 3
    del jnp.absent


# ---- how it ends -------------------------------------------------------------------------------------------

X = jnp.arange(4.0)
COMPILED = jax.jit(lambda x: x * 2).lower(X).compile()

USES = {
    "name": lambda: jnp.sin,
    "operator": lambda: X + 1.0,
    "method": lambda: X.sum(),
    "ufunc": lambda add=jnp.add: add(X, X),
    "compiled": lambda: COMPILED(X),
}


@pytest.mark.parametrize("use", USES)
def test_many_eager_uses_restore_the_modules(use):
    for _ in range(MAX_DORMANT_USES // 3):
        USES[use]()
    assert patches.rest.on
    for _ in range(MAX_DORMANT_USES):
        USES[use]()
    assert_put_back()
    with lazynb.lazy():
        assert stands(jnp, "sin") is jnp.sin is not OWN[jnp]["sin"]


def test_uses_beside_a_lazy_thread_leave_the_substitutes():
    with lazy_thread(lambda: (jnp.sin, isinstance(jnp.ones(2) + 1, lazynb.LazyTensor))) as ended:
        for _ in range(2 * MAX_DORMANT_USES):
            for use in ("name", "operator"):
                USES[use]()
        assert patches.on and not patches.rest.on
        found, lazily = ended()
    assert lazily and found is not OWN[jnp]["sin"] and jnp.sin is OWN[jnp]["sin"]


def test_threads_reading_setting_and_entering_concurrently_see_right_names():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def enter():
        wrong = 0
        for _ in range(300):
            with lazynb.lazy():
                wrong += stands(jnp, "sin") is OWN[jnp]["sin"] or type(jnp) is not types.ModuleType
        return wrong

    def look():
        wrong = 0
        for _ in range(300):
            wrong += jnp.tanh not in (OWN[jnp]["tanh"],)
            vars(jnp)
            jnp.absent = 1
        return wrong

    try:
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(work) for work in (enter, look, enter, look)]
            assert sum(one.result() for one in done) == 0
    finally:
        sys.setswitchinterval(before)
        del jnp.absent
    assert_own()


def test_end_all_restores_the_modules():
    blocks.end_all()
    assert_put_back()


def test_substitute_names_changed_at_rest_takes_effect():
    config.substitute_names = False
    try:
        for _ in range(2):
            assert eager_and_lazy(lambda: jnp.sin) == [OWN[jnp]["sin"]] * 3
            assert isinstance(lazynb.lazy()(lambda: jnp.ones(2) + 1)(), lazynb.LazyTensor)
        assert calls(pair) <= 100
    finally:
        config.substitute_names = True
    with lazynb.lazy():
        assert stands(jnp, "sin") is jnp.sin is not OWN[jnp]["sin"]


def test_substitutes_rest_after_an_error_in_a_body():
    with pytest.raises(ZeroDivisionError), lazynb.lazy():
        raise ZeroDivisionError
    assert patches.rest.on and jnp.sin is OWN[jnp]["sin"]


FORKED = """
import os, warnings
warnings.simplefilter("ignore")
import jax.numpy as jnp
own = jnp.sin
import lazynb
with lazynb.lazy():
    pass
child = os.fork()
if child == 0:
    seen = [jnp.sin is own]
    with lazynb.lazy():
        seen.append(jnp.sin is not own)
    seen.append(jnp.sin is own)
    vars(jnp)
    seen.append(jnp.sin is own)
    os._exit(0 if all(seen) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert jnp.sin is own
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork")
def test_a_process_forked_at_rest_works():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
