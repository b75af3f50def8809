"""A real kernel with a cluster of two processes: started, given cells, interrupted, ended, killed."""

from __future__ import annotations

import queue
import threading
import time

import pytest

pytest.importorskip("ipyparallel")
psutil = pytest.importorskip("psutil")

from jupyter_client.manager import start_new_kernel  # noqa: E402

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("cluster-kernel")]

WIDGET = "application/vnd.jupyter.widget-view+json"

SPREAD = """
import os, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
def spread(array, spec):
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda index: array[index])
x = spread(np.arange(8.0, dtype=np.float32), P("data"))
rank = jax.process_index()
"""


class Kernel:
    """A kernel, and a client that speaks as JupyterLab does."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(
            extra_arguments=["--IPKernelApp.log_level=ERROR", "--HistoryManager.enabled=False"]
        )
        self.process = psutil.Process(self.manager.provisioner.process.pid)

    def send(self, code):
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        metadata = {"cellId": code[:40], "trusted": True}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def outputs(self, asked, until=lambda output: False, seconds=120):
        """``(kind, text or data)`` of what a cell shows, up to its end or to an output."""
        found, end = [], time.monotonic() + seconds
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"the cell does not end; so far {found}") from None
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != asked:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return found
            if kind == "stream":
                found.append((content["name"], content["text"]))
            elif kind in ("display_data", "update_display_data", "execute_result"):
                found.append((kind, content["data"]))
            elif kind == "error":
                found.append((kind, "\n".join([content["ename"], *content["traceback"]])))
            if found and until(found[-1]):
                return found

    def run(self, code):
        return self.outputs(self.send(code))

    def started(self):
        """The processes that it has started so far, and theirs."""
        return self.process.children(recursive=True)


def are_gone(processes, seconds=20):
    """Whether they end in this time. A kernel may not have looked at a child that has ended."""

    def lives(process):
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    end = time.monotonic() + seconds
    while left := [process for process in processes if lives(process)]:
        if time.monotonic() > end:
            return left
        time.sleep(0.1)
    return True


@pytest.fixture(scope="module")
def bare():
    kernel = Kernel()
    kernel.run("%load_ext lazynb")
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel(bare):
    said = bare.run("%lazy cluster 2")
    texts = [data["text/plain"] for kind, data in said if kind == "update_display_data"]
    assert "starting the controller" in texts[0]
    assert any("2 of 2 processes are there" in text for text in texts)
    assert texts[-1].startswith("Cells run on 2 processes (pid ") and "2 devices in all" in texts[-1]
    assert bare.run(SPREAD) == []
    yield bare


def text_of(outputs, *kinds):
    return "\n".join(
        data if isinstance(data, str) else data["text/plain"] for kind, data in outputs if kind in kinds
    )


def test_cells_are_lazy_on_both_ranks_and_shown_once(kernel):
    pending = kernel.run("y = (x * 2).sum()\ny")
    assert text_of(pending, "execute_result").startswith("y: float32[]")
    assert kernel.run("print(float(y))") == [("stdout", "56.0\n")]


def test_differing_outputs_are_labelled_by_rank(kernel):
    said = kernel.run("print('rank', rank)\nrank")
    assert text_of(said, "stdout") == "rank 0\n" and text_of(said, "execute_result") == "0"
    assert text_of(said, "display_data") == (
        "rank 1 printed, unlike rank 0 above:\n  rank 1\nrank 1 showed, unlike rank 0 above:\n  1"
    )
    assert kernel.run("if rank == 0: print('alone')") == [("stdout", "alone\n")]


def test_cells_with_await_run_and_can_be_interrupted(kernel):
    said = kernel.run("import asyncio\nawait asyncio.sleep(0.1)\nprint('slept')\n3")
    assert text_of(said, "stdout") == "slept\n" and text_of(said, "execute_result") == "3"
    threading.Timer(1.0, kernel.manager.interrupt_kernel).start()
    assert "RanksInterrupted" in text_of(kernel.run("await asyncio.sleep(60)"), "error")


def test_outputs_come_while_the_cell_runs(kernel):
    asked = kernel.send("print('first', flush=True); time.sleep(2)")
    begun = time.monotonic()
    kernel.outputs(asked, until=lambda output: output == ("stdout", "first\n"))
    assert time.monotonic() - begun < 1.8
    kernel.outputs(asked)


def test_the_inspector_is_rank_0s_and_a_widget(kernel):
    said = kernel.run("%%compile\nz = jnp.tanh(x).sum()\nz")
    (inspector,) = [data for kind, data in said if kind == "display_data" and WIDGET in data]
    assert WIDGET in inspector
    static = text_of(said, "display_data")
    assert "all-reduce" in static and "cell " in static and "rank 1" not in static


def test_breaks_are_one_table_with_hosts(kernel):
    kernel.run("own = jnp.arange(3.0) * 2\nif rank == 1: float(own[1])")
    kernel.run("total = (x + 1).sum()\nfloat(total)")
    table = text_of(kernel.run("%breaks"), "execute_result")
    assert table.splitlines()[0].startswith("hosts")
    (alone,) = [line for line in table.splitlines() if "float(own[1])" in line]
    (both,) = [line for line in table.splitlines() if ": float(total)" in line]
    assert alone.startswith("only 1") and both.startswith("all 2")
    assert table.index(alone) < table.index(both)


def test_an_error_is_shown_once_with_its_ranks(kernel):
    both = text_of(kernel.run("1 / 0"), "error")
    assert both.startswith("RanksError\nOn all 2 ranks:") and both.count("division by zero") == 1
    one = text_of(kernel.run("if rank == 1: {}['a']"), "error")
    assert "On rank 1 of 2:" in one and "KeyError" in one and "RanksError" in one
    assert kernel.run("rank * 0")[0][0] == "execute_result"


def test_an_idle_host_is_reported_within_the_timeout(kernel):
    kernel.run("import lazynb; lazynb.config.hosts_timeout = 2")
    begun = time.monotonic()
    said = text_of(kernel.run("if rank == 0: float((x + 2).sum())\n"), "error")
    assert "HostMissingError" in said and "On rank 0 of 2:" in said
    assert time.monotonic() - begun < 12  # a host at work may take 20 times its time-out
    kernel.run("lazynb.config.hosts_timeout = 7; float((x + 2).sum())")


def test_an_interrupt_reaches_all(kernel):
    threading.Timer(1.0, kernel.manager.interrupt_kernel).start()
    said = text_of(kernel.run("w = (x * 3).sum()\nif rank == 0: time.sleep(60)\nfloat(w)"), "error")
    assert said.startswith("RanksInterrupted\nOn all 2 ranks:")
    assert text_of(kernel.run("float(w)"), "execute_result") == "84.0"


def test_ipyparallels_magics_run_on_the_same_processes(kernel):
    said = text_of(kernel.run("%%px\nprint('by px', float((x * 2).sum()))"), "display_data")
    assert "[stdout:0] by px 56.0" in said and "[stdout:1] by px 56.0" in said


def test_a_process_that_ends_is_told_and_off_leaves_none(kernel):
    started = kernel.started()
    assert len(started) > 4
    said = text_of(kernel.run("if rank == 1: os._exit(3)"), "error")
    assert "On rank 1 of 2:" in said and "the process has ended" in said
    assert "rank 1 has ended" in text_of(kernel.run("1"), "error")
    assert "No cluster" in text_of(kernel.run("%lazy cluster off"), "stdout")
    assert are_gone(started, 5) is True
    assert text_of(kernel.run("1 + 1"), "execute_result") == "2"


def _begin(kernel):
    """Begins to start a cluster; the number of the cell, when processes are starting."""
    asked = kernel.send("%lazy cluster 2")
    kernel.outputs(asked, until=lambda output: "processes are there" in str(output))
    return asked


def test_starting_can_be_interrupted(bare):
    bare.run("%lazy cluster off")
    before = bare.started()
    asked = _begin(bare)
    started = [process for process in bare.started() if process not in before]
    assert len(started) > 2
    bare.manager.interrupt_kernel()
    said = bare.outputs(asked)
    assert "KeyboardInterrupt" in text_of(said, "error")
    assert "was not started" in text_of(said, "update_display_data")
    assert are_gone(started, 5) is True
    assert "No cluster" in text_of(bare.run("%lazy cluster"), "stdout")


def test_a_kernel_that_is_killed_leaves_no_process():
    kernel = Kernel()
    try:
        kernel.run("%load_ext lazynb")
        _begin(kernel)
        started = kernel.started()
        assert len(started) > 2
        kernel.process.kill()
        assert are_gone(started) is True
    finally:
        kernel.client.stop_channels()
        kernel.manager.shutdown_kernel(now=True)
