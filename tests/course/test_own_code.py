"""From a slow notebook to a budget: each cure takes away what the text says, and the budget tells the two
apart."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("own-code")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return executed(NOTEBOOKS / "08-your-own-code.ipynb", tmp_path_factory)


@pytest.fixture(scope="module")
def own(run):
    return run.notebook


def versions(cell) -> dict[str, tuple[int, list[int], int, float]]:
    """By version: programs of the first call and of the later ones, breaks, milliseconds."""
    text = "".join(output.get("data", {}).get("text/markdown", "") for output in cell.outputs)
    found = re.findall(
        r"^\| `(\w+)` \| (\d+) \| ([\d, ]+) \| (\d+) \| (\d+) ms \(\d+ - \d+\) \|$", text, re.M
    )
    return {
        name: (int(first), [int(one) for one in later.split(",")], int(breaks), float(time))
        for name, first, later, breaks, time in found
    }


def test_the_notebook_runs_without_error_or_warning(run):
    check_quiet(run)


def test_the_exercises_accept_right_answers_and_reject_wrong_ones(run):
    check_exercises(run, 3)


def test_the_report_names_the_three_breaking_lines(own):
    said = shown(cell_with(own, 'shell("lazynb run slow.ipynb --report slow.html")'))
    assert "(exit status 0)" in said and "report written to slow.html" in said
    for line in ("if moved < 0.01:", "np.asarray(distance.argmin", "float(history[-1])"):
        assert line in said
    assert said.count(" ×6 ") == 3, "three breaks in each of six steps"
    page = "".join(output.get("data", {}).get("text/html", "") for output in cell_with(own, "srcdoc").outputs)
    assert "grows at each step" in page and "has another shape at each step" in page


def test_each_cure_reduces_compilations_and_breaks(own):
    (careless,) = versions(cell_with(own, "def tally(")).values()
    masked = versions(cell_with(own, "def masked("))["masked"]
    collected = versions(cell_with(own, "def collected("))["collected"]
    every = versions(cell_with(own, "def careful("))
    careful = every["careful"]
    assert list(every) == ["careless", "masked", "collected", "careful"]
    assert min(careless[1]) >= 6, "it compiles anew for other data"
    for cured in (masked, collected, careful):
        assert cured[1] == [0, 0, 0], "programs of the first call are found again"
        assert cured[3] < careless[3]
    assert careless[3] - masked[3] > abs(masked[3] - careful[3]), "the first cure brings most"
    assert careless[2] > masked[2] > collected[2] > careful[2] == 2
    assert "the same centres" in shown(cell_with(own, "expected = careless(x)"))
    assert any(
        "image/png" in output.get("data", {}) for output in cell_with(own, "cured line by line").outputs
    )


def test_strict_mode_raises_and_the_budget_block_tells_the_versions_apart(own):
    assert "LNB110 asarray" in shown(cell_with(own, "%lazy strict"))
    block = shown(cell_with(own, "careful is within its budget"))
    assert "careful is within its budget" in block and "careless is not:\nover budget:" in block


def test_the_pytest_budget_fails_the_careless_version_only(own):
    said = shown(cell_with(own, "lazynb_budget(compiles=3, breaks=2)"))
    assert said.splitlines()[1].startswith(".F"), "the careful one passes, the careless one fails"
    assert "over budget" in said and "test_careless" in said and "(exit status 1)" in said


def test_the_workflow_is_valid_and_its_command_fails_over_budget(own):
    yaml = pytest.importorskip("yaml")
    cell = cell_with(own, "WORKFLOW = ")
    workflow = yaml.safe_load(re.search(r'WORKFLOW = """(.*?)"""', cell.source, re.S)[1])
    steps = workflow["jobs"]["notebook"]["steps"]
    (command,) = (step["run"] for step in steps if step.get("run", "").startswith("lazynb"))
    assert f"$ {command}" in shown(cell) and "(exit status 0)" in shown(cell)
    failing = shown(cell_with(own, "failed = shell("))
    assert "over budget" in failing and "(exit status 3)" in failing


def test_the_time_saved_by_jit_is_measured(own):
    tables = "".join(
        output.get("data", {}).get("text/markdown", "")
        for output in cell_with(own, "def never_still").outputs
    )
    assert (
        len(
            re.findall(r"^\| \d+ \| \d+ us \(\d+ - \d+\) \| \d+ us \(\d+ - \d+\) \| [\d.]+ \|$", tables, re.M)
        )
        == 3
    )
    said = "".join(
        output.get("data", {}).get("text/markdown", "") for output in cell_with(own, "def saved").outputs
    )
    assert said.count("% of a step") == 3
