"""A corrupt entry in the persistent cache is no entry: it is compiled again, written anew, and said once."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.config import config


@pytest.fixture
def kept(tmp_path, monkeypatch, clean):
    """A persistent cache of its own."""
    monkeypatch.setattr(config, "persistent_cache", True)
    monkeypatch.setattr(config, "persistent_cache_dir", tmp_path / "kept")
    return tmp_path / "kept"


def run(scale):
    """Compiles two programs, as a new process would; their origins, and what was warned of."""
    lazynb.clear_cache()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for factor in (2.0, 3.0):
            with lazynb.lazy():
                value = (
                    jnp.sin(jnp.arange(4.0)) * scale if factor == 2.0 else jnp.cos(jnp.arange(4.0)) * scale
                )
            plain = (np.sin if factor == 2.0 else np.cos)(np.arange(4.0)) * scale
            np.testing.assert_allclose(np.asarray(value), plain, rtol=1e-5)
    return [one.origin for one in lazynb.cache_info()], [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entry: entry[: len(entry) // 2],
        lambda entry: b"",
        lambda entry: b"\x00" * 400,
        lambda entry: entry[:100] + bytes([entry[100] ^ 8]) + entry[101:],
    ],
    ids=["truncated", "empty", "zeros", "one bit"],
)
def test_a_corrupt_entry_is_ignored_recompiled_and_reported_once(spoil, kept):
    from lazynb.running.disk_cache import disk_cache

    assert run(2.0) == (["compiled", "compiled"], [])
    assert run(2.0) == (["disk", "disk"], [])
    for file in kept.glob("*-cache"):
        file.write_bytes(spoil(file.read_bytes()))
    disk_cache._caches.clear()  # as in a new process
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"]
    assert len(said) == 1 and str(kept) in said[0] and "could not read" in said[0]
    assert len(list((kept / "unreadable").iterdir())) == 2, "they are there for whoever wants to know"
    assert run(2.0) == (["disk", "disk"], []), "the entries were written anew"


def test_an_entry_that_decompresses_to_no_program_is_recompiled(kept):
    from lazynb.jax_compat import xla_executables
    from lazynb.running.disk_cache import seal

    run(2.0)
    for file in kept.glob("*-cache"):
        file.write_bytes(
            seal(
                file.name.removesuffix("-1-cache"),
                xla_executables._compilation_cache.compress_executable(b"\x00" * 64),
            )
        )
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"]
    assert sum("lazynb could not read" in text for text in said) == 1
    assert run(2.0)[0] == ["disk", "disk"]


def test_an_entry_that_cannot_be_opened_is_recompiled_and_reported(kept):
    run(2.0)
    for file in kept.glob("*-cache"):
        file.unlink()
        file.mkdir()
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"] and any(str(kept) in text for text in said)


def test_swapped_entries_are_recompiled_and_reported_once(kept):
    run(2.0)
    one, other = sorted(kept.glob("*-cache"))
    contents = one.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    one.write_bytes(contents[1])
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"] and len(said) == 1
    assert run(2.0) == (["disk", "disk"], [])


def test_a_directory_that_cannot_be_written_is_reported_once(kept):
    from lazynb.running.disk_cache import disk_cache

    kept.write_text("a file")
    origins, said = run(2.0)
    assert (
        origins == ["compiled", "compiled"] and len(said) == 1 and "keeps no executables on disk" in said[0]
    )
    assert disk_cache._caches[str(kept)] is None


def test_a_full_disk_is_reported_once_and_leaves_no_partial_file(kept, monkeypatch):
    from lazynb.running import disk_cache as module

    class Full(io.FileIO):
        def write(self, data):
            super().write(data[: len(data) // 2])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        module, "open", lambda file, mode, **more: Full(file, mode.replace("b", "")), raising=False
    )
    module.disk_cache._caches.clear()
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"] and len(said) == 1 and "No space left" in said[0]
    assert not list(kept.iterdir())


def test_lazynbs_entries_lie_apart_from_those_of_jax(kept, tmp_path):
    given = tmp_path / "given"
    with _cache_dir(given):
        run(2.0)
    assert list((given / "lazynb").glob("*-cache")) and not list(given.glob("*-cache"))


@contextlib.contextmanager
def _cache_dir(path):
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(path))
    try:
        yield
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


_POSIX = pytest.mark.skipif(os.name != "posix", reason="files have no modes here")


@_POSIX
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702, 0o1777])
def test_a_directory_that_others_can_write_is_refused(mode, kept):
    kept.mkdir()
    kept.chmod(mode)
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"]
    assert len(said) == 1 and "can write to" in said[0] and f"chmod go-w {kept}" in said[0]
    assert not list(kept.iterdir())


@_POSIX
def test_a_link_to_a_directory_that_others_can_write_is_refused(kept, tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    kept.symlink_to(open_to_all)
    assert "can write to" in run(2.0)[1][0]


@_POSIX
def test_a_directory_in_one_that_others_can_write_is_refused(kept, tmp_path):
    tmp_path.chmod(0o777)
    try:
        origins, said = run(2.0)
    finally:
        tmp_path.chmod(0o700)
    assert origins == ["compiled", "compiled"] and len(said) == 1 and f"can write to {tmp_path}" in said[0]


@_POSIX
def test_directories_in_a_sticky_one_and_with_a_group_of_ones_own_are_trusted(tmp_path):
    from lazynb.running.disk_cache import untrusted_reason

    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    assert untrusted_reason(own) == ""
    tmp_path.chmod(0o1777)
    assert untrusted_reason(own) == ""
    tmp_path.chmod(0o700)


@_POSIX
def test_a_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    from lazynb.running import disk_cache

    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(disk_cache.os, "geteuid", lambda: owner + 1)
    refused = disk_cache.untrusted_reason(tmp_path)
    assert "another user" in refused if owner else refused == ""


def test_an_entry_that_ends_the_process_is_not_loaded_again(kept, tmp_path):
    """The process that loads it is killed while it does; the next one starts without it."""
    script = tmp_path / "script.py"
    script.write_text(_LOADS)

    def output(*args):
        return subprocess.run(
            [sys.executable, str(script), *args],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "LAZYNB_PERSISTENT_CACHE": "1", "LAZYNB_CACHE_DIR": str(kept)},
        )

    assert output().stdout.split() == ["compiled"]
    assert output("crash").returncode < 0
    then = output()
    assert then.stdout.split() == ["compiled"] and "the process ended while it did" in then.stderr
    assert output().stdout.split() == ["disk"] and not list(kept.glob("*.loading"))[1:]


_LOADS = """
import signal, sys
import jax.numpy as jnp, numpy as np, lazynb
from lazynb import jax_compat as jc
if "crash" in sys.argv:  # where XLA would, and in XLA's thread: a signal to the process may find another one, and this goes on
    from lazynb.running import disk_cache as module
    begin = module.Journal.begin
    module.Journal.begin = lambda self, key: (begin(self, key), signal.raise_signal(signal.SIGSEGV))
with lazynb.lazy():
    np.asarray(jnp.sin(jnp.arange(4.0)) * 2)
print(lazynb.cache_info()[0].origin)
"""


def test_a_new_process_recompiles_a_corrupt_entry(kept, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import jax.numpy as jnp, numpy as np, lazynb\n"
        "with lazynb.lazy():\n    print(np.asarray(jnp.sin(jnp.arange(4.0)) * 2).sum())\n"
        "print(lazynb.cache_info()[0].origin)\n"
    )

    def output():
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "LAZYNB_PERSISTENT_CACHE": "1", "LAZYNB_CACHE_DIR": str(kept)},
        )
        return done.stdout.split()[-1], done.stderr

    assert output()[0] == "compiled"
    (file, *_) = kept.glob("*-cache")
    file.write_bytes(b"spoiled")
    origin, said = output()
    assert origin == "compiled" and said.count("lazynb could not read") == 1 and "Error reading" not in said
    assert output()[0] == "disk"
