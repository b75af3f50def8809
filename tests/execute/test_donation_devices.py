"""Donation of arrays on several devices: state is held once, and what anybody can reach is never given away."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

import lazynb
from lazynb import jax_compat as jc

FREE = ["nothing", "nothing replicated", "nothing inside", "nothing bfloat16", "data parallel", "FSDP"]
"""Programs in which nobody holds the memory, so that it must be given away."""
HELD = ["a shard's data", "a shard", "all shards, again", "whole_of_mine"]


@pytest.fixture(scope="module")
def results(request):
    """What each program gave, by name, in a process with 8 devices. Without the test of all programs only those
    that the others ask for are run."""
    asks_for_all = any(
        item.function is test_no_donation_corrupts_a_reachable_sharded_array for item in request.session.items
    )
    here = Path(__file__).parent
    paths = os.pathsep.join([str(Path(lazynb.__file__).parents[1]), str(here)])
    done = subprocess.run(
        [sys.executable, here / "donation_attacks.py", *([] if asks_for_all else FREE + HELD)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("name"): line for line in lines}


@pytest.mark.xdist_group("donation_devices")
def test_no_donation_corrupts_a_reachable_sharded_array(results):
    wrong = {name: result for name, result in results.items() if result.get("difference", 1) > 1e-6}
    assert not wrong and len(results) > 50


@pytest.mark.xdist_group("donation_devices")
@pytest.mark.parametrize("name", FREE)
def test_unreachable_sharded_arrays_are_donated(results, name):
    assert results[name]["taken"]


@pytest.mark.xdist_group("donation_devices")
def test_a_reachable_shard_prevents_donation(results):
    for name in HELD:
        assert not results[name]["taken"]


@pytest.mark.parametrize("spans", [False, True])
def test_an_array_that_spans_processes_is_not_donated(monkeypatch, spans):
    """Another process may hold it there, and all must run one program."""
    with lazynb.lazy():
        x = jnp.zeros((512, 1024)) * 1.0
        lazynb.sync()
        before = x._value.unsafe_buffer_pointer()
        with monkeypatch.context() as patch:
            if spans:
                patch.setattr(jc.ArrayImpl, "is_fully_addressable", property(lambda array: False))
            y = x + 1
            del x
            lazynb.sync()
        assert (y._value.unsafe_buffer_pointer() == before) is not spans
