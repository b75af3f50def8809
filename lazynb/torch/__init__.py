"""PyTorch code, unmodified, on lazy tensors.

After ``lazynb.torch.enable()``, operations on tensors of device ``jax`` are recorded in lazy mode.

Needs ``pip install lazynb[torch]``; ``import lazynb`` alone needs neither PyTorch nor torchax.
"""

from __future__ import annotations

from lazynb.torch.requirements import check

check()

from lazynb.torch.switch import (  # noqa: E402
    Enabled as Enabled,
    disable as disable,
    enable as enable,
    is_enabled as is_enabled,
)
from lazynb.torch.tensor import Tensor as Tensor  # noqa: E402
