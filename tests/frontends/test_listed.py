"""``np.array`` and ``np.asarray`` of a list of pending tensors are recorded."""

from __future__ import annotations

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from tests.frontends.compare import difference

RECORDED = [
    "np.array([x[0], x[1]])",
    "np.asarray((x[0], -x[1]))",
    "np.array([[x[0], x[1]], [x[2], x[0]]])",
    "np.array([x, x * 2])",
    "np.array([i[0], i[1]])",
    "np.array([i[0], i[1]], dtype=np.float32)",
    "np.array([i[0], x[0]], np.float32)",
    "np.array([x[0] > 0, x[1] > 0])",
    "np.array([np.float32(3), x[1]])",
    "np.array([2.0, x[1]], dtype=np.float32)",
    "np.array([x[0], i[0]])",
    "np.array([x[0], 2.0])",
]
LEFT = [
    "np.array([x[0], x[1]], dtype=np.int32)",
    "np.array([x[0], x[1]], ndmin=3)",
    "np.array([])",
]


def _values():
    return {"np": np, "x": np.array([-1.5, 2.0, 4.0], np.float32), "i": np.array([3, -4], np.int32)}


@pytest.mark.parametrize("text", RECORDED + LEFT)
def test_arrays_of_listed_tensors_equal_those_of_numpy(text, clean):
    values = _values()
    code = compile(text, __file__, "eval")  # the user's own
    own = eval(code, dict(values))
    with lazynb.lazy():
        lazy = {name: jnp.asarray(value) * 1 for name, value in values.items() if name != "np"}
        found = eval(code, {"np": np, **lazy})
        assert bool(lazynb.breaks()) is (text in LEFT and text != "np.array([])")
    assert difference(own, found) is None


def test_ten_steps_of_runge_kutta_are_one_run(clean):
    def slope(y):
        return np.array([y[1], -y[0]])

    def steps(y):
        for _ in range(10):
            a = slope(y)
            b = slope(y + np.float32(0.05) * a)
            c = slope(y + np.float32(0.05) * b)
            d = slope(y + np.float32(0.1) * c)
            y = y + np.float32(0.1 / 6) * (a + 2 * b + 2 * c + d)
        return y

    start = np.array([1, 0], np.float32)
    with lazynb.lazy():
        y = steps(jnp.asarray(start) * 1)
        assert not lazynb.breaks()
    np.testing.assert_allclose(np.asarray(y), steps(start), rtol=1e-5)


def test_an_array_of_listed_tensors_can_be_written_to(clean):
    with lazynb.lazy():
        x = jnp.arange(3.0) * 2
        made = np.array([x[0], x[1]])
        made[0] = 7
        assert not lazynb.breaks()
    assert np.asarray(made).tolist() == [7, 2]


def test_inhomogeneous_lists_raise_the_error_of_numpy(clean):
    with lazynb.lazy(), pytest.raises(ValueError, match="inhomogeneous"):
        x = jnp.arange(3.0) * 2
        np.array([x, x[:2]])


def test_a_library_gets_an_ndarray_of_listed_tensors(clean):
    with lazynb.lazy():
        x = jnp.arange(3.0) * 2
        middle = np.ma.array([x[0], x[1]])
        scope = {"np": np, "x": x}
        exec(compile("made = np.asarray([x[0], x[1]])", np.__file__, "exec"), scope)
    assert type(scope["made"]) is np.ndarray
    assert isinstance(middle, np.ndarray)


def test_np_array_is_unchanged_outside_and_equal_inside_lazy_mode():
    own = np.array
    with lazynb.lazy():
        assert np.array == own
        held = np.array
        assert pickle.loads(pickle.dumps(held)) == own
    assert np.array is own
    assert held([1, 2]).tolist() == [1, 2]
