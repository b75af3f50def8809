"""Nothing of a cell's outlasts it: tasks, interrupts and magics at any time leave JAX as it was."""

from __future__ import annotations

import asyncio
import os
import textwrap
import threading
import time

import jax
import pytest
from interrupts import interrupted
from IPython.utils.capture import capture_output
from jax._src import core
from record.ownership import assert_own, changed

import lazynb
from lazynb.notebook import extension
from lazynb.recording.lazy_blocks import blocks, patches


@pytest.fixture(autouse=True)
def own():
    assert_own()
    yield
    blocks.end_all()


def lazily(notebook):
    notebook.run("z = jnp.ones(3) + 1")
    return isinstance(notebook["z"], lazynb.LazyTensor)


HOLD = """
import asyncio, lazynb
async def hold(region, seconds=.02):
    with region:
        await asyncio.sleep(seconds)
        return jnp.ones(2) + 1
"""


@pytest.mark.parametrize("region", ["eager", "lazy"])
def test_a_task_goes_on_after_its_cell(notebook, region):
    notebook.run(HOLD)
    notebook.run(f"task = asyncio.create_task(hold(lazynb.{region}()))\nawait asyncio.sleep(0)")
    assert core.trace_ctx.trace is core.eval_trace or region == "lazy"
    assert lazily(notebook)
    notebook.run("await task")
    assert_own()
    assert lazily(notebook)
    assert_own()


def test_a_task_that_ends_between_cells_leaves_jax_as_it_was(notebook):
    notebook.run(HOLD)
    notebook.run("task = asyncio.create_task(hold(lazynb.eager(), .01))\nawait asyncio.sleep(0)")
    notebook["task"].get_loop().run_until_complete(asyncio.sleep(0.05))
    assert notebook["task"].done()
    assert_own()
    assert lazily(notebook)


@pytest.mark.parametrize("region", ["eager", "lazy", "lazy(strict=True)"])
def test_unloading_while_a_task_waits_leaves_jax_as_it_was(notebook, region):
    plain = notebook["jnp"].sin
    notebook.run(HOLD)
    region += "()" * (not region.endswith(")"))
    notebook.run(f"task = asyncio.create_task(hold(lazynb.{region}))\nawait asyncio.sleep(0)")
    notebook.run("%unload_ext lazynb")
    assert_own()
    assert notebook["jnp"].sin is plain
    notebook.run("y = await task")
    assert_own()
    assert not lazily(notebook) and not isinstance(notebook["y"], lazynb.LazyTensor)
    notebook.run("%load_ext lazynb")
    assert lazily(notebook)


def test_unloading_inside_nested_bodies_leaves_jax_as_it_was(notebook):
    notebook.run("""
        import lazynb
        with lazynb.lazy(strict=True), lazynb.eager(), lazynb.lazy():
            get_ipython().run_line_magic("unload_ext", "lazynb")
            after = jnp.ones(3) + 1
    """)
    assert_own()
    assert not isinstance(notebook["after"], lazynb.LazyTensor)


def test_tasks_over_many_cells_leave_each_cell_lazy(notebook):
    notebook.run(HOLD)
    for cell in range(6):
        notebook.run(f"""
            tasks = globals().get("tasks", []) + [
                asyncio.create_task(hold(lazynb.eager() if n % 2 else lazynb.lazy(strict=n == 2), .001 * (n + 1) * {cell + 1}))
                for n in range(5)]
            await asyncio.sleep(.004)
        """)
        assert lazily(notebook)
    notebook.run("results = await asyncio.gather(*tasks)\ntotal = sum(float(one.sum()) for one in results)")
    assert notebook["total"] == 4 * 30
    assert_own()


def test_a_generator_that_spans_cells_leaves_jax_as_it_was(notebook):
    notebook.run("""
        import lazynb
        def numbers():
            with lazynb.eager():
                while True:
                    yield jnp.ones(2) + 1
        g = numbers(); next(g)
    """)
    assert_own()
    assert lazily(notebook)
    notebook.run("next(g)\ng.close()")
    assert_own()
    assert lazily(notebook)


def test_a_manager_entered_and_not_left_ends_with_its_cell(notebook):
    notebook.run("import lazynb\nheld = lazynb.eager(); held.__enter__()")
    assert_own()
    assert lazily(notebook)
    notebook.run("%lazy off\nheld = lazynb.lazy(strict=True); held.__enter__()")
    assert_own()
    assert not lazily(notebook)


def test_a_cell_run_inside_a_cell_is_lazy(notebook):
    notebook.run("""
        get_ipython().run_cell("inner = jnp.ones(2) + 1")
        outer = jnp.ones(2) + 1
        get_ipython().run_cell("%lazy off")
        off = jnp.ones(2) + 1
    """)
    assert isinstance(notebook["inner"], lazynb.LazyTensor) and isinstance(
        notebook["outer"], lazynb.LazyTensor
    )
    assert_own()
    assert not lazily(notebook)


def test_a_cell_inside_a_lazy_body_restores_the_body(notebook):
    with lazynb.lazy():
        assert lazily(notebook)
        notebook.run("%lazy off")
        assert not lazily(notebook)
        assert isinstance(jax.numpy.ones(2) + 1, lazynb.LazyTensor)
    assert_own()


