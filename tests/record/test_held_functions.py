"""Functions of JAX that code holds from before lazy mode: ``from jax.nn import softmax``, ``sin = jnp.sin``, a default
value. They are recorded and replayed like those that are looked up by name, and nobody sees their other code."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import pickle
import sys
import threading
import tomllib
import types
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import softmax
from oracle import Call, Outcome, _difference

import lazynb
from lazynb.config import config
from lazynb.jax_compat.substitutes import JITTED, MAX_DORMANT_USES
from lazynb.recording.lazy_blocks import blocks, patches
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.replay import array_functions, call_replay

blocks.put_back()
MODULES = (jnp, jnp.linalg, jax.nn, jax.lax, jax.random)
HELD = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if not name.startswith("_") and callable(value) and not isinstance(value, type | types.ModuleType)
}
"""Public functions, taken before a thread was lazy."""

CODES = {
    name: entered.__code__
    for name, value in HELD.items()
    if isinstance(value, types.FunctionType | JITTED)
    and (entered := lazynb.jax_compat.python_function(value)) is not None
}

TABLE = tomllib.loads(Path(__file__).with_name("held_calls.toml").read_text())
CALLS = [
    (module, name, text)
    for module in MODULES
    for text, names in TABLE[module.__name__].items()
    for name in names.split()
    if hasattr(module, name)  # the JAXs differ in a few
]
SIZE = 15  # functions in a test


def arguments(text):
    """The arguments that ``text`` stands for, made anew."""
    names = {
        "jnp": jnp,
        "F": jnp.linspace(0.1, 0.9, 8).reshape(2, 4),
        "I": jnp.arange(8).reshape(2, 4) % 3,
        "U": jnp.array([1, 0]),
        "B": jnp.arange(8).reshape(2, 4) % 2 == 0,
        "V": jnp.linspace(0.1, 0.9, 4),
        "S": jnp.eye(3) * 2 + 0.1,
        "C": jnp.arange(4) * (1 + 1j),
        "K": jax.random.key(0),
    }
    return eval(f"({text},)", names)


def ways(function):
    """What may hold a function, besides a name."""

    def by_default(*args, f=function):
        return f(*args)

    return {"held": function, "in a partial": functools.partial(function), "by default": by_default}


class Count:
    """Counts the calls that JAX's own code makes."""

    def __init__(self, monkeypatch):
        self.calls = 0
        for owner, name in ((call_replay, "_record_edge"), (LazyTrace, "process_primitive")):
            monkeypatch.setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, plain):
        def call(*args, **kwargs):
            self.calls += 1
            return plain(*args, **kwargs)

        return call


