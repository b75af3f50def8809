"""The worker process: warm between questions; neither its end nor an interrupt takes anything."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb import jax_compat as jc
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.dump_reader import DumpReader
from lazynb.xla.targets.compiler_packages import compiler_of
from lazynb.xla.targets.compiler_process import (
    CompileFailure,
    CompilerCrashed,
    CompilerProcess,
    CostResult,
    compiler_process,
    last_error,
)
from lazynb.xla.targets.target_chip import UnknownTarget, parse_target
from lazynb.xla.targets.target_compilation import TargetError, _compile_error, compile_for
from lazynb.xla.targets.target_mesh import BadMesh


@pytest.fixture
def pending(needs):
    needs("v5e")
    with lazynb.lazy():
        x = jnp.ones((64, 64))
        lazynb.sync()
        yield jax.nn.softmax(x @ x, -1)


def test_the_worker_process_is_reused(pending):
    lazynb.compile(pending, target="v5e")
    process = compiler_process("tpu")._process
    lazynb.compile(pending, target="v6e")
    assert compiler_process("tpu")._process is process


def test_two_processes_can_each_have_a_worker(needs, monkeypatch):
    """libtpu lets one process at a time in, unless it is told that no device is touched."""
    needs("v5e")

    def compiled(length):  # of a program that is not on disk
        return lazynb.compile(
            lambda x: x + 1, jax.ShapeDtypeStruct((time.time_ns() % 9999, length), float), target="v5e"
        )

    assert compiled(2).clusters
    process = compiler_process("tpu")._process
    monkeypatch.setattr("lazynb.xla.targets.compiler_process._workers", others := {})
    try:
        assert compiled(3).clusters
    finally:
        others["tpu"].close()
    assert process.poll() is None


def test_a_killed_worker_is_reported_and_replaced(pending, monkeypatch):
    lazynb.compile(pending, target="v5e")
    worker = compiler_process("tpu")
    check = worker._check

    def ends():  # it has been asked
        monkeypatch.undo()
        worker._process.kill()
        check()

    monkeypatch.setattr(worker, "_check", ends)
    worker._process.send_signal(signal.SIGSTOP)  # it cannot answer before it ends
    with pytest.raises(CompilerCrashed, match="The compiler for TPUs ended"):
        lazynb.compile(pending, target="v5e")
    assert lazynb.compile(pending, target="v5e").clusters
    assert pending.shape == (64, 64) and len(lazynb.graph(pending)) > 0


def test_an_interrupt_ends_the_compilation(pending):
    lazynb.compile(pending, target="v5e")
    compiler_process("tpu")._process.send_signal(signal.SIGSTOP)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        lazynb.compile(pending, target="v5e")
    assert time.perf_counter() - start < 5
    assert lazynb.compile(pending, target="v5e").clusters
    assert float(pending.sum()) == pytest.approx(64)


def test_compiling_for_a_tpu_keeps_the_devices_of_this_process(pending):
    lazynb.compile(pending, target="v5e")
    assert jax.default_backend() == "cpu"
    assert not any("tpu-jaxlib" in name for name in os.environ.get("PYTHONPATH", "").split(os.pathsep))


def test_an_invalid_slice_is_refused(pending):
    with pytest.raises(UnknownTarget, match="v5e:3x7 is no slice"):
        lazynb.compile(pending, target="v5e:3x7")


def test_a_faulty_chip_description_raises_a_target_error(needs):
    """Only a slice that there is not is none: other troubles have their own words."""
    target = parse_target(needs("h100"))
    odd = dataclasses.replace(target.chip, device={**target.chip.device, "nonsense": 3})
    program = jax.jit(lambda x: x + 1).trace(jax.ShapeDtypeStruct((4,), jnp.float32))
    lowering = jc.lowering_of(program.lower(lowering_platforms=("cuda",)))
    with pytest.raises(TargetError, match="rejected the description of the chip.*target_config") as caught:
        compile_for(dataclasses.replace(target, chip=odd), lowering)
    assert not isinstance(caught.value, UnknownTarget) and "slice" not in str(caught.value)


class Ending(CompilerProcess):
    """A worker that ends at one text."""

    def __init__(self, bad):
        super().__init__(compiler_of("tpu"))
        self.bad, self.asked = bad, 0

    def _request(self, question):
        self.asked += 1
        if self.bad in question.texts:
            raise CompilerCrashed("ended")
        return CostResult(tuple({"flops": float(text)} for text in question.texts))


def test_a_program_that_ends_the_process_has_no_costs_and_the_others_have():
    worker = Ending("5")
    figures = worker.costs([str(number) for number in range(8)])
    assert figures[5] == "its analysis crashed the compiler process"
    assert [figures[number]["flops"] for number in range(8) if number != 5] == [0, 1, 2, 3, 4, 6, 7]
    assert worker.asked == 7
    assert worker.costs([]) == []


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_costs_are_requested_lazily_and_once(name, needs, monkeypatch):
    worker, asked = compiler_process("tpu" if name == "v5e" else "cuda"), []
    costs = worker.costs
    monkeypatch.setattr(worker, "costs", lambda texts: asked.append(len(texts)) or costs(texts))
    with lazynb.lazy(), record_dumps(DumpReader):
        x = jnp.ones((256, 128)) + 1
        compilation = lazynb.compile(jnp.exp(x @ x.T).sum(0), target=needs(name))
    assert compilation.clusters and not asked
    monkeypatch.setattr(jc.xla_executables, "cost_properties", None)  # nothing of this is worked out here
    [trace] = compilation.traces
    assert sum(cost.flops or 0 for cost in trace.costs.values()) >= 2 * 256 * 256 * 128 or name == "h100"
    assert len(asked) == 1
    compilation.total_cost
    assert len(asked) == 1


@pytest.mark.parametrize(
    "written, words",
    [
        ("", ""),
        ("E1123 20:39:57.8 15185 hook.cc:467] Dumping core\n@ 0x7f0 (unknown)", ""),
        (
            "F1123 20:39:57.6 15185 target.cc:17] Check failed: 1000 vs. 16\n@ 0x7f0",
            "Check failed: 1000 vs. 16",
        ),
        ("Traceback\n  File x\nModuleNotFoundError: No module named 'jax'", "ModuleNotFoundError: No module"),
    ],
)
def test_only_error_lines_of_the_worker_are_reported(written, words):
    assert last_error(written).startswith(words) and bool(last_error(written)) == bool(words)


def test_a_program_that_jax_cannot_lower_is_refused_with_its_line(pending):
    def called_back(x):
        return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((64, 64), jnp.float32), x) + 1

    with pytest.raises(TargetError, match="JAX cannot lower the program for TPU v5e") as caught:
        lazynb.compile(called_back, jax.ShapeDtypeStruct((64, 64), jnp.float32), target="v5e")
    assert "It stands at\n  test_worker.py:" in str(caught.value) and "return jax.pure_callback" in str(
        caught.value
    )
    assert lazynb.compile(pending, target="v5e").clusters


def test_a_mesh_that_the_slice_cannot_hold(pending):
    with pytest.raises(BadMesh, match="data=2,model=8 cannot be laid on v5e:4x4"):
        lazynb.compile(pending, target="v5e:4x4", mesh="data=2,model=8")


def test_a_full_disk_is_not_reported_as_out_of_device_memory():
    refused = CompileFailure(
        "XlaRuntimeError", "RESOURCE_EXHAUSTED: /tmp/x; No space left on device", "compile"
    )
    assert "The disk is full" in str(_compile_error(parse_target("h100"), refused, None))
