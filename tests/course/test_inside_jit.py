"""Inside `jit`: the notebook shows what its text says."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("inside-jit")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return executed(NOTEBOOKS / "09-inside-jit.ipynb", tmp_path_factory)


@pytest.fixture(scope="module")
def inside(run):
    """Gives what the cell with a text shows."""
    return lambda text: shown(cell_with(run.notebook, text))


def by_line(text: str) -> dict[str, dict[str, list[str]]]:
    """What `passes` prints: by line of code, the operations of each kind."""
    lines: dict[str, dict[str, list[str]]] = {}
    code = ""
    for line in text.strip().splitlines():
        found = re.match(r" *(forward|backward|again) +(.+)", line)
        if found:
            lines[code][found[1]] = found[2].split(", ")
        else:
            code = line.split(maxsplit=1)[1]
            lines[code] = {}
    return lines


def runs(text: str) -> dict[str, str]:
    """What `runs` prints: how often, by operations."""
    return {names.strip(): often for often, names in re.findall(r"(\d+|\?) ×(.+)", text)}


def test_the_notebook_runs_without_error_or_warning_within_three_minutes(run):
    assert run.seconds < 180
    check_quiet(run)


def test_the_exercises_accept_right_answers_and_reject_wrong_ones(run):
    check_exercises(run, 4)


def test_a_number_in_a_variable_is_an_input_and_adds_a_kernel(inside):
    assert "→ 2 kernels" in inside("%%compile written") and "an input" not in inside("%%compile written")
    held = inside("%%compile held")
    assert re.search(r"c0 .*divide .* 4 B → 4 B", held) and "→ 3 kernels" in held
    assert re.search(r"c0 → c1 .*this number is an input: 4 at cell \d+, line 2", held)
    counted = inside("divisions =")
    assert re.search(r"written +0 divisions, 2 kernels", counted)
    assert re.search(r"held +1 divisions, 3 kernels", counted)
    assert "cache hit, nothing compiled" in inside("%%compile again")


def test_names_in_reach_write_arrays_that_jit_returns_only_if_asked(inside):
    both = inside("%%compile both --as-jit")
    own, jitted = (int(one) for one in re.findall(r"^this machine.*?  (\d+) ", both, re.M))
    assert jitted < own
    assert "These 2 arrays are written (2 MiB) because they are still in reach: h, a." in both
    assert "as jax.jit (returns `loss`;" in both and "not run" in both
    returned = inside("%%compile returned")
    assert "This array is written (1 MiB) because it is still in reach: h." in returned
    assert "as jax.jit (returns `loss`, `a`;" in returned
    assert "the function returns `a`" in returned


def test_lines_of_a_called_function_are_marked_in_its_own_cell(inside):
    called = inside("%%compile called")
    marks = re.findall(r"^ +c\d .*cell (\d+), lines? (\d+(?:, \d+)*) ", called, re.M)
    own = re.search(r"recorded in cell (\d+)", called)[1]
    lines = {int(line) for cell, of in marks if cell != own for line in of.split(", ")}
    assert lines == {3, 4, 5}, "those of the function, in the cell before"


def test_loop_operations_count_once_per_iteration(inside):
    scanned = inside("%%compile scanned")
    assert re.search(r"^ +c3 +while", scanned, re.M) and re.search(r"^ +c3\.1 ", scanned, re.M)
    often = runs(inside("runs(scanned)"))
    assert often["dot_general"] == "7" and re.search(r"^ *8 ×", inside("runs(scanned)"), re.M)
    open_ended = runs(inside("shrunk ="))
    assert open_ended["div"] == "?" and open_ended["gt"] == "?"


def test_each_branch_is_marked_with_its_own_line(inside):
    branched = inside("%%compile branched")
    places = re.findall(r"^ +c2\.[01] .* line (\d+) ", branched, re.M)
    assert sorted(places) == ["3", "7"]


def test_backward_operations_lead_to_the_forward_lines(inside):
    trained = by_line(inside("passes(trained)"))
    assert not any("jax.grad" in line for line in trained)
    forward = {line: kinds for line, kinds in trained.items() if "gradient(w)" not in line}
    assert len(forward) == 3 and all("backward" in kinds for kinds in forward.values())
    assert "dot_general" in trained["h = jnp.tanh(x @ w)"]["backward"]
    plain = by_line(inside("passes(lazynb.compile(jax.grad(loss)(w)))"))
    assert [line for line, kinds in plain.items() if "backward" in kinds] == [
        "return (jnp.tanh(x @ w) ** 2).mean()"
    ]


def test_checkpointed_operations_are_shown_as_recomputed(inside):
    rematted = by_line(inside("rematted ="))
    first = rematted["h = jnp.tanh(x @ w)"]
    assert {"dot_general", "tanh"} <= set(first["forward"]) & set(first["again"])
    fates = inside("rematted.fates")
    assert len(fates.strip().splitlines()) >= 4
    assert all("recomputation" in line for line in fates.strip().splitlines())


def test_lowered_compiled_and_hlo_file_programs_are_inspected(inside):
    assert inside("matrix =").count("→ 5 kernels") == 1 and "not run" in inside("matrix =")
    assert inside("lowered.compile()").count("→ 5 kernels") == 2
    from_file = inside('"step.hlo"')
    assert "→ 5 kernels" in from_file and "given compiled" in from_file
