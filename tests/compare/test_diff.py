"""What ``lazynb.diff`` takes, and what it says of times, flags, runs of several programs and HLO."""

from __future__ import annotations

import copy
import functools
import json

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.differences.compilation_difference import BadLimit, figure, parse_limit
from lazynb.compare.differences.compilation_side import CompilationSide, merge_inspections
from lazynb.compare.differences.memory_changes import peak
from lazynb.report.comparison_report import Diff, side_of
from lazynb.user_code import call_stack
from lazynb.user_code.text_format import size
from lazynb.xla.flag_text import format_flags
from lazynb.xla.xla_flags import BadFlag, compile_with_flags, flags_without_libraries, parse_flags

pytestmark = pytest.mark.xdist_group("compare diff")
TYPE = jax.ShapeDtypeStruct((128, 256), jnp.float32)


def two_kernels(x):
    a = jnp.sort(x * 2, axis=1)
    return jnp.exp(a)


@functools.cache
def side():
    return side_of((two_kernels, TYPE), "one", {})


def timed(seconds, spread):
    """The side, as if each of its kernels had taken so long in five runs."""
    data = copy.deepcopy(side().data)
    for cluster in data["clusters"]:
        low, high = seconds - spread, seconds + spread
        cluster["time"] = {"median": seconds, "low": low, "high": high, "runs": 5, "calls": 1}
    return CompilationSide(data, f"{seconds}")


def test_times_are_compared_beyond_noise():
    assert [c.kind for c in Diff(timed(1e-3, 1e-4), timed(2e-3, 1e-4)).changes] == ["time"] * 3
    first = Diff(timed(1e-3, 1e-4), timed(2e-3, 1e-4)).headline[0]
    assert first.endswith("takes 2 ms (runs of 1.9–2.1 ms) instead of 1 ms (runs of 0.9–1.1 ms)")
    assert list(Diff(timed(1e-3, 1e-4), timed(1.2e-3, 1e-4)).changes) == []  # they overlap
    assert list(Diff(timed(1e-3, 1e-5), timed(1.1e-3, 1e-5)).changes) == []  # a machine's mood
    assert "Only 0.001 was measured" in repr(Diff(timed(1e-3, 1e-4), side()))


def test_a_profiled_compilation_has_measured_seconds():
    x = jnp.ones((128, 256))
    with lazynb.lazy():
        compilation = lazynb.compile(jnp.tanh(x) * 2)
    compilation.profile(3)
    diff = lazynb.diff(compilation, compilation)
    assert diff.before.figures.seconds.median > 0 and list(diff.changes) == []


def test_several_programs_are_summed_into_one_side():
    one = side()
    both = CompilationSide(merge_inspections([one.data, one.data]), "both")
    assert len(both.kernels) == 2 * len(one.kernels)
    assert both.figures.moved == 2 * one.figures.moved
    assert figure(both, "peak_memory") == figure(one, "peak_memory")
    assert list(Diff(both, both).changes) == []
    changes = Diff(one, both).changes
    assert {change.kind for change in changes} == {"kernels", "operations"}
    assert sum(c.now.kernels - c.before.kernels for c in changes if c.kind == "kernels") == 3


@pytest.mark.parametrize("of", ["lowered", "compiled", "tensor", "graph"])
def test_diff_accepts_lowered_compiled_tensor_and_graph(of):
    jitted = jax.jit(two_kernels).lower(TYPE)
    if of in ("lowered", "compiled"):
        given = jitted if of == "lowered" else jitted.compile()
        assert list(lazynb.diff(given, given).changes) == []
        return
    with lazynb.lazy():
        y = two_kernels(jnp.ones(TYPE.shape))
        assert list(lazynb.diff(y if of == "tensor" else lazynb.graph(y), y).changes) == []
        assert y._pending is not None  # nothing ran


def test_a_lowered_jit_program_and_a_recorded_one_have_the_same_kernels():
    """The operations of the one are HLO's; the kernels are the same."""
    diff = lazynb.diff(jax.jit(two_kernels).lower(TYPE), (two_kernels, TYPE))
    assert diff.before.figures.kernels == diff.now.figures.kernels == 3


@pytest.mark.parametrize(
    "obj, error, words",
    [
        (two_kernels, TypeError, "write (two_kernels, x, y) for two_kernels(x, y)"),
        (3, TypeError, "lazynb.diff compares two of these: a Compilation, a function"),
        (jnp.ones(3), TypeError, "not ArrayImpl"),
        ("nowhere.json", FileNotFoundError, "nowhere.json"),
    ],
)
def test_diff_refuses_other_objects_with_advice(obj, error, words):
    with pytest.raises(error) as raised:
        lazynb.diff((two_kernels, TYPE), obj)
    assert words in str(raised.value)


