"""The table: small programs as a user writes them, and what XLA makes of each (see ``expected.py``)."""

from __future__ import annotations

import xla.programs_arrays
import xla.programs_models
import xla.programs_simplified  # noqa: F401
from xla.table import PROGRAMS as PROGRAMS

SOME = [
    "softmax",
    "mlp",
    "train_step",
    "solve",
    "cumulative",
    "concat_several_users",
    "transpose_real",
    "merged",
    "scan",
    "sort",
    "integers",
    "normal",
]
"""Programs on which XLA's passes do much of what they ever do."""
