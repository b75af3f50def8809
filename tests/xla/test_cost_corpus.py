"""The cost of all kernels of a table of programs, against arithmetic by hand."""

from __future__ import annotations

import cost_programs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.compilation_builder import compile_tensors


def compiled(expression, shapes):
    """The compilation of an expression over variables of these shapes."""
    variables = {
        name: jnp.asarray(np.random.default_rng(number).normal(size=shape).astype(np.float32))
        for number, (name, shape) in enumerate(shapes.items())
    }
    variables["i"] = jnp.arange(7)
    jax.block_until_ready(variables)
    lazynb.clear_cache()
    with lazynb.lazy(), record_dumps():
        result = eval(expression, {"jax": jax, "jnp": jnp, **variables})
        return compile_tensors([result], {"result": result}, ahead=False)


@pytest.mark.parametrize("name", cost_programs.CASES)
def test_flops_and_transcendentals_of_each_program_are_as_computed_by_hand(name):
    case = cost_programs.CASES[name]
    total = compiled(case.expression, case.shapes).total_cost
    for found, expected, more in (
        (total.flops, case.flops, 12 * case.turns),
        (total.transcendentals, case.transcendentals, 0),
    ):
        low, high = expected if isinstance(expected, tuple) else (expected, expected)
        assert low <= found.low <= low + more
        if high is None:
            assert found.high is None and total.unknown
        else:
            assert high <= found.high <= high + more


@pytest.mark.parametrize("name", cost_programs.PARTS)
def test_bytes_of_partial_reads_are_as_computed_by_hand(name):
    expression, expected = cost_programs.PARTS[name]
    found = compiled(expression, {"x": (1000, 64), "y": (1000, 64)})
    bytes_ = found.total_cost.bytes.exact
    assert expected <= bytes_ <= expected + 7 * 32  # what becomes of the numbers of the rows
    differ = [cost.source for cost in found.cost if "XLA itself says" in cost.source]
    assert bool(differ) == (name not in ("slice", "strided"))


def test_the_table_is_large_enough():
    assert len(cost_programs.CASES) >= 30


def test_unknown_parts_of_the_cost_are_named():
    total = compiled("jax.lax.while_loop(lambda c: c[0] < 1e6, lambda c: c + 1, x)", {"x": (9,)}).total_cost
    assert total.flops.exact is None and "turns is not known" in total.unknown[0]
    total = compiled("jnp.linalg.cholesky(x @ x.T)", {"x": (9, 9)}).total_cost
    assert total.flops.high is None and any("custom call" in reason for reason in total.unknown)
    assert compiled("x + 1", {"x": (9,)}).total_cost.unknown == ()
