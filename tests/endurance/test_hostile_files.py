"""Hostile program files and saved inspections: what they may read, and what they may take."""

from __future__ import annotations

import json
import os
import time

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.cli.main import main
from lazynb.report.inspection import program_reading
from lazynb.report.inspection.program_reading import LimitPassed, Reading, read_program
from tests.endurance.attacks import hostile_files

SECRET = "the text of a file that nobody named"
PROGRAMS = hostile_files.programs_naming  # by kind, a program whose lines are in a given file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with secrets beside it and in places of it that are not read."""
    (tmp_path / "outside.py").write_text(f"{SECRET}\n" * 3)
    here = tmp_path / "here"
    (here / ".hidden").mkdir(parents=True)
    (here / ".hidden" / "key").write_text(f"{SECRET}\n" * 3)
    (here / "mine.py").write_text("y = jnp.tanh(x)\nz = y + x\n")
    (here / "large.py").write_text(f"{SECRET}\n" * 200_000)
    (here / "link.py").symlink_to(tmp_path / "outside.py")
    (here / "linked").symlink_to(tmp_path)
    os.mkfifo(here / "fifo.py")
    monkeypatch.chdir(here)
    return here


HIDDEN = {
    "../outside.py": "outside",
    "{}/../outside.py": "outside",
    "link.py": "outside",
    "linked/outside.py": "outside",
    ".hidden/key": "hidden",
    "large.py": "too large",
    "fifo.py": "no regular file",
    "/dev/zero": "outside",
    "/proc/self/environ": "outside",
    "/etc/passwd": "outside",
    "linked": "outside",
    ".": "no regular file",
}


CASES = [(".hlo", file) for file in HIDDEN] + [
    (kind, file) for kind in (".mlir", ".txt") for file in ("../outside.py", "link.py")
]


@pytest.mark.parametrize("kind, file", CASES)
def test_a_program_file_shows_no_file_that_the_user_did_not_name(folder, capsys, kind, file):
    (folder / f"p{kind}").write_text(PROGRAMS[kind](file.format(folder)))
    assert main(["inspect", f"p{kind}", "--html", "o.html", "--json", "o.json"]) == 0
    shown = capsys.readouterr().out
    assert f"({HIDDEN[file]})" in shown and "--source" in shown
    for text in (shown, (folder / "o.html").read_text(), (folder / "o.json").read_text()):
        assert [word for word in (SECRET, "root:x", "PATH=/") if word in text] == []
        assert text.count("Source text was not read from")


@pytest.mark.parametrize("kind", PROGRAMS)
def test_files_in_the_named_folder_are_shown_and_the_page_says_so(
    folder, tmp_path, monkeypatch, capsys, kind
):
    (tmp_path / f"p{kind}").write_text(PROGRAMS[kind](str(folder / "mine.py")))
    assert main(["inspect", f"../p{kind}", "--json", "o.json"]) == 0
    assert f"Source text was read from {folder / 'mine.py'}, in {folder}." in capsys.readouterr().out
    assert (folder / "o.json").read_text().count("y = jnp.tanh(x)")
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", f"p{kind}", "--source", ".hidden", "--json", "o.json"]) == 2
    assert ".hidden cannot be read: Not a directory" in capsys.readouterr().err
    os.mkdir("empty")
    assert main(["inspect", f"p{kind}", "--source", "empty", "--json", "o.json"]) == 0
    assert not (tmp_path / "o.json").read_text().count("y = jnp")
    shown = lazynb.inspect(tmp_path / f"p{kind}", source=folder)
    assert json.dumps(shown.inspections).count("y = jnp.tanh(x)")


def test_a_comparison_shows_no_other_files_and_names_them(folder, capsys):
    for kind in PROGRAMS:
        (folder / f"p{kind}").write_text(PROGRAMS[kind]("../outside.py"))
    assert main(["diff", "p.hlo", "p.mlir", "--html", "o.html", "--json", "o.json"]) == 0
    for text in (capsys.readouterr().out, (folder / "o.html").read_text(), (folder / "o.json").read_text()):
        assert not text.count(SECRET) and text.count("p.hlo: Source text was not read from ../outside.py")


def test_an_exported_program_shows_only_the_folder_and_imported_modules(folder, tmp_path):
    text = PROGRAMS[".mlir"](str(tmp_path / "outside.py"))
    exported = hostile_files.exported(jax.export.export(jax.jit(jnp.tanh))(jnp.ones(4)), text)
    shown = lazynb.inspect(exported)
    assert not json.dumps(shown._repr_mimebundle_()).count(SECRET)
    own = jax.export.export(jax.jit(lambda x: jnp.tanh(x) + 1))(jnp.ones(4))
    assert json.dumps(lazynb.inspect(own)._repr_mimebundle_()).count("own = jax.export")


@pytest.mark.parametrize("name", ["brackets.hlo", "attributes.mlir", "regions.mlir"])
def test_a_text_that_crashes_the_parser_ends_in_one_line(tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(hostile_files.CRASHING[name]())
    assert main(["inspect", name]) == 2
    said = capfd.readouterr()
    assert f"{name} cannot be read: XLA crashed on it" in said.err and said.err.count("\n") == 1
    with pytest.raises(lazynb.LazynbError, match="XLA crashed on it"):
        lazynb.inspect(name)
    assert not list(tmp_path.glob("core*"))
    assert float(jnp.tanh(0.0)) == 0.0


@pytest.mark.parametrize("name", hostile_files.LONG)
def test_a_text_that_takes_too_long_is_stopped_at_the_limit(tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(hostile_files.LONG[name]())
    main(["inspect", "absent.hlo"])
    before = time.monotonic()
    assert main(["inspect", name, "--limit-seconds", "2"]) == 2
    assert time.monotonic() - before < 40
    said = capfd.readouterr().err.splitlines()[-1]
    assert f"{name} takes longer than 2 s" in said and "--limit-seconds" in said


def test_a_text_that_takes_too_much_memory_is_stopped_at_the_limit(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.hlo").write_text(hostile_files.HLO.replace("tanh(p)", f"tanh(p), {'x' * 50_000_000}"))
    assert main(["inspect", "line.hlo", "--limit-memory", "600MiB"]) == 2
    said = capfd.readouterr().err
    assert "line.hlo needs more memory than 600 MiB, the limit" in said and "--limit-memory" in said
    with pytest.raises(LimitPassed, match="limit_memory="):
        read_program("line.hlo", Reading(memory="1MiB"))


def test_the_limits_are_kept_without_the_module_resource(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['resource'] = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "calls.mlir"
    file.write_text(hostile_files.LONG["calls.mlir"]())
    with pytest.raises(LimitPassed, match="takes longer than 2 s"):
        read_program(file, Reading(seconds=2))


def test_an_interrupt_ends_the_reader_and_the_next_file_is_read(tmp_path, monkeypatch):
    file, good = tmp_path / "calls.mlir", tmp_path / "good.hlo"
    file.write_text(hostile_files.LONG["calls.mlir"]())
    good.write_text(hostile_files.HLO)

    def interrupt(seconds):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(program_reading.time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            read_program(file)
    assert program_reading._worker._process is None
    assert len(read_program(good).graph.nodes) == 3


def test_a_file_is_read_without_a_trace_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(program_reading.tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "good.hlo").write_text("\ufeff" + hostile_files.HLO, encoding="utf-8")
    read_program(tmp_path / "good.hlo")
    assert not list((tmp_path / "tmp").iterdir())


def test_mutated_files_are_read_or_refused():
    found = hostile_files.attack(5, 1)
    assert found["tries"] and not found["lost"] and not found["wrong"] and not found["hung"]