def run(call, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Outcome(call(*arguments(text)))


def test_the_table_has_the_public_functions_that_are_replayed():
    replayed = {
        (module, name)
        for module, names in array_functions.replayed_functions().items()
        for name in names
        if f"{module}.{name}" in HELD
    }
    missing = replayed - {(module.__name__, name) for module, name, _ in CALLS}
    assert len(replayed) > 500 and len(missing) < 40, sorted(missing)


@pytest.mark.parametrize("first", range(0, len(CALLS), SIZE))
def test_held_functions_give_eager_s_results_and_are_replayed_as_by_name(first, monkeypatch, clean):
    count, wrong = Count(monkeypatch), []
    for module, name, text in CALLS[first : first + SIZE]:
        function = HELD[f"{module.__name__}.{name}"]
        expected, calls = run(function, text), {}
        with lazynb.lazy():
            by_name = lambda *args, module=module, name=name: getattr(module, name)(*args)  # noqa: E731
            for way, form in {"by name": by_name, **ways(function)}.items():
                for _ in range(3):  # an edge for numbers may need a second look
                    count.calls = 0
                    outcome = run(form, text)
                    calls[way] = count.calls
                    lazynb.sync()
                if difference := _difference(Call(function, loose=10.0), expected, outcome):
                    wrong.append((name, text, way, difference))
                del outcome
                lazynb.sync()
        if max(calls.values()) > calls["by name"] and name not in array_functions._CONVERSIONS:
            wrong.append((name, text, calls))
    assert not wrong


# ---- Nobody sees it ----------------------------------------------------------------------------------------


def test_a_held_function_stays_itself():
    x = jnp.ones((2, 3))
    signature, source = inspect.signature(HELD["jax.numpy.where"]), inspect.getsource(HELD["jax.numpy.where"])
    with lazynb.lazy():
        assert (
            copy.copy(softmax) is softmax and pickle.loads(pickle.dumps(HELD["jax.numpy.mean"])) == jnp.mean
        )
        assert inspect.signature(HELD["jax.numpy.where"]) == signature
        assert inspect.getsource(HELD["jax.numpy.where"]) == source
        jitted = jax.jit(HELD["jax.numpy.linspace"], static_argnames="num")
        assert jitted(0.0, 1.0, num=5).shape == (5,)
        assert jax.jit(softmax, static_argnames="axis")(x, axis=0).shape == (2, 3)
        assert jax.vmap(softmax)(x).shape == jax.grad(lambda y: softmax(y).sum())(x).shape == (2, 3)
        with jax.disable_jit():
            assert isinstance(softmax(x), LazyTensor)


def test_the_codes_are_back_after_the_last_lazy_block_and_some_uses():
    x = jnp.ones(3)
    with lazynb.lazy():
        changed = {name for name in CODES if entered(name).__code__ is not CODES[name]}
    assert len(changed) > 500
    for _ in range(MAX_DORMANT_USES + 1):
        HELD["jax.numpy.where"](x > 0, x, x)
    assert not patches.rest.on
    assert {name for name in CODES if entered(name).__code__ is not CODES[name]} == set()
    assert "__wrapped__" not in vars(HELD["jax.numpy.where"])


def entered(name):
    return lazynb.jax_compat.python_function(HELD[name])


def test_a_code_that_other_code_sets_stays():
    function = HELD["jax.numpy.flip"]
    own = function.__code__
    other = (lambda m, axis=None: "other").__code__
    blocks.put_back()
    try:
        function.__code__ = other
        with lazynb.lazy():
            assert function(1) == "other"
        blocks.put_back()
        assert function.__code__ is other
    finally:
        function.__code__ = own


def test_the_setting_leaves_the_codes_alone():
    blocks.put_back()
    config.substitute_names = False
    try:
        with lazynb.lazy():
            assert all(entered(name).__code__ is code for name, code in CODES.items())
    finally:
        config.substitute_names = True


@pytest.mark.parametrize(
    "name", ["jax.numpy.concatenate", "jax.nn.softmax", "jax.numpy.matmul", "jax.lax.add"]
)
def test_errors_are_those_of_eager_jax(name):
    function = HELD[name]

    def fail():
        try:
            function(jnp.ones(2), jnp.ones((3, 5)), jnp.ones(7), object())
        except Exception as error:
            return type(error), str(error)

    expected = fail()
    with lazynb.lazy():
        assert fail() == fail() == expected and expected is not None


def test_another_thread_runs_a_held_function_eagerly():
    x, results = jnp.linspace(0.0, 1.0, 4), []
    with lazynb.lazy():
        recorded = softmax(x)
        thread = threading.Thread(target=lambda: results.append(softmax(x)))
        thread.start()
        thread.join()
        assert isinstance(recorded, LazyTensor) and recorded.is_pending
        assert type(results[0]) is type(x)
        np.testing.assert_allclose(recorded, results[0], rtol=1e-6)


def test_an_operation_of_a_held_function_is_described_as_one_by_name():
    def described(call):
        x = jnp.ones(3)
        with lazynb.lazy():
            nodes = lazynb.graph(call(x)).snapshot.nodes
            return [(node.primitive, node.call, node.place and node.place.text) for node in nodes]

    by_name = described(lambda x: jax.nn.softmax(x))
    held = described(lambda x: softmax(x))
    assert [[*one[:2]] for one in held] == [[*one[:2]] for one in by_name]
    assert "lambda x: softmax(x)" in held[-1][2] and held[-1][1] == "softmax"


def test_the_locals_of_a_call_can_be_read(monkeypatch):
    """As debuggers do, and as the search for literals does. A code without its cells ended the process."""
    seen = []

    def look(frame, event, argument):
        if event == "call":
            seen.append(dict(frame.f_locals))

    x = jnp.ones(3)
    with lazynb.lazy():
        for name in (
            "jax.numpy.sin",
            "jax.numpy.where",
            "jax.nn.softmax",
            "jax.numpy.concatenate",
            "jax.lax.add",
        ):
            sys.setprofile(look)
            try:
                with contextlib.suppress(TypeError):
                    HELD[name](
                        *[[x]] if name.endswith("concatenate") else [x] * (3 if "where" in name else 1)
                    )
            finally:
                sys.setprofile(None)
    assert any("args" in one for one in seen)
