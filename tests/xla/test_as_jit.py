"""``--as-jit``: of sixty programs the very program that ``jax.jit`` compiles, and its results bit for bit."""

from __future__ import annotations

import os
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.running.flush import execution
from lazynb.xla.compilation_builder import CompilationBuilder
from tests.xla.jit_programs import PROGRAMS


def without_names(text):
    """Optimised HLO without what only names things and places."""
    text = re.sub(r"^HloModule [^,]*", "HloModule m", text)
    parts = re.split(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n", text, flags=re.M)
    text = parts[0] + "".join(part.partition("\n\n")[2] for part in parts[1:])
    text = re.sub(r',? ?metadata=\{(?:[^{}"]|"[^"]*"|\{[^{}]*\})*\}', "", text)
    text = re.sub(
        r"^(?:ENTRY )?%.*\{$", lambda m: re.sub(r"(?<=[(, /])[\w.\-]+: ", "", m[0]), text, flags=re.M
    )
    defined = re.finditer(r"^\s*(?:ROOT |ENTRY )?%([\w.\-]+) (?:=|\()", text, re.M)
    names = {found[1]: f"%v{number}" for number, found in enumerate(defined)}
    return [line for line in re.sub(r"%([\w.\-]+)", lambda m: names[m[1]], text).splitlines() if line]


def raw(leaf):
    """An array as bits."""
    leaf = jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return np.asarray(leaf).tobytes()


@pytest.mark.parametrize("function, made", PROGRAMS.values())
def test_as_jit_compiles_the_program_of_jax_jit(function, made):
    args = [make() for make in made]
    jitted = jax.jit(function)
    truth = jitted.lower(*args).compile()
    with lazynb.lazy():
        compilation = lazynb.compile(function, *args, as_jit=True)
    [trace] = compilation.traces
    assert without_names(trace.text) == without_names(truth.as_text())
    types = jax.tree.leaves(jitted.eval_shape(*args))
    ours = trace._executable._jaxpr.out_avals
    assert [(one.shape, one.dtype, one.weak_type) for one in ours] == [
        (one.shape, one.dtype, one.weak_type) for one in types
    ]
    leaves = jax.tree.leaves(args)
    kept = [leaves[number] for number in sorted(truth._executable._kept_var_idx)]
    results = trace._executable.compiled(*kept)
    assert list(map(raw, results)) == list(map(raw, jax.tree.leaves(jitted(*args))))


@pytest.mark.parametrize(
    "name", ["named_chain", "attention", "mlp_gradient", "cart_pole", "dropout", "own_jit"]
)
def test_as_jit_over_outside_values_compiles_the_program_of_jax_jit(name):
    """As a cell: its arrays are outside, it is recorded and run as ever."""
    function, made = PROGRAMS[name].values
    args = [make() for make in made]
    truth = jax.jit(function).lower(*args).compile()
    outside = set(map(id, jax.tree.leaves(args)))
    with lazynb.lazy():
        value, gathering = function(*args), CompilationBuilder()
        for pending in execution.waiting([]):
            gathering.describe(pending, {})
        made_of = gathering.as_jit(
            jax.tree.leaves(value),
            lambda array: id(array) not in outside,
            list(map(id, jax.tree.leaves(args))),
        )
        [trace] = made_of.compile().traces
    assert without_names(trace.text) == without_names(truth.as_text())


def again(leaf):
    """The same array, by an operation."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jax.random.key_data(leaf) + jnp.uint32(0))
    return leaf + 0


@pytest.mark.parametrize("name", ["named_chain", "attention", "split_keys", "passed_through"])
def test_arguments_that_were_made_lazily_are_arguments_too(name):
    """Whether they wait or have been computed."""
    function, made = PROGRAMS[name].values
    truth = without_names(jax.jit(function).lower(*(make() for make in made)).compile().as_text())
    with lazynb.lazy():
        args = jax.tree.map(again, [make() for make in made])
        waiting = lazynb.compile(function, *args, as_jit=True)
        lazynb.sync()
        computed = lazynb.compile(function, *args, as_jit=True)
    assert without_names(waiting.traces[0].text) == truth
    assert without_names(computed.traces[0].text) == truth


def test_passed_numbers_are_arguments_and_closed_over_arrays_constants():
    table = jax.numpy.arange(8.0)

    def function(x, rate, turns, *, shift):
        return (x * rate + table) * turns + shift

    args, options = (jax.numpy.ones(8), 0.1, 3), {"shift": np.float32(2)}
    static = jax.jit(function, static_argnums=2)
    for called in (function, static):
        truth = (static if called is static else jax.jit(function)).lower(*args, **options).compile()
        compilation = lazynb.compile(called, *args, as_jit=True, **options)
        assert without_names(compilation.traces[0].text) == without_names(truth.as_text())
        assert compilation.form.arguments == (3 if called is static else 4)


@pytest.mark.parametrize(
    "options, named",
    [
        ({"donate_argnums": 0}, "donate_argnums"),
        ({"donate_argnums": 0, "keep_unused": True}, "donate_argnums and keep_unused"),
        ({"static_argnums": 1}, ""),
        ({}, ""),
    ],
)
def test_jit_options_that_are_ignored_are_noted(options, named):
    def step(x, turns):
        return x * 2 + turns

    stepping, args = jax.jit(step, **options), (jnp.ones(8), 3)
    static = {key: value for key, value in options.items() if key == "static_argnums"}
    truth = jax.jit(step, **static).lower(*args).compile()
    compilation = lazynb.compile(stepping, *args, as_jit=True)
    assert without_names(compilation.traces[0].text) == without_names(truth.as_text())
    assert [
        f"jitted with {named}, and this is the program without" in note for note in compilation.notes
    ] == [True] * bool(named)
    other = without_names(stepping.lower(*args).compile().as_text())
    assert (other != without_names(truth.as_text())) >= ("donate_argnums" in options)


def test_a_constant_result_is_not_removed():
    """XLA's kernel that writes the zeros bears no mark."""
    made = lazynb.compile(lambda x: (jnp.zeros(3), x + 1), jnp.ones(3), as_jit=True)
    fates = {made.snapshot.nodes[node].name: fate for node, fate in made.fates.items()}
    assert fates["broadcast_in_dim"].kind == "folded" and fates["add"].kind == "own kernel"
    assert "constant" in fates["broadcast_in_dim"].text


@pytest.mark.parametrize("function, made", PROGRAMS.values())
def test_lazily_run_programs_have_the_kernels_of_jit(function, made):
    """Where no variable holds a number and no array of the user's is made of numbers alone."""
    with lazynb.lazy():
        args = [make() for make in made]
        lazynb.sync()
        results = jax.tree.leaves(function(*args))
        compilation = lazynb.compile(*results)
    nodes = [node for node in compilation.snapshot.nodes if not node.dead]
    read = {operand for node in nodes for operand, _ in node.operands}
    if any(node.value is not None and node.id in read and not node.constant for node in nodes):
        pytest.skip("a number is an input")
    jitted = lazynb.compile(function, *[make() for make in made], as_jit=True)
    assert len(compilation.clusters) == len(jitted.clusters)


# ---- One array, passed several times -----------------------------------------------------------------------

WHOLE, TABLE = jnp.arange(8), jnp.linspace(0.0, 1.0, 64).reshape(8, 8)


def attention(q, k, v):
    return jax.nn.softmax(q @ k.T) @ v


def same_as_jit(function, *args, **kwargs):
    """The compilation as ``jax.jit``, which is the program of ``jax.jit``: arguments, their bytes, HLO."""
    truth = jax.jit(function).lower(*args, **kwargs).compile()
    made = lazynb.compile(function, *args, as_jit=True, **kwargs)
    assert made.form.arguments == len(truth._executable._kept_var_idx)
    assert made.memory.argument_bytes == truth.memory_analysis().argument_size_in_bytes
    assert without_names(made.traces[0].text) == without_names(truth.as_text())
    return made


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (lambda a, b: a - b, (WHOLE, WHOLE), {}),
        (attention, (TABLE, TABLE, TABLE), {}),
        (lambda p: p["a"] @ p["l"][0] + p["l"][1], ({"a": TABLE, "l": [TABLE, TABLE]},), {}),
        (lambda a, *, b: a * b, (TABLE,), {"b": TABLE}),
        (lambda a, b: jax.random.bits(a) ^ jax.random.bits(b), (jax.random.key(0),) * 2, {}),
        (lambda a: a * TABLE - TABLE, (TABLE,), {}),  # an argument, and a constant
        (lambda a, b: (a + 1, b), (TABLE, TABLE), {}),
        (lambda a, b: (a + 1, TABLE), (TABLE, TABLE), {}),
        (jax.grad(lambda a, b: (a * b).sum()), (TABLE, TABLE), {}),
        (lambda a, b: a - b, (np.ones(3), np.ones(3)), {}),
        (lambda a, b: a - b, (2.0, 2.0), {}),
    ],
)
def test_an_array_that_is_passed_twice_is_two_arguments(function, args, kwargs):
    same_as_jit(function, *args, **kwargs)


