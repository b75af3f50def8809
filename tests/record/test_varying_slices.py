"""A slice whose start varies between the turns of a loop is one program; others stay static."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracle import Call, assert_all_same

import lazynb
from lazynb.recording import varying_slices

X = jnp.arange(96.0).reshape(24, 4)
HOST = np.asarray(X)


@pytest.fixture(autouse=True)
def no_places(monkeypatch):
    monkeypatch.setattr(varying_slices, "_starts", varying_slices.SliceStarts())


def names(*tensors):
    return [node.name for node in lazynb.graph(*tensors).snapshot.nodes if node.kind == "op"]


LOOPS = {
    "a slice": lambda x, i: x[i : i + 4],
    "a number": lambda x, i: x[i],
    "a negative number": lambda x, i: x[-1 - i],
    "two axes": lambda x, i: x[i : i + 2, 1:3],
    "a new axis": lambda x, i: x[i, None, :2],
    "reversed": lambda x, i: x[i : i + 3][::-1],
    "an ellipsis": lambda x, i: x[..., i % 3],
}


@pytest.mark.parametrize("take", LOOPS.values(), ids=LOOPS)
def test_a_loop_that_reads_each_turn_has_two_programs(take, clean):
    with lazynb.lazy():
        for i in range(0, 20, 4):
            batch = take(X, i)
            np.testing.assert_array_equal(np.asarray(batch * 2 + 1), take(HOST, i) * 2 + 1)
            del batch
    assert lazynb.cache_info().misses == 2


def test_a_literal_slice_and_an_unrolled_loop_stay_static(clean):
    for _ in range(3):
        with lazynb.lazy():
            total = X[1:3].sum() + sum(X[t].sum() * t for t in range(6))
            assert "dynamic_slice" not in names(total)
            lazynb.sync(total)
    assert lazynb.cache_info().misses == 1


def test_chunks_of_an_unrolled_loop_are_two_programs(clean):
    with lazynb.lazy():
        for start in range(0, 24, 6):
            state = jnp.zeros(4)
            for t in range(start, start + 6):
                state = jnp.tanh(state + X[t])
            state.block_until_ready()
    assert lazynb.cache_info().misses == 2


def test_large_turns_in_one_trace_have_operands(clean):
    def turn(x):
        for number in range(varying_slices.LARGE_TURN + 2):
            x = x + number
        return x

    with lazynb.lazy():
        results = [turn(X[i : i + 2]) for i in range(3)]
        assert names(*results).count("dynamic_slice") == 2
        for i, result in enumerate(results):
            np.testing.assert_allclose(result, turn(HOST[i : i + 2]), rtol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4), st.booleans()), min_size=3, max_size=8))
@settings(max_examples=25, deadline=None)
def test_random_slices_give_what_numpy_gives(slices):
    with lazynb.lazy():
        for (start, size, read), turn in zip(slices, itertools.count(), strict=False):
            part = X[start : start + size] * (turn + 1)
            row = X[start % 7, -size:]
            if read:
                np.testing.assert_array_equal(part, HOST[start : start + size] * (turn + 1))
            np.testing.assert_array_equal(row, HOST[start % 7, -size:])
            np.testing.assert_array_equal(part, HOST[start : start + size] * (turn + 1))


def test_other_arrays_and_transformations(clean):
    keys = jax.random.split(jax.random.key(0), 6)

    def several(x):
        return [x[i : i + 2] for i in range(3)]

    assert_all_same(
        [
            Call(several, (X.astype("bfloat16"),)),
            Call(several, (X.astype("int8"),)),
            Call(several, (jnp.arange(6) * 1j,)),
            Call(lambda k: [jax.random.uniform(k[i]) for i in range(3)], (keys,)),
            Call(jax.grad(lambda x: sum(p.sum() for p in several(x))), (X,)),
            Call(jax.vmap(lambda x: several(x)[2]), (X.reshape(4, 6, 4),)),
            Call(lambda x: x[30:34], (X,)),
            Call(lambda x: x[30], (X,)),
        ]
    )
