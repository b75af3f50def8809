"""One cell on several chips: what runs in a loop, once and in all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.differences.variant_comparison import program_figures
from lazynb.report.target_report import TargetComparison


def looped(target, turns):
    with lazynb.lazy():
        x = jnp.ones((256, 256))
        return lazynb.compile(jax.lax.fori_loop(0, turns, lambda step, y: jnp.tanh(y @ x), x), target=target)


@pytest.mark.parametrize("target", ["cpu", "v5e", "h100"])
def test_loop_kernels_and_bytes_count_once_per_iteration(target, needs):
    """What stands outside of the loop runs once: seven turns more are seven times the body."""
    needs(target)
    less, more = (program_figures(looped(target, turns)) for turns in (5, 12))
    assert (less.kernels, less.moved) == (more.kernels, more.moved)
    assert more.runs > less.runs > less.kernels
    body, rest = divmod(more.moved_in_all - less.moved_in_all, 7)
    assert rest == 0 and 0 < body <= less.moved
    condition = 4 + 1  # bytes: it reads a number, writes a truth value, and runs once more than the body
    assert less.moved_in_all == less.moved + 4 * body + condition
    if target != "cpu":
        assert more.seconds_in_all > less.seconds_in_all > less.seconds == more.seconds


def test_a_loop_of_unknown_length_has_no_totals(needs):
    with lazynb.lazy():
        x = jnp.ones((64, 64))
        y = jax.lax.while_loop(lambda y: y.sum() < 9e3, lambda y: jnp.tanh(y) + y, x)
        compilation = lazynb.compile(y, target=needs("v5e"))
    one = program_figures(compilation)
    assert one.runs is None and one.moved_in_all is None and one.moved > 0
    text = repr(TargetComparison([compilation]))
    assert "how often they run is not known" in text and "each kernel once" in text
