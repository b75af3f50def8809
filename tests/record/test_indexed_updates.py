"""``x.at[index]`` of all kinds, NumPy arrays as arguments, and arrays made of lists: each is one recorded call, which is
replayed."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import Call, assert_all_same

import lazynb
from lazynb.jax_compat import IndexUpdate
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.replay import array_functions, call_replay
from lazynb.recording.replay.replay_edge import MAX_CONTENT_BYTES

X = jnp.arange(24.0).reshape(4, 6)
INDICES = {
    "a number": 1,
    "a negative number": -1,
    "a NumPy number": np.int32(2),
    "a slice": slice(1, 3),
    "a step": slice(None, None, 2),
    "numbers": (1, 2),
    "a slice and a number": (slice(None), 3),
    "an ellipsis": (..., 0),
    "a new axis": (None, 1),
    "an array": jnp.array([0, 2]),
    "two arrays": (jnp.array([0, 2]), jnp.array([1, 5])),
    "an array and a slice": (jnp.array([0, 2]), slice(1, 3)),
    "a NumPy array": np.array([3, 0]),
    "a NumPy mask": np.array([True, False, True, False]),
    "out of bounds": 9,
    "nothing": slice(2, 2),
}
VALUES = {
    "a float": 2.5,
    "an integer": 3,
    "a bool": True,
    "an array": jnp.float32(4.0),
    "a NumPy number": np.float32(1.5),
}


@pytest.fixture
def recorded(monkeypatch):
    """Counts the operations that JAX's own code records."""
    calls = []
    plain = LazyTrace.process_primitive

    def process_primitive(*args, **kwargs):
        calls.append(args[1])
        return plain(*args, **kwargs)

    monkeypatch.setattr(LazyTrace, "process_primitive", process_primitive)
    return calls


def replays(call, calls) -> bool:
    """Whether the third recording of ``call`` runs none of JAX's code."""
    for _ in range(3):
        calls.clear()
        with lazynb.lazy():
            result = call()
            lazynb.sync(result)
    return not calls


@pytest.mark.parametrize("method", array_functions._UPDATES)
def test_every_kind_of_update_gives_eager_s_result(method, clean):
    more = ((),) if method == "get" else [(value,) for value in VALUES.values()]

    def update(x, index, *values):
        return getattr(x.at[index], method)(*values)

    calls = [Call(update, (X, index, *values)) for index, values in itertools.product(INDICES.values(), more)]
    assert_all_same(calls[:: 1 if method in ("get", "set", "add") else 3])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize("value", [1, -1, 300, 2**40, 0.1, 1e30, True, 1j])
@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")
def test_numbers_of_every_kind_are_converted_as_eagerly(dtype, value, clean):
    x = jnp.zeros(4, dtype)
    assert_all_same([Call(lambda x: x.at[1].set(value), (x,), raises=value == 2**40)])
    if value != 2**40 and dtype != "bool":
        assert_all_same([Call(lambda x: x.at[1].multiply(value), (x,))])


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("method", ["set", "get"])
def test_an_update_is_replayed(kind, method, recorded, clean):
    x, index = X * 1, INDICES[kind]
    values = (2.5,) if method == "set" else ()
    expected = (
        kind != "nothing" or method == "get"
    )  # an update of nothing returns the array after a conversion
    assert replays(lambda: getattr((x + 1).at[index], method)(*values), recorded) is expected


