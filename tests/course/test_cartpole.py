"""Cartpole again: every row has its runs and its spread, what the text says is shown, and the counting
counts."""

from __future__ import annotations

import importlib.util
import os
import re
import sys

import jax
import jax.numpy as jnp
import pytest

import lazynb
from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

PAPER = {
    "random inside, one array": "1x",
    "random before, one array": "1.87x",
    "four arrays": "3.41x",
    "four arrays, unrolled 2": "-",
    "four arrays, unrolled 5": "-",
    "four arrays, unrolled 10": "up to 10.56x",
    "four arrays, unrolled 20": "-",
    "Python loop, barrier every 1": "-",
    "Python loop, barrier every 5": "-",
    "Python loop, barrier every 10": "-",
    "eager JAX": "-",
}
PYTORCH = {"PyTorch eager": "0.13x", "TorchScript": "1.97x"}
ROW = re.compile(
    r"^(?P<name>\w.*?)  +(?P<median>[\d.]+) \((?P<low>[\d.]+) to (?P<high>[\d.]+)\)  +(?P<runs>\d+)  +"
    r"(?P<speed>[\d.]+)x \((?P<first>[\d.]+) to (?P<third>[\d.]+)\)  +(?P<paper>[\w. ]+?x|-)  +"
    r"(?P<kernels>[\d.]+|-)  +(?P<copies>[\d.]+|-)$",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return executed(NOTEBOOKS / "05-cartpole.ipynb", tmp_path_factory)


@pytest.fixture(scope="module")
def rows(run):
    return {
        found["name"]: found
        for found in ROW.finditer(shown(cell_with(run.notebook, "cartpole.race(rows, rounds=7)")))
    }


@pytest.mark.browser
@pytest.mark.xdist_group("cartpole")
def test_the_notebook_runs_without_warning_within_three_minutes(run):
    check_quiet(run)
    others = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert run.seconds < 180 * others, "on a machine that does nothing else it has three minutes"


@pytest.mark.browser
@pytest.mark.xdist_group("cartpole")
def test_the_exercises_accept_right_answers_and_reject_wrong_ones(run):
    check_exercises(run, 3)


@pytest.mark.browser
@pytest.mark.xdist_group("cartpole")
def test_every_row_has_runs_and_spread_and_the_papers_figure(rows):
    there = PAPER | (PYTORCH if importlib.util.find_spec("torch") else {})
    assert {name: found["paper"] for name, found in rows.items()} == there
    for name, found in rows.items():
        assert int(found["runs"]) >= 5
        assert float(found["low"]) <= float(found["median"]) <= float(found["high"]), name
        assert float(found["first"]) <= float(found["speed"]) <= float(found["third"]), name
    assert float(rows["random inside, one array"]["speed"]) == 1


@pytest.mark.browser
@pytest.mark.xdist_group("cartpole")
def test_kernels_a_step_are_known_of_all_that_lazynb_compiled(rows):
    recorded = [name for name in PAPER if name != "eager JAX"]
    kernels = {name: float(rows[name]["kernels"]) for name in recorded}
    assert all(float(rows[name]["copies"]) < kernels[name] for name in recorded)
    assert kernels["random inside, one array"] > kernels["random before, one array"], (
        "the generator has kernels of its own"
    )
    unrolled = [kernels[name] for name in recorded if name.startswith("four arrays")]
    assert unrolled[0] > unrolled[1] > unrolled[2], "fewer turns, fewer kernels of the loop's own"


@pytest.mark.browser
@pytest.mark.xdist_group("cartpole")
def test_all_versions_simulate_the_same(run, rows):
    text = shown(cell_with(run.notebook, "steps up"))
    counts = [int(one.replace(",", "")) for one in re.findall(r"([\d,]+) steps up", text)]
    assert len(counts) == len(rows) - 1, "all but the one with fewer steps"
    assert max(counts) - min(counts) < 0.002 * counts[0] and counts[0] > 400_000


@pytest.mark.browser
@pytest.mark.xdist_group("cartpole")
def test_the_answers_about_the_papers_boundaries_follow_from_the_programs(run):
    """On XLA:CPU. What the cell says of each is held against the description of the programs."""
    notebook = run.notebook
    answers = shown(cell_with(notebook, "def loop_tuple"))
    said = dict(re.findall(r"^(.*?)  +(still there|in another form|gone)  +", answers, re.MULTILINE))
    body = shown(cell_with(notebook, "def four_arrays"))
    assert (said["tuple of a loop"] == "still there") == ("loop-carry" in body)
    first = shown(cell_with(notebook, "def baseline"))
    assert (said["random numbers"] == "in another form") == (first.count("in while") > 1)
    before = shown(cell_with(notebook, "def one_array"))
    assert (
        said["concatenation with several users"] == "gone"
        and "concatenate" not in before.partition("why they")[2]
    )
    assert "`divide` reads more than it writes" in shown(cell_with(notebook, "rest = {}"))
    assert not re.search("`(sine|cosine)` is expensive", body + before)


@pytest.mark.browser
@pytest.mark.xdist_group("cartpole")
def test_sines_are_computed_again_where_steps_are_unrolled(run):
    text = markdown(cell_with(run.notebook, "best = min(unrolled"))
    many, one = re.search(r"each sine \*\*([\d.]+)\*\* times instead of (\d+\.\d)", text).groups()
    assert float(many) > float(one) >= 1
    assert "fusions with several results: 0" in shown(
        cell_with(run.notebook, "several = [one for one in clusters")
    )
    assert shown(cell_with(run.notebook, "best_of =")).count("array") == 5


def markdown(cell) -> str:
    return "".join(output.get("data", {}).get("text/markdown", "") for output in cell.outputs)


# ---- what the notebook counts with -------------------------------------------------------------------------


@pytest.fixture
def cartpole(monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    yield pytest.importorskip("cartpole")
    sys.modules.pop("cartpole", None)


def test_the_work_of_a_loop_counts_once_per_iteration(cartpole):
    """What one turn computes is known from the program without the loop."""

    def turn(x, _):
        return jnp.sin(x) + 1, None

    counted = {}
    with lazynb.lazy():
        x = jnp.ones(1000)
        lazynb.sync()
        for length in (3, 12):
            counted[length] = cartpole.work(lazynb.compile(jax.lax.scan(turn, x, length=length)[0]))
        plain = cartpole.work(lazynb.compile(jnp.sin(x) + 1))
    assert (plain.transcendentals, plain.kernels, plain.copies) == (1000, 1, 0)
    assert [one.transcendentals for one in counted.values()] == [3000, 12000]
    a_turn = (counted[12].kernels - counted[3].kernels) / 9
    assert a_turn >= 1 and a_turn == int(a_turn)


def test_a_loop_with_an_unknown_trip_count_has_no_work_count(cartpole):
    with lazynb.lazy():
        x = jnp.ones(10)
        lazynb.sync()
        compiled = lazynb.compile(jax.lax.while_loop(lambda x: x.sum() < 1e6, lambda x: x * 1.5, x))
    assert cartpole.work(compiled) is None


def test_rows_run_alternately_and_are_compared_round_by_round(cartpole):
    order = []
    one, two = (cartpole.Row(name, lambda name=name: order.append(name), 10) for name in "ab")
    cartpole.race([one, two], rounds=3)
    assert order == list("ab") * 4
    assert len(one.seconds) == len(two.seconds) == 3, "the first round is not counted"
    one.seconds, two.seconds = [1.0, 2.0, 4.0], [0.5, 1.0, 1.0]
    assert cartpole.speeds(two, one) == [2, 2, 4]
    assert two.micros == [50_000, 100_000, 100_000]
    found = ROW.search(repr(cartpole.table([one, two])).splitlines()[2])
    assert (found["name"], found["median"], found["speed"], found["runs"]) == ("b", "100000.0", "2.00", "3")


def test_figures_are_kept_with_their_machine(cartpole, tmp_path):
    assert cartpole.recorded(tmp_path) == {}
    row = cartpole.Row("a", lambda: None, 10, "2x", kernels=3.0, seconds=[0.1, 0.2])
    assert cartpole.record([row], tmp_path).name == f"cartpole-{jax.default_backend()}.json"
    [(backend, (machine, [read]))] = cartpole.recorded(tmp_path).items()
    assert backend == jax.default_backend() and machine["JAX"] == jax.__version__
    assert (read.name, read.paper, read.kernels, read.copies, read.micros) == (
        "a",
        "2x",
        3.0,
        None,
        row.micros,
    )
    with pytest.raises(RuntimeError, match="another machine"):
        read.run()
