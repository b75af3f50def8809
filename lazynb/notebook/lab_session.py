"""The kernel side of the JupyterLab extension: sends state, line marks and panel data over one comm.

Sends nothing and observes no run unless a page with lazynb's extension may be connected.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from lazynb.compare.misses.cache_info import cache_info, clear_cache
from lazynb.config import config
from lazynb.errors import LazynbError
from lazynb.notebook.cell_programs import CellPrograms
from lazynb.notebook.frontend_requests import (
    RequestHandler,
    error_text,
    lab_execution,
    message_data,
    request_id,
)
from lazynb.notebook.lab_messages import TARGET, VERSION, Marks, State, ValueState
from lazynb.notebook.line_marks import CellIndex, LineKernels, break_lines, kernel_lines, line_marks
from lazynb.recording.lazy_mode import eager
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import thread_trace
from lazynb.report.graph.graph_json import MIME_TYPE
from lazynb.report.graph.lazy_graph import graph_of, is_own_key, page_connection, tensor_of_key
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.session_tables import table, timelines
from lazynb.report.inspection.source_data import Sources
from lazynb.running.break_log import break_log, breaks
from lazynb.running.flush import execution
from lazynb.running.observers import Observer, observe
from lazynb.user_code.text_format import escape_invisible
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import compile_tensors
from lazynb.xla.compile_entry import set_last_compilation
from lazynb.xla.inspection_schema import Inspection

# ---- Requests about a pending value on the page ------------------------------------------------------------

GONE = "This value is gone: nothing refers to it any more."
FOREIGN = "This was drawn by another kernel: run its cell again."


def value_state(
    key: Any,
    what: Any,
    namespace: Mapping[str, Any],
    keep: Callable[[Compilation], int],
) -> ValueState:
    """The state of the tensor of ``key``, after the action ``what``.

    Arguments:
      key: key of the tensor in a drawn graph.
      what: ``run`` computes the value and returns its repr; ``compile`` compiles its program and runs
        nothing; anything else only returns the state.
      namespace: the user's variables.
      keep: stores a compilation and returns the number by which the page requests it.

    Raises the errors of running and compiling.
    """
    tensor = tensor_of_key(key)
    if tensor is None:
        return _state("gone", GONE if is_own_key(key) else FOREIGN)
    if what == "run":
        return _run(tensor)
    if what == "compile" and tensor.is_pending:
        number = keep(set_last_compilation(compile_tensors([tensor], namespace)))
        return {**_pending(tensor, namespace), "compilation": number}
    return _pending(tensor, namespace)


def _pending(tensor: LazyTensor, namespace: Mapping[str, Any]) -> ValueState:
    if not tensor.is_pending:
        return _state("computed", "It has been computed since.")
    outlook = graph_of([tensor], namespace).outlook
    return _state("pending", outlook.text if outlook is not None else "")


def _run(tensor: LazyTensor) -> ValueState:
    """Computes the value and waits for it. The text is its repr in eager JAX."""
    was_pending = tensor.is_pending
    began = time.perf_counter()
    execution.sync(tensor)
    with eager():
        jax.block_until_ready(tensor._value)
        seconds = time.perf_counter() - began
        text = repr(tensor)
    return {**_state("value", text), "seconds": seconds if was_pending else None}


def _state(state: str, text: str) -> ValueState:
    return {"state": state, "text": text, "seconds": None, "compilation": None}


# seconds between the end of a cell and the computation of its line marks; the kernel reports idle first
_SOON = 0.03
_KEPT = 16  # compilations kept for requests of the panel


class _Sent(NamedTuple):
    """The last line marks sent for a cell, with the kernels and the compilation behind them."""

    lines: dict[int, LineKernels]
    compilation: int | None
    message: Marks


class LabConnection(Observer):
    """The connection to the pages that show this kernel's notebook.

    Arguments:
      extension: lazynb in this shell, a :class:`lazynb.notebook.extension.Extension`.
      status: returns the status line.

    Attributes:
      page_connected: whether a page with lazynb's extension answered; None until a page accepts or closes the
        comm.
    """

    def __init__(self, extension: Any, status: Callable[[], str]):
        self._extension = extension
        self._status = status
        self._comm: Any = None
        self.page_connected: bool | None = None
        self._waiting: collections.deque[tuple[CellPrograms | None, str | None]] = collections.deque(
            maxlen=_KEPT
        )
        self._cells = CellIndex()
        self._cell: str | None = None
        self._text: str | None = None  # source of the cell, until its execution count is known
        self._runs: CellPrograms | None = None
        self._last: State | None = None
        self._sent: dict[str, _Sent] = {}  # by cell
        self._numbers = 0
        self._compilations: collections.OrderedDict[int, tuple[Compilation, Inspection, RequestHandler]] = (
            collections.OrderedDict()
        )
        self._began = 0.0
        self._end_watching: Callable[[], None] = lambda: None
        self._end_runs: Callable[[], None] = lambda: None

    # ---- Events of the shell -------------------------------------------------------------------------------

    def start(self) -> None:
        """Opens the comm if JupyterLab or Notebook executes the running cell."""
        if lab_execution() is None:
            return
        from comm import create_comm  # a dependency of ipykernel

        self._comm = create_comm(target_name=TARGET, data=self._state())
        self._comm.on_msg(self._receive)
        self._comm.on_close(self._closed)
        self._end_watching = observe(self, everywhere=True)
        page_connection.active = True

    def stop(self) -> None:
        """Closes the comm; the pages then remove their marks."""
        if self._comm is not None:
            self._end_watching()
            self._comm.close()
            self._comm, self.page_connected = None, None
            page_connection.active = False
        self.end()

    def begin(self, info: Any) -> None:
        """Called when an outermost cell starts, with IPython's ``ExecutionInfo``."""
        cell = getattr(info, "cell_id", None)
        self._cell = cell
        if self._comm is None or cell is None or not info.store_history:
            return
        self._text = info.raw_cell
        if self.page_connected is not False:
            self._runs = CellPrograms(self._extension.leftovers.earlier, self._extension.shell.user_ns)
            self._end_runs = observe(self._runs)

    def set_execution_count(self, number: int, file: str) -> None:
        """Called when IPython compiles code of the running cell, execution ``number``, as ``file``."""
        if self._cell is None:
            return
        if self._text is None:
            self._cells.named(number, self._cell, file)  # the body of a cell magic
        else:
            self._cells.runs(number, self._cell, self._text, file)
            self._text = None
            if self._runs is not None:
                self._runs.cell = number

    def end(self) -> None:
        """Called when the cell ends. Schedules the line marks of its programs for when the kernel is idle."""
        runs, self._runs = self._runs, None
        self._end_runs()
        if self.page_connected is None and self._comm is not None:
            # cells may be queued behind %load_ext before a page sends hello
            self._waiting.append((runs, self._cell))
        if not self.page_connected:
            return
        cell = self._cell
        try:
            asyncio.get_running_loop().call_later(_SOON, self._send_marks_of_run, runs, cell)
        except RuntimeError:  # no event loop
            self._send_marks_of_run(runs, cell)

    # ---- Messages to the page ------------------------------------------------------------------------------

    def _send(self, message: Any) -> None:
        if self._comm is not None:
            self._comm.send(message)

    def _state(self) -> State:
        info = cache_info()
        return {
            "type": "state",
            "version": VERSION,
            "lazy": self._extension.enabled,
            "pending": sum(len(trace) for trace in thread_trace().all_pending()),
            "executables": len(info),
            "hits": info.hits,
            "misses": info.misses,
            "breaks": break_log.total,
            "seconds": sum(one.seconds for one in break_log.tallies()),
            "compilation": next(reversed(self._compilations), None),
            "text": self._status(),
        }

    def _send_state(self) -> None:
        state = self._state()
        if state != self._last:
            self._last = state
            self._send(state)

    def compiling(self, operations: int) -> None:
        """Sends ``compiling`` at once; the kernel is busy until compilation ends."""
        if self.page_connected and thread_trace().pending is not None:
            label = self._cells.label(self._cell) if self._cell is not None else ""
            self._send(
                {
                    "type": "compiling",
                    "operations": operations,
                    "cell": self._cell,
                    "label": label,
                    "seconds": 0.0,
                }
            )

    def compiled(self) -> None:
        if self.page_connected and thread_trace().pending is not None:
            self._send({"type": "compiled"})

    def _send_marks_of_run(self, runs: CellPrograms | None, cell: str | None) -> None:
        """Sends the marks of the cells with programs of ``runs`` or with trace breaks."""
        lines: dict[str, dict[int, LineKernels]] = {}
        number = None
        if runs is not None and not runs.is_empty:
            # leave out the marks rather than raise an error outside of a cell
            with contextlib.suppress(Exception), eager():
                compilation = runs.compilation()
                for earlier in compilation.earlier:
                    self._send_line_marks(*self._lines_of(earlier), None)
                lines, number = self._lines_of(compilation)  # last, so that the panel shows it
        self._send_line_marks(lines, number, cell)
        self._send_state()

    def _lines_of(self, compilation: Compilation) -> tuple[dict[str, dict[int, LineKernels]], int]:
        """By cell and line, the kernels of ``compilation``; and the number under which it is stored."""
        data = inspection(compilation, live=True, full=False)
        return kernel_lines(self._cells, data), self._remember(compilation, data)

    def _remember(self, compilation: Compilation, data: Inspection) -> int:
        self._numbers += 1
        self._compilations[self._numbers] = compilation, data, RequestHandler(compilation, data)
        while len(self._compilations) > _KEPT:
            self._compilations.popitem(last=False)
        return self._numbers

    def _send_line_marks(
        self, kernels: dict[str, dict[int, LineKernels]], number: int | None, ran: str | None
    ) -> None:
        """Sends the line marks that changed.

        Arguments:
          kernels: by cell and line, the kernels of compilation ``number``.
          ran: the cell that ran; if it has no kernels now, the marks of its previous run are removed.
        """
        broken = break_lines(self._cells)
        cells = {*kernels, *broken, *self._sent}
        if ran is not None:
            cells.add(ran)
        for cell in cells:
            sent = self._sent.get(cell)
            lines: dict[int, LineKernels] = {}
            compilation = None
            if cell in kernels:
                lines, compilation = kernels[cell], number
            elif sent is not None and cell != ran:
                lines, compilation = sent.lines, sent.compilation
            message = line_marks(cell, self._cells, lines, broken.get(cell, {}), compilation)
            if sent is None and not message["lines"]:
                continue
            if sent is None or sent.message != message:
                self._send(message)
            self._sent[cell] = _Sent(lines, compilation, message)

    # ---- Messages from the page ----------------------------------------------------------------------------

    def _closed(self, _message: Any) -> None:
        """Only a page without lazynb's extension closes the comm, at once."""
        if not self.page_connected:
            self.page_connected = False
            self._waiting.clear()

    def _receive(self, message: Any) -> None:
        request = message_data(message)
        kind = request.get("type")
        if kind == "hello":
            self._on_hello()
        elif kind == "settings":
            if isinstance(request.get("autocompile"), bool):
                config.run_on_display = request["autocompile"]
        elif kind == "ask":
            self._send({"type": "answer", "id": request_id(request), "answer": self._ask(request)})
        elif kind == "show":
            view = request.get("view")
            view = view if isinstance(view, str) else ""
            panel = self._panel(view, self._number(request))
            self._send(
                {"type": "panel", "id": request_id(request), "view": escape_invisible(view[:40]), **panel}
            )
        elif kind == "value":
            self._send({"type": "value", "id": request_id(request), **self._value(request)})
            if request.get("do") in ("run", "compile"):
                self._send_line_marks({}, None, None)
                self._send_state()
        elif kind in ("lazy", "compile", "clear"):
            self._send({"type": "done", "id": request_id(request), **self._do(kind, request)})
            self._send_line_marks({}, None, None)
            self._send_state()

    def _on_hello(self) -> None:
        self.page_connected = True
        self._last = self._state()
        self._send(self._last)
        for sent in self._sent.values():
            self._send(sent.message)
        while self._waiting:
            self._send_marks_of_run(*self._waiting.popleft())

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        number = self._number(request)
        if number is None:
            return {
                "type": "error",
                "id": None,
                "message": "this compilation is too old to answer: run its cell again",
            }
        _, _, answers = self._compilations[number]
        return answers.answer(request.get("request"))

    def _number(self, request: dict[str, Any]) -> int | None:
        """The number of the requested compilation, or None if that is not stored."""
        number = request.get("compilation")
        return number if type(number) is int and number in self._compilations else None

    def _panel(self, view: str, number: int | None) -> dict[str, Any]:
        shell = self._extension.shell
        try:
            if view == "graph":
                drawn = graph_of([], shell.user_ns)
                return {
                    "data": drawn._repr_mimebundle_()[MIME_TYPE] if len(drawn) else None,
                    "text": "Nothing is pending.",
                }
            if view == "breaks":
                return {"data": _broken(), "text": "No trace breaks so far."}
            if view == "cache":
                made = table(cache_info(), "executable", placed=Sources(()).placed)
                return {"data": made, "text": "No executables yet."}
            if view == "compilation":
                if number is None:
                    number = next(reversed(self._compilations), None)
                data = self._compilations[number][1] if number is not None else None
                return {"data": data, "compilation": number, "text": "No cell has run a program yet."}
        except Exception as error:
            return {"data": None, "text": error_text(f"{type(error).__name__}: {error}")}
        return {"data": None, "text": f"There is no view {view[:40]!r}."}

    def _value(self, request: dict[str, Any]) -> dict[str, Any]:
        def keep(compilation: Compilation) -> int:
            return self._remember(compilation, inspection(compilation, ran=False, live=True, full=False))

        names = self._extension.shell.user_ns
        return _attempted(lambda: dict(value_state(request.get("key"), request.get("do"), names, keep)))

    def _do(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        def act() -> dict[str, Any]:
            began = time.perf_counter()
            if kind == "lazy":
                if not isinstance(request.get("on"), bool):
                    raise ValueError("on must be true or false")
                self._extension.switch(request["on"])
            elif kind == "compile":
                execution.run_all("compile")
                return {"text": f"{self._status()} ({time.perf_counter() - began:.2f} s)"}
            else:
                clear_cache()
            return {"text": self._status()}

        return _attempted(act)


def _attempted(act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of ``act``; an exception becomes an ``error`` answer to the page."""
    try:
        return act()
    except KeyboardInterrupt:
        return {"text": "", "error": "interrupted; everything is as it was"}
    except (Exception, LazynbError) as error:
        return {"text": "", "error": error_text(f"{type(error).__name__}: {error}")}


def _broken() -> dict[str, Any]:
    found, placed = breaks(), Sources(()).placed
    return {**table(found, "trace break", placed=placed), "timelines": timelines(found, placed)}
