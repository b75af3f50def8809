"""What ``lazynb.diff`` takes, and what it says of times, flags, runs of several programs and HLO."""

from __future__ import annotations

import copy
import functools
import json

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.joined import joined
from lazynb.compare.limit import BadLimit, figure
from lazynb.compare.side import Side
from lazynb.view.reports.comparison import Diff
from lazynb.view.reports.side import side_of
from lazynb.xla.flag_texts import written
from lazynb.xla.flags import BadFlag, compiled_with, parse_flags, without

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
    return Side(data, f"{seconds}")


def test_times_are_compared_beyond_noise():
    assert [c.kind for c in Diff(timed(1e-3, 1e-4), timed(2e-3, 1e-4)).changes] == ["time"] * 3
    first = Diff(timed(1e-3, 1e-4), timed(2e-3, 1e-4)).headline[0]
    assert first.endswith("takes 2 ms (runs of 1.9–2.1 ms) instead of 1 ms (runs of 0.9–1.1 ms)")
    assert list(Diff(timed(1e-3, 1e-4), timed(1.2e-3, 1e-4)).changes) == []  # they overlap
    assert list(Diff(timed(1e-3, 1e-5), timed(1.1e-3, 1e-5)).changes) == []  # a machine's mood
    assert "Only 0.001 was measured" in repr(Diff(timed(1e-3, 1e-4), side()))


def test_what_both_were_profiled_is_measured():
    x = jnp.ones((128, 256))
    with lazynb.lazy():
        compilation = lazynb.compile(jnp.tanh(x) * 2)
    compilation.profile(3)
    diff = lazynb.diff(compilation, compilation)
    assert diff.before.figures.seconds.median > 0 and list(diff.changes) == []


def test_several_programs_are_one_side():
    one = side()
    both = Side(joined([one.data, one.data]), "both")
    assert len(both.kernels) == 2 * len(one.kernels)
    assert both.figures.moved == 2 * one.figures.moved
    assert figure(both, "peak_memory") == figure(one, "peak_memory")
    assert list(Diff(both, both).changes) == []
    changes = Diff(one, both).changes
    assert {change.kind for change in changes} == {"kernels", "operations"}
    assert sum(c.now.kernels - c.before.kernels for c in changes if c.kind == "kernels") == 3


@pytest.mark.parametrize("of", ["lowered", "compiled", "tensor", "graph"])
def test_what_it_takes(of):
    jitted = jax.jit(two_kernels).lower(TYPE)
    if of in ("lowered", "compiled"):
        given = jitted if of == "lowered" else jitted.compile()
        assert list(lazynb.diff(given, given).changes) == []
        return
    with lazynb.lazy():
        y = two_kernels(jnp.ones(TYPE.shape))
        assert list(lazynb.diff(y if of == "tensor" else lazynb.graph(y), y).changes) == []
        assert y._pending is not None  # nothing ran


def test_what_jit_lowered_beside_what_lazynb_records():
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
def test_what_it_does_not_take(obj, error, words):
    with pytest.raises(error) as raised:
        lazynb.diff((two_kernels, TYPE), obj)
    assert words in str(raised.value)


def test_plain_data():
    diff = lazynb.diff((two_kernels, TYPE), (lambda x: jnp.exp(jnp.sort(x * 2, axis=1)) + x, TYPE))
    data = json.loads(diff.to_json())
    assert data["changes"] and json.dumps(diff.to_dicts())
    assert data["now"]["kernels"] == 3 and data["before"]["about"] == f"JAX {jax.__version__}"


def test_an_unknown_figure():
    data = copy.deepcopy(side().data)
    data["clusters"][0]["cost"] = None
    with pytest.raises(BadLimit, match="flops is not known of mine"):
        figure(Side(data, "mine"), "flops")


def test_flags():
    assert parse_flags(["--xla_a=true", "xla_b=False", "xla_c=3"]) == {
        "xla_a": True,
        "xla_b": False,
        "xla_c": "3",
    }
    assert written(parse_flags(["xla_a=true", "xla_c=3"])) == "xla_a=true xla_c=3"
    assert without(["ynnpack"], "cpu").keys() == {"xla_cpu_experimental_ynn_fusion_type"}
    with pytest.raises(BadFlag, match="of none that lazynb knows"):
        without(["cuDNN"], "cuda")


def test_a_program_with_flags_is_explained_with_them():
    """What is asked and verified of it is compiled with the flags too."""
    plain = lazynb.compile(lambda x: jnp.exp(x * 2) + x, TYPE)
    unfused = compiled_with(plain, {"xla_disable_hlo_passes": "fusion"})
    assert len(unfused.clusters) > len(plain.clusters) == 1
    assert not unfused.is_run and "1 flag" in repr(unfused)
    assert len(unfused.ask()) == len(unfused.boundaries) > 0
    assert any("xla_disable_hlo_passes=fusion" in note for note in unfused.notes)
    given = lazynb.compile(jax.jit(two_kernels).lower(TYPE))
    with pytest.raises(BadFlag, match="was recorded"):
        compiled_with(given, {"xla_disable_hlo_passes": "fusion"})
    assert plain.is_run and not plain.flags
