"""lazynb: a lazy notebook on JAX/XLA.

``%load_ext lazynb`` in a notebook, or ``with lazynb.lazy():`` in a program, records JAX's operations instead
of running them. The pending operations compile and run as one program when Python needs a value.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING, Any as _Any

from lazynb.config import config as config
from lazynb.errors import (
    HostMissingError as HostMissingError,
    HostsDifferError as HostsDifferError,
    LazynbError as LazynbError,
    TraceBreakError as TraceBreakError,
)
from lazynb.frontends.import_hook import install as _watch_libraries
from lazynb.recording import function_substitutes as _substitutes  # noqa: F401  # it registers them
from lazynb.recording.lazy_mode import eager as eager, lazy as lazy
from lazynb.recording.lazy_tensor import LazyTensor as LazyTensor
from lazynb.recording.runtime_interface import (
    Displays as _Displays,
    Runtime as _Runtime,
    set_runtime as _set_runtime,
)
from lazynb.running.break_log import Breaks as Breaks, TraceBreak as TraceBreak, breaks as breaks
from lazynb.running.flush import execution as _execution, sync as sync
from lazynb.running.hosts.launch_agreement import begin_agreement as _begin_agreement
from lazynb.version import __version__ as __version__

if TYPE_CHECKING:
    from lazynb.compare.costs.budget import BudgetExceeded as BudgetExceeded, budget as budget
    from lazynb.compare.costs.call_explanation import Explanation as Explanation, explain as explain
    from lazynb.compare.misses.cache_info import (
        CacheInfo as CacheInfo,
        cache_info as cache_info,
        clear_cache as clear_cache,
    )
    from lazynb.compare.misses.compilation_causes import Event as Event, events as events
    from lazynb.compare.numerics.numerics_result import Numerics as Numerics, numerics as numerics
    from lazynb.notebook.inspection_display import inspect as inspect
    from lazynb.report.comparison_report import Diff as Diff, diff as diff
    from lazynb.report.graph.lazy_graph import Graph as Graph, graph as graph
    from lazynb.xla.compilation import Compilation as Compilation
    from lazynb.xla.compile_entry import compile as compile
    from lazynb.xla.targets.target_mesh import shard_like as shard_like

_IMPORTED_WHEN_USED = {
    "lazynb.compare.costs.budget": ("BudgetExceeded", "budget"),
    "lazynb.compare.costs.call_explanation": ("Explanation", "explain"),
    "lazynb.compare.misses.cache_info": ("CacheInfo", "cache_info", "clear_cache"),
    "lazynb.compare.misses.compilation_causes": ("Event", "events"),
    "lazynb.compare.numerics.numerics_result": ("Numerics", "numerics"),
    "lazynb.notebook.inspection_display": ("inspect",),
    "lazynb.report.comparison_report": ("Diff", "diff"),
    "lazynb.report.graph.lazy_graph": ("Graph", "graph"),
    "lazynb.xla.compilation": ("Compilation",),
    "lazynb.xla.compile_entry": ("compile",),
    "lazynb.xla.targets.target_mesh": ("shard_like",),
}
"""Public names by module, imported with their first use: most programs need none of them. The names are those
under ``TYPE_CHECKING`` above."""

_MODULE_OF = {name: module for module, names in _IMPORTED_WHEN_USED.items() for name in names}


def __getattr__(name: str) -> _Any:
    if name in ("numpy", "torch"):  # the second needs PyTorch
        return _importlib.import_module(f"lazynb.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'lazynb' has no attribute {name!r}")
    value = getattr(_importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, "numpy", "torch"})


def _import_numpy_protocols() -> _Any:
    from lazynb.frontends.numpy import numpy_protocols

    return numpy_protocols


def _import_displays() -> _Displays:
    from lazynb.report import displays

    return displays


def _on_block_enter() -> None:
    _begin_agreement()
    _watch_libraries()


_set_runtime(_Runtime(_execution, _import_numpy_protocols, _import_displays, _on_block_enter))


def load_ipython_extension(shell: _Any) -> None:
    """``%load_ext lazynb``: makes the following cells run lazily."""
    from lazynb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: _Any) -> None:
    """``%unload_ext lazynb``: undoes :func:`load_ipython_extension`."""
    from lazynb.notebook.extension import unload

    unload(shell)
