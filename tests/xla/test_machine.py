"""The measured peak: plausible, quick, and without a trace in the records, the settings or the cache."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb import jax_compat as jc
from lazynb.jax_compat import xla_executables
from lazynb.xla.cost import roofline
from lazynb.xla.cost.roofline import MachinePeak, measured_peak


@pytest.fixture
def short(monkeypatch):
    """Measures anew, quickly and roughly."""
    monkeypatch.setattr(roofline, "SECONDS", 0.02)
    monkeypatch.setattr(roofline, "MIN_ARRAY", 4 << 20)
    monkeypatch.setattr(roofline, "_last_cache", lambda: 0)
    roofline._measured.cache_clear()
    yield
    roofline._measured.cache_clear()


def test_the_measured_peak_is_of_a_plausible_magnitude(short):
    peak = measured_peak()
    assert peak.flops is not None and 1e9 < peak.flops < 1e15
    assert peak.bandwidth is not None and 1e8 < peak.bandwidth < 1e14
    assert peak.flops > 2 * peak.bandwidth / 12  # a product beats what a stream of additions could do
    assert jax.__version__ in peak.text and "1024" in peak.text and "4 MiB" in peak.text


def test_the_peak_is_measured_once_for_each_device(short):
    assert measured_peak() is measured_peak()
    first, second = jax.devices()[:2]
    assert measured_peak(first) is measured_peak()
    assert measured_peak(second) is not measured_peak(first)


def test_measuring_in_lazy_mode_records_nothing(short, clean):
    with lazynb.lazy():
        pending = jnp.arange(3.0) + 1
        before = len(lazynb.events())
        assert measured_peak().flops
        assert jnp.sin(jnp.ones(2)).__class__ is pending.__class__  # still lazy
        assert len(lazynb.events()) == before
        assert list(lazynb.breaks()) == []
        assert lazynb.cache_info().misses == 0
        assert pending.tolist() == [1, 2, 3]


@pytest.mark.parametrize("setting", ["jax_disable_jit", "jax_enable_x64", "jax_debug_nans"])
def test_the_peak_is_measured_under_any_jax_setting(short, setting):
    jax.config.update(setting, True)
    try:
        assert measured_peak().flops and getattr(jax.config, setting)
    finally:
        jax.config.update(setting, False)


def test_a_failing_measurement_leaves_its_figure_unknown(short, monkeypatch):
    def fails(device):
        raise RuntimeError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(roofline, "_matmul_rate", fails)
    peak = measured_peak()
    assert peak.flops is None and peak.bandwidth and "no operations a second" in peak.text
    roofline._measured.cache_clear()
    monkeypatch.setattr(roofline, "_triad_bandwidth", fails)
    assert measured_peak() == MachinePeak(None, None, measured_peak().text, measured_peak().cache)


def test_the_last_level_cache_has_a_plausible_size():
    size = roofline._last_cache()
    assert size == 0 or 64 << 10 <= size <= 4 << 30


def test_measuring_leaves_the_persistent_cache_of_the_user_enabled(tmp_path):
    """JAX decides at its first compilation whether it has a cache: that one must not be ours."""
    code = f"""
import os, jax, jax.numpy as jnp
jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
from lazynb.xla.cost import roofline
roofline.SECONDS = 0.0
print(roofline.measured_peak().flops > 0, len(os.listdir({str(tmp_path)!r})))
jax.jit(lambda x: x * 3)(1.0)
print(len(os.listdir({str(tmp_path)!r})) > 0)
"""
    root = os.path.dirname(os.path.dirname(lazynb.__file__))
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.stdout.split() == ["True", "0", "True"], done.stderr


def test_no_cache_restores_the_cache_state_after_an_error():
    before = {
        name: getattr(xla_executables._compilation_cache, name) for name in xla_executables._CACHE_STATE
    }
    with pytest.raises(KeyError), jc.no_cache():
        assert xla_executables._compilation_cache.is_cache_used(jax.devices()[0].client) is False
        raise KeyError
    assert {
        name: getattr(xla_executables._compilation_cache, name) for name in xla_executables._CACHE_STATE
    } == before


@pytest.mark.parametrize("each, runs", [(0.05, 7), (0.2, 4)])
def test_repeats_for_a_third_of_a_second_and_three_times_at_least(each, runs, monkeypatch):
    """By a clock of its own: how fast this machine is makes no difference to what is measured how often."""
    now, ran = [0.0], []

    def run():
        ran.append(now[0])
        now[0] += each

    monkeypatch.setattr(roofline.time, "perf_counter", lambda: now[0])
    assert roofline._fastest_run(run) == pytest.approx(each)
    assert len(ran) == runs
