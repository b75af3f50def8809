"""The script that runs the tests of libraries lazily: what is lost has to have a reason."""

import jax_suite
import peer_suites
import pytest

TESTS = """
import jax.numpy as jnp

def test_fine():
    assert float(jnp.ones(3).sum()) == 3

def test_lost():
    assert not hasattr(jnp.ones(3) + 1, "is_pending")

def test_fails_in_any_case():
    assert False
"""
TABLE = """
[pytest]
repository = "somebody/pytest"
needs = ["tests"]
tests = ["tests/test_*.py"]
share = ["tests/test_one"]
[missing-library]
repository = "somebody/missing-library"
needs = ["tests"]
tests = ["tests/test_*.py"]
"""
REASON = '[[pytest.difference]]\nreason = "asks"\ntests = ["tests/test_one.py::test_l*"]\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    folder = tmp_path / "sources" / "pytest" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_one.py").write_text(TESTS)
    (tmp_path / "libraries.toml").write_text(TABLE)
    monkeypatch.setattr(peer_suites, "BUILD", tmp_path / "build")
    monkeypatch.setattr(peer_suites, "TABLE", tmp_path / "libraries.toml")
    return tmp_path / "sources"


def test_what_is_lost_without_a_reason_is_listed_and_fails(place, monkeypatch, capsys):
    seen, run = [], jax_suite.run
    monkeypatch.setattr(jax_suite, "run", lambda *asked: seen.append(run(*asked)) or seen[-1])
    assert peer_suites.main(["--sources", str(place), "pytest"]) == 1
    out = capsys.readouterr().out
    assert "2 pass eagerly, 1 of these fail lazily, 1 of them unlisted" in out
    assert "tests/test_one.py::test_lost" in out and "test_fails_in_any_case" not in out
    peer_suites.TABLE.write_text(TABLE + REASON)
    monkeypatch.setattr(jax_suite, "run", lambda *asked: seen[-1])  # the same results, judged anew
    assert peer_suites.main(["--sources", str(place), "--share", "pytest"]) == 0


def test_a_library_that_is_not_installed_or_has_no_sources_is_said_so(place, tmp_path, capsys):
    assert peer_suites.main(["--sources", str(place), "missing-library"]) == 0
    assert "missing-library: not installed" in capsys.readouterr().out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert peer_suites.main(["--sources", str(empty), "pytest"]) == 1
    assert peer_suites.main(["--sources", str(empty), "--optional", "pytest"]) == 0
    assert "its sources cannot be had" in capsys.readouterr().out
