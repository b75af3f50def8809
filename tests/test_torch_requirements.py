"""PyTorch is asked for only by those who use it, and what is missing is said in one line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parent.parent / "lazynb" / "frontends" / "torch" / "torch_requirements.py"
SPEC = importlib.util.spec_from_file_location(
    "requirements_of_torch", FILE
)  # without the package, which needs PyTorch
requirements = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(requirements)


@pytest.mark.parametrize(
    ("torch", "torchax", "said"),
    [
        (None, None, "needs torch, which is not installed"),
        ("2.13.0+cpu", None, "needs torchax, which is not installed"),
        ("2.9.1", "0.0.13", "needs torch 2.10 or newer, and 2.9.1 is installed"),
        ("2.13.0", "0.0.11", "needs torchax 0.0.13 or newer, and 0.0.11 is installed"),
        ("2.13.0+cpu", "0.0.13", ""),
        ("3.0", "0.1", ""),
    ],
)
def test_a_missing_or_old_package_is_reported_in_one_line(torch, torchax, said):
    found = requirements.missing_requirement({"torch": torch, "torchax": torchax})
    assert (said in found) if said else not found
    assert "\n" not in found and (not found or found.endswith("pip install 'lazynb[torch]'"))


# Refuses PyTorch and torchax, as a machine would that does not have them.
ABSENT = """
import sys
from importlib import metadata

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchax"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
version = metadata.version

def without(name):
    if name in {"torch", "torchax"}:
        raise metadata.PackageNotFoundError(name)
    return version(name)

metadata.version = without
import lazynb
assert "torch" not in sys.modules
assert not [name for name in sys.modules if name.startswith("lazynb.torch")]
try:
    lazynb.torch
except ImportError as error:
    print(error)
try:
    lazynb.no_such_name
except AttributeError:
    print("no such name")
"""


def test_lazynb_without_torch_names_the_missing_package_on_use():
    done = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "lazynb.torch needs torch, which is not installed: pip install 'lazynb[torch]'",
        "no such name",
    ], done.stderr
