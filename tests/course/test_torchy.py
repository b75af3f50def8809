"""Torchy's ideas, each shown by a run: flushes with reasons, dead values, control flow, the
microbenchmark."""

from __future__ import annotations

import importlib.util
import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("torchy")]

HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "torchax"))
TORCHY = {"PyTorch", "TorchScript", "PyTorch, lazynb"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return executed(NOTEBOOKS / "06-torchy.ipynb", tmp_path_factory)


@pytest.fixture(scope="module")
def torchy(run):
    return run.notebook


def markdown(cell) -> str:
    """The Markdown that a cell displays."""
    return "\n".join(output.get("data", {}).get("text/markdown", "") for output in cell.outputs)


def table(cell) -> list[dict[str, str]]:
    """The rows of the table that a cell displays, by column."""
    lines = [line for line in markdown(cell).splitlines() if line.startswith("|")]
    rows = [[one.strip(" `") for one in line.strip("|").split("|")] for line in lines]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def pictures(cell) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def figures(text: str) -> list[float]:
    """Times in a cell of a table, in microseconds."""
    return [
        float(number) * {"us": 1, "ms": 1e3}[unit] for number, unit in re.findall(r"([\d.]+) (us|ms)", text)
    ]


def test_the_notebook_runs_without_error_or_warning(run):
    check_quiet(run)


def test_the_exercises_accept_right_answers_and_reject_wrong_ones(run):
    check_exercises(run, 4)


def test_a_flushed_trace_is_compiled_once_and_then_hits_the_cache(torchy):
    r, mean = table(cell_with(torchy, "def flushes(since)"))
    assert (r["reason"], r["pending"], r["executable"]) == ("float", "8", "compiled")
    assert (mean["reason"], mean["pending"], mean["executable"]) == ("float", "1", "compiled")
    again = table(cell_with(torchy, "def eight("))
    assert [one["executable"] for one in again] == ["compiled", "hit", "hit"]


def test_values_and_errors_are_those_of_eager(torchy):
    said = shown(cell_with(torchy, "def wrong_call"))
    assert float(re.search(r"relative difference: (\S+)", said)[1]) < 1e-5
    assert "the same error: True" in said and "incompatible shapes" in said


def test_each_flush_has_its_reason(torchy):
    reasons = {one["program"]: one["reason"] for one in table(cell_with(torchy, "def questions"))}
    assert reasons == {
        "branch": "bool",
        "number": "float",
        "text": "format",
        "to_numpy": "asarray",
        "shaped_by_values": "static",
        "position": "index",
        "barrier": "sync",
        "questions": "nothing ran",
    }
    statistic = table(cell_with(torchy, "def components"))
    assert {one["reason"] for one in statistic} == {"bool", "float", "asarray", "format"}
    assert all(int(one["flushes"]) == int(one["compiled"]) + int(one["hits"]) for one in statistic)
    assert all(int(one["compiled"]) < int(one["flushes"]) for one in statistic)
    assert pictures(cell_with(torchy, "Why the traces"))
    breaks = next(cell for cell in torchy.cells if cell.source == "%breaks")
    html = "".join(output.get("data", {}).get("text/html", "") for output in breaks.outputs)
    assert "if change &lt; 1e-4" in html + shown(breaks) or "if change < 1e-4" in shown(breaks)


def test_dead_values_are_not_computed(torchy):
    fates = table(cell_with(torchy, "compiled = lazynb.compile(spread)"))
    dead = {one["line"].split(" = ")[0] for one in fates if one["what became of it"] == "dead"}
    assert dead == {"middle", "gram", "variances"}
    one, mean, everything = table(cell_with(torchy, 'float(everything["spread"].sum())'))
    assert int(one["computed"]) < int(one["pending"]) and int(mean["computed"]) == int(mean["pending"]) == 1
    assert everything["computed"] == everything["pending"]
    times = table(cell_with(torchy, "def take("))
    assert [one[""] for one in times] == ["lazily", "eagerly", "jax.jit"]
    assert all(float(one["times the lazy one"]) > 1 for one in times[1:])


def test_each_control_flow_path_is_compiled_once(torchy):
    ways = table(cell_with(torchy, "def picked("))
    assert [one["executable"] for one in ways] == ["compiled", "compiled", "hit", "hit", "hit", "hit"]
    assert {one["pending"] for one in ways} == {"32"}
    branch = table(cell_with(torchy, "def halve_if_large"))
    assert [one["reason"] for one in branch] == ["bool", "float"] * 4
    assert [one["executable"] for one in branch] == [
        "compiled",
        "compiled",
        "hit",
        "compiled",
        "hit",
        "hit",
        "hit",
        "hit",
    ]
    drawn = next(cell for cell in torchy.cells if cell.source == "%cache 1")
    assert "+   divide" in shown(drawn) and "-   multiply" in shown(drawn)


def test_pytorch_code_is_recorded_where_it_is_installed(torchy):
    said = shown(cell_with(torchy, "import lazynb.torch"))
    cell = cell_with(torchy, "lazynb.torch.enable()")
    if not HAS_TORCH:
        assert "pip install 'lazynb[torch]'" in said and not cell.outputs
        return
    assert not said
    assert [(one["reason"], one["executable"]) for one in table(cell)] == [
        ("item", "compiled"),
        ("item", "hit"),
    ]


def test_the_microbenchmark_has_every_row_and_its_spread(torchy):
    assert float(re.search(r"operations: (\S+)", shown(cell_with(torchy, "def agree(")))[1]) < 1e-4
    rows = table(cell_with(torchy, "measured = measure("))
    sizes = [
        (f"{side} x {side}", str(operations)) for side in (100, 1000, 2000) for operations in (8, 16, 32)
    ]
    assert [(one["matrices"], one["operations"]) for one in rows] == sizes
    assert (set(rows[0]) >= TORCHY) == HAS_TORCH
    for row in rows:
        for way in set(row) - {"matrices", "operations"}:
            middle, low, high = figures(row[way])
            assert 0 < low <= middle <= high, (row, way)
    largest = rows[-1]
    assert figures(largest["lazynb"])[0] < figures(largest["eager JAX"])[0], (
        "fusing pays where memory is what one waits for"
    )
    assert pictures(cell_with(torchy, "COLOURS = ")) == 1


def test_the_figures_of_the_paper_are_shown_beside_those_of_this_machine(torchy):
    rows = {one[""]: one for one in table(cell_with(torchy, "def beside("))}
    assert rows["PyTorch, lazynb over PyTorch"]["paper"].startswith("up to 12x")
    assert rows["PyTorch, lazynb over TorchScript"]["paper"].startswith("up to 5x")
    for name, row in rows.items():
        if HAS_TORCH or "PyTorch" not in name:
            assert re.fullmatch(r"up to [\d.]+x", row["this machine"]), row
        else:
            assert "not installed" in row["this machine"]


def test_the_cost_of_recording_and_the_crossover_sizes_are_measured(torchy):
    cost = {
        one["on 4 x 4 matrices"]: (figures(one["for a step"])[0], figures(one["for each operation in it"])[0])
        for one in table(cell_with(torchy, "PROBE = "))
    }
    assert cost["lazynb"][0] + 8 * cost["lazynb"][1] > cost["jax.jit"][0] + 8 * cost["jax.jit"][1], (
        "recording is not free"
    )
    assert "us" in markdown(cell_with(torchy, "step_lazy, each_lazy"))
    rows = table(cell_with(torchy, "def crossover("))
    assert {"faster than eager JAX", "faster than NumPy"} <= {one["lazynb is"] for one in rows}
    for row in rows:
        assert all(
            re.match("at every size|at no size|from about", row[column])
            for column in ("8 operations", "32 operations")
        )
    assert pictures(torchy.cells[torchy.cells.index(cell_with(torchy, "def crossover(")) + 1]) == 1
