"""Budgets: what counts, for whom, and what the error says."""

from __future__ import annotations

import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.compare.costs import program_usage
from lazynb.running.flush import execution
from lazynb.running.observers import process_observers

pytestmark = pytest.mark.usefixtures("clean")


def halve(x):
    while x > 1:  # breaks once a turn
        x = x / 2
    return x


def test_a_block_within_its_budget_passes():
    with lazynb.lazy(), lazynb.budget(compiles=1, breaks=1) as budget:
        assert float(jnp.ones(3).sum() * 2) == 6.0
    assert (budget.used.compiles, budget.used.broken) == (1, 1)


def test_breaks_over_budget_are_explained():
    with pytest.raises(lazynb.BudgetExceeded) as caught, lazynb.lazy(), lazynb.budget(breaks=2):
        halve(jnp.asarray(8.0) + 0)
    error = caught.value
    assert error.exceeded == ("breaks",) and error.limits.breaks == 2
    [row] = error.breaks
    assert (row.code, row.kind, row.count, row.location.text) == (
        "LNB101",
        "bool",
        4,
        "while x > 1:  # breaks once a turn",
    )
    text = str(error)
    assert text.startswith("over budget: 4 trace breaks where 2 are allowed\n")
    for part in (row.location.label, row.location.text, "LNB101", "4 times", row.hint):
        assert part in text
    assert "ompilations" not in text  # no limit on them


def test_compilations_over_budget_give_reason_and_cure():
    with pytest.raises(lazynb.BudgetExceeded) as caught, lazynb.lazy(), lazynb.budget(compiles=1):
        for length in (3, 4, 5):
            (jnp.ones(length) * 2).block_until_ready()
    error = caught.value
    assert error.exceeded == ("compiles",) and error.compiles == 3
    assert sum(row.count for row in error.compilations) == 3
    assert {row.location.text for row in error.compilations} == {"(jnp.ones(length) * 2).block_until_ready()"}
    for row in error.compilations:
        assert row.reason in str(error) and row.cure in str(error)
    assert all(row.operations >= 1 and row.seconds > 0 for row in error.compilations)


def test_each_launch_of_a_kernel_is_counted():
    def step(x):
        return jnp.sin(x @ x).block_until_ready()

    with lazynb.lazy():
        x = jnp.ones((8, 8)).block_until_ready()
        compilation = lazynb.compile(y := jnp.sin(x @ x))
        each = sum(cluster.kind != "control" for cluster in compilation.clusters)
        del y
        with lazynb.budget(kernels=3 * each) as budget:
            for _ in range(3):
                step(x)
        assert budget.used.kernels.total == 3 * each
        with pytest.raises(lazynb.BudgetExceeded) as caught, lazynb.budget(kernels=3 * each - 1):
            for _ in range(3):
                step(x)
    assert caught.value.exceeded == ("kernels",)
    assert f"{3 * each:,} kernels where {3 * each - 1} " in str(caught.value) and "run 3 times" in str(
        caught.value
    )


def test_kernels_are_counted_only_with_a_kernel_limit(monkeypatch):
    monkeypatch.setattr(program_usage, "kernels_of", lambda compiled: pytest.fail("HLO was read"))
    with lazynb.lazy(), lazynb.budget(compiles=5, breaks=5) as budget:
        float(jnp.ones(3).sum())
    assert budget.used.kernels is None


def test_a_kernel_limit_without_hlo_is_an_error(monkeypatch):
    monkeypatch.setattr(program_usage, "kernels_of", lambda compiled: None)
    budget = lazynb.budget(kernels=100)
    with (
        pytest.raises(lazynb.LazynbError, match="no optimised HLO of 1 program of the 1 that ran"),
        lazynb.lazy(),
        budget,
    ):
        float(jnp.ones(3).sum())


def test_more_programs_than_are_kept_are_counted_all_the_same(monkeypatch):
    monkeypatch.setattr(program_usage, "LAUNCHES_KEPT", 1)
    with lazynb.lazy(), lazynb.budget(kernels=100) as budget:
        for _ in range(2):
            (jnp.ones(3) * 2).block_until_ready()
            (jnp.ones(4) * 2).block_until_ready()
    assert budget.used.kernels.total == 4


def test_barriers_that_were_asked_for_are_no_breaks():
    with lazynb.lazy(), lazynb.budget(breaks=0):
        x = jnp.ones(3) * 2
        lazynb.sync()
        (x + 1).block_until_ready()


def test_operations_that_stay_pending_are_not_counted():
    with lazynb.lazy(), lazynb.budget(compiles=0, breaks=0, kernels=0):
        x = jnp.ones(3) * 2
    np.testing.assert_array_equal(x, [2, 2, 2])


def test_executables_compiled_before_the_block_are_not_counted():
    def step():
        return float((jnp.ones(3) * 2).sum())

    with lazynb.lazy():
        step()
        with lazynb.budget(compiles=0) as budget:
            step()
        assert budget.used.broken == 1
        step()
    assert budget.used.broken == 1  # nothing counts that came after


def test_a_program_made_ahead_counts_where_it_first_runs():
    with lazynb.lazy():
        with lazynb.budget() as inside:
            x = jnp.ones(3) * 2
            lazynb.compile(x)
            lazynb.sync()
        y = jnp.ones(4) * 2
        lazynb.compile(y)
        with lazynb.budget() as after:
            lazynb.sync()
    assert (inside.used.compiles, after.used.compiles) == (1, 0)


def test_nested_budgets_each_count():
    with lazynb.lazy(), lazynb.budget(breaks=3) as outer:
        float(jnp.ones(3).sum())
        with lazynb.budget(breaks=1) as inner:
            float(jnp.ones(3).sum())
        with pytest.raises(lazynb.BudgetExceeded), lazynb.budget(breaks=0):
            float(jnp.ones(3).sum())
    assert (outer.used.broken, inner.used.broken) == (3, 1)
    assert not (execution.local.observers or process_observers)


