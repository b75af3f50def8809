"""Inside `jit`: the notebook shows what its text says."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("inside-jit")]


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


def test_no_error_and_no_warning(run):
    assert run.seconds < 180
    check_quiet(run)


def test_exercises(run):
    check_exercises(run, 4)


def test_numbers(inside):
    assert "→ 2 kernels" in inside("%%compile written") and "an input" not in inside("%%compile written")
    held = inside("%%compile held")
    assert re.search(r"c0 .*divide .* 4 B → 4 B", held) and "→ 3 kernels" in held
    assert re.search(r"c0 → c1 .*this number is an input: 4 at cell \d+, line 2", held)
    counted = inside("divisions =")
    assert re.search(r"written +0 divisions, 2 kernels", counted)
    assert re.search(r"held +1 divisions, 3 kernels", counted)
    assert "cache hit, nothing compiled" in inside("%%compile again")


def test_names(inside):
    both = inside("%%compile both --as-jit")
    own, jitted = (int(one) for one in re.findall(r"^this machine.*?  (\d+) ", both, re.M))
    assert jitted < own
    assert "These 2 arrays are written (2 MiB) because they are still in reach: h, a." in both
    assert "as jax.jit (returns `loss`;" in both and "not run" in both
    returned = inside("%%compile returned")
    assert "This array is written (1 MiB) because it is still in reach: h." in returned
    assert "as jax.jit (returns `loss`, `a`;" in returned
    assert "the function returns `a`" in returned


def test_calls(inside):
    called = inside("%%compile called")
    marks = re.findall(r"^ +c\d .*cell (\d+), lines? (\d+(?:, \d+)*) ", called, re.M)
    own = re.search(r"recorded in cell (\d+)", called)[1]
    lines = {int(line) for cell, of in marks if cell != own for line in of.split(", ")}
    assert lines == {3, 4, 5}, "those of the function, in the cell before"


def test_loops(inside):
    scanned = inside("%%compile scanned")
    assert re.search(r"^ +c3 +while", scanned, re.M) and re.search(r"^ +c3\.1 ", scanned, re.M)
    often = runs(inside("runs(scanned)"))
    assert often["dot_general"] == "7" and re.search(r"^ *8 ×", inside("runs(scanned)"), re.M)
    open_ended = runs(inside("shrunk ="))
    assert open_ended["div"] == "?" and open_ended["gt"] == "?"


def test_branches(inside):
    branched = inside("%%compile branched")
    places = re.findall(r"^ +c2\.[01] .* line (\d+) ", branched, re.M)
    assert sorted(places) == ["3", "7"]


def test_gradients(inside):
    trained = by_line(inside("passes(trained)"))
    assert not any("jax.grad" in line for line in trained)
    forward = {line: kinds for line, kinds in trained.items() if "gradient(w)" not in line}
    assert len(forward) == 3 and all("backward" in kinds for kinds in forward.values())
    assert "dot_general" in trained["h = jnp.tanh(x @ w)"]["backward"]
    plain = by_line(inside("passes(lazynb.compile(jax.grad(loss)(w)))"))
    assert [line for line, kinds in plain.items() if "backward" in kinds] == [
        "return (jnp.tanh(x @ w) ** 2).mean()"
    ]


def test_what_a_checkpoint_computes_again(inside):
    rematted = by_line(inside("rematted ="))
    first = rematted["h = jnp.tanh(x @ w)"]
    assert {"dot_general", "tanh"} <= set(first["forward"]) & set(first["again"])
    fates = inside("rematted.fates")
    assert len(fates.strip().splitlines()) >= 4
    assert all("recomputation" in line for line in fates.strip().splitlines())


def test_programs_from_elsewhere(inside):
    assert inside("matrix =").count("→ 5 kernels") == 1 and "not run" in inside("matrix =")
    assert inside("lowered.compile()").count("→ 5 kernels") == 2
    from_file = inside('"step.hlo"')
    assert "→ 5 kernels" in from_file and "given compiled" in from_file
