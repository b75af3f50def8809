"""Machines without what most have: a home directory, a place to write, streams, a working directory."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from lazynb.config import _user_cache_dir, _user_directory as user_directory
from lazynb.xla.targets import compiler_packages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")

PROGRAM = """
import sys, lazynb, jax.numpy as jnp
with lazynb.lazy():
    value = float((jnp.sin(jnp.arange(4.0)) * 2).sum())
assert abs(value - 3.7837768) < 1e-5, value
"""

NO_HOME = """
import os, pwd
os.environ.pop("HOME", None)
def getpwuid(number): raise KeyError("getpwuid(): uid not found: 12345")
pwd.getpwuid = getpwuid
"""

NO_DIRECTORY = """
import os, tempfile
os.chdir(tempfile.mkdtemp())
os.rmdir(os.getcwd())
"""

CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in ("%load_ext lazynb", "import jax.numpy as jnp", "y = jnp.sin(jnp.arange(4.0)) * 2", "v = float(y.sum())"):
    shell.run_cell(cell).raise_error()
assert abs(shell.user_ns["v"] - 3.7837768) < 1e-5
"""


def run(program: str, folder: Path, *flags: str, closed: str = "", **environment: str | None):
    """Runs ``program`` in ``folder``; checks that it succeeded and created nothing there, and returns what it
    wrote to stderr."""
    folder.mkdir()
    own = {"XDG_CACHE_HOME": None, "LAZYNB_CACHE_DIR": None, "LAZYNB_PERSISTENT_CACHE": "1", **environment}
    variables = {name: text for name, text in {**os.environ, **own}.items() if text is not None}
    root = str(Path(__file__).parents[2])
    command = [sys.executable, *flags, "-c", f"import sys; sys.path.insert(0, {root!r})\n{program}"]
    if closed:
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", *command]
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return done.stderr


@pytest.mark.parametrize(
    "before, environment",
    [
        (NO_HOME, {}),
        (NO_HOME, {"XDG_CACHE_HOME": ""}),
        (NO_HOME, {"XDG_CACHE_HOME": "relative"}),
        ("", {"LAZYNB_CACHE_DIR": "/dev/null/executables"}),
        (NO_DIRECTORY, {"LAZYNB_CACHE_DIR": "relative"}),
    ],
    ids=["no home", "empty", "relative", "no directory", "no working directory"],
)
def test_without_a_place_for_executables_it_says_so_once_and_works(before, environment, tmp_path):
    said = run(
        before + PROGRAM, tmp_path / "work", "-P", **environment
    )  # JAX alone needs -P in the last case
    assert said.count("lazynb keeps no executables on disk: ") == said.count("Warning:") == 1


@pytest.mark.parametrize(
    "options",
    [
        {"closed": "<&- >&- 2>&-"},
        {"TMPDIR": "/nonexistent"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"flags": ["-OO"]},
        {"flags": ["-P"], "PYTHONHASHSEED": "7"},
    ],
    ids=["closed streams", "no TMPDIR", "POSIX locale", "-OO", "safe path"],
)
def test_it_works_and_says_nothing(options, tmp_path):
    options = {"flags": [], **options}
    flags = options.pop("flags")
    assert not run(PROGRAM, tmp_path / "work", *flags, XDG_CACHE_HOME=str(tmp_path / "cache"), **options)


@pytest.mark.parametrize("before, options", [(NO_HOME, {}), ("", {"closed": "<&-"})], ids=["home", "stdin"])
def test_the_extension_works(before, options, tmp_path):
    run(before + CELLS, tmp_path / "work", IPYTHONDIR=str(tmp_path / "ipython"), **options)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")
def test_it_works_without_proc(tmp_path):
    isolated = ["unshare", "-m", "sh", "-c"]
    if subprocess.run([*isolated, "mount -t tmpfs none /proc"], capture_output=True).returncode:
        pytest.skip("no name space of its own")
    hidden = f"mount -t tmpfs none /proc && exec {sys.executable} -c '{PROGRAM}'"
    done = subprocess.run([*isolated, hidden], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("umask", [0, 0o077])
def test_the_directories_of_the_executables_are_private_under_any_umask(umask, tmp_path):
    cache = tmp_path / "cache" / "above"
    before = f"import os; os.umask({umask})\n"
    assert not run(before + PROGRAM, tmp_path / "work", XDG_CACHE_HOME=str(cache))
    made = [cache.parent, *cache.parent.rglob("*")]
    assert len(made) == 5 and not any(path.stat().st_mode & 0o077 for path in made)


def test_a_directory_of_the_user_is_absolute_or_there_is_none(monkeypatch):
    monkeypatch.setenv("HOME", "/home/one")
    for text in ("", "relative", "./relative", "~/relative"):
        monkeypatch.setenv("XDG_DATA_HOME", text)
        assert user_directory("XDG_DATA_HOME", ".local", "share") == Path("/home/one/.local/share")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert user_directory("XDG_DATA_HOME", ".local", "share") == Path("/data")
    monkeypatch.setenv("HOME", "relative")
    assert user_directory("XDG_CACHE_HOME_UNSET", ".cache") is None
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", lambda number: {}[number])
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.delenv("LAZYNB_CACHE_DIR", raising=False)
    assert user_directory("XDG_CACHE_HOME", ".cache") is None and _user_cache_dir() is None


def test_without_a_home_no_compiler_is_loaded_from_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_DATA_HOME", "LAZYNB_COMPILERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: {}[number])
    place = compiler_packages.COMPILERS["tpu"].directory
    assert place.is_relative_to(sys.prefix) and not place.is_relative_to(tmp_path)
