"""Answers of compilers on disk."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.xla.targets.compiler_process import compiler_process


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setattr(lazynb.config, "persistent_cache", True)
    monkeypatch.setattr(lazynb.config, "persistent_cache_dir", str(tmp_path))
    return tmp_path / "targets"


@pytest.fixture
def asked(monkeypatch):
    """The platforms whose worker was asked."""
    asked = []
    for platform in ("tpu", "cuda"):
        worker = compiler_process(platform)

        def ask(question, platform=platform, ask=worker.ask):
            asked.append(platform)
            return ask(question)

        monkeypatch.setattr(worker, "ask", ask)
    return asked


def softmax(value=1.0):
    return jax.nn.softmax(jnp.full((64, 64), value), -1)


@pytest.mark.parametrize("target", ["v5e", "h100"])
def test_the_same_program_is_compiled_once(needs, kept, asked, target):
    needs(target)
    with lazynb.lazy():
        first = lazynb.compile(softmax(), target=target)
    with lazynb.lazy():
        again = lazynb.compile(softmax(2.0), target=target)  # other data are no other program
        assert len(asked) == 1 and again.cache_event == "disk"
        assert [one.name for one in again.clusters] == [one.name for one in first.clusters]
        assert len(again.hlo.passes) == len(first.hlo.passes) > 0
        assert again.boundaries.to_dicts() == first.boundaries.to_dicts()
        assert again.fates == first.fates
        lazynb.compile(softmax(), target="v6e" if target == "v5e" else "a100")
        assert len(asked) == 2


def test_a_spoiled_entry_is_compiled_again(needs, kept, asked):
    needs("v5e")
    with lazynb.lazy():
        y = softmax()
        lazynb.compile(y, target="v5e")
        [entry] = kept.glob("*.zip")
        for spoiled in (b"", b"PK", entry.read_bytes()[:-100], entry.read_bytes()[100:]):
            entry.write_bytes(spoiled)
            count = len(asked)
            assert lazynb.compile(y, target="v5e").cache_event == "compiled"
            assert len(asked) == count + 1


def test_without_a_writable_store_it_compiles_each_time(needs, kept, asked):
    needs("v5e")
    kept.parent.joinpath("targets").write_text("a file")
    with lazynb.lazy():
        y = softmax()
        for _ in range(2):
            assert lazynb.compile(y, target="v5e").cache_event == "compiled"
    assert len(asked) == 2


def test_the_number_of_entries_is_bounded(needs, kept, monkeypatch):
    needs("h100")
    monkeypatch.setattr("lazynb.xla.targets.target_compilation._MAX_ENTRIES", 2)
    with lazynb.lazy():
        for size in (4, 8, 16, 32):
            lazynb.compile(jnp.sin(jnp.ones(size)), target="h100")
    assert len(list(kept.glob("*"))) == 2
