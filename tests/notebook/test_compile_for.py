"""``%%compile --for``: what is wrong with it is said in a line, and what is pending stays so."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from lazynb.targets.compilers import compiler_of

CELL = "\nz = jnp.sin(y) + 1\nz"


@pytest.fixture
def pending(notebook):
    notebook.run("import jax, jax.numpy as jnp\nfrom jax.sharding import PartitionSpec as P")
    notebook.run("x = jnp.ones((64, 64))\ny = jnp.tanh(x) @ x")
    return notebook


@pytest.mark.parametrize(
    "options, words",
    [
        ("--for ,", "',' names no chip"),
        ("--for h9000", "no chip 'h9000'"),
        ("--for v5e h100", "--for v5e,h100"),
        ("--for v5e, h100", "--for v5e,h100"),
        ("--for v5e, h100:8", "--for v5e,h100:8"),
        ("--for v5e:2x2 --mesh data=3", "The mesh data=3 has 3 devices"),
        ("--for v5e:2x2 --mesh data=4 --shard y=model", "the mesh has data"),
        ("--for v5e:2x2 --mesh data=4 --shard nothing", "'nothing' is no sharding"),
        ("--mesh data=4", "add --for"),
    ],
)
def test_what_is_wrong_is_said_before_the_cell_runs(pending, options, words):
    assert words in str(pending.run(f"%%compile {options}" + CELL, error=UsageError).error)
    assert pending.run("'z' in globals()").result is False
    assert float(pending.run("float(y[0, 0])").result) > 48


def test_a_missing_compiler(pending, monkeypatch, tmp_path):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path))
    said = str(pending.run("%%compile --for v5e" + CELL, error=UsageError).error)
    assert "lazynb targets install tpu" in said
    assert float(pending.run("float(z[0, 0])").result) < 2.1


def test_a_tree_that_a_variable_holds(pending):
    if not compiler_of("tpu").is_installed:
        pytest.skip("lazynb targets install tpu: not done here")
    pending.run("import lazynb\nlazynb.sync()\nrules = lazynb.shard_like([x, y], P('data'))")
    pending.run("%%compile made --no-run --for v5e:2x2 --mesh data=4 --shard rules\ny @ y.T")
    assert pending.run("made.target.title").result == "4 TPU v5e (2x2)"
    assert pending.run("any('all-' in one.opcode for one in made.clusters)").result
    said = pending.run("%%compile --for v5e:2x2 --mesh data=4 --shard q=data\ny + 1", error=UsageError).error
    assert "reads no 'q' that could be sharded: its inputs are y" in str(said)
