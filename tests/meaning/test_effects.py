"""Effects happen once and in the order of the program; values go in and out of lazy blocks and keep their
meaning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import error_check
from jax.experimental import io_callback
from oracle import assert_same

import lazynb

from .samples import f


def _effects(program, *args):
    """What the program did, eagerly and lazily, with all values read at the end."""
    seen = []
    for context in (lazynb.eager(), lazynb.lazy()):
        log = []
        with context:
            results = program(log, *[jnp.asarray(a) for a in args])
            jax.tree.map(np.asarray, results)
        jax.effects_barrier()
        seen.append(log)
    return seen


def _note(log, tag):
    def note(x):
        log.append((tag, np.asarray(x).tolist()))
        return np.asarray(x)

    return note


def test_ordered_io_callbacks_stay_in_order():
    def program(log, x):
        for n in range(3):
            x = io_callback(_note(log, n), jax.ShapeDtypeStruct((), jnp.float32), x + 1, ordered=True)
        return x

    eager, lazy = _effects(program, np.float32(1))
    assert eager == lazy and len(lazy) == 3


def test_an_io_callback_happens_though_nobody_wants_its_result():
    def program(log, x):
        io_callback(lambda v: log.append(float(v)), None, x * 2, ordered=True)
        return x + 1

    def unordered(log, x):
        io_callback(lambda v: log.append(float(v)), None, x * 2)
        return x + 1

    for fn in (program, unordered):
        eager, lazy = _effects(fn, np.float32(1))
        assert eager == lazy == [2.0]


def test_debug_callbacks_happen_once():
    def program(log, x):
        jax.debug.callback(lambda v: log.append(float(v)), x.sum())
        return jax.jit(lambda x: (jax.debug.callback(lambda v: log.append(float(v)), x.sum() + 1), x * 2)[1])(
            x
        )

    eager, lazy = _effects(program, np.ones(3, np.float32))
    assert sorted(eager) == sorted(lazy) == [3.0, 4.0]


def test_ordered_debug_prints_keep_their_order(capfd):
    def program(x):
        for n in range(4):
            x = x + 1
            jax.debug.print("step {n}: {s}", n=n, s=x.sum(), ordered=True)
        return x

    printed = []
    for context in (lazynb.eager(), lazynb.lazy()):
        with context:
            np.asarray(program(jnp.ones(2)))
        jax.effects_barrier()
        printed.append(capfd.readouterr().out)
    assert printed[0] == printed[1] and printed[0].count("step") == 4


def test_print_shows_what_eager_shows(capsys):
    for context in (lazynb.eager(), lazynb.lazy()):
        with context:
            x = jnp.arange(6.0).reshape(2, 3) * 2
            print(x, x[0], x.sum(), f"{x.sum():.1f}")
    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :]


# ---- values leave the block, and enter another


def test_a_value_made_lazily_is_used_eagerly_and_the_reverse():
    with lazynb.lazy():
        a = jnp.arange(3.0) * 2
    b = a + 1  # recorded or run: either way it is 1, 3, 5
    with lazynb.lazy():
        d = b * a
    assert np.asarray(d).tolist() == [0.0, 6.0, 20.0] and np.asarray(b).tolist() == [1.0, 3.0, 5.0]


def test_a_lazy_function_gives_the_right_values():
    @lazynb.lazy()
    def double(x):
        return x * 2

    assert isinstance(double(jnp.ones(3)), jax.Array)
    assert np.asarray(double(jnp.ones(3))).tolist() == [2.0, 2.0, 2.0]


def test_donation_keeps_values_computed_before_it():
    with lazynb.lazy():
        x = jnp.ones(3) * 2
        before = x + 1
        after = jax.jit(lambda x: x * 5, donate_argnums=0)(x)
        assert np.asarray(before).tolist() == [3.0] * 3 and np.asarray(after).tolist() == [10.0] * 3


def test_a_numpy_array_changed_after_the_call_does_not_change_the_result():
    for context in (lazynb.eager(), lazynb.lazy()):
        with context:
            buffer = np.ones(3, np.float32)
            y = jnp.array(buffer) + buffer
            buffer[:] = 9
            assert np.asarray(y).tolist() == [2.0] * 3


def test_closures_over_a_rebound_variable_equal_eager():
    def program(x):
        fns = [lambda v, n=n: v * n + x for n in range(4)]
        for fn in fns:
            x = fn(x)
        return x

    assert_same(program, f(3))


def test_a_chain_of_1000_additions_gives_the_exact_sum():
    def program(x):
        for _ in range(1000):
            x = x + 0.5
        return x

    with lazynb.lazy():
        y = program(jnp.zeros(2))
        assert np.asarray(y).tolist() == [500.0, 500.0]


def test_errors_that_a_program_notes_are_raised_when_asked_for():
    @jax.jit
    def checked(x):
        error_check.set_error_if(x.min() < 0, "negative")
        return x + 1

    def program(log, x):
        for value in (x, x - 3, x - 4):
            checked(value)
            try:
                error_check.raise_if_error()
            except error_check.JaxValueError as error:
                log.append(str(error))
            error_check.raise_if_error()  # it is raised once
        try:
            jax.jit(lambda y: (error_check.raise_if_error(), y)[1])(x)
        except ValueError as error:
            log.append(str(error)[:40])
        return x

    eager, lazy = _effects(program, f(3) ** 2)
    assert lazy == eager and eager[:2] == ["negative"] * 2 and len(eager) == 3
