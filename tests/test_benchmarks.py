"""The benchmarks' own workings: tables of rows and targets, the arithmetic, the check, and one row run for
real."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lazynb

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the package that is installed

from benchmarks import __main__ as command, case, driver, environments, report, store, verdicts  # noqa: E402
from benchmarks.driver import Driver  # noqa: E402
from benchmarks.environments import RECIPES, NoEnvironment  # noqa: E402
from benchmarks.peers import PEERS  # noqa: E402
from benchmarks.processes import PeerFailed, Process  # noqa: E402
from benchmarks.results import Result, agree, spread  # noqa: E402
from benchmarks.rows import GROUPS, JAX, ROWS  # noqa: E402
from benchmarks.store import Run  # noqa: E402
from benchmarks.targets import HEADLINE, TARGETS  # noqa: E402

LIBRARIES = {
    "jax_ways": "jax",
    "torch_ways": "torch",
    "torch_xla_way": "torch",
    "torch_jax_ways": "torch",
    "mlx_way": "mlx",
}
DRIVERS = [
    "__main__",
    "driver",
    "environments",
    "machine",
    "peers",
    "processes",
    "report",
    "results",
    "rows",
    "store",
    "targets",
    "verdicts",
]


def made_up(row: str, **figures: list[float]) -> Result:
    """A result nobody measured."""
    return Result(ROWS[row], figures={peer.replace("_", "-"): found for peer, found in figures.items()})


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Other tests keep the machine busy."""
    monkeypatch.setattr(driver, "PATIENCE", 0.0)


@pytest.fixture
def nothing_stored(monkeypatch, tmp_path):
    monkeypatch.setattr(verdicts, "STORED", tmp_path / "ratios.json")


class Told:
    """A driver that measures nothing: it tells what it was given."""

    skipped: dict[str, str] = {}

    def __init__(self, *results: Result) -> None:
        self._results = {result.row.name: result for result in results}
        self.rounds: list[int | None] = []

    def measure(self, row, rounds=None):
        self.rounds.append(rounds)
        return self._results[row.name]


def test_targets_name_rows_and_their_peers():
    for target in TARGETS:
        assert target.peer in ROWS[target.row].peers
        assert target.figure in ("ratio", "over", "own") and target.limit > 0
    assert len({(target.row, target.peer, target.figure) for target in TARGETS}) == len(TARGETS)
    assert set(HEADLINE) <= set(PEERS)


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_rows_have_a_program_for_each_peer(row):
    assert row.group in GROUPS and row.peers[0] in ("lazynb", "lazynb-torch")
    program = importlib.import_module(f"benchmarks.programs.{row.program}")
    assert callable(program.start) and callable(program.each)
    for peer in row.peers:
        assert callable(getattr(program, f"in_{LIBRARIES[PEERS[peer].way.partition(':')[0]]}"))


def test_peers_have_environments_and_ways():
    for peer in PEERS.values():
        module, _, name = peer.way.partition(":")
        tree = ast.parse((ROOT / "benchmarks" / "ways" / f"{module}.py").read_text())
        assert name in [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        assert peer.environment in {"", *RECIPES}


@pytest.mark.parametrize("name", DRIVERS)
def test_the_driver_needs_no_package(name):
    tree = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} <= {*sys.stdlib_module_names, "benchmarks"}


