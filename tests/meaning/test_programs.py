"""Random programs: whatever mix of operations, branches, reads and deletions, lazy gives what eager gives."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st
from oracle import Call, assert_all_same

from .samples import b, f, i

# Each operation works for any pool of (2, 3), (3,) and () arrays of any dtype, and keeps values small.
UNARY: dict[str, Callable] = {
    "tanh": lambda x: jnp.tanh(x),
    "sin": lambda x: jnp.sin(x),
    "abs": lambda x: jnp.abs(x) * 0.5,
    "sum": lambda x: x.sum() * 0.1,
    "mean": lambda x: jnp.mean(x, axis=-1, keepdims=True) if x.ndim else x,
    "max": lambda x: x.max(axis=0) if x.ndim else x,
    "flip": lambda x: jnp.flip(x),
    "sort": lambda x: jnp.sort(x, axis=-1) if x.ndim else x,
    "first": lambda x: x[0] if x.ndim else x,
    "every other": lambda x: x[..., ::2] if x.ndim else x,
    "gather": lambda x: x[jnp.array([0, -1])] if x.ndim else x,
    "set": lambda x: x.at[0].set(1) if x.ndim else x,
    "reshape": lambda x: x.reshape(-1),
    "transpose": lambda x: x.T,
    "expand": lambda x: x[None] if x.ndim < 2 else x,
    "as int": lambda x: x.astype(jnp.int32),
    "as float": lambda x: x.astype(jnp.float32),
    "as bool": lambda x: x > 0,
    "as bfloat16": lambda x: (x > 0).astype(jnp.bfloat16),
    "stop": lambda x: jnp.where(x > 1, 1, x),
    "cumsum": lambda x: jnp.cumsum(x) * 0.25,
    "outer": lambda x: jnp.outer(x, x)[:2, :3] * 0.5,
}
SCALARS = [2, -1, 0.5, 1.5, True, False]
BINARY: dict[str, Callable] = {
    "add": lambda x, y: (x + y) * 0.5,
    "subtract": lambda x, y: (x - y * 1.0) * 0.5,
    "multiply": lambda x, y: jnp.clip(x * y, -9, 9),
    "divide": lambda x, y: x / (abs(y) + 2.0),
    "maximum": jnp.maximum,
    "less": lambda x, y: x < y,
    "where": lambda x, y: jnp.where(x > y, x, y),
    "dot": lambda x, y: jnp.clip(jnp.sum(x * y), -9, 9),
    "matmul": lambda x, y: (
        jnp.clip(x.reshape(-1)[:2] @ y.reshape(-1)[:2], -9, 9) if min(np.size(x), np.size(y)) > 1 else x
    ),
}

step = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(list(UNARY)), st.integers(0, 9)),
    st.tuples(st.just("binary"), st.sampled_from(list(BINARY)), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(
        st.just("scalar"),
        st.sampled_from(["add", "multiply", "maximum", "less"]),
        st.integers(0, 9),
        st.sampled_from(SCALARS),
    ),
    st.tuples(st.just("branch"), st.integers(0, 9)),
    st.tuples(st.just("read"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
)


def run(steps, *arrays):
    """A stack machine on a pool of arrays. Operations on shapes that do not go together are left out, as
    eagerly."""
    pool, reads = list(arrays), []
    for kind, *what in steps:
        if kind == "unary":
            pool.append(UNARY[what[0]](pool[what[1] % len(pool)]))
        elif kind == "binary":
            x, y = pool[what[1] % len(pool)], pool[what[2] % len(pool)]
            if broadcasts(x.shape, y.shape):
                pool.append(BINARY[what[0]](x, y))
        elif kind == "scalar":
            pool.append(BINARY[what[0]](pool[what[1] % len(pool)], what[2]))
        elif kind == "branch":
            x = pool[what[0] % len(pool)]
            pool.append(x + 1 if bool(x.sum() > 0.125) else x * 2)
        elif kind == "read":
            reads.append(float(pool[what[0] % len(pool)].sum()))
            pool.append(pool[0] * round(reads[-1]))
        elif len(pool) > 1:
            del pool[what[0] % len(pool)]
    return pool, reads


def broadcasts(*shapes) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


@settings(
    max_examples=50, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(st.lists(step, min_size=1, max_size=12))
def test_random_programs_give_what_eager_gives(steps):
    assert_all_same([Call(lambda *arrays: run(steps, *arrays), (f(2, 3), i(3), b(3), f()))], given=slice(0))
