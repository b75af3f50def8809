"""Blocks that end in another order, in another thread or never leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import inspect
import itertools
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.experimental.random
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import core
from lazy_thread import lazy_thread
from record.ownership import assert_own, changed

import lazynb
from lazynb.recording.lazy_blocks import blocks, patches

pytestmark = pytest.mark.usefixtures("no_other_loop")


def records():
    """Whether this thread records, as a program sees it."""
    return isinstance(jnp.ones(2) + 1, lazynb.LazyTensor)


@pytest.fixture(autouse=True)
def own(clean):
    assert_own()
    yield
    try:
        assert_own()
    finally:
        blocks.end_all()


def body(region):
    with region:
        yield


KINDS = {"lazy": lazynb.lazy, "eager": lazynb.eager, "strict": lambda: lazynb.lazy(strict=True)}


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, repeat=3)), ids="-".join)
def test_bodies_end_in_any_order(kinds):
    for order in itertools.permutations(range(3)):
        bodies = [body(KINDS[kind]()) for kind in kinds]
        for one in bodies:
            next(one)
        left = list(range(3))
        for number in order:
            bodies[number].close()
            left.remove(number)
            assert records() == (bool(left) and kinds[left[-1]] != "eager"), (order, left)
            assert patches.on is any(kinds[one] != "eager" for one in left)
        assert_own()


def test_strictness_ends_with_its_own_body():
    first, second = body(lazynb.lazy(strict=True)), body(lazynb.lazy(strict=False))
    next(first), next(second)
    first.close()
    assert float(jnp.ones(2).sum()) == 2
    second.close()
    first, second = body(lazynb.lazy(strict=False)), body(lazynb.lazy(strict=True))
    next(first), next(second)
    first.close()
    with pytest.raises(lazynb.TraceBreakError):
        float(jnp.ones(2).sum())
    second.close()


def test_tasks_that_end_in_another_order_restore_the_mode():
    async def hold(region, entered, leave):
        with region:
            entered.set()
            await leave.wait()

    async def main():
        events = [asyncio.Event() for _ in range(4)]
        tasks = [
            asyncio.create_task(hold(lazynb.lazy(), *events[:2])),
            asyncio.create_task(hold(lazynb.eager(), *events[2:])),
        ]
        await events[0].wait(), await events[2].wait()
        events[1].set()
        await tasks[0]
        events[3].set()
        await tasks[1]
        assert_own()

    asyncio.run(main())


def test_a_cancelled_task_restores_the_mode():
    async def hold():
        with lazynb.lazy():
            await asyncio.sleep(60)

    async def main():
        task = asyncio.create_task(hold())
        await asyncio.sleep(0)
        assert records()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert_own()

    asyncio.run(main())


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_a_body_left_in_another_thread_restores_the_mode():
    one = body(lazynb.lazy())
    next(one)
    y = jnp.ones(2) + 1
    in_another_thread(one.close)
    assert patches.on is False
    assert not records() and not isinstance(
        y + 1, lazynb.LazyTensor
    )  # the current trace is this thread's alone to change
    assert float(jax.jit(lambda x: jnp.sin(x) * 0)(1.0)) == 0
    with lazynb.eager():
        pass
    assert_own()


def test_a_body_entered_in_a_finished_thread_leaves_no_mode():
    one = body(lazynb.lazy())
    in_another_thread(lambda: next(one))  # the thread is gone
    assert patches.on is False
    one.close()


def test_an_eager_body_left_in_another_thread_restores_recording():
    with lazynb.lazy():
        one = body(lazynb.eager())
        next(one)
        in_another_thread(one.close)
        with lazynb.eager():
            pass
        assert records()


def test_each_thread_has_its_own_mode():
    with lazy_thread(records) as ended:
        assert patches.on and not records()
        with lazynb.lazy():
            assert records() and not in_another_thread(records)
        assert patches.on
        assert ended()
    assert patches.on is False


def test_threads_entering_and_leaving_concurrently_keep_their_modes():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(seed):
        choose, wrong = np.random.default_rng(seed), 0
        for _ in range(60):
            with lazynb.lazy():
                wrong += type(core.trace_ctx.trace).__name__ != "LazyTrace" or not patches.on
                if choose.random() < 0.3:
                    with lazynb.eager():
                        wrong += core.trace_ctx.trace is not core.eval_trace
            wrong += core.trace_ctx.trace is not core.eval_trace
        return wrong

    try:
        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(work, range(6))) == 0
        assert_own()
    finally:
        sys.setswitchinterval(before)


def test_a_thread_that_ends_inside_a_body_leaves_no_mode():
    held = []

    def work():
        held.append(lazynb.lazy())
        held[0].__enter__()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert patches.on is False
    held[0].__exit__(None, None, None)


def test_a_deleted_manager_or_generator_restores_the_mode():
    one = lazynb.lazy()
    one.__enter__()
    assert records()
    del one
    assert_own()
    holder = [body(lazynb.lazy())]
    next(holder[0])
    holder.append(holder)
    del holder
    gc.collect()
    assert_own()


def test_bodies_closed_after_end_all_change_nothing():
    bodies = [body(lazynb.lazy(strict=True)), body(lazynb.eager()), body(lazynb.lazy())]
    for one in bodies:
        next(one)
    blocks.end_all()
    assert_own()
    for one in bodies:
        one.close()
        assert_own()


def test_end_all_ends_bodies_of_other_threads():
    inside, leave = threading.Event(), threading.Event()

    def work():
        with lazynb.lazy():
            y = jnp.ones(2) + 1
            inside.set()
            leave.wait(10)
            return records(), type(y + 1), float(y[0])

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        inside.wait(10)
        blocks.end_all()
        assert_own()
        leave.set()
        recorded, kind, value = future.result()
    assert not recorded and kind is not lazynb.LazyTensor and value == 2


def test_a_manager_can_be_entered_again():
    region = lazynb.lazy()
    with region:
        with region:
            assert records()
        assert records()
    with region:
        assert records()
    with pytest.raises(ZeroDivisionError), region:
        raise ZeroDivisionError


def test_a_body_closed_while_tracing_leaves_the_transformation_correct():
    one = body(lazynb.lazy())
    next(one)

    @jax.jit
    def f(x):
        one.close()
        return jnp.sin(x) * 2

    np.testing.assert_allclose(f(1.0), np.sin(1.0) * 2, rtol=1e-6)
    assert not records()
    with lazynb.lazy():
        assert records()


def test_callbacks_run_eagerly():
    seen = []

    @lazynb.lazy()
    def inner():
        return records()

    def host(x):
        seen.extend([records(), inner(), records()])
        return np.asarray(x)

    with lazynb.lazy():
        y = jax.pure_callback(host, jax.ShapeDtypeStruct((2,), np.float32), jnp.ones(2)) + 1
        np.testing.assert_array_equal(np.asarray(y), 2)
        assert records()
    assert seen[0] == seen[2]


def test_decorated_functions_and_generators_run_in_their_mode():
    assert lazynb.lazy()(records)() and not records()
    with lazynb.lazy():
        assert not lazynb.eager()(records)()

    @lazynb.lazy()
    def numbers(first):
        """Numbers."""
        got = yield records(), first
        try:
            yield records(), got
        except KeyError:
            yield records(), "caught"
        return "end"

    assert inspect.isgeneratorfunction(numbers) and numbers.__doc__ == "Numbers."
    steps = numbers(1)
    assert next(steps) == (True, 1) and not records()
    assert steps.send(2) == (True, 2) and not records()
    assert steps.throw(KeyError()) == (True, "caught") and not records()
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == "end"


def test_decorated_coroutines_run_in_their_mode():
    async def other(log):
        for _ in range(3):
            log.append(records())
            await asyncio.sleep(0)

    @lazynb.lazy()
    async def work(log):
        for _ in range(3):
            log.append(records())
            await asyncio.sleep(0)
        return "done"

    @lazynb.lazy()
    async def items(log):
        try:
            for number in range(3):
                await asyncio.sleep(0)
                log.append(records())
                yield number
        finally:
            log.append(records())

    async def main():
        lazily, eagerly, ours, seen = [], [], [], []
        assert (await asyncio.gather(work(lazily), other(eagerly)))[0] == "done"
        async for number in items(ours):
            seen.append((number, records()))
        assert lazily == [True] * 3 and eagerly == [False] * 3
        assert ours == [True] * 4 and seen == [(0, False), (1, False), (2, False)]
        early = items(ours)
        await anext(early)
        await early.aclose()
        assert ours == [True] * 6

    assert inspect.iscoroutinefunction(work) and inspect.isasyncgen(items([]))
    asyncio.run(main())


def test_device_get_gives_values_within_lazy_mode_and_after_it():
    with lazynb.lazy():
        x, y, key = jnp.ones(2) + 1, jnp.ones(2) + 2, jax.random.split(jax.random.key(0))
        got = jax.device_get({"a": x, "b": [3, np.ones(2)]})
        assert type(got["a"]) is np.ndarray
        assert type(jax.device_get(key)) is type(jax.device_get(jax.random.key(0)))
        with pytest.raises(ValueError):
            jax.device_get((x, Failing()))
    got = jax.device_get((1, y, jnp.ones(2)))
    assert [type(one) for one in got] == [int, np.ndarray, np.ndarray]


class Failing:
    def __array__(self, *args, **kwargs):
        raise ValueError

    def copy_to_host_async(self):
        raise ValueError


@pytest.mark.parametrize("name", ["sin", "where", "linalg.norm", "asarray"])
def test_functions_held_from_lazy_mode_can_be_pickled(name):
    def find():
        found = jnp
        for part in name.split("."):
            found = getattr(found, part)
        return found

    plain = find()
    with lazynb.lazy():
        held = find()
        assert held is not plain
        inside = pickle.dumps(held)
        assert pickle.loads(inside) is held
    for dumped in (inside, pickle.dumps(held), *[pickle.dumps(held, protocol) for protocol in range(2, 6)]):
        assert pickle.loads(dumped) is plain
    assert held.__name__ == plain.__name__ and inspect.signature(held) == inspect.signature(plain)
    assert copy.copy(held) is held and copy.deepcopy({"f": held})["f"] is held and repr(held) == repr(plain)


def test_held_functions_bind_as_methods():
    with lazynb.lazy():

        class Holder:
            where = jnp.where

        assert Holder.where is jnp.where
        assert Holder().where.__func__ is jnp.where


LEFT_OPEN = {
    "manager": "held = lazynb.lazy(); held.__enter__()",
    "generator": "def body():\n    with lazynb.lazy(strict=True):\n        yield\nheld = body(); next(held)",
    "stack": "import contextlib; held = contextlib.ExitStack(); held.enter_context(lazynb.lazy()); "
    "held.enter_context(lazynb.eager())",
    "thread": "import threading\nheld = lazynb.lazy()\nt = threading.Thread(target=held.__enter__); t.start(); t.join()",
    "daemon": "import threading, time\ndef work():\n    with lazynb.lazy():\n        time.sleep(60)\n"
    "threading.Thread(target=work, daemon=True).start(); time.sleep(.1)",
    "cycle": "held = [lazynb.lazy()]; held[0].__enter__(); held.append(held)",
    "task": "import asyncio\nasync def work():\n    with lazynb.lazy():\n        await asyncio.sleep(60)\n"
    "loop = asyncio.new_event_loop(); held = loop.create_task(work()); "
    "loop.run_until_complete(asyncio.sleep(0))\n"
    "held._log_destroy_pending = False",
}


@pytest.mark.parametrize("how", LEFT_OPEN)
def test_a_process_with_an_open_body_exits_cleanly(how):
    program = f"import jax.numpy as jnp, lazynb\n{LEFT_OPEN[how]}\ny = jnp.ones(3) + 1\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_current_trace_is_replaced():
    """On 0.12 there is no current trace while an operation is bound; an interrupt there may leave it so."""
    core.trace_ctx.set_trace(None)
    with lazynb.lazy():
        assert records()
    assert not records() and not changed()


def test_functions_that_need_the_top_level_work_in_a_body():
    """It insists on that no transformation goes on; a block is none."""
    stateful_rng = jax.experimental.random.stateful_rng
    with lazynb.lazy():
        rng = stateful_rng()
        assert rng.normal().shape == ()
        for transform in (jax.jit, jax.grad, jax.vmap):
            with pytest.raises(TypeError, match="requires an explicit seed"):
                transform(lambda x: stateful_rng().normal() + x)(
                    jnp.ones(()) if transform is not jax.vmap else jnp.ones(2)
                )
