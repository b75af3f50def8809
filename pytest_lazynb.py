"""lazynb's pytest plugin: fails tests that exceed a budget of trace breaks, compilations, kernel launches,
bytes moved or memory.

``@pytest.mark.lazynb_budget(compiles=1, breaks=0)`` runs the test lazily under that budget. The fixture
``lazynb_budget`` is the same as a context manager: ``with lazynb_budget(breaks=0): ...``.
``help(lazynb.budget)`` explains the limits.

This module is outside the package: pytest loads every plugin, and must not import lazynb or JAX before a test
needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

MARKER = (
    "lazynb_budget(compiles=None, breaks=None, kernels=None, bytes=None, peak_memory=None): runs the test "
    "lazily (lazynb.lazy()); it fails when it makes more programs, breaks the trace more often, launches "
    "more kernels, moves more bytes through memory, or runs a program that takes more memory than that."
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Runs a marked test under its budget. The closest of several markers applies."""
    marker = item.get_closest_marker("lazynb_budget")
    if marker is None:
        return (yield)
    import lazynb

    try:
        budget = lazynb.budget(*marker.args, **marker.kwargs)
    except (TypeError, ValueError) as error:
        pytest.fail(f"@pytest.mark.lazynb_budget: {error}", pytrace=False)
    with lazynb.lazy():
        budget.__enter__()
        try:
            result = yield
        except BaseException as error:  # an error of the test, raised again
            budget.__exit__(type(error), error, error.__traceback__)
            raise
        try:
            budget.__exit__(None, None, None)
        except lazynb.LazynbError as error:
            pytest.fail(f"{item.name}: {error}", pytrace=False)
    return result


class _Block:
    """Context manager: a lazy block under a budget."""

    def __init__(self, lazy: Any, budget: Any):
        self._lazy, self._budget = lazy, budget

    def __enter__(self) -> Any:
        __tracebackhide__ = True
        self._lazy.__enter__()
        return self._budget.__enter__()

    def __exit__(self, *raised: Any) -> None:
        __tracebackhide__ = True
        try:
            self._budget.__exit__(*raised)
        finally:
            self._lazy.__exit__(*raised)


@pytest.fixture
def lazynb_budget() -> Callable[..., Any]:
    """``with lazynb_budget(**limits):`` runs its block lazily under a budget with the limits of
    ``lazynb.budget``: ``compiles``, ``breaks``, ``kernels``, ``bytes``, ``peak_memory``.

    Raises ``lazynb.BudgetExceeded`` at the end of a block that exceeds the budget.
    """
    import lazynb

    def block(*limits: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        return _Block(lazynb.lazy(), lazynb.budget(*limits, **named))

    return block
