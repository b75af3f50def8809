"""The table: small programs as a user writes them, and what XLA makes of each (see ``expected.py``)."""

from __future__ import annotations

import xla.programs_arrays
import xla.programs_models
import xla.programs_simplified  # noqa: F401
from xla.table import PROGRAMS as PROGRAMS
