"""lazynb: a lazy notebook on JAX/XLA.

``%load_ext lazynb`` in a notebook, or ``with lazynb.lazy():`` in a program, records JAX's operations instead of running
them; what is pending compiles and runs as one program when Python needs a value.
"""

from __future__ import annotations

from typing import Any as _Any

from lazynb.config import config as config
from lazynb.errors import LazynbError as LazynbError
from lazynb.execute.cache_info import CacheInfo as CacheInfo, cache_info as cache_info, clear_cache as clear_cache
from lazynb.execute.compilation import Compilation as Compilation, compile as compile
from lazynb.execute.events import Event as Event, TraceBreak as TraceBreak, breaks as breaks, events as events
from lazynb.execute.flush import execution as _execution
from lazynb.record import ambient as _ambient  # noqa: F401
from lazynb.record.mode import eager as eager, lazy as lazy
from lazynb.record.names import user_namespace as _user_namespace
from lazynb.record.tensor import LazyTensor as LazyTensor
from lazynb.view.graph import Graph as Graph
from lazynb.view.pending import graph_of as _graph_of, show as _show

__version__ = "0.1.0"

_execution.show = _show


def sync(*tensors: _Any) -> None:
    """Barrier: runs what ``tensors`` (or pytrees of them) wait for, or all that is pending of this thread.

    Returns at once, as JAX does: the device goes on asynchronously.

    Raises:
      Exception: what JAX raises when the program cannot be compiled or run; the pending graph is as before.
    """
    _execution.sync(*tensors)


def graph(*tensors: _Any) -> Graph:
    """The graph that ``tensors`` (or pytrees of them) wait for, or all that is pending. Never runs anything.

    Returns:
      A :class:`Graph`: ``nodes``, ``inputs``, ``outputs``, ``len()``, ``to_jaxpr()``, ``to_stablehlo()``, ``to_dot()``,
      ``to_svg()``, ``to_json()``; in a notebook it is drawn.
    """
    return _graph_of(tensors, _user_namespace())


def load_ipython_extension(shell: _Any) -> None:
    """``%load_ext lazynb``: cells from here on run lazily."""
    from lazynb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: _Any) -> None:
    """``%unload_ext lazynb``: puts everything back."""
    from lazynb.notebook.extension import unload

    unload(shell)
