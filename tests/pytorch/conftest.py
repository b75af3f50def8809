"""What the tests of PyTorch code share. Where PyTorch or torchax is missing they are skipped."""

from __future__ import annotations

from importlib import util

import pytest

# (The folder is not called "torch": as the tests are on the path, `import torch` would find it.)
MISSING = [name for name in ("torch", "torchax") if util.find_spec(name) is None]
collect_ignore_glob = ["test_*.py"] if MISSING else []


@pytest.fixture(autouse=True)
def device(clean):
    """PyTorch's device ``jax``, for the time of the test."""
    import torch

    import lazynb.torch

    with lazynb.torch.enable():
        torch.manual_seed(0)
        yield "jax"