@pytest.mark.parametrize("event", ["pre_run_cell", "post_run_cell", "pre_execute", "post_execute"])
def test_a_cell_whose_hooks_were_not_called_leaves_no_state(notebook, event):
    """An interrupt comes between IPython and the hook."""
    callbacks = notebook.shell.events.callbacks[event]
    kept, callbacks[:] = callbacks[:], []
    notebook.run("y = jnp.ones(3) + 1")
    callbacks[:] = kept
    assert lazily(notebook)
    assert_own()
    loaded = extension._loaded[id(notebook.shell)]
    assert not loaded._cells


@pytest.mark.parametrize("where", ["begin", "end", "close_finished"])
def test_an_interrupt_in_a_hook_leaves_no_state(notebook, where, monkeypatch):
    cells = extension._loaded[id(notebook.shell)]._cells
    for method in ("enter", "leave", "_repair", "_sync_thread", "substitute"):
        done, plain = [], getattr(blocks, method)

        def interrupting(*args, plain=plain, done=done):
            plain(*args)
            if not done:
                done.append(True)
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            original = getattr(cells, where)

            def hook(*args, original=original, interrupting=interrupting, method=method):
                setattr(blocks, method, interrupting)
                try:
                    return original(*args)
                finally:
                    blocks.__dict__.pop(method, None)

            patched.setattr(cells, where, hook)
            notebook.run("y = jnp.ones(3) + 1")
        assert lazily(notebook), method
        assert not changed(), method
        assert patches.on is False and not cells


@pytest.mark.parametrize(
    "within", ["notebook/extension.py", "notebook/cell_execution.py", "recording/lazy_blocks.py"]
)
def test_a_cell_whose_beginning_or_end_is_interrupted_ends_as_others_do(notebook, within):
    """IPython runs it all the same: what it opens is closed with it."""
    notebook.run("import lazynb\ndef holder():\n    with lazynb.lazy():\n        yield\nheld = []")

    def hold():
        with capture_output():
            notebook.shell.run_cell("held.append(holder()); next(held[-1])", store_history=True)

    at = 1
    while interrupted(hold, at, within):
        assert not changed() and core.trace_ctx.trace is core.eval_trace, at
        at += {"notebook/extension.py": 3, "notebook/cell_execution.py": 11, "recording/lazy_blocks.py": 41}[
            within
        ]
    assert at > 100
    assert lazily(notebook)


def test_a_dead_current_trace_is_replaced_before_the_next_cell(notebook):
    """JAX's own managers can be cut short too: the current trace would be a dead one for ever."""
    notebook.run("""
        from jax._src import core
        from jax._src.interpreters import partial_eval
        dead = core.Trace()
        core.trace_ctx.set_trace(dead)
    """)
    assert lazily(notebook)
    assert_own()


OWN = "core.trace_ctx.trace is core.eval_trace and jnp.sin is plain"


def test_tasks_and_interrupts_leave_jax_as_it_was_in_a_real_kernel():
    """ipykernel's loop goes on between cells, and its interrupts are signals."""
    manager_module = pytest.importorskip("jupyter_client.manager")
    manager, client = manager_module.start_new_kernel(
        kernel_name="python3", env={**os.environ, "LAZYNB_PERSISTENT_CACHE": "0"}
    )
    said = []

    def run(code):
        listen = lambda message: said.append(message["content"])  # noqa: E731
        reply = client.execute_interactive(textwrap.dedent(code), timeout=60, output_hook=listen)
        return reply["content"]["status"]

    def recorded():
        return run("assert isinstance(jnp.ones(2) + 1, lazynb.LazyTensor)") == "ok"

    try:
        assert (
            run(
                "import jax.numpy as jnp, asyncio, time\nfrom jax._src import core\nplain = "
                "jnp.sin\n%load_ext lazynb"
            )
            == "ok"
        )
        assert run(HOLD) == "ok"
        assert (
            run(
                "tasks = [asyncio.create_task(hold(lazynb.eager(), .1)), "
                "asyncio.create_task(hold(lazynb.lazy(), 60))]\n"
                "await asyncio.sleep(.01)"
            )
            == "ok"
        )
        assert run("await asyncio.sleep(.3)\nassert tasks[0].done()") == "ok" and recorded()
        assert run("tasks[1].cancel()") == "ok"
        for wait in (0.05, 0.2, 0.4):
            threading.Timer(wait, manager.interrupt_kernel).start()
            assert (
                run("while True:\n    with lazynb.lazy(strict=True), lazynb.eager():\n        pass")
                == "error"
            )
            assert (
                run(
                    f"task = asyncio.get_running_loop().call_later(.05, lambda: seen.append({OWN}))\n"
                    "seen = []"
                )
                == "ok"
            ), said
            time.sleep(0.2)
            assert run("assert len(seen) == 1 and seen[0] is True, seen") == "ok", said
            assert recorded()
        assert (
            run("tasks = [asyncio.create_task(hold(lazynb.eager(), .1))]\nawait asyncio.sleep(.01)") == "ok"
        )
        assert run("%unload_ext lazynb") == "ok"
        assert run(f"assert {OWN}") == "ok"
        assert run(f"await tasks[0]\nassert {OWN}") == "ok", said
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
