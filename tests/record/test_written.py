"""Numbers that are written in the code are constants, as under ``jax.jit``; those in variables are inputs."""

import linecache
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla.plain_hlo import kernels

import lazynb
from benchmarks.programs import cartpole
from lazynb.compare.misses.compilation_causes import causes_of
from lazynb.running.miss_log import miss_log

rng = np.random.default_rng(0)


def data(*shape):
    return jnp.asarray(rng.standard_normal(shape), jnp.float32)


# ---- the kernels of jit ------------------------------------------------------------------------------------


def attention(q, k, v):
    scores = jnp.where(jnp.tril(jnp.ones((64, 64), bool)), q @ k.T / 8.0, -1e9)
    return jax.nn.softmax(scores, axis=-1) @ v


def bf16_chain(x):
    return jnp.tanh(x.astype(jnp.bfloat16) * 2 + 1) * 0.5 - 3


def softmax(x):
    return jax.nn.softmax(x, axis=-1)


def kv_update(cache, new, q):
    cache = jax.lax.dynamic_update_slice(cache, new, (5, 0))
    return cache, jax.nn.softmax(q @ cache.T / 8.0) @ cache


def gamma_grad(a, z):
    return jax.scipy.special.digamma(a + 1) - jnp.log(z)


def gelu_layer(x, g, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return jax.nn.gelu(centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + eps) * g)


def masked(x):
    return jnp.where(x > 0, x, -jnp.inf).max(-1) + jnp.clip(x, 0, 1).sum(-1)


def gradient(x):
    return jax.grad(lambda v: (jnp.sin(v) * 0.5 + 3.0).sum())(x)


def halving(x):
    for _ in range(5):
        x = x / 2 + 1 / 3
    return x


