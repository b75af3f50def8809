"""Meshes of eight devices, in a process of its own: this one has two."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PATHS = os.pathsep.join(map(str, (HERE.parent, HERE.parents[1])))


def test_programs_and_training_over_eight_devices():
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, HERE / "eight_devices.py"],
        env=os.environ
        | {
            "XLA_FLAGS": flags,
            "JAX_PLATFORMS": "cpu",
            "LAZYNB_PERSISTENT_CACHE": "0",
            "PYTHONPATH": PATHS,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
