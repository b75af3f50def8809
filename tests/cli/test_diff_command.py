"""``lazynb diff``: saved files compared, with an exit status."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.cli.main import main
from lazynb.report.inspection.inspection_file import SavedInspections, inspection_entry


def before(x, y):
    h = jnp.tanh(x)
    return jnp.sum(h * y, axis=0)


def now(x, y):
    h = jnp.tanh(x)
    return jnp.sum(h * y, axis=0), h


TYPE = jax.ShapeDtypeStruct((256, 512), jnp.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """``before.json`` with one kernel, ``now.json`` with two, ``before.hlo``."""
    folder = tmp_path_factory.mktemp("diff")
    for function in (before, now):
        compilation = lazynb.compile(function, TYPE, TYPE)
        SavedInspections([inspection_entry(compilation)]).save(folder / f"{function.__name__}.json")
        (folder / f"{function.__name__}.hlo").write_text(compilation.hlo.after)
    return folder


def run(capsys, *arguments):
    status = main(["diff", *map(str, arguments)])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_two_saved_files_are_compared_with_summary_and_table(files, capsys):
    status, out, err = run(capsys, files / "before.json", files / "now.json")
    assert status == 0 and not err
    first, _, table = out.partition("\n\n")
    assert "two kernels instead of one" in first and "the function returns what `tanh` gives" in first
    assert table.splitlines()[1].startswith("before.json") and f"JAX {jax.__version__}" in table


def test_saved_files_give_the_same_changes_as_live_compilations(files):
    live = lazynb.diff((before, TYPE, TYPE), (now, TYPE, TYPE))
    saved = lazynb.diff(files / "before.json", files / "now.json")
    assert [c.text for c in saved.changes] == [c.text for c in live.changes]
    assert list(lazynb.diff(files / "now.json", (now, TYPE, TYPE)).changes) == []


def test_equal_files_report_nothing_differs_and_exit_with_zero(files, capsys):
    status, out, _ = run(capsys, files / "now.json", files / "now.json", "--fail-if", "kernels > +0")
    assert status == 0 and out.startswith("Nothing differs")


def test_hlo_text_files_are_compared(files, capsys):
    status, out, _ = run(capsys, files / "before.hlo", files / "now.hlo", "--fail-if", "kernels > +10%")
    assert status == 1 and "kernel" in out.splitlines()[0]
    assert list(lazynb.diff(files / "now.hlo", files / "now.hlo").changes) == []


@pytest.mark.parametrize(
    "condition, said",
    [
        ("kernels > +10%", "kernels went from 1 to 2 (+100%): kernels > +10%"),
        ("kernels >= 2", "kernels went from 1 to 2 (+100%): kernels >= 2"),
        ("kernels>+1", ""),
        ("kernels > +100%", ""),
        ("kernels < -1", ""),
        ("bytes > +1MiB", ""),
        ("bytes > +512KiB", "bytes went from 1 MiB to 2 MiB"),
        ("peak_memory > +0.6MiB", ""),
        ("peak_memory > 1.25MiB", "peak_memory went from 1 MiB to 1.5 MiB"),
        ("flops > +0%", ""),
    ],
)
def test_fail_if_conditions_set_the_exit_status_and_message(files, capsys, condition, said):
    status, _, err = run(capsys, files / "before.json", files / "now.json", "--fail-if", condition)
    assert (status, bool(err)) == ((1, True) if said else (0, False)), err
    assert said in err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["before.json", "now.json", "--fail-if", "kernels"], "'kernels' is no condition: write a figure"),
        (
            ["before.json", "now.json", "--fail-if", "kernel > 3"],
            "there is no figure kernel; there are kernels",
        ),
        (["before.json", "now.json", "--fail-if", "kernels > 10%"], "a percentage is of the figure before"),
        (["before.json", "now.json", "--fail-if", "bytes > 3 parsecs"], "parsecs is no unit of bytes; there"),
        (["before.json", "now.json", "--fail-if", "kernels > 1KiB"], "KiB is no unit of kernels; there"),
        (["before.json", "now.json", "--fail-if", "kernels > _"], "'kernels > _' is no condition"),
        (["before.json", "nothing-in-it.json"], "holds no inspection, it is empty: lazynb run --save"),
        (["before.json", "cut.json"], "cut.json ends in the middle: it was not written or copied as a whole"),
        (["before.json", "text.json"], "text.json holds no inspection (Expecting value, line 1); lazynb run"),
        (["before.json", "damaged.json"], "damaged.json holds an inspection that is not whole"),
        (
            ["before.hlo", "now.hlo", "--fail-if", "peak_memory > 1k"],
            "peak_memory is not known of before.hlo",
        ),
        (["before.json", "nothing.json"], "cannot be read: No such file or directory"),
        (["before.json", "train.py"], "is neither a file that lazynb run --save"),
        (["before.json"], "the following arguments are required: NOW"),
        (["before.json", "empty.json"], "holds no inspection"),
        (["before.json", "now.json", "--html", "no/where.html"], "cannot be written to"),
    ],
)
def test_bad_arguments_and_damaged_files_give_one_line_and_exit_status_two(
    files, capsys, monkeypatch, arguments, words
):
    monkeypatch.chdir(files)
    (files / "empty.json").write_text("{}")
    (files / "nothing-in-it.json").write_text("")
    whole = (files / "now.json").read_text()
    (files / "cut.json").write_text(whole[: len(whole) // 2])
    (files / "text.json").write_text("kernels: 2")
    data = json.loads(whole)
    data["inspections"][0]["inspection"]["nodes"][-1]["operands"] = [[999, 0]]
    (files / "damaged.json").write_text(json.dumps(data))
    status, _, err = run(capsys, *arguments)
    assert status == 2 and words in err and err.count("\n") == 1


def test_the_comparison_is_written_as_html_and_json(files, capsys):
    page, data = files / "both.html", files / "both.json"
    run(capsys, files / "before.json", files / "now.json", "--html", page, "--json", data)
    assert "two kernels instead of one" in page.read_text()
    read = json.loads(data.read_text())
    assert [read[side]["kernels"] for side in ("before", "now")] == [1, 2]
    assert read["changes"][0]["reasons"][0]["label"] == "rule inferred"


def test_runs_with_several_programs_are_compared(write, capsys, tmp_path):
    program = """
        import sys
        import jax.numpy as jnp
        x = jnp.ones((64, 64))
        print(float((x * 2).sum()))
        h = jnp.tanh(x)
        y = jnp.sum(h * x, axis=0)
        if "keep" not in sys.argv:
            del h
        print(float(y[0]))
    """
    file = write("train.py", program)
    for name, words in (("one", []), ("two", []), ("three", ["keep"])):
        assert main(["run", str(file), *words, "--save", str(tmp_path / f"{name}.json")]) == 0
    capsys.readouterr()
    written = json.loads((tmp_path / "three.json").read_text())["inspections"]
    programs = [program for each in written for program in each["inspection"]["programs"]]
    assert len(programs) == 2  # and what XLA wrote of each, not of the first alone
    assert all(one["memory"]["peak_bytes"] and one["hlo"]["before"]["lines"] for one in programs)
    same = lazynb.diff(tmp_path / "one.json", tmp_path / "two.json")
    assert [change for change in same.changes if change.kind != "time"] == []
    other = lazynb.diff(tmp_path / "one.json", tmp_path / "three.json")
    assert "`h` is alive" in other.headline[0] and "train.py" in other.headline[0]
