"""Users without a home directory or an entry in passwd, places that cannot be written, and other odd surroundings of
a process. Everything works from memory there, and one sentence says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lazynb

ROOT = Path(lazynb.__file__).parents[1]
UNKNOWN = """
import pwd
def unknown(number):
    raise KeyError(number)
pwd.getpwuid = unknown
"""
PROGRAM = """
import jax, jax.numpy as jnp
import lazynb
with lazynb.lazy():
    print(float((jnp.arange(4.0) * 2 + 1).sum()))
    print(float((jnp.arange(4.0) * 3 + 1).sum()))
print(lazynb.config.persistent_cache_dir)
"""
NOWHERE = "/proc/nowhere"  # not even root can make it
CASES = {
    "no home, no entry in passwd": ({"HOME": None}, UNKNOWN, "no home directory", "None"),
    "the same, with an empty cache directory": (
        {"HOME": None, "XDG_CACHE_HOME": ""},
        UNKNOWN,
        "no home directory",
        "None",
    ),
    "the same, with a relative one": (
        {"HOME": "home", "XDG_CACHE_HOME": "cache"},
        UNKNOWN,
        "no home directory",
        "None",
    ),
    "the same, with one that can be written": (
        {"HOME": None, "XDG_CACHE_HOME": "{tmp}/cache"},
        UNKNOWN,
        "",
        "{tmp}/cache/lazynb/executables",
    ),
    "a home that cannot be made": ({"HOME": NOWHERE}, "", NOWHERE, f"{NOWHERE}/.cache/lazynb/executables"),
    "an empty cache directory": (
        {"HOME": "{tmp}", "XDG_CACHE_HOME": ""},
        "",
        "",
        "{tmp}/.cache/lazynb/executables",
    ),
    "no temporary directory": (
        {"HOME": "{tmp}", "TMPDIR": NOWHERE},
        "",
        "",
        "{tmp}/.cache/lazynb/executables",
    ),
    "a deleted working directory": (
        {"HOME": "{tmp}"},
        "import jax, os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "",
        "{tmp}/.cache/lazynb/executables",
    ),
    "a locale without UTF-8": (
        {"HOME": "{tmp}", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        "",
        "",
        "{tmp}/.cache/lazynb/executables",
    ),
}


def run(code, tmp_path, changes, *options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    for name in ("LAZYNB_CACHE_DIR", "LAZYNB_PERSISTENT_CACHE", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    for name, value in changes.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value.format(tmp=tmp_path)
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(os.name != "posix", reason="users have home directories there")
@pytest.mark.parametrize("name", CASES)
def test_lazynb_works_and_says_once_where_nothing_is_kept(name, tmp_path):
    changes, before, said, directory = CASES[name]
    done = run(before + PROGRAM, tmp_path, changes)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["16.0", "22.0", directory.format(tmp=tmp_path)]
    assert done.stderr.count("lazynb keeps no executables on disk") == bool(said)
    assert said in done.stderr
    assert not [path for path in tmp_path.iterdir() if path.name in ("lazynb", "home", "cache")] or not said


def test_closed_streams_and_no_docstrings_are_no_hindrance(tmp_path):
    closing = "import os\nfor number in range(3):\n    os.close(number)\n"
    ending = "\nimport pathlib\npathlib.Path('end').write_text('reached')"
    program = PROGRAM.replace("print(", "str(")
    done = run(closing + program + ending, tmp_path, {"HOME": "{tmp}"}, "-OO")
    assert done.returncode == 0 and (tmp_path / "end").read_text() == "reached"


def test_the_extension_is_loaded_where_ipython_is(tmp_path):
    code = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in "%load_ext lazynb", "import jax.numpy as jnp", "print(jnp.arange(3.0) * 2)":
    assert shell.run_cell(cell, store_history=True).success
"""
    done = run(UNKNOWN + code, tmp_path, {"HOME": NOWHERE, "IPYTHONDIR": "{tmp}/ipython"})
    assert done.returncode == 0, done.stderr
    assert "[0. 2. 4.]" in done.stdout