def test_budgets_that_end_in_another_order_leave_nothing_behind():
    first, second = lazynb.budget(), lazynb.budget()
    with lazynb.lazy():
        first.__enter__()
        second.__enter__()
        float(jnp.ones(3).sum())
        first.__exit__(None, None, None)
        float(jnp.ones(3).sum())
        second.__exit__(None, None, None)
    assert (first.used.broken, second.used.broken) == (1, 2)
    assert not (execution.local.observers or process_observers)


def test_another_threads_work_does_not_count():
    def work():
        with lazynb.lazy():
            float((jnp.ones(7) * 3).sum())

    with lazynb.lazy(), lazynb.budget(compiles=0, breaks=0, kernels=0):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert lazynb.breaks().total == 1  # it did break


def test_an_exception_passes_through():
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught, lazynb.lazy(), lazynb.budget(breaks=0):
        float(jnp.ones(3).sum())
        raise error
    assert caught.value is error and not (execution.local.observers or process_observers)


def test_a_budget_decorates_functions_including_recursive_ones():
    @lazynb.lazy()
    @lazynb.budget(breaks=1)
    def total(n):
        return float(jnp.ones(3).sum()) if n == 0 else total(n - 1)

    assert total(2) == 3.0 and total(0) == 3.0  # each call has its own budget
    many = lazynb.budget(breaks=1)(halve)
    with pytest.raises(lazynb.BudgetExceeded), lazynb.lazy():
        many(jnp.asarray(8.0) + 0)

    def generates():
        yield 1

    async def waits():
        pass

    for function in (generates, waits):
        with pytest.raises(TypeError, match="generator or async"):
            lazynb.budget(breaks=1)(function)


@pytest.mark.parametrize("limit", [-1, np.int64(-3)])
def test_negative_limits_are_refused(limit):
    with pytest.raises(ValueError, match="a limit is 0 or more"):
        lazynb.budget(kernels=limit)


@pytest.mark.parametrize("limit", [1.5, True, "3", [1]])
def test_a_limit_that_is_no_whole_number_is_refused(limit):
    with pytest.raises(TypeError, match=r"budget\(breaks=...\) takes a whole number or None"):
        lazynb.budget(breaks=limit)


def test_a_pending_tensor_is_no_limit_and_is_not_run():
    with lazynb.lazy():
        limit = jnp.asarray(1) + 1
        with pytest.raises(TypeError, match="not LazyTensor"):
            lazynb.budget(breaks=limit)
    assert lazynb.breaks().total == 0


def test_one_budget_serves_one_block_after_the_other():
    budget = lazynb.budget(breaks=1)
    with pytest.raises(RuntimeError, match="not begun"):
        budget.used
    with lazynb.lazy():
        for _ in range(2):
            with budget:
                float(jnp.ones(3).sum())
        with pytest.raises(RuntimeError, match="begun already"), budget, budget:
            pass


def test_the_error_can_be_pickled():
    with pytest.raises(lazynb.BudgetExceeded) as caught, lazynb.lazy(), lazynb.budget(0, 0, 0):
        float(jnp.ones(3).sum())
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.exceeded == ("compiles", "breaks", "kernels")


def test_a_budget_keeps_no_array_alive():
    with lazynb.lazy(), lazynb.budget(compiles=9, breaks=9, kernels=99):
        x = jnp.ones((512, 1024)) + 1
        x.block_until_ready()
        before = len(jax.live_arrays())
        for _ in range(3):
            x = x + 1  # takes the memory of the old one
            x.block_until_ready()
            assert len(jax.live_arrays()) <= before


def test_explaining_survives_a_difference_that_cannot_be_worked_out(monkeypatch):
    import lazynb.compare.misses.miss_explanation

    def fails(miss, earlier, runs):
        raise RuntimeError("no difference")

    monkeypatch.setattr(lazynb.compare.misses.miss_explanation, "difference", fails)
    with (
        pytest.raises(lazynb.BudgetExceeded, match="why cannot be told"),
        lazynb.lazy(),
        lazynb.budget(compiles=0),
    ):
        float(jnp.ones(3).sum())


def test_compilations_cleared_from_the_cache_have_no_reason():
    with lazynb.lazy(), lazynb.budget() as budget:
        for n in (3, 4):
            float(jnp.ones(n).sum())
        lazynb.clear_cache()
        float(jnp.ones(5).sum())
    assert [(row.count, bool(row.reason)) for row in budget.used.compilations] == [(2, False), (1, True)]
    assert budget.used.broken == 3


def test_a_finaliser_that_reads_a_value_may_run_in_between(monkeypatch):
    from lazynb.running.run_statistics import RunCounter

    with lazynb.lazy(), lazynb.budget() as budget:
        other = jnp.ones(4) * 3
        lazynb.recording.lazy_trace.thread_trace().cut()  # another program
        note = RunCounter._note

        def notes(self, *args):
            monkeypatch.setattr(RunCounter, "_note", note)
            float(other.sum())  # as a finaliser would
            note(self, *args)

        monkeypatch.setattr(RunCounter, "_note", notes)
        float(jnp.ones(3).sum())
    assert budget.used.broken == 2


def test_long_explanations_are_cut():
    source = "\n".join(f"float(jnp.ones(3).sum() + {n})" for n in range(20))
    with pytest.raises(lazynb.BudgetExceeded, match="12 more"), lazynb.lazy(), lazynb.budget(breaks=0):
        exec(compile(source, "many.py", "exec"), {"jnp": jnp})
