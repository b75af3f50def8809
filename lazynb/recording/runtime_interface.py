"""The interface through which recording calls the higher layers: execution, displays, NumPy protocols.

``lazynb/__init__`` creates one :class:`Runtime` and passes it to :func:`set_runtime`. Rarely used parts
(NumPy's functions, displays) are imported at first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor
    from lazynb.recording.pending_trace import PendingTrace


class TraceExecution(Protocol):
    """Runs pending traces: :class:`lazynb.running.flush.Execution`."""

    def force(self, tensor: LazyTensor, kind: str, detail: str = "") -> Any:
        """Returns the concrete value of ``tensor``.

        Arguments:
          kind: the kind of trace break, see :data:`lazynb.recording.break_reasons.REASONS`.
          detail: the function, argument or attribute that needs the value.
        """

    def flush(self, traces: Sequence[PendingTrace], kind: str) -> None:
        """Runs ``traces``, with one trace break of ``kind``."""

    def eager_sharding(self, tensor: LazyTensor) -> Any:
        """Returns the sharding that eager JAX gives the pending, committed ``tensor``; None if only a run
        shows it.

        Compiles, but runs nothing.
        """

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """Returns the MIME bundle of a pending tensor. Runs nothing."""


class Displays(Protocol):
    """Display and export of results: the module :mod:`lazynb.report.displays`."""

    def tensor_bundle(self, tensor: LazyTensor) -> dict[str, Any]:
        """The MIME bundle of a pending tensor."""

    def report_text(self, report: Any) -> str:
        """Returns an explanation or numerics report as text."""

    def report_bundle(self, report: Any) -> dict[str, Any]:
        """Returns the MIME bundle of an explanation or numerics report."""

    def compilation_bundle(self, compilation: Any) -> dict[str, Any]:
        """The MIME bundle of a compilation."""

    def save_html(self, compilation: Any, path: str | os.PathLike[str], title: str) -> Path:
        """Writes a compilation as an HTML page."""

    def save_json(self, compilation: Any, path: str | os.PathLike[str]) -> Path:
        """Writes a compilation as JSON."""

    def to_svg(self, compilation: Any, figure: str) -> str:
        """Returns a figure of a compilation as SVG."""


class Runtime:
    """The functions of the higher layers that recording calls.

    Attributes:
      execution: runs pending traces.
      on_block_enter: called when a block is entered.
      before_outermost_exit: called before the outermost block of a thread ends without an error; None in a
        single process.
      before_eager_operation: called with the primitive, values and parameters of an operation before it runs
        at once; None in a single process.
    """

    def __init__(
        self,
        execution: TraceExecution,
        import_numpy_protocols: Callable[[], Any],
        import_displays: Callable[[], Displays],
        on_block_enter: Callable[[], None],
    ):
        self.execution = execution
        self.on_block_enter = on_block_enter
        self.before_outermost_exit: Callable[[], None] | None = None
        self.before_eager_operation: Callable[[Any, Sequence[Any], dict[str, Any]], None] | None = None
        self._import_numpy_protocols = import_numpy_protocols
        self._import_displays = import_displays

    @cached_property
    def numpy_protocols(self) -> Any:
        """The module that implements ``__array_ufunc__`` and ``__array_function__``."""
        return self._import_numpy_protocols()

    @cached_property
    def displays(self) -> Displays:
        """The display module."""
        return self._import_displays()


_current: list[Runtime] = []


def set_runtime(runtime: Runtime) -> None:
    """Sets the runtime of this process."""
    _current[:] = [runtime]


def runtime() -> Runtime:
    """Returns the runtime of this process. Raises RuntimeError if lazynb was not imported."""
    if not _current:
        raise RuntimeError("no runtime: import lazynb, not its parts")
    return _current[0]
