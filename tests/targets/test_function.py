"""A function compiled for its arguments, of which types are enough: nothing is run."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.recording.lazy_trace import thread_trace

TYPE = jax.ShapeDtypeStruct


def layer(params, x):
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jax.nn.softmax(hidden, axis=-1)


PARAMS = {"w": TYPE((64, 32), jnp.float32), "b": TYPE((32,), jnp.bfloat16)}
X = TYPE((128, 64), jnp.float32)


@pytest.fixture(autouse=True)
def nothing_runs(clean):
    """No test leaves anything pending, and none runs a program."""
    runs = lazynb.cache_info().hits
    yield
    assert lazynb.cache_info().hits == runs
    assert not thread_trace().all_pending() and not thread_trace().forbids_runs


def inputs(compilation):
    return [
        (node.name, *node.avals)
        for node in compilation.snapshot.nodes
        if node.kind == "input" and node.value is None
    ]


@pytest.mark.parametrize("make", [lambda f: f, jax.jit, lambda f: jax.jit(jax.jit(f))])
def test_lines_and_names_are_the_users(make):
    made = lazynb.compile(make(layer), PARAMS, X)
    assert sorted(inputs(made)) == [
        ("params['b']", "bfloat16[32]"),
        ("params['w']", "float32[64,32]"),
        ("x", "float32[128,64]"),
    ]
    places = {node.place.text for node in made.snapshot.nodes if node.kind == "op"}
    assert places == {
        'hidden = jnp.tanh(x @ params["w"] + params["b"])',
        "return jax.nn.softmax(hidden, axis=-1)",
    }
    assert made.clusters and all(fate.kind != "lost" for fate in made.fates.values())


def test_types_give_the_same_program_as_values():
    params = {"w": jnp.ones((64, 32)), "b": jnp.ones(32, jnp.bfloat16)}
    of_values = lazynb.compile(layer, params, jnp.ones((128, 64)))
    of_types = lazynb.compile(layer, PARAMS, X)
    assert of_types.hlo.after == of_values.hlo.after
    assert of_types.cache_event == "hit"


def test_arrays_keys_numbers_and_static_arguments_are_accepted():
    @functools.partial(jax.jit, static_argnames="times")
    def scaled(x, key, scale, *, times):
        noise = jax.random.normal(key, x.shape)
        return [(x + noise) * scale] * times

    key = jax.eval_shape(lambda: jax.random.key(0))
    made = lazynb.compile(scaled, np.ones(4), key, 2.5, times=3)
    assert sorted(kind for _, kind in inputs(made)) == ["float32[4]", "key<fry>[]"]
    with lazynb.lazy():
        waiting = jnp.ones(4) + 1
        made = lazynb.compile(scaled, waiting, jax.random.key(1), 2.5, times=1)
        assert ("x", "float32[4]") in inputs(made)
        assert waiting._pending is not None
        assert float(waiting.sum()) == 8


def test_a_gradient_through_a_scan_is_compiled():
    def loss(params, x):
        def step(carry, _):
            return jnp.tanh(carry @ params["w"][:, :] @ params["w"].T), None

        return jax.lax.scan(step, x, length=3)[0].sum()

    made = lazynb.compile(jax.jit(jax.value_and_grad(loss)), PARAMS, X)
    assert len(made.snapshot.nodes) > 8 and made.clusters


@pytest.mark.parametrize(
    "function, kind",
    [
        (lambda x: x if x.sum() > 0 else -x, "bool"),
        (lambda x: float(x[0]), "float"),
        (lambda x: x.item(), "item"),
        (lambda x: np.asarray(x * 2), "asarray"),
        (lambda x: jax.block_until_ready(x * 2), "block"),
        (lambda x: [y := x * 2, lazynb.sync(y)], "sync"),
    ],
)
def test_a_function_that_needs_a_value(function, kind):
    with pytest.raises(lazynb.TraceBreakError) as raised:
        lazynb.compile(function, TYPE((3,), jnp.float32) if kind != "item" else TYPE((), jnp.float32))
    assert raised.value.kind == kind or kind in str(raised.value)
    assert "as under jax.jit" in raised.value.__notes__[0]


def test_tensors_that_escape_the_function_are_deleted():
    held = []
    lazynb.compile(lambda x: held.append(x * 2) or held.append(x) or x + 1, TYPE((3,), jnp.float32))
    for tensor in held:
        with pytest.raises(RuntimeError, match="deleted"):
            float(tensor.sum())


def test_errors_of_jax_are_raised_unchanged():
    with pytest.raises(TypeError, match="contracting"):
        lazynb.compile(lambda x: x @ x, TYPE((3, 4), jnp.float32))
    with pytest.raises(TypeError, match="positional argument"):
        lazynb.compile(layer, X)
    with pytest.raises(TypeError, match="unexpected keyword argument 'times'"):
        lazynb.compile(jnp.ones(3), times=2)
    with pytest.raises(lazynb.LazynbError, match="transformations"):
        jax.jit(lambda x: lazynb.compile(layer, PARAMS, x) and x)(jnp.ones((128, 64)))


def test_arrays_larger_than_this_machine_are_compiled():
    square = TYPE((300_000, 300_000), jnp.float32)
    made = lazynb.compile(lambda x, w: (x @ w).sum(), square, square)
    assert made.memory.argument_bytes == 2 * 4 * 300_000**2


def test_inspect_takes_a_function_and_its_arguments():
    text = repr(lazynb.inspect(layer, PARAMS, X))
    assert "not run" in text and "test_function.py:" in text
    with pytest.raises(TypeError, match="only with a function"):
        lazynb.inspect(None, PARAMS)
    with pytest.raises(TypeError, match="only with a function"):
        lazynb.inspect(None, target="v5e")


def test_times_are_of_made_up_values():
    made = lazynb.compile(layer, PARAMS, X)
    assert any(made.profile(1))


@pytest.mark.parametrize("target", ["v5e", "h100"])
def test_a_function_is_compiled_for_another_chip(needs, target):
    needs(target)
    made = lazynb.compile(jax.jit(jax.grad(lambda p, x: layer(p, x).max())), PARAMS, X, target=target)
    assert made.target.name == target and made.clusters
    assert "not run" in repr(lazynb.inspect(layer, PARAMS, X, target=target))


def test_parameters_name_shardings(needs):
    needs("v5e")
    made = lazynb.compile(
        lambda x, w: (x @ w["out"]).sum(),
        X,
        {"out": TYPE((64, 32), jnp.float32)},
        target="v5e:2x2",
        mesh="data=2,model=2",
        shard=["x=data,.", "w=.,model"],
    )
    assert "all-reduce" in made.hlo.after
    assert made.memory.argument_bytes == (64 * 128 + 16 * 128) * 4  # 128 lanes of 4 bytes


def test_types_carry_shardings(needs):
    needs("v5e")
    mesh = jax.sharding.AbstractMesh((4,), ("data",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    x = TYPE((128, 64), jnp.float32, sharding=rows)
    made = lazynb.compile(lambda x: x + 1, x, target="v5e:2x2", mesh="data=4")
    assert made.memory.argument_bytes == 32 * 128 * 4  # 128 lanes; the number is no argument
    assert lazynb.compile(lambda x: x + 1, x).clusters  # here a sharding means nothing


def test_a_linear_solve_is_compiled_for_a_chip(needs):
    made = lazynb.compile(
        jnp.linalg.solve, TYPE((4, 4), jnp.float32), X.update(shape=(4,)), target=needs("h100")
    )
    assert "custom_linear_solve" in {node.primitive for node in made.snapshot.nodes} and made.clusters
