"""The precision in which sums of small floats are computed."""

from __future__ import annotations

from typing import Any

import numpy as np


def at_least_float32(x: Any) -> Any:
    """``x``, or what small floats are in float32."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind in "fV" else x
