"""Re-running a cell compiles nothing, though it makes new functions; nor does another learning rate."""

from __future__ import annotations

import sys
import traceback

import pytest
from endurance.interrupts import Aim, Interrupter

import lazynb

DATA = """
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(32, 4)).astype('float32'), rng.normal(size=(32, 1)).astype('float32')
    w = jnp.zeros((4, 1))
"""
TRAIN = """
    def loss_of(w):
        @jax.jit
        def predict(w):
            return jnp.tanh(x @ w)
        return jnp.mean((predict(w) - t) ** 2)

    rate = {rate}
    for step in range(3):
        loss, grad = jax.value_and_grad(loss_of)(w)
        w = w - rate * grad
        if loss < 0:
            break
    print(float(loss))
"""


def misses():
    return lazynb.cache_info().misses


STOPPED = """
    def fail(_):
        raise ValueError

    def doubled(x):
        return jax.pure_callback(fail, jax.ShapeDtypeStruct((4,), jnp.float32), x * 2)

    result = {read}
"""


@pytest.mark.parametrize("read", ["float(doubled(jnp.ones(4)).sum())", "doubled(jnp.ones(4)).tolist()"])
@pytest.mark.parametrize(
    "place",
    [
        "running/flush.py",
        "running/trace_launch.py",
        "running/trace_executable.py",
        "recording/lazy_tensor.py",
    ],
)
def test_what_an_interrupted_cell_asked_for_is_not_run_later(notebook, read, place):
    """IPython keeps the traceback, but the user has no name for it."""
    interrupts = 0
    for count in range(1, 400, 57):
        with Interrupter(lazynb.__file__).armed(Aim(place, "", count)):
            notebook.run(STOPPED.format(read=read), error=BaseException)
        if isinstance(sys.last_value, KeyboardInterrupt):  # not a hook's of IPython's, which goes on
            interrupts += 1
            notebook.run("import lazynb\nlazynb.sync()")
    assert interrupts > 1


def test_the_variables_of_the_users_functions_stay_for_the_debugger(notebook):
    notebook.run("def f(x):\n    y = x + 1\n    return y @ jnp.ones(3)\nf(jnp.ones(4))", error=TypeError)
    frames = [frame for frame, _ in traceback.walk_tb(sys.last_traceback) if frame.f_code.co_name == "f"]
    assert frames[0].f_locals["y"].shape == (4,)


@pytest.mark.parametrize(
    "cell", ["float(jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), x[0]))", "x @ jnp.ones(3)"]
)
def test_the_traceback_can_be_shown_again(notebook, cell):
    """What is emptied is skipped, and what JAX hides stays hidden."""
    notebook.run("x = jnp.ones(4)\ndef fail(_):\n    raise ValueError")
    shown = notebook.run(f"def asks():\n    return {cell}\nasks()", error=Exception).stdout
    again = notebook.run("%tb").stdout
    assert "skipping hidden" in again and "failed resolving" not in again and "asks" in again
    assert len(again) <= len(shown)


def test_a_rerun_cell_is_a_hit(notebook):
    notebook.run(DATA)
    notebook.run(TRAIN.format(rate=0.1))
    first = misses()
    notebook.run(TRAIN.format(rate=0.1))
    assert misses() == first


def test_a_changed_learning_rate_is_a_hit(notebook):
    notebook.run(DATA)
    notebook.run(TRAIN.format(rate=0.1))
    first = misses()
    notebook.run(TRAIN.format(rate=0.01))
    notebook.run(TRAIN.format(rate=1))  # an integer is another type of input
    assert misses() - first <= 1 + 1


def test_rerunning_after_other_cells_is_a_hit(notebook):
    notebook.run(DATA)
    notebook.run(TRAIN.format(rate=0.1))
    notebook.run("pending = jnp.ones(3) * 7\npending")
    first = misses()
    notebook.run(TRAIN.format(rate=0.1))
    assert misses() == first


def test_rerunning_a_compiled_cell_that_shows_its_value_is_a_hit(notebook):
    cell = "y = jnp.sin(jnp.arange(3.0))\ny.sum()"
    notebook.run("%%compile\n" + cell)
    first = misses()
    for _ in range(3):
        notebook.run("%%compile\n" + cell)
    assert misses() == first


def test_rerunning_after_an_error_is_a_hit(notebook):
    notebook.run(DATA)
    notebook.run(TRAIN.format(rate=0.1))
    first = misses()
    notebook.run("a = jnp.ones(3) + 1\nb = a + jnp.ones(4)", error=TypeError)
    notebook.run(TRAIN.format(rate=0.1))
    assert misses() == first
    assert notebook.run("float(a[0])").result == 2.0
