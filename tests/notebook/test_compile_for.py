"""``%%compile --for``: what is wrong with it is said in a line, and what is pending stays so."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from lazynb.xla.targets.compiler_packages import compiler_of

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
def test_bad_options_are_refused_before_the_cell_runs(pending, options, words):
    assert words in str(pending.run(f"%%compile {options}" + CELL, error=UsageError).error)
    assert pending.run("'z' in globals()").result is False
    assert float(pending.run("float(y[0, 0])").result) > 48


def test_a_missing_compiler_is_named_after_the_cell_ran(pending, monkeypatch, tmp_path):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path))
    said = str(pending.run("%%compile --for v5e" + CELL, error=UsageError).error)
    assert "lazynb targets install tpu" in said
    assert float(pending.run("float(z[0, 0])").result) < 2.1


def test_a_shard_tree_in_a_variable_shards_the_inputs(pending):
    if not compiler_of("tpu").is_installed:
        pytest.skip("lazynb targets install tpu: not done here")
    pending.run("import lazynb\nlazynb.sync()\nrules = lazynb.shard_like([x, y], P('data'))")
    pending.run("%%compile made --no-run --for v5e:2x2 --mesh data=4 --shard rules\ny @ y.T")
    assert pending.run("made.target.title").result == "4 TPU v5e (2x2)"
    assert pending.run("any('all-' in one.opcode for one in made.clusters)").result
    said = pending.run("%%compile --for v5e:2x2 --mesh data=4 --shard q=data\ny + 1", error=UsageError).error
    assert "reads no 'q' that could be sharded: its inputs are y" in str(said)


def test_of_several_targets_one_that_cannot_run_it_is_said_beside_the_others(pending, monkeypatch, tmp_path):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path))
    pending.run("%%compile both --for cpu,v5e" + CELL)
    assert pending.run("len(both), both[0].target").result == (1, None)
    text = pending.run("repr(both)").result
    assert "Not compiled for TPU v5e." in text and "lazynb targets install tpu" in text
    assert pending.run("both.to_dicts()[1]['target'], sorted(both.to_dicts()[1])").result == (
        "TPU v5e",
        ["refused", "target"],
    )
    assert "<b>Not compiled for TPU v5e.</b>" in pending.run("both.to_html()").result
    assert float(pending.run("float(z[0, 0])").result) < 2.1


def test_if_no_target_is_left_nothing_is_shown(pending, monkeypatch, tmp_path):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path))
    said = str(pending.run("%%compile --for v5e,h100" + CELL, error=UsageError).error)
    assert "lazynb targets install tpu" in said
    assert float(pending.run("float(z[0, 0])").result) < 2.1


def test_an_operation_that_a_chip_has_no_rule_for_is_on_its_line(pending):
    if not compiler_of("tpu").is_installed:
        pytest.skip("lazynb targets install tpu: not done here")
    cell = "\nq = y + 1\nw = jnp.linalg.eigvals(q)\nw * 2"
    said = str(pending.run("%%compile both --for cpu,v5e" + cell).error or pending.run("repr(both)").result)
    assert "primitive 'eig'" in said and "line 3: w = jnp.linalg.eigvals(q)" in said
    assert "line 2" not in said.partition("It stands at")[2]
