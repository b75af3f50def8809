"""Meshes of eight devices, in processes of their own: this one has two."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PATHS = os.pathsep.join(map(str, (HERE.parent, HERE.parents[1])))


def run(*command: str) -> None:
    own = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    own |= {"LAZYNB_PERSISTENT_CACHE": "0", "PYTHONPATH": PATHS}
    done = subprocess.run(
        [sys.executable, HERE / command[0], *command[1:]],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_programs_and_training_over_eight_devices_equal_eager():
    run("eight_devices.py")


def test_shard_map_over_eight_devices_equals_eager():
    run("mapped_calls.py")


@pytest.mark.full
def test_flax_models_over_eight_devices_train_as_eagerly():
    """The quick part of the table; all of it is a command of its own."""
    run(
        "many_device_training.py",
        "--steps=4",
        "ResNet, data parallel",
        "two matrices, explicit axes",
        "pipeline with ppermute",
    )