def test_ratios_are_taken_round_by_round():
    result = made_up("adds", lazynb=[1.0, 2.0, 3.0, 4.0], jit=[1.0, 1.0, 1.0, 2.0])
    assert result.ratio("jit") == spread([1.0, 2.0, 3.0, 2.0])
    assert result.over("jit") == spread([0.0, 1.0, 2.0, 2.0])
    assert result.ratio("torch") is None
    found = spread([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (found.low, found.median, found.high) == (2.0, 3.0, 4.0)
    assert spread([7.0]).low == spread([7.0]).high == 7.0


def test_a_peer_with_other_values_has_no_figures():
    result = made_up("adds", lazynb=[1.0], jit=[1.0], torch=[1.0])
    result.values = {"lazynb": [50.0, 50.0], "jit": [50.0, 50.0001], "torch": [51.0, 51.0]}
    result.compare_values()
    assert set(result.figures) == {"lazynb", "jit"}
    assert "jit" in result.errors["torch"]
    assert not agree([1.0], [1.0, 1.0], 0.1) and not agree([float("nan")], [1.0], 0.1)


def test_report_says_what_is_met_and_what_is_not():
    results = [
        made_up("adds", lazynb=[50e-6] * 3, eager=[500e-6] * 3, jit=[5e-6] * 3, torch=[40e-6] * 3),
        made_up("mlp-jit", lazynb=[1.05e-3], jit=[1e-3]),
        made_up("graph10k", lazynb=[0.03], eager=[0.05]),
        made_up("memory", lazynb=[300e6], jit=[300e6]),
        made_up("torchy-32-1000", lazynb=[1e-3], eager=[12e-3], torch=[6e-3]),
    ]
    results[0].fail("mlx", "ValueError: no | here")
    text = report.report(
        results, [Run({"date": "today"}, {"jit": {"jax": "1.2"}}, {"torch-xla": "no such package"})]
    )
    lines = {
        tuple(cell.strip() for cell in line.split("|")[1:-1])
        for line in text.splitlines()
        if line.startswith("|")
    }
    assert ("adds", "50 µs", "eager JAX", "500 µs", "0.10", "0.10 – 0.10", "≤ 0.12", "yes") in lines
    assert ("adds", "50 µs", "PyTorch eager", "40 µs", "1.25", "1.25 – 1.25", "≤ 0.90", "**no**") in lines
    assert ("adds", "50 µs", "MLX", "error", "ValueError: no / here", "", "", "") in lines
    assert (
        "mlp-jit, per step",
        "1.05 ms",
        "jax.jit",
        "1 ms",
        "1.05",
        "1.05 – 1.05",
        "at most 60 µs over it (50 µs)",
        "yes",
    ) in lines
    assert ("graph10k", "30 ms", "", "", "", "", "≤ 4 ms", "**no**") in lines
    assert ("memory", "300 MB", "jax.jit", "300 MB", "1.00", "1.00 – 1.00", "≤ 1.05", "yes") in lines
    assert ("torchy-32-1000", "12x", "6x", "") in lines
    assert ("PyTorch/XLA", "skipped: no such package") in lines
    assert "**5 of 8 targets measured here are met.**" in text
    assert "- graph10k, lazynb takes 30 ms, limit 4 ms" in text


def test_programs_are_reported_as_a_number_of_them():
    text = report.report([made_up("first-50-programs", lazynb=[4], jit=[1])], [Run()])
    assert "- first-50-programs, lazynb takes 4 programs, limit 2 programs" in text
    assert "| 4 programs | jax.jit | 1 program " in text


def test_tables_are_aligned():
    text = report.table(("row", "met"), [("a long name", "yes"), ("b", "**no**")])
    assert len({len(line) for line in text.splitlines()}) == 1


def test_check_fails_where_a_ratio_is_over_its_limit(capsys, nothing_stored):
    slow = made_up("transformer", lazynb=[1.5] * 5, eager=[2.0] * 5, jit=[1.0] * 5)
    told = Told(slow)
    assert command.check(told, [slow], 5) == 1
    assert told.rounds == [10], "a suspect is measured again, longer"
    said = capsys.readouterr().out
    assert "REGRESSION transformer, jax.jit" in said and "1.50" in said and "limit 1.38" in said
    assert "0 of 1 rows within limits" in said


def test_check_passes_within_the_limits_or_the_second_time(capsys, nothing_stored):
    fast = made_up("transformer", lazynb=[1.0] * 5, eager=[2.0] * 5, jit=[1.0] * 5)
    slow = made_up("transformer", lazynb=[1.5] * 5, eager=[2.0] * 5, jit=[1.0] * 5)
    assert command.check(Told(), [fast], 5) == 0
    assert command.check(Told(fast), [slow], 5) == 0
    assert "REGRESSION" not in capsys.readouterr().out


def test_check_fails_where_nothing_could_be_measured(nothing_stored):
    broken = made_up("transformer", eager=[2.0], jit=[1.0])
    broken.fail("lazynb", "it broke")
    assert command.check(Told(broken), [broken], 1) == 1
    absent = Told()
    absent.skipped = {"jit": "not installed"}
    assert command.check(absent, [], 1) == 1


def test_limits_are_the_target_or_where_the_row_stood():
    (jit,) = [limit for limit in verdicts.limits(ROWS["memory"], {}) if limit.peer == "jit"]
    assert jit.limit == pytest.approx(1.05 * 1.05)
    stood = {"adds": {"eager": 0.5, "jit": 6.0}, "mlp-jit": {"jit over": 5e-5}, "transformer": {"jit": 1.0}}
    assert {one.peer: one.limit for one in verdicts.limits(ROWS["adds"], stood)} == pytest.approx(
        {"eager": 0.625, "jit": 7.5}
    )
    assert [(one.figure, one.limit) for one in verdicts.limits(ROWS["mlp-jit"], stood)] == [
        ("over", pytest.approx(0.75e-4))
    ]
    assert [one.limit for one in verdicts.limits(ROWS["transformer"], stood)] == [pytest.approx(1.1 * 1.25)]


def test_stored_ratios_are_read_back_by_the_check(monkeypatch, tmp_path):
    results = [
        made_up("adds", lazynb=[3.0], eager=[2.0], jit=[1.0], torch=[1.0]),
        made_up("mlp-jit", lazynb=[3.0], jit=[1.0]),
        made_up("graph10k", lazynb=[3.0], eager=[2.0]),
    ]
    place = tmp_path / "ratios.json"
    place.write_text(json.dumps(verdicts.to_store(results)))
    monkeypatch.setattr(verdicts, "STORED", place)
    known = verdicts.stored()
    assert known["adds"] == {"eager": 1.5, "jit": 3.0}
    assert known["graph10k"] == {"lazynb own": 3.0, "eager": 1.5}
    assert verdicts.regressions(results, known) == []


class Finished:
    """A driver that has measured."""

    versions = {"jit": {"jax": "1.2"}}
    skipped: dict[str, str] = {}


def published(monkeypatch, tmp_path):
    """Where what is published goes in a test."""
    monkeypatch.setattr(command, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(command, "STORED", tmp_path / "ratios.json")
    monkeypatch.setattr(store, "PUBLISHED", tmp_path / "results.json")
    return tmp_path


def test_rows_measured_anew_leave_the_others_as_they_are(monkeypatch, tmp_path):
    place = published(monkeypatch, tmp_path)
    adds, memory = made_up("adds", lazynb=[3.0], jit=[1.0]), made_up("memory", lazynb=[3e8], jit=[3e8])
    command.write(command.parse([]), True, Finished(), [adds, memory], {"date": "monday"})
    assert "rows:" not in (place / "RESULTS.md").read_text()
    faster = made_up("adds", lazynb=[2.0], jit=[1.0])
    faster.fail("mlx", "it broke")
    command.write(
        command.parse(["--rows", "adds", "--merge"]), False, Finished(), [faster], {"date": "tuesday"}
    )
    text = (place / "RESULTS.md").read_text()
    assert "- rows: memory\n- date: monday" in text and "- rows: adds\n- date: tuesday" in text
    assert (
        "| 300 MB | jax.jit | 300 MB" in text
        and "| 2.00 " in text
        and "| 3.00 " not in text
        and "it broke" in text
    )
    assert json.loads((place / "ratios.json").read_text()) == {"adds": {"jit": 2.0}, "memory": {"jit": 1.0}}
    runs, results = store.load()
    assert [run.rows for run in runs] == [("memory",), ("adds",)]
    assert [result.row.name for result in results] == ["adds", "memory"]
    command.write(
        command.parse(["--rows", "memory", "--merge"]), False, Finished(), [memory], {"date": "wednesday"}
    )
    assert "monday" not in (place / "RESULTS.md").read_text(), "no row of that run is left"


def test_some_rows_are_printed_unless_they_are_merged(monkeypatch, tmp_path, capsys):
    place = published(monkeypatch, tmp_path)
    command.write(
        command.parse(["--rows", "adds"]), False, Finished(), [made_up("adds", lazynb=[3.0], jit=[1.0])], {}
    )
    assert "| adds | 3 s" in capsys.readouterr().out and not list(place.iterdir())
    with pytest.raises(SystemExit):
        command.parse(["--rows", "adds", "--peers", "mlx", "--merge"])


def test_options_choose_rows_and_peers():
    names = [row.name for row in command.parse(["--rows", "memory", "torchy-*-1000"]).rows]
    assert names == ["memory", "torchy-8-1000", "torchy-16-1000", "torchy-32-1000"]
    assert all(row.quick for row in command.parse(["--check"]).rows)
    assert len(command.parse([]).rows) == len(ROWS)
    assert command.involved(command.parse(["--check"])) == list(JAX)
    assert command.involved(command.parse(["--rows", "adds", "--peers", "mlx"])) == ["lazynb", "mlx"]
    with pytest.raises(SystemExit):
        command.parse(["--rows", "no-such-row"])


def test_a_peer_that_cannot_be_installed_is_skipped_with_one_line(monkeypatch):
    tried = []

    def fails(environment):
        tried.append(environment)
        raise NoEnvironment("No matching distribution found for torch")

    monkeypatch.setattr("benchmarks.driver.python_of", fails)
    with Driver(["torch", "torchscript"], 1, 0.01) as asked:
        assert asked.skipped == dict.fromkeys(
            ["torch", "torchscript"], "No matching distribution found for torch"
        )
        assert tried == ["torch"]
        assert asked.measure(ROWS["adds"]).figures == {}


def test_rounds_on_a_busy_machine_are_counted(monkeypatch):
    monkeypatch.setattr(driver.machine, "busy", iter([0.1, 1.9, 0.0]).__next__)
    result = made_up("adds", lazynb=[1.0] * 3, jit=[1.0] * 3)
    assert list(driver._rounds(result, 3)) == [0, 1, 2]
    assert result.disturbed == 1
    assert "kept the machine busy: adds (1)." in report.report([result], [Run()])


def test_a_failed_command_gives_its_reason():
    code = "import sys; print('ERROR: no such thing\\nWARNING: old pip', file=sys.stderr); sys.exit(1)"
    with pytest.raises(NoEnvironment, match="^no such thing$"):
        environments.call([sys.executable, "-c", code])
    assert str(ROOT) not in environments.last_line(f"could not read {ROOT}/benchmarks")


def test_a_process_that_does_not_start_says_why():
    with pytest.raises(PeerFailed, match="no-such-peer"):
        Process("no-such-peer", Path(sys.executable))


@pytest.mark.parametrize("row", ["adds", "cartpole"])
def test_a_real_profile_has_four_rows(monkeypatch, row):
    from benchmarks import profile

    monkeypatch.setattr(profile, "SECONDS", 0.02)
    monkeypatch.setattr(profile, "WARM", 1)
    lines = profile.profile(ROWS[row]).splitlines()
    assert len(lines) == 2 + 4 and lines[2].startswith("| recording") and "jax.jit" in lines[-1]


def test_a_profile_of_a_first_step_has_both_sides():
    from benchmarks import profile

    head, _, *lines = profile.alone("first-adds").splitlines()
    assert [one.strip() for one in head.split("|")[2:4]] == ["lazynb", "jax.jit"]
    assert [line.split("|")[1].strip() for line in lines][2::3] == ["compiling, in XLA", "kernels"]
    assert [one.strip() for one in lines[-1].split("|")[2:4]] == ["1", "1"]


def test_a_profile_is_put_behind_its_mark(monkeypatch, tmp_path):
    from benchmarks import profile

    assert profile.MARK in profile.PAGE.read_text() and set(profile.UNMET) <= set(ROWS)
    page = tmp_path / "speed.md"
    page.write_text(f"Text.\n\n{profile.MARK}\n\nold figures\n")
    monkeypatch.setattr(profile, "PAGE", page)
    monkeypatch.setattr(profile, "alone", lambda row: f"figures of {row}")
    profile.main(["adds", "--write"])
    text = page.read_text()
    assert text.startswith("Text.") and "old figures" not in text and "### adds\n\nfigures of adds" in text
    with pytest.raises(SystemExit):
        profile.main(["memory"])


def test_a_real_row_is_measured_for_two_peers():
    with Driver(["lazynb", "jit"], 1, 0.01) as asked:
        result = asked.measure(ROWS["adds"])
        assert asked.skipped == {} and result.errors == {}
        assert asked.versions["jit"]["jax"] and asked.versions["lazynb"]["lazynb"]
        assert result.values["lazynb"] == result.values["jit"] == [50.0, 50.0]
        assert result.ratio("jit").median > 0
        failed = asked.measure(replace(ROWS["adds"], name="no-such-row"))
        assert set(failed.errors) == {"lazynb", "jit"} and "KeyError" in failed.errors["jit"]


def test_a_row_has_arrays_and_functions_older_than_lazynb_where_it_says_so():
    code = (
        "import sys; from benchmarks import case, rows; from benchmarks.ways.jax_ways import Lazy; how = Lazy()\n"
        "case.Case(rows.ROWS['before-8-100'], how); case.Case(rows.ROWS['held'], how)\n"
        "assert 'lazynb' not in sys.modules; case.Case(rows.ROWS['adds'], how); assert 'lazynb' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_such_a_row_has_processes_of_its_own(monkeypatch):
    made = []

    class Idle:
        alive, versions = True, {"jax": "1.2"}

        def __init__(self, peer, python):
            made.append(peer)

        def ask(self, do, **arguments):
            return [1.0] if do == "prepare" else 1.0

        def close(self):
            pass

    monkeypatch.setattr(driver, "Process", Idle)
    with Driver(["lazynb"], 1, 0.01) as asked:
        for row, begun in (("adds", 1), ("before-8-100", 2), ("adds", 2), ("held", 3)):
            assert asked.measure(ROWS[row]).errors == {} and len(made) == begun


def test_arrays_are_put_in_lazy_mode_and_numpy_s_are_kept():
    row = replace(ROWS["device-put-8-1000"], size={"operations": 8, "side": 10})
    one = case.Case(row, case.way(PEERS["lazynb"]))
    start, ((first, *_),) = one.kept
    assert type(start) is type(first) is np.ndarray
    assert type(one.start) is type(one.each[0][0]) is lazynb.LazyTensor
    (mean, _), reference = one.warm(), case.Case(row, case.way(PEERS["jit"])).warm()
    assert mean == pytest.approx(reference[0], rel=1e-5)


def test_the_hand_over_parts_take_less_time_than_the_step(monkeypatch):
    from benchmarks import handing

    monkeypatch.setattr(handing, "STEPS", 20)
    monkeypatch.setattr(handing, "ROUNDS", 2)
    with lazynb.lazy():
        found = handing.parts(lambda: (handing.X + handing.X).block_until_ready())
    step = found.pop("a step")
    assert set(found) == set(handing.PARTS)
    assert all(0 < took < step for took in found.values()), found
