"""Experiments on boundaries: the verdict must follow the cause."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.xla.fusion.boundary_experiments import NotTestable

BIG = (256, 128)


def only(compilation, code):
    found = [one for one in compilation.boundaries if one.code == code]
    assert len(found) == 1, [one.code for one in compilation.boundaries]
    return found[0]


def test_deleting_the_variable_verifies_a_kept_alive_boundary(clean):
    a, b = jnp.ones(BIG), jnp.ones(BIG)
    with lazynb.lazy():
        h = a * b
        y = jnp.tanh(h) + 1
        compilation = lazynb.compile()
        boundary = only(compilation, "kept-alive")
        assert boundary.variables == ("h",) and "`h`" in boundary.text and boundary.label == "rule inferred"
        tried = compilation.verify(boundary)
        assert tried.label == "verified by recompiling" and "gone" in tried.verdict and "`h`" in tried.verdict
        assert tried in compilation.boundaries
        assert h.is_pending and y.is_pending
        del h
        after = lazynb.compile()
        assert [one.code for one in after.boundaries] == ["result"]
        assert len(after.clusters) == 1


def test_copying_for_one_reader_verifies_an_expensive_boundary(clean):
    a = jnp.ones(BIG)
    with lazynb.lazy():
        e = jnp.exp(a)
        s, t = e.sum(1), e * 2  # noqa: F841
        del e
        compilation = lazynb.compile()
        boundary = only(compilation, "expensive-several-users")
        tried = compilation.verify(boundary)
        assert tried.label == "verified by recompiling" and "copy of `exponential`" in tried.verdict


def test_compiling_without_ynnpack_verifies_a_library_boundary(clean):
    a = jnp.ones((128, 128))
    with lazynb.lazy():
        y = jnp.tanh(a.sum(1))  # noqa: F841
        compilation = lazynb.compile()
        codes = [one.code for one in compilation.boundaries]
        if "library-producer" not in codes:
            pytest.fail(f"YNNPACK sums no rows any more: {codes}")
        tried = compilation.verify(only(compilation, "library-producer"))
        assert "without YNNPACK" in tried.verdict


def test_a_boundary_that_stays_keeps_its_label(clean):
    a, w, v = jnp.ones((128, 128)), jnp.ones((128, 128)), jnp.ones((128, 128))
    with lazynb.lazy():
        y = (a @ w) @ v  # noqa: F841
        compilation = lazynb.compile()
        boundary = next(one for one in compilation.boundaries if one.consumer)
        tried = compilation.verify(boundary)
        assert "stays" in tried.verdict and tried.label == boundary.label


def test_an_untestable_boundary_is_refused(clean):
    a = jnp.ones(BIG)
    with lazynb.lazy():
        y = a + 1  # noqa: F841
        compilation = lazynb.compile()
        with pytest.raises(NotTestable, match="nothing is to be tested"):
            compilation.verify(only(compilation, "result"))


def test_a_boundary_within_one_recorded_operation_is_not_testable(clean):
    @jax.jit
    def both(a):
        e = jnp.exp(a)
        return e.sum(1), e * 2

    a = jnp.ones(BIG)
    with lazynb.lazy():
        y = both(a)  # noqa: F841
        compilation = lazynb.compile()
        with pytest.raises(NotTestable, match="recorded as a whole"):
            compilation.verify(only(compilation, "expensive-several-users"))


# ---- a compilation of several programs ---------------------------------------------------------------------


def test_kernels_of_equal_name_in_two_programs_keep_their_own_figures(clean):
    """Programs of one shape have kernels of one name: none may take the place of another."""
    a = jnp.ones(BIG)
    with lazynb.lazy():
        first = a * 2 + 1
    with lazynb.lazy():
        second = first * 2 + 1
        compilation = lazynb.compile(second)
        assert len(compilation.traces) == 2
        names = [cluster.name for cluster in compilation.clusters]
        assert len(names) > len(set(names))
        assert len(compilation.cost) == len(names) and all(cost.bytes for cost in compilation.cost)
        assert len(compilation.profile(runs=2)) == len(names)
        assert second.is_pending


def test_clusters_and_boundaries_are_shown_as_tables(clean):
    a, b = jnp.ones(BIG), jnp.ones(BIG)
    with lazynb.lazy():
        h = a * b
        y = jnp.tanh(h)  # noqa: F841
        compilation = lazynb.compile()
        assert "kind" in repr(compilation.clusters) and "<table>" in compilation.clusters._repr_html_()
        assert "kept-alive" in repr(compilation.boundaries) and compilation.boundaries.to_dicts()[0][
            "variables"
        ] == ("h",)
