"""What is said of a kernel's code: beside a reading of the compiler's files that shares no code with it."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.notebook.frontend_requests import RequestHandler
from lazynb.report.inspection.inspection_data import inspection
from targets.programs import PROGRAMS


def compiled(target):
    with lazynb.lazy():
        x = jnp.ones((256, 512), jnp.bfloat16)
        y = jax.nn.softmax(jnp.tanh(x) @ jnp.exp(x).T)
        return lazynb.compile(y, target=target)


@pytest.mark.parametrize("name", ["matmul_fp8", "convolution", "scan"])
def test_each_kernel_that_xla_makes_has_its_ptx(name, needs):
    """A library's call and a copy have none, and the note says what they run as."""
    with lazynb.lazy():
        compilation = lazynb.compile(PROGRAMS[name](), target=needs("a100"))
    [trace] = compilation.traces
    kinds = dict(re.findall(r'annotation: "([^"]*)"[^}]*\}\s*thunk_kind: "k(\w+)"', metadata_of(trace)))
    launched = 0
    for cluster in filter(lambda cluster: cluster.is_kernel, compilation.clusters):
        code = trace.code(cluster)
        if kinds[cluster.name] in ("CustomKernel", "Kernel"):
            assert ".entry" in code.assembly and "define" in code.llvm
            launched += 1
        else:
            assert not code.assembly and f"it runs as {kinds[cluster.name]}" in code.note
    assert launched


def metadata_of(trace):
    [path] = trace.dump.files("*.thunk_metadata.txt")
    return path.read_text()


@pytest.mark.parametrize("target", ["h100", "a100"])
def test_each_gpu_kernel_has_its_ptx_and_launch_dimensions(target, needs):
    compilation = compiled(needs(target))
    [trace] = compilation.traces
    texts = [path.read_text() for path in trace.dump.files("*.ptx")]
    entries = {name for text in texts for name in re.findall(r"\.entry (\w+)\(", text)}
    seen = set()
    for cluster in compilation.clusters:
        code = trace.code(cluster)
        facts = dict(code.facts)
        assert code.language == "PTX" and f".entry {facts['kernel']}(" in code.assembly
        assert f"@{facts['kernel']}(" in code.llvm
        threads = [int(size) for size in facts["threads of a block"].split(" × ")]
        required = re.search(r"\.reqntid (\d+), (\d+), (\d+)", code.assembly)
        assert required is None or [int(size) for size in required.groups()] == threads
        seen.add(facts["kernel"])
    assert seen == entries


def test_a_tpu_product_has_its_plan(needs):
    compilation = compiled(needs("v5e"))
    [trace] = compilation.traces
    products = [one for one in compilation.clusters if one.kind == "output"]
    assert products
    for cluster in products:
        code = trace.code(cluster)
        line = next(line for line in trace.text.splitlines() if f"%{cluster.name} = " in line)
        cycles = re.search(r'"estimated_cycles":"(\d+)"', line)[1]
        assert dict(code.facts)["estimated cycles"].replace(",", "") == cycles
        assert {"window of the result", "scoped VMEM", "emitter"} <= dict(code.facts).keys()
        assert not code.assembly and "no code of the machine" in code.note
        assert "backend_config" not in code.hlo and f"%{cluster.name} = " in code.hlo


def test_a_cpu_kernel_without_code_has_a_note():
    compilation = compiled(None)
    [trace] = compilation.traces
    code = trace.code(compilation.clusters[0])
    assert "ROOT" in code.hlo or "fusion" not in code.hlo
    assert code.llvm or "only HLO" in code.note


def test_code_is_loaded_on_request_live_and_stored_in_static_forms(needs):
    compilation = compiled(needs("h100"))
    data = inspection(compilation, live=True)
    assert all(one["code"] is None for one in data["clusters"])
    answer = RequestHandler(compilation, data).answer({"type": "code", "cluster": 0, "id": 7})
    assert answer["id"] == 7 and ".entry" in answer["code"]["assembly"]
    kept = inspection(compilation)
    assert kept["clusters"][0]["code"] == answer["code"]
    assert "shared memory of a block" in compilation._repr_mimebundle_()["text/html"]
    wrong = RequestHandler(compilation, data).answer({"type": "code", "cluster": 99, "id": 8})
    assert wrong["type"] == "error"
