"""Collectives of sharded programs over eight devices, in a process of its own: this one has two."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.full
def test_collectives_over_eight_devices_are_the_same_with_and_without_passes(tmp_path):
    """Once compiled, with XLA's passes; out of lazynb's store, without them; and so, as if they were large."""
    first, second, large = (programs(tmp_path, *options) for options in ((), (), ("--large",)))
    assert first < 3  # two of them may be one program to XLA
    assert second == large > 50


def programs(store, *options):
    """How many of the programs had no passes."""
    done = subprocess.run(
        [sys.executable, "-m", "sharded", *options],
        env=os.environ
        | {
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            "JAX_PLATFORMS": "cpu",
            "LAZYNB_PERSISTENT_CACHE": "1",
            "LAZYNB_CACHE_DIR": str(store),
            "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE.parents[1]))),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return int(done.stdout.split(", ")[-1].split()[0])
