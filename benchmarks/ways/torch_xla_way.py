"""PyTorch/XLA on the CPU: lazy tensors, one program a barrier."""

from __future__ import annotations

import os
import sys
from typing import Any

# The environment has empty files for the CUDA libraries that PyTorch was built with: only what is called may
# be looked up.
sys.setdlopenflags(os.RTLD_LAZY)
os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch  # noqa: E402
import torch_xla  # noqa: E402
from torch_xla.core import xla_model  # noqa: E402

from benchmarks.ways import torch_ways  # noqa: E402


class Lazy(torch_ways.Eager):
    """Recorded by the device ``xla``, run by ``torch_xla.sync``."""

    def arrays(self, tree: Any) -> Any:
        return torch_ways.converted(tree, lambda array: torch.from_numpy(array).to(torch_xla.device()))

    def barrier(self, state: Any) -> None:
        torch_xla.sync()

    def wait(self, state: Any) -> None:
        # sync(wait=True) returns before the CPU is done.
        torch_xla.sync()
        xla_model.wait_device_ops()
