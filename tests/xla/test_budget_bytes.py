"""Budgets of bytes through memory and of a program's memory: the figures are the inspector's."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.costs import budget as budget_module, program_usage
from lazynb.compare.costs.budget import LimitUnchecked
from lazynb.report.inspection.inspection_data import inspection
from lazynb.user_code.text_format import parse_size

pytestmark = pytest.mark.usefixtures("clean")


def layer(x, w):
    h = jnp.tanh(x @ w)
    return jnp.sort(h, axis=0) + h


@pytest.fixture
def arrays():
    with lazynb.lazy():
        x = jnp.ones((64, 32)).block_until_ready()
        w = jnp.ones((32, 16)).block_until_ready()
    return x, w


@pytest.fixture
def figures(arrays):
    """The bytes that a run of the layer moves and takes, as the inspector shows them."""
    with lazynb.lazy():
        data = inspection(lazynb.compile(y := layer(*arrays)))
        del y
    [program] = data["programs"]
    moved, allocated = program["total"]["bytes"], program["memory"]["allocated_bytes"]
    assert moved["low"] == moved["high"] > 0 and allocated >= 64 * 16 * 4
    return int(moved["low"]), allocated


def test_limits_that_are_met_exactly_pass(arrays, figures):
    moved, allocated = figures
    limits = {"bytes": 3 * moved, "peak_memory": allocated}
    with lazynb.lazy(), lazynb.budget(**limits) as budget:
        for _ in range(3):
            layer(*arrays).block_until_ready()
    used = budget.used
    assert used.footprints.moved.exact == 3 * moved and used.footprints.largest == allocated
    assert [(each.runs, each.kernels, each.holders) for each in used.footprints.programs] == [(3, (), ())]


def test_bytes_over_budget_name_kernels_and_lines(arrays, figures):
    moved, _ = figures
    with pytest.raises(lazynb.BudgetExceeded) as caught, lazynb.lazy(), lazynb.budget(bytes=3 * moved - 1):
        for _ in range(3):
            layer(*arrays).block_until_ready()
    error = caught.value
    assert error.exceeded == ("bytes",) and error.footprints.moved.exact == 3 * moved
    text = str(error)
    assert text.startswith(f"over budget: {3 * moved:,} bytes (")
    assert f"through memory where {3 * moved - 1:,} bytes" in text and "run 3 times" in text
    [program] = error.footprints.programs
    assert program.kernels and program.moved.low >= sum(part.bytes for part in program.kernels)
    assert any("test_budget_bytes.py:" in part.where for part in program.kernels)
    for part in program.kernels:
        assert part.text in text and part.where in text and part.where
    assert "held by" not in text


def test_memory_over_budget_names_the_values_that_hold_it(arrays, figures):
    _, allocated = figures
    x, w = arrays
    with (
        pytest.raises(lazynb.BudgetExceeded) as caught,
        lazynb.lazy(),
        lazynb.budget(peak_memory=allocated - 1),
    ):
        (jnp.ones(3) * 2).block_until_ready()  # the largest program counts, not all together
        layer(x, w).block_until_ready()
    error, text = caught.value, str(caught.value)
    assert error.exceeded == ("peak_memory",) and error.footprints.largest == allocated
    assert f"a program takes {allocated:,} bytes (" in text and "held by argument `x`" in text
    [largest] = [each for each in error.footprints.programs if each.holders]
    assert largest.allocated == allocated
    first = largest.holders[0]
    assert first.text.startswith("argument `x`") and first.bytes == 64 * 32 * 4
    assert sum(part.bytes for part in largest.holders) <= allocated
    assert any(
        "return jnp.sort" in part.where or "lines" in part.where or part.where for part in largest.holders
    )


def test_kernels_are_those_of_the_inspector(arrays):
    with lazynb.lazy():
        data = inspection(lazynb.compile(y := layer(*arrays)))
        del y
        kernels = sum(cluster["kind"] not in ("control", "transfer") for cluster in data["clusters"])
        with lazynb.budget(kernels=kernels):
            layer(*arrays).block_until_ready()
        with pytest.raises(lazynb.BudgetExceeded), lazynb.budget(kernels=kernels - 1):
            layer(*arrays).block_until_ready()


def test_a_loop_counts_each_iteration():
    def run(x):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ c), None), x, None, length=7)[0].block_until_ready()

    with lazynb.lazy():
        x = jnp.ones((32, 32)).block_until_ready()
        with lazynb.budget(bytes=1 << 40) as budget:
            run(x)
    assert budget.used.footprints.moved.exact > 7 * 2 * 32 * 32 * 4


def turns():
    return jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, jnp.ones(3)).block_until_ready()


@lazynb.lazy()
def within(**limits):
    with lazynb.budget(**limits):
        turns()


def test_a_limit_on_an_unknown_figure_raises(monkeypatch):
    with pytest.raises(LimitUnchecked, match=r"bytes=100000\) cannot be checked: how often the loop"):
        within(bytes=100_000)
    with pytest.raises(lazynb.BudgetExceeded, match="over budget: 1 compilation where 0 are allowed"):
        lazynb.clear_cache()
        within(bytes=100_000, compiles=0)
    monkeypatch.setattr(program_usage, "memory_stats", lambda compiled: None)
    with pytest.raises(LimitUnchecked, match="XLA gives no memory analysis of 1 program of the 1 that ran"):
        within(peak_memory=1)


def test_bytes_are_computed_only_with_a_byte_limit(monkeypatch):
    monkeypatch.setattr(budget_module, "FootprintCounter", lambda: pytest.fail("programs are noted"))
    with lazynb.lazy(), lazynb.budget(kernels=9, compiles=9) as budget:
        float(jnp.ones(3).sum())
    assert budget.used.footprints is None


def test_more_programs_than_are_kept_have_figures(monkeypatch):
    monkeypatch.setattr(program_usage, "PROGRAMS_KEPT", 1)
    with pytest.raises(lazynb.BudgetExceeded) as caught, lazynb.lazy(), lazynb.budget(bytes=0, peak_memory=0):
        for length in (3, 4):
            (jnp.ones(length) * 2).block_until_ready()
    moved = [each.moved.low for each in caught.value.footprints.programs]
    assert len(moved) == 2 and moved[1] > moved[0] > 0
    assert [bool(each.kernels) for each in caught.value.footprints.programs] == [True, False]


def test_sizes_are_parsed_and_other_values_refused():
    assert parse_size("4096") == parse_size("4 KiB") == 4096 and parse_size("1.5 GB") == 1_500_000_000
    assert parse_size("64MiB") == 64 << 20 and parse_size("2kB") == 2000 and parse_size("7 B") == 7
    assert lazynb.budget(bytes="1 KiB", peak_memory="2 MB").limits.asked() == {
        "bytes": 1024,
        "peak_memory": 2_000_000,
    }
    for bad in ("", "MiB", "1 XB", "-3", "64 MiBs"):
        with pytest.raises(ValueError, match="is no size"):
            lazynb.budget(peak_memory=bad)
    with pytest.raises(TypeError, match=r"budget\(bytes=...\) takes a whole number"):
        lazynb.budget(bytes=1.5)


def test_the_error_can_be_pickled():
    with pytest.raises(lazynb.BudgetExceeded) as caught, lazynb.lazy(), lazynb.budget(bytes=0, peak_memory=0):
        (jnp.ones(3) * 2).block_until_ready()
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.exceeded == ("bytes", "peak_memory")
