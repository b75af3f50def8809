"""Arguments: whose they are, and what is said against bad ones before anything runs."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest

import lazynb
from lazynb.cli import main as module
from lazynb.cli.arguments import split_arguments
from lazynb.cli.main import main
from lazynb.recording.break_reasons import REASONS
from lazynb.recording.replay.native_replay import describe


@pytest.fixture
def refuse(capsys, monkeypatch):
    """Runs the command line, which must refuse before it runs anything; what it says, a single line."""
    ran = []
    monkeypatch.setattr(module, "run_script", lambda *_: ran.append(True))
    monkeypatch.setattr(module.Account, "used", lambda *_: pytest.fail("it ran"))

    def refuse(*arguments, status=2):
        assert main([str(one) for one in arguments]) == status
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1 and not ran
        return captured.err

    return refuse


@pytest.mark.parametrize(
    "given,own,script",
    [
        (["a.py"], ["--", "a.py"], []),
        (["a.py", "--report", "out.html"], ["--report=out.html", "--", "a.py"], []),
        (["--report", "out.html", "a.py", "x"], ["--report=out.html", "--", "a.py"], ["x"]),
        (
            ["a.py", "--lr", "0.1", "--max-breaks=3", "-v"],
            ["--max-breaks=3", "--", "a.py"],
            ["--lr", "0.1", "-v"],
        ),
        (["a.py", "--max-compiles", "-1"], ["--max-compiles=-1", "--", "a.py"], []),
        (["a.py", "--", "--report", "mine"], ["--", "a.py"], ["--report", "mine"]),
        (["a.py", "x", "--", "y", "--", "z"], ["--", "a.py"], ["x", "y", "--", "z"]),
        (["--", "-odd.py", "--report", "mine"], ["--", "-odd.py"], ["--report", "mine"]),
        (["a.py", "--help"], ["--", "a.py"], ["--help"]),
        (["--help", "a.py"], ["--help", "--", "a.py"], []),
        (["--max", "3", "a.py"], ["--max", "--", "3"], ["a.py"]),  # no abbreviations
        (["a.py", "--report"], ["--report", "--", "a.py"], []),
        ([], [], []),
    ],
)
def test_arguments_are_split_between_lazynb_and_the_script(given, own, script):
    assert split_arguments(given) == (own, script)


@pytest.mark.parametrize(
    "arguments,text",
    [
        (["run"], "the following arguments are required: PROGRAM (see lazynb run --help)"),
        (["run", "gone.py"], "lazynb run: gone.py cannot be read: No such file or directory"),
        (["run", "."], "lazynb run: . is a folder; name a script or a notebook"),
        (["run", "a.py", "--max-compiles", "-1"], "argument --max-compiles: a limit is 0 or more, not -1"),
        (["run", "a.py", "--max-breaks=few"], "argument --max-breaks: 'few' is no whole number"),
        (["run", "a.py", "--max-kernels"], "argument --max-kernels: expected one argument"),
        (["run", "a.py", "--max-bytes=few"], "argument --max-bytes: 'few' is no size: write 4096, 64 MiB"),
        (["run", "--fast", "a.py"], "unrecognized arguments: --fast"),
        (["run", "a.py", "--report", "no/such/folder/out.html"], "the report cannot be written to"),
        (["run", "a.py", "--report", "."], "Is a directory"),
        (["run", "a.py", "--report", "a.py"], "would write over the program"),
        (["walk"], "invalid choice: 'walk'"),
        (["explain", "LNB999"], "lazynb explain: no trace break has the code or kind 'LNB999'"),
    ],
)
def test_bad_arguments_are_refused_in_a_line(write, refuse, arguments, text):
    write("a.py", "raise SystemExit('it ran')")
    assert text in refuse(*arguments)


@pytest.mark.parametrize(
    "name,text,said",
    [
        ("a.ipynb", "{not json", "a.ipynb is no notebook: not JSON"),
        ("a.ipynb", "\xff\xfe", "is no notebook: not JSON"),
        ("a.ipynb", "[1, 2]", "no notebook: it has no list of cells"),
        ("a.ipynb", '{"worksheets": []}', "a notebook of an old format"),
        ("a.ipynb", '{"cells": [1]}', "its cells are not what nbformat 4 says"),
        (
            "a.ipynb",
            '{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}',
            "is written in r, and lazynb runs Python",
        ),
    ],
)
def test_an_invalid_notebook_file_is_refused_in_one_line(write, refuse, name, text, said):
    write(name, text)
    assert said in refuse("run", name)


def test_a_notebook_takes_no_arguments(notebook, refuse):
    notebook("a.ipynb", "1")
    assert "takes no arguments, and there is '--epochs'" in refuse("run", "a.ipynb", "--epochs", "3")


@pytest.mark.parametrize(
    "missing,arguments,said",
    [
        ("IPython", ["run", "a.ipynb"], "pip install ipython"),
        ("jinja2", ["run", "a.ipynb", "--report", "out.html"], "pip install jinja2"),
    ],
)
def test_a_missing_package_is_named_with_its_install_command(
    notebook, refuse, monkeypatch, missing, arguments, said
):
    notebook("a.ipynb", "1")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest)
    )
    assert said in refuse(*arguments)


def test_a_script_that_does_not_compile_fails_in_a_line(write, capsys):
    write("a.py", "x = 1\nif x\n    pass\n")
    assert main(["run", "a.py", "--report", "out.html"]) == 1
    assert re.fullmatch(r"lazynb run: a\.py:2: SyntaxError: .*: if x\n", capsys.readouterr().err)


def test_checking_the_report_leaves_no_file_and_keeps_the_old_one(write, tmp_path, refuse):
    write("a.ipynb", "{")
    write("old.html", "what was there")
    refuse("run", "a.ipynb", "--report", "new.html")
    refuse("run", "a.ipynb", "--report", "old.html")
    assert not (tmp_path / "new.html").exists() and (tmp_path / "old.html").read_text() == "what was there"


def test_help_names_commands_options_and_exit_statuses(capsys):
    for arguments, words in (
        (["--help"], ["run", "explain", "--version", "examples:"]),
        (
            ["run", "--help"],
            [
                "--report FILE",
                "--max-compiles N",
                "--max-breaks N",
                "--max-kernels N",
                "--max-bytes SIZE",
                "--max-peak-memory SIZE",
                "-- ",
                "exit status:",
                "3    over budget",
            ],
        ),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        text = capsys.readouterr().out
        assert ended.value.code == 0 and all(word in text for word in words)
        assert max(map(len, text.splitlines())) <= 100


def test_without_a_command_help_is_shown(capsys):
    assert main([]) == 2
    assert "lazynb run train.py" in capsys.readouterr().out


def test_version_prints_the_versions_of_lazynb_jax_and_the_accelerator_build(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.startswith(f"lazynb {lazynb.__version__} (JAX ")
    assert said.endswith(f", {describe()})\n")


@pytest.mark.parametrize("name", ["LNB103", "lnb103", "float"])
def test_explain_prints_cause_and_cure(capsys, name):
    assert main(["explain", name]) == 0
    text = capsys.readouterr().out
    reason = REASONS["float"]
    assert all(part in text for part in (reason.code, reason.text, reason.hint))


def test_explain_lists_all_codes(capsys):
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [reason.code for reason in REASONS.values()]


def test_a_cell_source_stored_as_one_string_is_read(write):
    from lazynb.cli.program_run import read_cells

    cells = [{"cell_type": "code", "source": "x = 1\nx"}, {"cell_type": "raw", "source": "no"}]
    path = write("a.ipynb", json.dumps({"cells": cells}))
    assert [cell.source for cell in read_cells(path)] == ["x = 1\nx"]
