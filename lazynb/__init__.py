"""lazynb: a lazy notebook on JAX/XLA."""

from __future__ import annotations

from lazynb.config import config as config
from lazynb.errors import LazynbError as LazynbError
from lazynb.execute.flush import execution as _execution
from lazynb.record.mode import eager as eager, lazy as lazy
from lazynb.record.tensor import LazyTensor as LazyTensor

__version__ = "0.1.0"
sync = _execution.sync
