"""The pytest plugin, in a pytest of its own: the marker, the fixture, and what a failure looks like."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parent.parent
INSTALLED = any(one.name == "lazynb" for one in entry_points(group="pytest11"))

SLOW = """
import jax.numpy as jnp
import pytest

def total():
    return float(jnp.ones(3).sum())  # breaks the trace
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs a file of tests in a fresh pytest; its result."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\naddopts = --strict-markers")

    def run(source, *options):
        pytester.makepyfile(test_it=SLOW + source)
        plugin = () if INSTALLED else ("-p", "pytest_lazynb")
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *plugin, *options)

    return run


def test_the_plugin_is_registered_as_an_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"lazynb": "pytest_lazynb"}


def test_a_test_within_its_budget_passes_and_runs_lazily(run):
    run("""
@pytest.mark.lazynb_budget(compiles=1, breaks=1)
def test_it():
    import lazynb
    assert isinstance(jnp.ones(3) + 1, lazynb.LazyTensor)
    total()

def test_lazy_mode_ends_with_the_test():
    import lazynb
    assert not isinstance(jnp.ones(3) + 1, lazynb.LazyTensor)
""").assert_outcomes(passed=2)


def test_a_test_over_its_budget_fails_with_the_explanation_alone(run):
    result = run("""
@pytest.mark.lazynb_budget(compiles=5, breaks=1)
def test_it():
    total()
    total()
""")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "test_it: over budget: 2 trace breaks where 1 is allowed",
            "*",
            "  test_it.py:*: return float(jnp.ones(3).sum())  # breaks the trace",
            "      LNB103 float, 2 times: float() needed a value (*",
            "      instead: *",
        ]
    )
    assert "Traceback" not in text and "lazynb/" not in text and "budget.py" not in text


def test_bytes_and_memory_are_limits_too(run):
    result = run("""
@pytest.mark.lazynb_budget(bytes="1 MiB", peak_memory=1 << 20)
def test_within():
    total()

@pytest.mark.lazynb_budget(peak_memory=3)
def test_over():
    total()

def test_block(lazynb_budget):
    with lazynb_budget(bytes=3):
        total()
""")
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    assert "of memory where 3 bytes are allowed" in text and "through memory where 3 bytes are" in text


def test_failing_and_skipped_tests_are_not_reported_as_over_budget(run):
    result = run("""
@pytest.mark.lazynb_budget(breaks=0)
def test_it():
    total()
    assert 1 == 2

@pytest.mark.lazynb_budget(breaks=0)
def test_skipped():
    total()
    pytest.skip("not today")
""")
    result.assert_outcomes(failed=1, skipped=1)
    assert "assert 1 == 2" in result.stdout.str() and "over budget" not in result.stdout.str()
    assert "pytest_lazynb" not in result.stdout.str()


def test_the_marker_applies_to_classes_and_unittest_cases(run):
    result = run("""
import unittest

@pytest.mark.lazynb_budget(breaks=0)
class TestIt:
    def test_one(self):
        total()

    @pytest.mark.lazynb_budget(breaks=1)
    def test_two(self):
        total()

class Old(unittest.TestCase):
    @pytest.mark.lazynb_budget(breaks=0)
    def test_three(self):
        total()
""")
    result.assert_outcomes(failed=2, passed=1)


def test_a_budget_within_a_marked_test_is_the_tests_own(run):
    run("""
@pytest.mark.lazynb_budget(breaks=1)
def test_it():
    import lazynb
    with pytest.raises(lazynb.BudgetExceeded), lazynb.budget(breaks=0):
        total()
""").assert_outcomes(passed=1)


def test_the_fixture_gives_a_context_manager(run):
    result = run("""
def test_within(lazynb_budget):
    with lazynb_budget(breaks=1, compiles=1) as budget:
        total()
    assert budget.used.broken == 1

def test_over(lazynb_budget):
    with lazynb_budget(breaks=0):
        total()

def test_expected(lazynb_budget):
    import lazynb
    with pytest.raises(lazynb.BudgetExceeded, match="LNB103"):
        with lazynb_budget(breaks=0):
            total()
    assert not isinstance(jnp.ones(3) + 1, lazynb.LazyTensor)

def test_error(lazynb_budget):
    with pytest.raises(KeyError), lazynb_budget(breaks=0):
        total()
        raise KeyError
""")
    result.assert_outcomes(failed=1, passed=3)
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        [">       with lazynb_budget(breaks=0):", "E       *over budget: 1 trace break where 0 are allowed"]
    )
    assert "pytest_lazynb.py" not in text and "budget.py" not in text


@pytest.mark.parametrize(
    "arguments,text",
    [
        ("breaks=-1", "@pytest.mark.lazynb_budget: budget(breaks=-1): a limit is 0 or more"),
        ("brakes=1", "@pytest.mark.lazynb_budget: *unexpected keyword argument 'brakes'"),
    ],
)
def test_bad_limits_fail_in_a_line(run, arguments, text):
    result = run(f"""
@pytest.mark.lazynb_budget({arguments})
def test_it():
    pass
""")
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*{text}*"])


def test_nothing_is_imported_before_a_test_asks(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others import NumPy
    pytester.makepyfile("""
import sys

def test_it():
    assert "pytest_lazynb" in sys.modules and not {"lazynb", "jax", "jaxlib", "numpy"} & set(sys.modules)
""")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "pytest_lazynb").assert_outcomes(passed=1)


def test_the_marker_is_documented(run):
    result = run("", "--markers")
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.lazynb_budget(compiles=None, breaks=None, kernels=None, bytes=None, peak_memory=None): *"
        ]
    )