def test_a_diff_is_exported_as_json():
    diff = lazynb.diff((two_kernels, TYPE), (lambda x: jnp.exp(jnp.sort(x * 2, axis=1)) + x, TYPE))
    data = json.loads(diff.to_json())
    assert data["changes"] and json.dumps(diff.to_dicts())
    assert data["now"]["kernels"] == 3 and data["before"]["about"] == f"JAX {jax.__version__}"


def test_a_limit_on_an_unknown_figure_is_refused():
    data = copy.deepcopy(side().data)
    data["clusters"][0]["cost"] = None
    with pytest.raises(BadLimit, match="flops is not known of mine"):
        figure(CompilationSide(data, "mine"), "flops")


def test_a_peak_that_is_not_known_of_all_programs_is_not_known():
    """The program of which it is not may be the one that takes most."""
    data = merge_inspections([side().data, side().data])
    assert peak(CompilationSide(data, "")) is not None and CompilationSide(data, "").has_passes
    data["programs"][1]["memory"] = None
    data["programs"][1]["hlo"] = {**data["programs"][1]["hlo"], "passes": [], "before": {"lines": []}}
    assert peak(CompilationSide(data, "")) is None and not CompilationSide(data, "").has_passes


def with_peak(bytes_):
    data = copy.deepcopy(side().data)
    data["programs"][0]["memory"]["peak_bytes"] = bytes_
    return CompilationSide(data, "")


@pytest.mark.parametrize("percent", [7, 14, 28, 29, 57, 58])
def test_a_percentage_is_exact(percent):
    """0.29 * 100 is less than 29 in float64, 0.07 * 100 more than 7."""
    old, new = with_peak(100), with_peak(100 + percent)
    assert not parse_limit(f"peak_memory > +{percent}%").violation(old, new)
    assert parse_limit(f"peak_memory >= +{percent}%").violation(old, new)
    assert not parse_limit(f"peak_memory < +{percent}%").violation(old, new)


@pytest.mark.parametrize(
    "condition, old, new, said",
    [
        ("peak_memory > +0", 1 << 20, (1 << 20) + 28, "is 1 MiB, 28 B more than before (+0.00267%)"),
        ("peak_memory >= +0", 1 << 20, 1 << 20, "is 1 MiB, as before"),
        ("peak_memory > 64MB", 0, 64_000_000, ""),
        ("peak_memory > 6.4e7", 0, 64_000_001, "went from 0 B to 61 MiB"),
    ],
)
def test_a_violated_condition_states_the_change(condition, old, new, said):
    found = parse_limit(condition).violation(with_peak(old), with_peak(new))
    assert found == (f"peak_memory {said}: {condition}" if said else "")


def test_on_chip_memory_is_not_counted_in_the_peak():
    """A TPU's compiler lists what is in VMEM beside what is in the device's own memory."""
    data = copy.deepcopy(side().data)
    memory = data["programs"][0]["memory"]
    held = next(b for b in memory["buffers"] if b["start"] <= memory["peak_step"] <= b["end"] and b["nodes"])
    memory["buffers"].append({**held, "bytes": 1 << 30, "offset": 1 << 40, "space": "VMEM"})
    memory["peak_bytes"] += 4
    found = Diff(side(), CompilationSide(data, "on a chip")).changes
    assert [change.text for change in found] == [f"peak memory is {_more_than(side(), 4)}"]


def _more_than(one, by):
    before = peak(one)["peak_bytes"]
    return f"{size(before)}, {by} B more than before"


def test_passes_of_two_kinds_of_chip_are_not_compared():
    data = copy.deepcopy(side().data)
    data["programs"][0]["backend"] = "cuda"
    for step in data["programs"][0]["hlo"]["passes"]:
        step["changes"] = []
    diff = Diff(side(), CompilationSide(data, "gpu"))
    assert list(diff.passes) == [] and "XLA has other passes for each kind of chip" in repr(diff)
    data["programs"][0]["backend"] = "cpu"
    assert Diff(side(), CompilationSide(data, "cpu")).passes


def donating(*numbers, compiled=False):
    def step(p, x):
        return {"w": p["w"] * x, "b": p["b"] + 1}

    lowered = jax.jit(step, donate_argnums=numbers).lower({"w": TYPE, "b": TYPE}, TYPE)
    return lowered.compile() if compiled else lowered


@pytest.mark.parametrize("compiled", [False, True])
def test_donated_arguments_are_reported_as_a_change(compiled):
    plain, donated = donating(compiled=compiled), donating(0, compiled=compiled)
    said = [c.text for c in lazynb.diff(plain, donated).changes if c.kind != "memory"]
    assert said == ["`p['b']` and `p['w']` are donated: their memory holds a result"]
    assert "`p['b']` and `p['w']` are donated no more" in repr(lazynb.diff(donated, plain))
    assert list(lazynb.diff(donated, donating(0)).changes) == []


def many_leaves(donated, compiled):
    """A step with so many leaves that the head of its compiled text, where the aliases stand, is cut."""
    jitted = jax.jit(lambda tree: jax.tree.map(lambda x: x * 2, tree), donate_argnums=0 if donated else ())
    lowered = jitted.lower({f"leaf_{number}": TYPE for number in range(20)})
    return lowered.compile() if compiled else lowered