OTHERS = {
    "take_along_axis": lambda x: jnp.take_along_axis(x, jnp.zeros((1, 6), jnp.int32), 0),
    "einsum": lambda x: jnp.einsum("ij,kj->ik", x, x),
    "indexing with an array": lambda x: x[jnp.array([0, 2])],
    "indexing with a NumPy array": lambda x: x[np.array([0, 2])],
    "indexing with a mask of NumPy": lambda x: x[np.array([True, False, True, False])],
    "take": lambda x: jnp.take(x, np.array([0, 2]), axis=1),
    "an array of a list": lambda x: x[0, :3] * jnp.array([1.0, 2.0, 3.0]),
    "an array of a number": lambda x: x * jnp.array(2.0) + jnp.asarray(3),
    "a NumPy array": lambda x: jnp.dot(x, np.ones((6, 2), np.float32)),
}


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
def test_other_indexing_and_small_arrays_are_replayed(call, recorded, clean):
    x = X * 1
    assert replays(lambda: call(x + 1), recorded)
    assert_all_same([Call(call, (X,))])


def test_a_number_in_a_variable_is_an_input_and_a_literal_is_a_constant(clean):
    x = X * 1
    for step in range(6):
        with lazynb.lazy():
            y = x.at[1].set(step * 0.5)
            assert float(y[1, 0]) == step * 0.5
    assert lazynb.cache_info().misses <= 4  # one program, and those of the read
    with lazynb.lazy():
        number = 0.25
        literal, variable = lazynb.graph(x.at[2].add(0.25)), lazynb.graph(x.at[1].add(number))
    assert numbers_of(literal) == {"2": True, "0.25": True}
    assert numbers_of(variable) == {"1": True, "0.25": False}


def numbers_of(graph):
    """Whether each number is a constant, by the number."""
    return {node.value: node.constant for node in graph.snapshot.nodes if node.kind == "input" and node.value}


def test_a_changed_numpy_array_is_another_index(clean):
    index = np.array([0, 1])
    with lazynb.lazy():
        found = []
        for _ in range(3):
            found.append((X * 1)[index])
            index += 1
        assert [float(one[0, 0]) for one in found] == [0.0, 6.0, 12.0]


def test_a_large_numpy_array_is_not_compared(recorded, clean):
    large = np.zeros(MAX_CONTENT_BYTES, np.int32)
    assert not replays(lambda: (X * 1)[large], recorded)


GIVE = jax.jit(lambda x: x * 2, donate_argnums=0)


@pytest.mark.parametrize("end", [lambda x: x.delete(), lambda x: GIVE(x), lambda x: x.at[0].set(5.0)])
def test_an_array_of_a_replayed_call_belongs_to_that_call_alone(end, clean):
    for _ in range(4):
        with lazynb.lazy():
            made, other = jnp.array([1.0, 2.0]), jnp.array([1.0, 2.0])
            lazynb.sync(made)
            end(made)
            assert np.asarray(other + 1).tolist() == [2.0, 3.0]


def test_the_class_of_an_indexed_array_has_the_methods_of_jax_again_afterwards():
    own = {name: vars(IndexUpdate)[name] for name in ("set", "mul", "get")}
    with lazynb.lazy():
        assert vars(IndexUpdate)["set"] is not own["set"] or own["set"].__module__ != "lazynb"
        assert IndexUpdate.set.__doc__ and IndexUpdate.set.__name__ == "set"
    assert X.at[0].set(1.0)[0, 0] == 1.0


def test_an_update_under_grad_and_vmap_gives_eager_s_result(clean):
    def loss(x, index):
        return (x.at[index].set(2.0) * x.at[0].get()).sum()

    assert_all_same(
        [
            Call(jax.grad(loss), (X, 1)),
            Call(jax.vmap(lambda row: row.at[1].add(1)), (X,)),
            Call(jax.jit(lambda x: x.at[1].max(0)), (X,)),
        ]
    )


def test_record_edges_are_kept_for_the_calls_of_a_loop(clean, monkeypatch):
    calls = []
    plain = call_replay._record_edge
    monkeypatch.setattr(call_replay, "_record_edge", lambda *args: calls.append(1) or plain(*args))
    for _ in range(2):
        calls.clear()
        with lazynb.lazy():
            x = jnp.zeros(8)
            for i in range(8):
                x = x.at[i].set(i * 1.0)
            assert x.tolist() == list(range(8))
    assert not calls
