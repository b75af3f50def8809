"""Code under ``torch.compile`` runs on device ``jax``: recorded, one graph, with PyTorch's values."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import lazynb


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


@pytest.mark.parametrize("options", [{"backend": "lazynb"}, {}, {"fullgraph": False, "dynamic": True}])
def test_a_compiled_model_is_recorded(options):
    torch._dynamo.reset()
    plain, x = model(), torch.rand(5, 3)
    compiled = torch.compile(model().to("jax"), **options)
    with lazynb.lazy():
        for _ in range(2):
            y = compiled(x.to("jax"))
            assert "pending" in repr(y) and not lazynb.breaks()
        y.sum().backward()
    torch.testing.assert_close(y.detach().cpu(), plain(x).detach())
    plain(x).sum().backward()
    torch.testing.assert_close(compiled.get_submodule("_orig_mod.0").weight.grad.cpu(), plain[0].weight.grad)


def test_a_compiled_function_with_loop_and_branch_is_recorded():
    @torch.compile(backend="lazynb")
    def steps(x, times):
        for at in range(times):
            x = x * 2 if at % 2 else x + 1
        return x.sum(), {"last": x}

    with lazynb.lazy():
        total, parts = steps(torch.ones(3, device="jax"), 4)
        assert "pending" in repr(total)
        assert float(total) == 30 and parts["last"].tolist() == [10, 10, 10]


def test_code_on_the_cpu_is_compiled_by_its_backend():
    torch._dynamo.reset()
    seen = []

    def backend(graph, inputs):
        seen.append(len(graph.graph.nodes))
        return graph.forward

    assert torch.compile(lambda x: x * 2 + 1, backend=backend)(torch.ones(2)).tolist() == [3, 3]
    assert seen


def test_dynamo_is_imported_when_it_is_needed():
    code = "import sys, torch; before = 'torch._dynamo' in sys.modules; import lazynb.torch; lazynb.torch.enable(); print(before, 'torch._dynamo' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert found[0] == found[1]


def test_a_model_compiled_before_the_device_was_enabled_is_recorded():
    code = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
compiled = torch.compile(model, backend="eager")
import lazynb, lazynb.torch
lazynb.torch.enable()
model.to("jax")
with lazynb.lazy():
    print("pending" in repr(compiled(torch.ones(2, 3, device="jax"))))
"""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "True", found.stderr
