"""Collectives of sharded programs over eight devices, in a process of its own: this one has two."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.long
def test_collectives_of_programs_over_eight_devices():
    done = subprocess.run(
        [sys.executable, "-m", "sharded"],
        env=os.environ
        | {
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            "JAX_PLATFORMS": "cpu",
            "LAZYNB_PERSISTENT_CACHE": "0",
            "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE.parents[1]))),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
