"""What differs between two programs for a chip that is not here, and between two chips."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import lazynb

TYPE = jax.ShapeDtypeStruct((256, 512), jnp.float32)


def fused(x, y):
    h = jnp.exp(1j * x) * y
    return jnp.abs(h)


def parted(x, y):
    h = jax.lax.optimization_barrier(jnp.exp(1j * x) * y)
    return jnp.abs(h)


def test_a_temporary_no_longer_fused_is_reported_with_its_bytes(needs):
    """As in openxla/xla#29620: h, complex64[256,512], is 1 MiB."""
    one, two = (lazynb.compile(f, TYPE, TYPE, target=needs("h100")) for f in (fused, parted))
    diff = lazynb.diff(one, two)
    assert "two kernels instead of one; 1 MiB more written to memory" in diff.headline[0]
    assert [change.kind for change in diff.changes] == ["kernels", "memory", "operations"]
    assert list(lazynb.diff(two, two).changes) == []


def test_a_diff_between_two_chips_has_no_operation_changes(needs):
    """The user's program is the same: what differs is what each compiler makes of it."""
    here = lazynb.compile(fused, TYPE, TYPE)
    there = lazynb.compile(fused, TYPE, TYPE, target=needs("v5e"))
    diff = lazynb.diff(here, there)
    assert "operations" not in {change.kind for change in diff.changes}
    assert "TPU v5e" in repr(diff) and diff.now.figures.written < 2**20
