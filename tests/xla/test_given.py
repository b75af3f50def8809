"""Programs that lazynb did not record: stages of ``jax.jit``, and files. The truth is what XLA makes of them
without lazynb, and for small ones what stands beside them."""

from __future__ import annotations

import inspect
import operator

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.export import export, symbolic_shape

import lazynb
from lazynb.xla.external.external_programs import NotInspectable
from lazynb.xla.fusion.boundary_experiments import NotTestable
from tests.xla import plain_hlo
from tests.xla.jit_programs import PROGRAMS
from tests.xla.test_as_jit import without_names

FIFTEEN = [
    "named_chain",
    "bf16_chain",
    "softmax",
    "layer_norm",
    "attention",
    "gelu_mlp",
    "kv_cache",
    "segments",
    "scan",
    "while_loop",
    "branches",
    "own_jit",
    "mlp_gradient",
    "remat",
    "sorted_tops",
]


def kernels(text):
    return [(name, opcode) for name, opcode, _ in plain_hlo.kernels(text)]


def found(compilation):
    return [(cluster.name, cluster.opcode) for cluster in compilation.clusters]


@pytest.mark.parametrize("name", FIFTEEN)
def test_the_kernels_are_those_that_run_without_lazynb(name):
    function, made = PROGRAMS[name].values
    lowered = jax.jit(function).lower(*[make() for make in made])
    compiled = lowered.compile()
    truth = compiled.as_text()
    of_lowered, of_compiled = lazynb.compile(lowered), lazynb.compile(compiled)
    assert without_names(of_lowered.hlo.after) == without_names(truth)
    for compilation, text in ((of_lowered, of_lowered.hlo.after), (of_compiled, truth)):
        assert sorted(found(compilation)) == sorted(kernels(text))
        assert all(fate.kind != "lost" for fate in compilation.fates.values())


# ---- small ones, whose truth is beside them ----------------------------------------------------------------


def step(w, x):
    h = jnp.tanh(x @ w)
    s = jax.nn.softmax(h, -1)
    return s.sum(), h


def double(v):
    return jnp.sin(v) * 2


def nested(x):
    a = jax.jit(double)(x)
    return jax.jit(double)(a)


def loop(x):
    def turn(carry, _):
        return jnp.tanh(carry) + 1, None

    y, _ = lax.scan(turn, x, None, 5)
    return y * 3


def simplified(x):
    one = x * 1.0
    return jnp.tanh(one) + jnp.tanh(x)


WEIGHTS, ROWS, VALUES = jnp.ones((8, 4)), jnp.ones((3, 8)), jnp.ones(16)


def line(function, number):
    """The line of the file on which that line of ``function`` stands; its first is 0."""
    return inspect.getsourcelines(function)[1] + number


def lines_by_kernel(compilation):
    """For each kernel, the lines of this file in it."""
    found = {}
    for node, fate in compilation.fates.items():
        place = compilation.snapshot.nodes[node].place
        for name in fate.clusters:
            found.setdefault(name, set()).add(place.line if place and place.file == __file__ else None)
    return [found[cluster.name] for cluster in compilation.clusters if cluster.name in found]


STAGES = {
    "traced": lambda f, *args: jax.jit(f).trace(*args),
    "lowered": lambda f, *args: jax.jit(f).lower(*args),
    "compiled": lambda f, *args: jax.jit(f).lower(*args).compile(),
    "exported": lambda f, *args: export(jax.jit(f))(*args),
}


@pytest.mark.parametrize("stage", STAGES)
def test_each_kernel_has_its_lines(clean, stage):
    compilation = lazynb.compile(STAGES[stage](step, WEIGHTS, ROWS))
    first, second, third = (line(step, number) for number in (1, 2, 3))
    assert lines_by_kernel(compilation) == [
        {first},  # the product
        {first},  # tanh
        {second},  # the maximum
        {second},  # exp of the difference
        {second},  # their sum
        {second, third},  # the quotient, and the sum of all
    ]
    assert not lazynb.events()


@pytest.mark.parametrize("stage", ["traced", "lowered", "exported"])
def test_a_function_that_is_called_twice_has_operations_of_its_own_for_each_call(stage):
    compilation = lazynb.compile(STAGES[stage](nested, VALUES))
    operations = [node for node in compilation.snapshot.nodes if node.kind == "op"]
    assert [node.name for node in operations] == ["sine", "multiply", "sine", "multiply"]
    assert {node.place.line for node in operations} == {line(double, 1)}
    assert [node.call for node in operations] == ["double"] * 4
    assert operations[0].call_id == operations[1].call_id != operations[2].call_id
    [cluster] = compilation.clusters
    assert cluster.kind == "loop"


@pytest.mark.parametrize("stage", STAGES)
def test_operations_in_a_loop_are_in_clusters_of_the_loop(stage):
    compilation = lazynb.compile(STAGES[stage](loop, VALUES))
    turn, after = line(loop, 2), line(loop, 5)
    places = {}
    for node, fate in compilation.fates.items():
        found = compilation.snapshot.nodes[node]
        if found.place is not None and found.name in ("tanh", "multiply"):
            [places[found.name, found.place.line]] = fate.clusters
    assert set(places) == {("tanh", turn), ("multiply", after)}
    by_name = {cluster.name: cluster for cluster in compilation.clusters}
    assert by_name[places["tanh", turn]].inside and not by_name[places["multiply", after]].inside
    assert compilation.traces[0].costs[places["tanh", turn]].executions == 5