def test_donation_among_many_leaves_is_not_guessed():
    def said(*sides):
        return [change.kind for change in lazynb.diff(*sides).changes if change.kind == "donation"]

    assert said(many_leaves(True, True), many_leaves(True, False)) == []
    assert said(many_leaves(False, False), many_leaves(True, False)) == ["donation"]


def test_another_element_of_the_same_variable_is_reported_as_replaced():
    def first(p, x):
        return jnp.tanh(x + p["b"][0])

    def second(p, x):
        return jnp.tanh(x + p["b"][1])

    def one_more(p, x):
        return jnp.tanh(jnp.tanh(x + p["b"][0]) + p["b"][1])

    p = {"b": [jax.ShapeDtypeStruct((256,), jnp.float32)] * 2}
    diff = lazynb.diff((first, p, TYPE), (second, p, TYPE))
    assert diff.headline == ["`p['b'][1]` is taken instead of `p['b'][0]`"]
    more = lazynb.diff((first, p, TYPE), (one_more, p, TYPE))
    assert "instead of `p" not in repr(more) and "the argument `p['b'][1]` takes 1 KiB more" in repr(more)


def test_a_number_with_another_type_and_value_is_reported_as_replaced():
    diff = lazynb.diff((lambda x: jnp.pad(x, 1), TYPE), (lambda x: jnp.pad(x, 1, constant_values=2.0), TYPE))
    assert "2, float32[], is taken instead of 0, int32[]" in diff.headline


LINE = "y = (jnp.sin(x) {}).sum()"
TAKES = "`{}` takes {}, an argument of the program, instead of {}, a constant in it"
NUMBERS = {  # cells, the last two of which are compared, and what differs
    "a literal ran before": (["* 2.0", "k = 2.0;* k", "k = 3.0;* k"], [TAKES.format("multiply", 3, 2)]),
    "no literal ran before": (["k = 2.0;* k", "k = 3.0;* k"], []),
    "another literal ran before": (["* 5.0", "k = 2.0;* k", "k = 3.0;* k"], []),
    "two literals": (["* 2.0", "* 3.0"], [TAKES.format("multiply", 3, 2)]),
    "three literals": (["* 2.0", "* 3.0", "* 4.0"], ["`multiply` takes 4 instead of 3"]),
    "a literal, then a variable of its value": (["* 2.0", "k = 2.0;* k"], []),
    "a literal, then a variable": (["+ 2.0", "k = 3.0;+ k"], [TAKES.format("add", 3, 2)]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_became_an_argument_is_the_difference_and_not_its_memory(name, clean):
    cells, wanted = NUMBERS[name]
    variables = {"jnp": jnp, "x": jnp.ones((4, 3)), "__name__": "__main__"}
    made = []
    for number, cell in enumerate(cells):
        setting, _, use = cell.rpartition(";")
        text = f"{setting}\n{LINE.format(use)}\n"
        file = f"<{name} {number}>"
        call_stack.register_cell(file, number + 1, text)
        with lazynb.lazy():
            exec(compile(text, file, "exec"), variables)
            made.append(lazynb.compile(variables["y"]))
            float(variables.pop("y"))
    assert [change.text for change in lazynb.diff(*made[-2:]).changes] == wanted


def test_flags_are_parsed_written_and_resolved_from_library_names():
    assert parse_flags(["--xla_a=true", "xla_b=False", "xla_c=3"]) == {
        "xla_a": True,
        "xla_b": False,
        "xla_c": "3",
    }
    assert format_flags(parse_flags(["xla_a=true", "xla_c=3"])) == "xla_a=true xla_c=3"
    assert flags_without_libraries(["ynnpack"], "cpu").keys() == {"xla_cpu_experimental_ynn_fusion_type"}
    with pytest.raises(BadFlag, match="lazynb supports none"):
        flags_without_libraries(["cuDNN"], "cuda")


def test_a_program_with_flags_is_explained_with_them():
    """What is asked and verified of it is compiled with the flags too."""
    plain = lazynb.compile(lambda x: jnp.exp(x * 2) + x, TYPE)
    unfused = compile_with_flags(plain, {"xla_disable_hlo_passes": "fusion"})
    assert len(unfused.clusters) > len(plain.clusters) == 1
    assert not unfused.is_run and "1 flag" in repr(unfused)
    assert len(unfused.ask()) == len(unfused.boundaries) > 0
    assert any("xla_disable_hlo_passes=fusion" in note for note in unfused.notes)
    given = lazynb.compile(jax.jit(two_kernels).lower(TYPE))
    with pytest.raises(BadFlag, match="only to a recorded program"):
        compile_with_flags(given, {"xla_disable_hlo_passes": "fusion"})
    assert plain.is_run and not plain.flags
