"""What raises eagerly raises lazily: the same type and message, at the call, on the same line of the
user's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from oracle import Call, Make, assert_all_same, user_line

import lazynb

from .samples import KEY, c, f, h, i

# name -> (function, arguments). The oracle compares type, message and the last line that is not JAX's or
# lazynb's.
ERRORS = {
    "shapes that do not broadcast": (lambda x, y: x + y, f(2), f(3)),
    "shapes in a chain": (lambda x, y: jnp.sin(x * 2) @ (y + 1), f(2, 3), f(2, 3)),
    "matmul": (lambda x, y: x @ y, f(2, 3), f(2)),
    "dot of dtypes": (lambda x: lax.dot(x, x.astype(jnp.int32)[:, None][:1]), f(2)),
    "dtype of lax": (lambda x, y: lax.add(x, y), f(2), i(2)),
    "bitwise of float": (lambda x: ~x, f(2)),
    "shift of float": (lambda x: x << 2, f(2)),
    "floor of complex": (lambda x: jnp.floor(x), c(2)),
    "unknown dtype": (lambda x: x.astype("float31"), f(2)),
    "axis out of range": (lambda x: x.sum(axis=2), f(2, 3)),
    "axis twice": (lambda x: x.sum(axis=(0, 0)), f(2, 3)),
    "axis of concatenate": (lambda x: jnp.concatenate([x, x], axis=1), f(2)),
    "axis of a float": (lambda x: jnp.sum(x, axis=0.5), f(2)),
    "reshape": (lambda x: x.reshape(4), f(2, 3)),
    "reshape twice -1": (lambda x: x.reshape(-1, -1), f(2, 3)),
    "transpose": (lambda x: x.transpose(0, 0), f(2, 3)),
    "squeeze": (lambda x: x.squeeze(0), f(2, 3)),
    "unknown attribute": (lambda x: x.sums(), f(2)),
    "unknown attribute of a pending value": (lambda x: (x + 1).nope, f(2)),
    "unknown keyword": (lambda x: x.sum(axes=0), f(2)),
    "too many arguments": (lambda x: jnp.sin(x, x, x), f(2)),
    "a string operand": (lambda x: x + "a", f(2)),
    "a None operand": (lambda x: x * None, f(2)),
    "a list operand": (lambda x: x + [1, 2], f(2)),
    "a list argument": (lambda x: jnp.add([1, 2], x), f(2)),
    "an object argument": (lambda x: jnp.sin(object()) + x, f(2)),
    "a dict argument": (lambda x: jnp.sin({"a": x}), f(2)),
    "too many indices": (lambda x: x[0, 0], f(2)),
    "index of a float": (lambda x: x[0.5], f(2)),
    "index of a string": (lambda x: x["a"], f(2)),
    "index of a list": (lambda x: x[[0, 1]], f(2)),
    "index of a float array": (lambda x: x[x], f(2)),
    "boolean index of another shape": (lambda x: x[jnp.array([True, False])], f(3)),
    "slice of an array step": (lambda x: x[:: x.sum()], f(2)),
    "index of a scalar": (lambda x: x[0], f()),
    "take out of bounds": (lambda x: jnp.take(x, 5, mode="raise"), f(2)),
    "static slice": (lambda x: lax.dynamic_slice(x, (0,), (5,)), f(2)),
    "update of another shape": (lambda x, y: x.at[:2].set(y), f(3), f(3)),
    "setitem": (lambda x: x.__setitem__(0, 1.0), f(3)),
    "setitem statement": (lambda x: exec("x[0] = 1.0", {"x": x}), f(3)),
    "delitem": (lambda x: exec("del x[0]", {"x": x}), f(3)),
    "if of many": (lambda x: 1 if x > 0 else 0, f(3)),
    "and of many": (lambda x: (x > 0) and (x < 1), f(3)),
    "not of many": (lambda x: not x, f(3)),
    "if of none": (lambda x: bool(x), f(0)),
    "int of a vector": (lambda x: int(x), f(3)),
    "float of a vector": (lambda x: float(x * 2), f(3)),
    "float of a complex": (lambda x: float(x), c()),
    "item of a vector": (lambda x: x.item(), f(3)),
    "index protocol of a float": (lambda x: [1, 2][x], f()),
    "range of a float": (lambda x: range(x), f()),
    "len of a scalar": (lambda x: len(x), f()),
    "iteration of a scalar": (lambda x: list(x), f()),
    "unpacking too many": (lambda x: (lambda a, b_: a)(*x), f(3)),
    "hash": (lambda x: hash(x), f(3)),
    "hash of a pending value": (lambda x: {x + 1: 1}, f()),
    "format of a vector": (lambda x: f"{x:.2f}", f(3)),
    "call": (lambda x: x(1), f(3)),
    "arange of a vector": (lambda x: jnp.arange(x), f(3)),
    "zeros of a float shape": (lambda x: jnp.zeros(2.5) + x, f(3)),
    "ragged array": (lambda x: jnp.array([[1.0], [x[0], x[1]]]), f(3)),
    "einsum": (lambda x: jnp.einsum("ij,jk", x, x), f(2, 3)),
    "stack of shapes": (lambda x, y: jnp.stack([x, y]), f(2), f(3)),
    "split": (lambda x: jnp.split(x, 2), f(3)),
    "linalg": (lambda x: jnp.linalg.inv(x), f(2, 3)),
    "grad of a vector": (lambda x: jax.grad(lambda x: x * 2)(x), f(3)),
    "grad of an integer": (lambda x: jax.grad(lambda x: x * 2.0)(x), i()),
    "jvp of other dtypes": (lambda x, t: jax.jvp(jnp.sin, (x,), (t,)), f(3), i(3)),
    "vmap of sizes": (lambda x, y: jax.vmap(jnp.add)(x, y), f(2), f(3)),
    "vmap of a scalar": (lambda x: jax.vmap(jnp.sin)(x), f()),
    "vmap in_axes": (lambda x: jax.vmap(jnp.sin, in_axes=2)(x), f(2)),
    "if inside jit": (lambda x: jax.jit(lambda x: 1 if x > 0 else 0)(x), f()),
    "float inside jit": (lambda x: jax.jit(lambda x: float(x))(x), f()),
    "static argument unhashable": (lambda x: jax.jit(lambda x, k: x, static_argnums=1)(x, [1]), f()),
    "an error of the user's inside jit": (lambda x: jax.jit(lambda x: {}["missing"])(x), f()),
    "an error of the user's inside scan": (lambda x: lax.scan(lambda c_, x: (c_, 1 / 0), 0.0, x), f(3)),
    "scan of another carry": (lambda x: lax.scan(lambda c_, x: (c_ > 0, x), 0.0, x), f(3)),
    "cond of shapes": (lambda x: lax.cond(True, lambda x: x, lambda x: x[0], x), f(3)),
    "cond of a vector": (lambda x: lax.cond(x > 0, lambda x: x, lambda x: x, x), f(3)),
    "while of a carry": (lambda x: lax.while_loop(lambda x: True, lambda x: x.sum(), x), f(3)),
    "split of an array": (lambda x: jax.random.split(x), f(3)),
    "normal of an integer dtype": (lambda k: jax.random.normal(k, (2,), jnp.int32), KEY),
    "sum of a key": (lambda k: k + 1, KEY),
    "choice of too many": (lambda k: jax.random.choice(k, 3, (5,), replace=False), KEY),
    "nonzero inside jit": (lambda x: jax.jit(jnp.nonzero)(x), f(3)),
    "reshape that cannot be lowered": (lambda x: lax.reshape(x, (-2,)), f(2, 3)),
    "tree of other structures": (lambda x: jax.tree.map(jnp.add, {"a": x}, {"b": x}), f(2)),
    "bfloat16 to numpy function": (lambda x: __import__("math").sqrt(x), h(3)),
    "a deleted array awaited": (lambda x: (y := x * 2, y.delete(), y.block_until_ready()), f(3)),
    "a deleted array among others": (lambda x: (y := x * 2, y.delete(), jax.block_until_ready([x, y])), f(3)),
    "a deleted array": (lambda x: (x.delete(), x + 1), Make(lambda: jnp.ones(3))),
    "after a good operation": (lambda x: (jnp.sin(x), x.sum(), x + jnp.ones(5)), f(3)),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.filterwarnings("ignore")
def test_each_error_has_the_type_message_and_line_of_eager(name):
    fn, *args = ERRORS[name]
    assert_all_same([Call(fn, tuple(args), raises=True)])


def test_the_oracle_compares_the_users_line():
    """The oracle compares lines; here is that it sees them, in a function of several lines."""

    def program(x):
        y = x + 1
        z = y * 2
        bad = z + jnp.ones(5)
        return bad

    assert_all_same([Call(program, (f(3),), raises=True)])
    with pytest.raises(TypeError) as caught:
        program(jnp.ones(3))
    assert user_line(caught.value).startswith("test_errors.py:")


def test_what_was_recorded_before_an_error_is_still_there():
    with lazynb.lazy():
        x = jnp.ones(3) * 2
        with pytest.raises(TypeError):
            x + jnp.ones(5)
        assert np.asarray(x + 1).tolist() == [3.0] * 3