def test_an_argument_twice_is_told_by_its_parameters_and_timed_with_its_values():
    made = same_as_jit(lambda first, second: first - second, WHOLE, WHOLE)
    assert [node.names[0] for node in made.snapshot.nodes if node.kind == "input"] == ["first", "second"]
    assert all(value is WHOLE for value in made.traces[0]._inputs.own_values())
    with lazynb.lazy():
        lazily = WHOLE + 0
        lazynb.sync()
        same_as_jit(lambda first, second: first - second, lazily, lazily)


def test_one_array_of_two_variables_is_noted_where_variables_are_read():
    one = other = jnp.ones(8)
    with lazynb.lazy():
        made = lazynb.compile(one - other, as_jit=True)
        alone = lazynb.compile(TABLE * 2, as_jit=True)
    assert made.form.arguments == 1
    assert "`one` and `other` are one array and one argument here" in made.notes[0]
    assert not alone.notes


def aliased_call(seed):
    """A random function, and arguments in which arrays occur several times."""
    draw = random.Random(seed)
    pool = [WHOLE + 1, WHOLE * 2] if draw.random() < 0.5 else [TABLE[0], TABLE[1]]
    places = draw.randint(2, 6)
    leaves = [draw.choice(pool) for _ in range(places)]
    cuts = sorted(draw.sample(range(places + 1), 2))
    plain, listed, named = leaves[: cuts[0]], leaves[cuts[0] : cuts[1]], leaves[cuts[1] :]
    args = (*plain, {"inner": listed})
    kwargs = {f"k{number}": leaf for number, leaf in enumerate(named)}
    steps = [(draw.randrange(99), draw.randrange(99), draw.randrange(4)) for _ in range(draw.randint(1, 6))]
    closed_over = draw.choice(pool)
    binary = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum]

    def function(*args, **kwargs):
        values = [*jax.tree.leaves((args, kwargs)), closed_over]
        for left, right, which in steps:
            values.append(binary[which](values[left % len(values)], values[right % len(values)]))
        return values[-1], {"other": values[-1 - len(steps) % 2]}

    return function, args, kwargs


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAZYNB_PROGRAMS", 12))))
def test_random_functions_of_aliased_arguments_are_those_of_jit(seed):
    function, args, kwargs = aliased_call(seed)
    same_as_jit(function, *args, **kwargs)