PROGRAMS = {
    attention: (data(64, 64), data(64, 64), data(64, 64)),
    bf16_chain: (data(64, 64),),
    softmax: (data(64, 64),),
    kv_update: (data(128, 64), data(1, 64), data(1, 64)),
    gamma_grad: (abs(data(100)), abs(data(100))),
    gelu_layer: (data(64, 64), data(64)),
    masked: (data(64, 64),),
    gradient: (data(64, 64),),
    halving: (data(64, 64),),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_program_is_that_of_jit(program, clean):
    assert_as_jit(program, PROGRAMS[program])


def test_ten_steps_of_cartpole_are_the_program_of_jit(clean):
    forces, fresh = jax.tree.map(jnp.asarray, cartpole.each()[0])
    assert_as_jit(cartpole.in_jax(), (tuple(map(jnp.asarray, cartpole.start())), forces, fresh))


def assert_as_jit(program, arguments):
    compiled = jax.jit(program).lower(*arguments).compile()
    with lazynb.lazy():
        results = jax.tree.leaves(program(*arguments))
        compilation = lazynb.compile(*results)
    assert len(kernels(compilation.hlo.after)) == len(kernels(compiled.as_text()))
    for result, right in zip(results, jax.tree.leaves(compiled(*arguments)), strict=True):
        assert np.asarray(result).tobytes() == np.asarray(right).tobytes()


# ---- which number is a constant ----------------------------------------------------------------------------


def held(call, *args):
    """By number in the trace, whether it is a constant."""
    with lazynb.lazy():
        result = call(*args)
        path = result._pending.state.path()
        found = {
            number.item() if number.dtype.kind in "biufc" else float(number): step.constant is not None
            for step in path
            if step.is_host_scalar
            for number in [result._pending.inputs[step.inputs - 1]]
        }
        lazynb.sync(result)
    return found


x = data(4, 3)
rate = 2.5


def default(a, eps=1e-5):
    return a + eps


def rebound(a, eps=0.5):
    eps = eps * 2
    return a + eps


@pytest.mark.parametrize(
    "call, found",
    [
        (lambda: x * 2, {2: True}),
        (lambda: 2 - x, {2: True}),
        (lambda: x + -1.5, {-1.5: True}),
        (lambda: x * (4.0 / 5.0), {np.float32(0.8).item(): True}),
        (lambda: x > 0, {0: True}),
        (lambda: jnp.maximum(x, 0.25), {0.25: True}),
        (lambda: jnp.where(x > 0, x, -jnp.inf), {0: True, -np.inf: True}),
        (lambda: default(x), {np.float32(1e-5).item(): True}),
        (lambda: default(x, 0.75), {0.75: False}),
        (lambda: rebound(x), {1.0: False}),
        (lambda: jax.nn.softmax(x), {-np.inf: True}),
        (lambda: x * np.float32(2), {2.0: False}),
        (lambda: eval("x * 2"), {2: False}),
        (lambda: x * (2.0 if len(x) else 3.0), {2.0: False}),
        (lambda: x * len(x), {4: False}),
        (lambda: x.at[1].add(0.5), None),
    ],
)
def test_a_literal_is_a_constant_and_a_computed_number_an_input(call, found, clean):
    if found is not None:
        assert held(call) == found
    else:
        assert all(held(call).values())


def test_a_variable_is_an_input(clean):
    size, index = 3, 2
    for call in (lambda n: x * n, lambda n: jnp.clip(x, n, n), lambda n: jnp.where(x > n, x, n)):
        assert held(call, 0.125) == {0.125: False}
    assert not any(held(lambda: x + size).values()) and not any(held(lambda: x.at[index].add(x[0])).values())
    assert held(lambda: jax.grad(lambda v: (v * rate).sum())(x))[2.5] is False


# ---- another value -----------------------------------------------------------------------------------------


@pytest.fixture
def cell(clean, tmp_path):
    """Runs a text as a cell: how many programs it made, and the values."""
    count = 0

    def run(text, **variables):
        nonlocal count
        count += 1
        file = f"<ipython-input-{count}-{os.path.basename(tmp_path)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        space = {"jnp": jnp, "jax": jax, "np": np, "x": x, "__name__": "__main__", **variables}
        before = miss_log.total
        with lazynb.lazy():
            exec(compile(text, file, "exec"), space)
            value = np.asarray(space["y"])
        return miss_log.total - before, value

    return run


def test_an_edited_literal_misses_once_and_then_becomes_an_input(cell):
    made = [cell(f"y = jnp.sin(x) * {number} + 1")[0] for number in (0.1, 0.1, 0.05, 0.05, 0.3, 0.1, 0.2)]
    assert made == [1, 0, 1, 0, 0, 0, 0]


def test_the_miss_cause_names_the_edited_literal(cell):
    cell("y = jnp.sin(x) * 0.1")
    cell("y = jnp.sin(x) * 0.05")
    (cause,) = causes_of(miss_log.misses[-1])
    assert cause.code == "LNB440" and "number 0.1 at" in cause.text
    assert cause.text.endswith("is now 0.05: from here on an input")


def test_all_numbers_of_a_line_become_inputs_together(cell):
    made = [cell(f"y = (x * {n}.5 + {n + 10}) / {n + 20}")[0] for n in range(1, 8)]
    assert made == [1, 1, 0, 0, 0, 0, 0]


def test_literals_edited_one_after_another_become_inputs_after_three_misses(cell):
    edits = [(2, 3), (4, 3), (4, 5), (6, 7), (8, 9)]
    assert [cell(f"y = x * {a} + {b}")[0] for a, b in edits] == [1, 1, 1, 0, 0]


def test_equal_lines_in_other_statements_have_separate_constants(cell):
    for text in ("y = x * 2", "z = y = x * 3", "y = (x * 4)[:]"):
        assert cell(text)[0] == 1
    assert cell("y = x * 2")[0] == 0


def test_lines_that_always_change_compile_at_most_ten_programs(cell):
    made = [cell(f"v{n} = y = x * {n}.25 + {n}")[0] for n in range(2, 20)]
    assert sum(made) <= 10 and not any(made[-8:])


def test_generated_code_has_inputs(clean):
    with lazynb.lazy():
        before = miss_log.total
        for number in range(2, 12):
            np.asarray(eval(f"x * {number}"))
    assert miss_log.total - before == 1


def test_another_value_of_a_variable_is_a_hit(cell):
    for text in (
        "y = x * rate + 1",
        "y = jnp.clip(x, 0, rate)",
        "y = jax.grad(lambda v: (v**2 * rate).sum())(x)",
    ):
        assert [cell(text, rate=rate)[0] for rate in (0.5, 0.25, 3.0)] == [1, 0, 0], text


ALIKE = [
    "0.0",
    "-0.0",
    "0",
    "False",
    "True",
    "1",
    "1.0",
    "float('nan')",
    "(1+0j)",
    "-1",
    "1e300",
    "3",
    "2**20",
]


def test_numbers_that_are_equal_in_python_are_told_apart(cell):
    for _ in range(2):
        for number in ALIKE:
            n = eval(number)
            with np.errstate(all="ignore"):
                right = np.asarray(jax.jit(lambda a, n=n: jnp.copysign(1.0, (a * 0 + n).real))(x))
                found = cell(f"y = jnp.copysign(1.0, (x * 0 + {number}).real)")[1]
            np.testing.assert_array_equal(found, right)


def test_results_with_literals_have_the_types_of_eager_jax(clean):
    for dtype in ("int8", "int32", "uint8", "float16", "bfloat16", "float32", "bool"):
        a = jnp.ones(3, dtype)
        for call in (lambda: a * 2, lambda: a + 1.5, lambda: a * True, lambda: a + 1j, lambda: 3 - a * 1):
            right = call()
            for _ in range(2):
                with lazynb.lazy():
                    found = call()
                assert (found.dtype, found.weak_type) == (right.dtype, right.weak_type)
                assert np.asarray(found).tobytes() == np.asarray(right).tobytes()


def test_a_number_too_large_raises_what_eager_jax_raises(clean):
    a = jnp.ones(3, jnp.int32)
    for _ in range(2):
        with pytest.raises(OverflowError), lazynb.lazy():
            lazynb.sync(a + 10000000000000)


def test_a_constant_is_shown_with_its_value(clean):
    with lazynb.lazy():
        y = x * 0.75
        assert "0.75" in str(lazynb.graph(y))
        lazynb.sync(y)


def test_a_loop_records_its_constants_again(clean):
    def loop(turns):
        y = x
        for turn in range(turns):
            y = y * 0.5 + turn
        return np.asarray(y)

    with lazynb.lazy():
        before = miss_log.total
        loop(20), loop(20)
    assert miss_log.total - before == 1
