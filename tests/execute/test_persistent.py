"""A corrupt entry in the persistent cache is no entry: it is compiled again, written anew, and said once."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

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
                value = jnp.sin(jnp.arange(4.0)) * scale if factor == 2.0 else jnp.cos(jnp.arange(4.0)) * scale
            plain = (np.sin if factor == 2.0 else np.cos)(np.arange(4.0)) * scale
            np.testing.assert_allclose(np.asarray(value), plain, rtol=1e-5)
    return [one.origin for one in lazynb.cache_info()], [str(warning.message) for warning in caught]


@pytest.mark.parametrize("spoil", [lambda entry: entry[: len(entry) // 2], lambda entry: b"", lambda entry: b"\x00" * 400,
                                   lambda entry: entry[:100] + bytes([entry[100] ^ 8]) + entry[101:]],
                         ids=["truncated", "empty", "zeros", "one bit"])
def test_a_corrupt_entry_is_ignored_compiled_again_and_said_once(spoil, kept):
    from lazynb.execute.persistent import persistent

    assert run(2.0) == (["compiled", "compiled"], [])
    assert run(2.0) == (["disk", "disk"], [])
    for file in kept.glob("*-cache"):
        file.write_bytes(spoil(file.read_bytes()))
    persistent._caches.clear()  # as in a new process
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"]
    assert len(said) == 1 and str(kept) in said[0] and "could not read" in said[0]
    assert run(2.0) == (["disk", "disk"], []), "the entries were written anew"


def test_an_entry_that_unpacks_but_is_no_program(kept):
    from lazynb import _jax_compat as jc

    run(2.0)
    for file in kept.glob("*-cache"):
        file.write_bytes(jc._compilation_cache.compress_executable(b"\x00" * 64))
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"]
    assert sum("lazynb could not read" in text for text in said) == 1
    assert run(2.0)[0] == ["disk", "disk"]


def test_an_entry_that_cannot_be_opened(kept):
    run(2.0)
    for file in kept.glob("*-cache"):
        file.unlink()
        file.mkdir()
    origins, said = run(2.0)
    assert origins == ["compiled", "compiled"] and any(str(kept) in text for text in said)


def test_a_corrupt_entry_in_a_new_process(kept, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import jax.numpy as jnp, numpy as np, lazynb\n"
                      "with lazynb.lazy():\n    print(np.asarray(jnp.sin(jnp.arange(4.0)) * 2).sum())\n"
                      "print(lazynb.cache_info()[0].origin)\n")

    def output():
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "LAZYNB_PERSISTENT_CACHE": "1", "LAZYNB_CACHE_DIR": str(kept)})
        return done.stdout.split()[-1], done.stderr

    assert output()[0] == "compiled"
    (file, *_) = kept.glob("*-cache")
    file.write_bytes(b"spoiled")
    origin, said = output()
    assert origin == "compiled" and said.count("lazynb could not read") == 1 and "Error reading" not in said
    assert output()[0] == "disk"
