"""What it costs to begin a trace: one look at JAX's configuration where it has changed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb import jax_compat as jc
from lazynb.recording.lazy_trace import thread_trace


@pytest.fixture
def looks(monkeypatch):
    """One entry for each look at the whole of JAX's configuration."""
    found, plain = [], jc.raw_context
    monkeypatch.setattr(jc, "raw_context", lambda: found.append(1) or plain())
    return found


def test_a_trace_reads_the_configuration_only_after_a_change(looks):
    x = jnp.ones(3)
    with lazynb.lazy():
        for _ in range(3):
            lazynb.sync(x + 1.0)
        looks.clear()
        lazynb.sync(x + 1.0)
        assert not looks
        with jax.default_matmul_precision("highest"):
            y = x + 1.0
            assert len(looks) == 1
            z = y * 2.0
            assert len(looks) == 1 and z.is_pending


@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_enable_x64"])
def test_a_setting_changed_after_a_trace_was_opened_takes_effect(setting):
    x = jnp.ones(3)
    with lazynb.lazy():
        for _ in range(3):
            lazynb.sync(x + 1.0)
        trace = thread_trace().open()
        before = jax.config.values[setting]
        jax.config.update(setting, not before)
        try:
            y = x + 1.0
            assert trace.config_epoch != jc.config_changes.count or trace is not thread_trace().pending
            assert isinstance(y, lazynb.LazyTensor) == (setting != "jax_debug_nans")
        finally:
            jax.config.update(setting, before)
        assert isinstance(x + 1.0, lazynb.LazyTensor)


def test_a_body_after_a_finished_trace_opens_no_trace(looks):
    def body():
        lazynb.sync(jnp.ones(3) + 1.0)

    for _ in range(2):
        lazynb.lazy()(body)()
    pending = thread_trace().pending
    looks.clear()
    with lazynb.lazy():
        assert thread_trace().pending is pending and pending.closed and not looks
        x = jnp.ones(3) + 1.0
        assert thread_trace().pending is not pending and x.is_pending
    with lazynb.lazy():
        y = jnp.ones(3) + 1.0
        assert len(lazynb.graph(y)) < len(lazynb.graph(x, y))  # what is pending is cut from it as before
        assert x._pending is not y._pending
