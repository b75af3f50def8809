"""What XLA writes down: where, for how long, and what happens where it cannot."""

from __future__ import annotations

import gc
import shutil
import tempfile

import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.running import compiler_dump
from lazynb.running.compiler_dump import Dump, DumpUnavailable, new_dump, record_dumps
from lazynb.xla.hlo import passes


def test_compile_accepts_a_pytree_of_tensors(clean):
    with lazynb.lazy():
        x = jnp.ones(8)
        state = {"loss": (jnp.sin(x), [x @ x])}
        made = lazynb.compile(state)
        assert made.operations == len(lazynb.graph(state)) > 2 and made.hlo.after


def test_no_dump_is_written_without_a_request(clean):
    assert new_dump() is None
    with lazynb.lazy():
        y = jnp.ones(3) + 1
        float(y[0])
    assert all(executable.dump is None for executable in lazynb.running.executable_cache.executables.order)


def test_deleting_the_dump_object_deletes_its_files():
    with record_dumps():
        dump = new_dump()
    directory = dump.directory
    assert directory.is_dir() and dump.exists
    del dump
    compiler_dump._recent.clear()
    gc.collect()
    assert not directory.exists()


def test_only_the_newest_dumps_are_kept():
    made = [Dump() for _ in range(compiler_dump._KEPT + 3)]
    assert [dump.exists for dump in made] == [False] * 3 + [True] * compiler_dump._KEPT
    assert [dump.directory.exists() for dump in made] == [dump.exists for dump in made]


@pytest.fixture
def nowhere(monkeypatch):
    """No directory for temporary files can be written."""

    def refuse(*_, **__):
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)


def test_without_a_place_to_write_the_program_compiles_all_the_same(clean, nowhere):
    with lazynb.lazy():
        y = jnp.ones(3) * 0 + 7
        compilation = lazynb.compile(y)
        assert len(compilation.clusters) == 1
        assert set(compilation.fates) == {node.id for node in compilation.snapshot.nodes if node.kind == "op"}
        with pytest.raises(DumpUnavailable, match="TMPDIR"):
            compilation.hlo.passes  # noqa: B018
        with pytest.raises(DumpUnavailable, match="TMPDIR"):
            compilation.ask()
        np.testing.assert_array_equal(np.asarray(y), np.full(3, 7))


def test_a_directory_that_vanished_is_no_error(clean):
    with lazynb.lazy():
        y = jnp.ones(3) + 1
        compilation = lazynb.compile(y)
        dump = compilation.traces[-1].dump
        dump.reading.result()
        shutil.rmtree(dump.directory)
        assert [one.name for one in compilation.hlo.passes], "they were read before"
        assert compilation.memory.peak_bytes is None and "lost" not in {
            fate.kind for fate in compilation.fates.values()
        }


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_directory_that_vanishes_while_it_is_read_is_no_error(clean, monkeypatch):
    read = passes._read

    def vanishing(file):
        shutil.rmtree(file.parent)
        return read(file)

    monkeypatch.setattr(passes, "_read", vanishing)
    with lazynb.lazy():
        compilation = lazynb.compile(jnp.ones(3) + 1)
        assert not list(compilation.hlo.passes) and compilation.memory.peak_bytes is None


def test_the_parsed_reading_is_dropped_with_the_dump_files(clean):
    with lazynb.lazy():
        y = jnp.ones(3) + 1
        dump = lazynb.compile(y).traces[-1].dump
        assert dump.reading is not None
        for _ in range(compiler_dump._KEPT):
            Dump()
    assert not dump.exists and dump.reading is None


def test_compiling_again_for_a_report_leaves_cache_logs_and_tensor_unchanged(clean):
    with lazynb.lazy():
        y = jnp.ones(3) + 1
        compilation = lazynb.compile(y)
        before = lazynb.cache_info().misses, len(lazynb.events()), len(lazynb.breaks())
        compilation.ask()
        assert (lazynb.cache_info().misses, len(lazynb.events()), len(lazynb.breaks())) == before
        assert y.is_pending
