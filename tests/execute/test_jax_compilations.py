"""What JAX compiles by itself is told apart from lazynb's programs, with names, lines and seconds."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.running.observers import observing
from lazynb.running.run_statistics import JaxObserver, summary_line


@pytest.fixture(autouse=True)
def nothing_compiled():
    """JAX has to compile its helpers again."""
    jax.clear_caches()
    lazynb.clear_cache()


def seen(fn):
    """The rows of what JAX compiles by itself while ``fn`` runs lazily."""
    observer = JaxObserver()
    with lazynb.lazy(), observing(observer):
        fn()
        lazynb.sync()
    return observer.log.rows()


HELPED = {  # programs in which JAX makes arrays of the user's numbers before anything is recorded
    "a key": lambda: jax.random.key(0),
    "a number": lambda: jnp.asarray(2.0),
}


@pytest.mark.parametrize("name", HELPED)
def test_jax_helper_compilations_are_listed_with_name_time_and_line(name):
    rows = seen(lambda: HELPED[name]() if name == "a key" else float(HELPED[name]().sum()))
    assert [row.name for row in rows] == ["jit(stage)"]
    assert rows[0].count == 1 and 1e-4 < rows[0].seconds < 10
    assert rows[0].location.file == __file__


def test_lazynbs_own_programs_are_not_listed():
    x = jnp.ones(3)
    jax.block_until_ready(x)
    rows = seen(lambda: float((jnp.sin(x) * x).sum()))
    assert not rows and summary_line(rows) == ""


def test_compilations_in_an_eager_body_are_listed():
    x = jnp.ones(3)

    @jax.jit
    def step(x):
        return x * 3 + 1

    def run():
        with lazynb.eager():
            step(x)

    assert [row.name for row in seen(run)] == ["jit(step)"]


def test_a_repeated_call_lists_no_compilation():
    assert seen(HELPED["a number"]) and not seen(HELPED["a number"])


def test_compilations_of_other_threads_are_not_listed():
    x = np.ones(17, np.float32)
    observer = JaxObserver()
    with observing(observer):
        thread = threading.Thread(target=lambda: jax.jit(lambda x: x - 1)(x))
        thread.start()
        thread.join()
    assert not observer.log.rows()


def test_explain_lists_jax_compilations():
    explanation = lazynb.explain(lambda: float(jnp.asarray(2.0) * 3))
    assert [row.name for row in explanation.jax_compilations] == ["jit(stage)"]
    assert "Compiled by JAX itself, beside lazynb's programs" in repr(explanation)
    assert len(explanation.compilations) == 1
    assert explanation.to_dicts()["jax_compilations"][0]["name"] == "jit(stage)"


def test_a_budget_does_not_count_jax_compilations():
    with lazynb.lazy(), lazynb.budget(compiles=0) as budget:
        jax.random.key(0)
    assert budget.used.compiles == 0


def test_the_summary_line_counts_and_names_jax_compilations():
    rows = seen(lambda: [jnp.asarray(number) for number in (2.0, 3, 1j)])
    assert "JAX itself compiled 3 programs in " in summary_line(rows)
    assert summary_line(rows).endswith("beside lazynb's: jit(stage) ×3")
