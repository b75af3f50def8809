"""Names of the user's variables for values, whatever else the variables hold."""

from __future__ import annotations

import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.recording.external_arrays import shared_memory
from lazynb.recording.snapshot.variable_names import names_of


class Unflattened:
    """A container whose flattening fails."""


def fail(_):
    raise ZeroDivisionError


jax.tree_util.register_pytree_node(Unflattened, fail, lambda *_: Unflattened())
BROKEN = {"no order": {1: np.ones(1), "a": np.ones(1)}, "fails": Unflattened()}


def depth_left():
    """How many functions that C calls may call each other before Python says that it is too deep."""
    deepest = 0

    def deeper(number):
        nonlocal deepest
        deepest = number
        next(map(deeper, (number + 1,)))

    with pytest.raises(RecursionError):
        deeper(0)
    return deepest


@pytest.mark.parametrize("broken", BROKEN)
def test_variables_that_cannot_be_flattened_cost_nothing_for_good(broken, clean):
    def run():
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit if sys.version_info < (3, 12) else 100_000)
        held = [[BROKEN[broken]]]
        try:
            with lazynb.lazy():
                float((jnp.ones(1) * 2)[0])  # what the first time imports
                before = depth_left()
                for number in range(2, 12):
                    float((jnp.ones(number) * 2)[0])
                left.append((before, depth_left(), len(held)))
        finally:
            sys.setrecursionlimit(limit)

    left = []
    thread = threading.Thread(target=run)  # the count is a thread's: others are not to suffer if this fails
    thread.start()
    thread.join()
    before, after, _ = left[0]
    assert after >= before - 3


def test_arrays_beside_what_cannot_be_flattened_have_names():
    x, y = jnp.ones(1), jnp.ones(2)
    knot = [x]
    knot.append(knot)
    found = names_of({"held": {"a": [Unflattened(), {"b": x}]}, "knot": knot, "y": (y, None)})
    assert found[id(x)] == ("knot[0]", "held['a'][1]['b']") and found[id(y)] == ("y[0]",)


def test_deep_and_repeated_containers_are_searched_within_bounds():
    x = jnp.ones(1)
    deep, wide = [x], [x]
    for _ in range(3000):
        deep = [deep]
    for _ in range(40):
        wide = [wide, wide]
    found = names_of({"deep": deep, "wide": wide, "x": x})
    assert found[id(x)][0] == "x"


def test_an_array_that_numpy_may_still_write_to_has_its_name(clean):
    memory = np.ones(4 * 64 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    weights = jax.device_put(memory[start : start + 4 * 64].view(np.float32))
    assert weights in shared_memory

    def doubled(given):
        return given * 2

    [input_] = [node for node in lazynb.compile(doubled, weights).snapshot.nodes if node.kind == "input"][:1]
    assert input_.names == ("given", "weights")
    with lazynb.lazy():
        result = weights * 2
    assert [node.names for node in lazynb.graph(result).snapshot.nodes][0] == ("weights",)