def test_fates_of_simplified_operations_are_known_for_a_lowered_program():
    lowered = jax.jit(simplified).lower(VALUES)
    compilation = lazynb.compile(lowered)
    kinds = {}
    for node, fate in compilation.fates.items():
        found = compilation.snapshot.nodes[node]
        kinds.setdefault(found.name, []).append((found.place.line, fate.kind))
    first, second = line(simplified, 1), line(simplified, 2)
    assert kinds["multiply"] == [(first, "cancelled")]
    assert sorted(kind for _, kind in kinds["tanh"]) == ["fused", "merged"]
    assert kinds["add"] == [(second, "fused")]
    of_compiled = lazynb.compile(lowered.compile())
    names = [node.name for node in of_compiled.snapshot.nodes if node.kind == "op"]
    assert sorted(names) == ["add", "tanh"]  # the rest is not in it
    assert not compilation.notes and "what XLA eliminated" in of_compiled.notes[0]


# ---- what cannot be known, or not be done ------------------------------------------------------------------


def test_a_compiled_program_has_no_passes_and_is_not_compiled_again():
    compilation = lazynb.compile(jax.jit(step).lower(WEIGHTS, ROWS).compile())
    assert compilation.cache_event == "given" and repr(compilation) == (
        "Compilation(11 operations, given compiled)"
    )
    with pytest.raises(NotTestable, match="given compiled"):
        compilation.verify(compilation.boundaries[0])
    assert all(boundary.label == "rule inferred" for boundary in compilation.boundaries)


def test_a_lowered_program_can_be_asked_for_its_passes_and_measured():
    compilation = lazynb.compile(jax.jit(lambda x: x @ x + 1, donate_argnums=0).lower(jnp.ones((64, 64))))
    assert "fusion" in {step.name for step in compilation.hlo.passes}
    assert any(timing is not None and timing.median > 0 for timing in compilation.profile())


def test_a_boundary_whose_experiment_records_anew_is_not_testable():
    compilation = lazynb.compile(jax.jit(step).lower(WEIGHTS, ROWS))
    [boundary] = [each for each in compilation.boundaries if each.consumer == "wrapped_reduce"]
    with pytest.raises(NotTestable, match="lazynb did not record"):
        compilation.verify(boundary)


def test_a_program_for_another_machine_is_refused():
    for made in (
        jax.jit(step).trace(WEIGHTS, ROWS).lower(lowering_platforms=("tpu",)),
        export(jax.jit(step), platforms=("tpu",))(WEIGHTS, ROWS),
    ):
        with pytest.raises(NotInspectable, match="ed for tpu, and this machine has cpu"):
            lazynb.compile(made)


def test_an_exported_program_for_several_platforms_is_that_of_this_machine():
    compilation = lazynb.compile(export(jax.jit(step), platforms=("tpu", "cpu"))(WEIGHTS, ROWS))
    first, second, third = (line(step, number) for number in (1, 2, 3))
    places = lines_by_kernel(compilation)
    assert places == [{first}, {first}, {second}, {second}, {second}, {second, third}]


def test_an_exported_program_of_open_sizes_has_to_be_given_some():
    [size] = symbolic_shape("n")
    exported = export(jax.jit(jnp.tanh))(jax.ShapeDtypeStruct((size, 8), jnp.float32))
    with pytest.raises(NotInspectable, match=r"of any size \(float32\[n,8\]\)"):
        lazynb.compile(exported)
    assert len(lazynb.compile(jax.jit(exported.call).lower(ROWS)).clusters) == 1


def test_arguments_beside_a_lowered_program_are_refused():
    lowered = jax.jit(step).lower(WEIGHTS, ROWS)
    for call in (
        lambda: lazynb.compile(lowered, ROWS),
        lambda: lazynb.compile(lowered, target="v5e"),
        lambda: lazynb.compile(lowered, x=ROWS),
    ):
        with pytest.raises(TypeError, match="Lowered is a program for its own arguments"):
            call()
    with pytest.raises(TypeError, match="only with a function"):
        lazynb.inspect(lowered, ROWS)


def test_in_lazy_mode_nothing_pending_runs(clean):
    with lazynb.lazy():
        x = jnp.ones((3, 8)) + 1
        lowered = jax.jit(step).lower(WEIGHTS, x)
        for made in (lowered, lowered.compile(), jax.jit(step).trace(WEIGHTS, x)):
            assert len(lazynb.compile(made).clusters) == 6
        assert x.is_pending and not lazynb.events()


def test_compiling_a_given_program_leaves_its_results_unchanged():
    """A program that lazynb looked at still gives what it gave."""
    compiled = jax.jit(step).lower(WEIGHTS, ROWS).compile()
    before = jax.tree.map(operator.methodcaller("tolist"), compiled(WEIGHTS, ROWS))
    lazynb.compile(compiled)
    assert jax.tree.map(operator.methodcaller("tolist"), compiled(WEIGHTS, ROWS)) == before
