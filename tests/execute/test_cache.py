"""When a program is a hit, and when it may not be."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb


def misses():
    return lazynb.cache_info().misses


def run(fn, *args):
    """Runs ``fn`` lazily; the number of programs that had to be compiled for it."""
    before = misses()
    with lazynb.lazy():
        jax.tree.map(np.asarray, fn(*args))
    return misses() - before


def test_the_same_program_again_is_a_hit(clean):
    assert run(lambda: jnp.sin(jnp.ones(3)) * 2) == 1
    assert run(lambda: jnp.sin(jnp.ones(3)) * 2) == 0


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, float("nan"), 1e30, np.float32(3).item()])
def test_another_scalar_is_a_hit(value, clean):
    def fn(s):
        return jnp.ones(3) * s

    assert run(fn, 2.0) == 1
    assert run(fn, value) == 0


def test_scalars_of_another_type_are_not_mixed_up(clean):
    x = jnp.ones(3)
    with lazynb.lazy():
        assert (x * 2).dtype == np.float32
        np.testing.assert_array_equal(x * True, [1, 1, 1])
        np.testing.assert_array_equal((x * 2j).imag, [2, 2, 2])
        assert (jnp.arange(3) * 2.5).dtype == np.float32


def test_another_shape_axis_or_dtype_is_a_miss(clean):
    assert run(lambda: jnp.sum(jnp.ones((2, 3)), axis=0)) == 1
    assert run(lambda: jnp.sum(jnp.ones((2, 3)), axis=1)) == 1
    assert run(lambda: jnp.sum(jnp.ones((4, 3)), axis=0)) == 1
    assert run(lambda: jnp.sum(jnp.ones((2, 3), jnp.int32), axis=0)) == 1


def test_closures_over_other_arrays_are_hits(clean):
    def make(constant):
        return jax.jit(lambda x: x + constant)

    x = jnp.ones(3)
    with lazynb.lazy():
        np.testing.assert_array_equal(make(jnp.arange(3.0))(x), [1, 2, 3])
        before = misses()
        np.testing.assert_array_equal(make(jnp.arange(3.0) * 2)(x)[:1], [1])
    with lazynb.lazy():
        first = misses()
        np.testing.assert_array_equal(make(jax.device_put(np.full(3, 5.0, np.float32)))(x), [6, 6, 6])
        np.testing.assert_array_equal(make(jax.device_put(np.full(3, 7.0, np.float32)))(x), [8, 8, 8])
        assert misses() - first <= 1
    assert before <= first


def test_live_results_are_part_of_the_program_and_dead_ones_are_not_computed(clean):
    x = jnp.ones(3)
    with lazynb.lazy():
        h = jnp.sin(x)
        y = h * 2
        dead = jnp.cos(x)
        del dead
        lazynb.sync()
    event = lazynb.events()[-1]
    assert (event.operations, event.computed) == (3, 2)
    with lazynb.lazy():
        y = jnp.sin(x) * 2  # h is not kept: another program
        lazynb.sync()
    assert misses() == 2
    del h, y


def test_both_ways_of_a_branch_are_cached(clean):
    def step(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    for value in (1.0, -1.0):
        run(step, jnp.full(3, value))
    before = misses()
    for value in (1.0, -1.0, 2.0, -3.0):
        run(step, jnp.full(3, value))
    assert misses() == before


def test_clear_cache_keeps_pending_values(clean):
    with lazynb.lazy():
        y = jnp.ones(3) * 3
        lazynb.clear_cache()
        np.testing.assert_array_equal(y, [3, 3, 3])
        np.testing.assert_array_equal(jnp.ones(3) * 3, [3, 3, 3])


SCRIPT = """
import jax, jax.numpy as jnp, lazynb
with lazynb.lazy():
    x = jnp.arange(12.0).reshape(3, 4)
    print(float((jnp.tanh(x @ x.T) * float("SCALE")).sum()))
print([event.cache for event in lazynb.events()], jax.config.jax_compilation_cache_dir)
"""


def in_new_process(directory, scale="2.0"):
    environment = {
        "LAZYNB_CACHE_DIR": str(directory),
        "PATH": "/usr/bin:/bin",
        "LAZYNB_PERSISTENT_CACHE": "1",
        "HOME": str(directory),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("SCALE", scale)],
        env=environment,
        text=True,
        capture_output=True,
        check=True,
        timeout=120,
    )
    return done


def test_a_second_process_loads_the_program_from_the_persistent_cache(tmp_path):
    first, second = in_new_process(tmp_path), in_new_process(tmp_path, "3.0")
    assert "['compiled'] None" in first.stdout
    assert (
        "['disk'] None" in second.stdout
    )  # another scalar is the same program; JAX's own setting is left alone
    assert float(second.stdout.split()[0]) == pytest.approx(1.5 * float(first.stdout.split()[0]))


def test_a_cache_directory_that_cannot_be_written_is_reported_once(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = in_new_process(file / "below")
    assert "['compiled']" in done.stdout
    assert done.stderr.count("keeps no executables on disk") == 1


def test_a_corrupt_entry_is_compiled_again(tmp_path):
    in_new_process(tmp_path)
    for entry in tmp_path.rglob("*-cache"):
        entry.write_bytes(b"nonsense")
    done = in_new_process(tmp_path)
    assert "['compiled']" in done.stdout
