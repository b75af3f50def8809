"""Public PyTorch interface: run unmodified PyTorch code on lazy tensors.

After ``lazynb.torch.enable()``, operations on tensors of device ``jax`` are recorded in lazy mode.

Needs ``pip install lazynb[torch]``; ``import lazynb`` needs neither PyTorch nor torchax.
"""

from __future__ import annotations

from lazynb.frontends.torch.torch_requirements import check

check()

from lazynb.frontends.torch.device_switch import (  # noqa: E402
    Enabled as Enabled,
    disable as disable,
    enable as enable,
    is_enabled as is_enabled,
)
from lazynb.frontends.torch.torch_tensor import Tensor as Tensor  # noqa: E402
