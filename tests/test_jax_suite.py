"""The script that runs JAX's own tests: what it takes for a failure, and that it survives what tests do to
their process."""

import subprocess

import jax_suite
import pytest

TABLE = jax_suite.Table("""
[[left_out]]
reason = "an accelerator"
files = ["gpu_test"]
[several]
devices = 8
files = ["pmap_test"]
[share]
files = ["quick_test"]
[[difference]]
reason = "counts"
tests = ["quick_test.py::Quick::test_count*", "quick_test.py::Quick::test_one[a]"]
""")

TESTS = """
import os, pytest, unittest
from jax._src import core
import jax.numpy as jnp

class Quick(unittest.TestCase):
    def setUp(self):
        assert core.trace_state_clean()
    def test_lazy(self):
        assert not hasattr(jnp.ones(3) + 1, "is_pending")
    def test_fine(self):
        assert float(jnp.ones(3).sum()) == 3
    def test_ends_the_process(self):
        if hasattr(jnp.ones(3) + 1, "is_pending"):
            os._exit(3)
    def test_skipped(self):
        self.skipTest("not here")
    def test_wrong(self):
        assert False
    def test_zero(self):
        assert float(jnp.zeros(3).sum()) == 0

setattr(Quick, "test_zz[[0]\\n [1]]", Quick.test_zero)
"""


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "lax_test.py").write_text("")
    (tmp_path / "tests" / "quick_test.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return tmp_path


def test_a_test_file_is_run_eagerly_and_lazily(sources, tmp_path):
    settings = jax_suite.Settings(sources, tmp_path, cases=1, most=100)
    passing = jax_suite.eagerly(settings, "quick_test")
    assert [test.rpartition("::")[2] for test in passing] == [
        "test_ends_the_process",
        "test_fine",
        "test_lazy",
        "test_zero",
        "test_zz[[0]\n [1]]",
    ]
    outcome = jax_suite.judge(
        TABLE, "quick_test", passing, jax_suite.run(settings, "quick_test", True, passing), 1.0
    )
    errors = {test.rpartition("::")[2]: error for test, error in outcome.failing.items()}
    assert (
        sorted(errors) == ["test_ends_the_process", "test_lazy"]
        and "status 3" in errors["test_ends_the_process"]
    )
    assert len(outcome.unlisted) == 2 and "5 pass eagerly, 2 of these fail lazily" in str(outcome)


def test_results_are_judged_by_the_reasons_in_the_table():
    assert TABLE.reason("tests/quick_test.py::Quick::test_counting") == "counts"
    assert TABLE.reason("tests/quick_test.py::Quick::test_one[a]") == "counts"
    assert TABLE.reason("tests/quick_test.py::Quick::test_one[b]") is None
    lazily = {"tests/quick_test.py::Quick::test_count": {"outcome": "failed", "error": "1 != 0"}}
    found = jax_suite.judge(
        TABLE, "quick_test", [*lazily, "tests/quick_test.py::Quick::test_gone"], lazily, 1.0
    )
    assert len(found.failing) == 2 and found.unlisted == ["tests/quick_test.py::Quick::test_gone"]
    assert "2 tests pass eagerly, 0 of them lazily (0.00 %); 1 failures" in jax_suite.summary([found])


def test_the_repository_table_is_consistent_and_has_reasons():
    table = jax_suite.Table(jax_suite.TABLE.read_text())
    assert table.share and not set(table.share) & set(table.left_out)
    assert all(table.reasons.values()) and all("::" in pattern for pattern in table.reasons)


def test_sources_are_extracted_from_a_git_directory(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(jax_suite, "BUILD", tmp_path / "build")
    monkeypatch.setattr(jax_suite, "WANTED", ("tests", "pyproject.toml"))
    assert jax_suite.sources(str(sources), "0.10.2") == sources
    author = ("-c", "user.name=x", "-c", "user.email=x@y")
    for command in (
        ("init", "-q"),
        ("add", "tests", "pyproject.toml"),
        (*author, "commit", "-qm", "x"),
        ("tag", "jax-v0.10.2"),
    ):
        subprocess.run(["git", "-C", sources, *command], check=True)
    found = jax_suite.sources(str(sources / ".git"), "0.12.0.1")
    assert (found / "tests" / "quick_test.py").read_text() == TESTS and found.name == "sources-jax-v0.10.2"
    with pytest.raises(jax_suite.NoSources, match=r"no tag jax-v0\.9"):
        jax_suite.sources(str(sources / ".git"), "0.9")


def test_the_newest_tag_not_newer_than_the_installed_jax_is_chosen():
    tags = ["jax-v0.9.2", "jax-v0.10.2", "jax-v0.11.0", "jax-v0.10.10"]
    assert jax_suite._newest_tag(tags, "0.10.2") == "jax-v0.10.2"
    assert jax_suite._newest_tag(tags, "0.12.0.1") == "jax-v0.11.0"


def test_missing_sources_are_an_error_unless_optional(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(jax_suite, "BUILD", tmp_path)
    monkeypatch.setattr(jax_suite, "ORIGIN", str(tmp_path / "nothing"))
    monkeypatch.delenv("LAZYNB_JAX_SOURCES", raising=False)
    assert jax_suite.main(["--share", "--optional"]) == 0 and jax_suite.main(["--share"]) == 2
    assert "cannot be had" in capsys.readouterr().out
