"""The inspector as an anywidget widget for JupyterLab, Notebook, VS Code and Colab."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from lazynb.compare.misses.cache_info import CacheInfo, explain, unexplained_misses
from lazynb.notebook.frontend_requests import RequestHandler, lab_execution, message_data, request_id
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.inspection.inspection_data import cache_table, inspection
from lazynb.report.inspection.inspection_page import BUNDLE
from lazynb.report.inspection.inspection_text import to_text
from lazynb.report.inspection.operation_data import recorded_graph
from lazynb.report.inspection.program_data import has_countable_changes
from lazynb.report.inspection.session_tables import MAX_ROWS
from lazynb.report.inspection.source_data import Sources
from lazynb.running.miss_log import Miss
from lazynb.user_code.text_format import escape_invisible_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.inspection_schema import Inspection

_LIVE_INSPECTORS = 16
"""Inspectors that keep their compilation. ipywidgets keeps every widget, and a compilation its programs."""

_DELAY_AFTER_CELL = 0.02
"""Seconds after the cell, in which the kernel reports idle."""

_DELAY_OF_FULL_DATA = 0.3
"""Seconds after the first data until the rest is computed."""

_REASONS = ("boundaries", "boundary")
"""Types of answers with reasons of boundaries."""

_NODES_AT_ONCE = 500
"""Number of graph nodes up to which all data is sent at once, in less than half a second."""

_PROGRESS_INTERVAL = 0.2
"""Seconds between two progress messages."""

INTERRUPTED = (
    "Interrupted: what XLA did was not read to the end. The program and the values are there; "
    "lazynb.inspect() in a cell reads it again."
)

UNSTORED = (
    "Interrupted: the form that a saved notebook keeps was not made; lazynb.inspect() in a cell makes it."
)

_MakeData = Callable[[Callable[[str], None]], Inspection]
"""Computes the data; calls its argument with the name of each part that it starts."""

_MakeStatic = Callable[[Inspection], dict[str, Any]]
"""Computes the static form of the data."""

_answering: collections.deque[Inspector] = collections.deque()


class Inspector(anywidget.AnyWidget):
    """Shows a compilation and answers its front end's requests.

    Arguments:
      compilation: the compilation to show; None for data from a file, which answers no requests.
      data: the compilation as plain data; None to compute it here. Empty if it is computed later, see
        :meth:`complete_later`.
      static: MIME bundle of the static form, for saved notebooks.
      ran: whether the compilation was run.
      show: tabs to open.
    """

    _esm = BUNDLE
    data = traitlets.Dict().tag(sync=True)
    recorded = traitlets.Dict().tag(sync=True)  # graph of a large program, sent before its data
    show = traitlets.List(traitlets.Unicode()).tag(sync=True)
    working = traitlets.Unicode("").tag(sync=True)  # progress message, while there are no data

    def __init__(
        self,
        compilation: Compilation | None,
        data: Inspection | None = None,
        static: dict[str, Any] | None = None,
        *,
        ran: bool = True,
        show: tuple[str, ...] = (),
    ):
        if data is None:
            assert compilation is not None
            data = inspection(compilation, ran=ran, live=True)
        super().__init__(data=data, show=list(show))
        self._compilation = compilation
        self._ran = ran
        self._static = static or {}
        self._answers: RequestHandler | None = None
        self._shown_by: set[tuple[str, str]] = set()
        self._static_output: Any = None  # the output that holds the static form
        self._make: tuple[_MakeData, _MakeStatic] | None = None
        self._is_due = False
        self._unexplained: list[Miss] = []
        self.on_msg(self._receive)
        _answering.append(self)
        if len(_answering) > _LIVE_INSPECTORS:
            _answering.popleft().release_compilation()

    def __repr__(self) -> str:
        """The static form as text; a line about the compilation while its data is still to be computed."""
        known = self._static.get("text/plain")
        if not known and "programs" in self.data:
            known = to_text(self.data)  # type: ignore[arg-type]
        return str(known or "Inspector")

    def __str__(self) -> str:
        """The static form as text, computed now if need be: ``print`` of it may be the cell's only output."""
        if not self.data and self._make is not None:
            return str(self._static_form_now()["text/plain"])
        return repr(self)

    def release_compilation(self) -> None:
        self._compilation = self._answers = self._make = None

    def _handle_msg(self, message: Any) -> None:
        """Called by ipywidgets for each message. Ignores a state that a page sends (the kernel alone sets it)
        and malformed messages."""
        request = message_data(message)
        if request.get("method") == "custom":
            self._handle_custom_msg(request.get("content"), [])
        elif request.get("method") == "request_state":
            self.send_state()

    def answer(self, request: Any) -> dict[str, Any]:
        if self._compilation is None:
            return {
                "type": "error",
                "id": request_id(request),
                "message": "this inspector is too old to answer: run its cell again",
            }
        if self._answers is None:
            self._answers = RequestHandler(self._compilation, self.data)  # type: ignore[arg-type]
        return self._answers.answer(request)

    def _receive(self, _widget: Any, request: Any, _buffers: Any) -> None:
        answer = self.answer(request)
        self.send(answer)
        if answer["type"] in _REASONS:
            self._update_static_form()

    def _update_static_form(self) -> None:
        """Updates the static form, which a saved notebook keeps, after an answer with new reasons."""
        if self._static_output is not None and self._make is not None:
            self._static = self._static_form_now()
            self._static_output.update(_beside(self._static), raw=True)

    def _static_form_now(self) -> dict[str, Any]:
        """The static form with what is known by now."""
        assert self._make is not None
        make_data, make_static = self._make
        return make_static(make_data(lambda part: None))

    def complete_when_shown(self, make_data: _MakeData, make_static: _MakeStatic) -> None:
        """Computes data and static form once the widget is displayed; it shows the progress."""
        self._make, self._is_due = (make_data, make_static), True

    def complete_later(self, make_data: _MakeData, make_static: _MakeStatic) -> None:
        """Computes data and static form after the cell, so that its value appears first."""
        self._make = make_data, make_static
        try:
            asyncio.get_running_loop().call_later(_DELAY_AFTER_CELL, self._complete, *self._make)
        except RuntimeError:  # no event loop
            self._complete(*self._make)

    def _complete(self, make_data: _MakeData, make_static: _MakeStatic) -> None:
        """Shows the data as soon as it is there, and then makes the static form."""
        lost = INTERRUPTED
        try:
            self._show_recorded()
            data = make_data(self._progress())
            self.data = data  # type: ignore[assignment]
            self.recorded, lost = {}, UNSTORED
            static = make_static(data)
        except KeyboardInterrupt:
            self.working = lost
            if self._static_output is not None:
                self._static_output.update({"text/plain": f"{self._static['text/plain']}\n{lost}"}, raw=True)
            raise
        self._static = static
        if self._static_output is not None:
            self._static_output.update(_beside(self._static), raw=True)
        self.send_full_data_later()

    def _show_recorded(self) -> None:
        """Sends the graph, which needs no analysis, if computing all data takes long."""
        compilation = self._compilation
        if compilation is not None and len(compilation.snapshot.nodes) > _NODES_AT_ONCE:
            self.recorded = recorded_graph(compilation)  # type: ignore[assignment]

    def _progress(self) -> Callable[[str], None]:
        """A function that sends the name of the current part to the page, at limited rate."""
        began = time.monotonic()
        last = began - _PROGRESS_INTERVAL

        def tell(part: str) -> None:
            nonlocal last
            now = time.monotonic()
            if part and now - last >= _PROGRESS_INTERVAL:  # some parts have no name
                last = now
                name = part.partition(" is missing")[0].partition(" are missing")[0]
                if name[1:2].islower():
                    name = name[0].lower() + name[1:]
                after = f" ({now - began:.0f} s)" if now - began >= 1 else ""
                self.working = f"Reading what XLA did: {name} …{after}"

        return tell

    def send_full_data_later(self) -> None:
        """Computes the data that the first view does not need when the kernel is idle."""
        self._unexplained = unexplained_misses(MAX_ROWS)
        try:
            asyncio.get_running_loop().call_later(_DELAY_OF_FULL_DATA, self._explain_next)
        except RuntimeError:  # no event loop: the front end can still ask
            pass

    def _explain_next(self) -> None:
        """Finds why one executable was no hit; a cell that starts meanwhile waits for no more. Sends the full
        data when all are known."""
        if self._compilation is None:
            return
        if not self._unexplained:
            self.send_full_data()
            return
        with contextlib.suppress(Exception):  # the table then says why it is missing
            explain(self._unexplained.pop())
        asyncio.get_running_loop().call_later(0, self._explain_next)

    def send_full_data(self) -> None:
        """Sends the data that the first view did not need."""
        compilation = self._compilation
        if compilation is None:
            return
        if self._answers is None and all(map(has_countable_changes, compilation.traces)):
            self.data = inspection(compilation, ran=self._ran, live=True, full=True)  # type: ignore[assignment]
            return
        table = escape_invisible_in(cache_table(CacheInfo(), Sources(compilation.snapshot.nodes)))
        other = self.data["other"]
        for data in (self.data, other["inspection"] if other is not None else None):
            if data is not None:  # the object stays, because answers are kept in it
                data["cache"] = table
        self.send_state("data")

    def _ipython_display_(self, **_kwargs: Any) -> None:
        """Displays the widget in JupyterLab and Notebook, with the static form as a separate output.

        Without a kernel they display a widget as an error message, even if its output has other MIME types.
        """
        execution = lab_execution()
        if not self._static or execution is None:
            raise NotImplementedError  # then IPython takes the bundle
        self._replace(*execution)
        data, metadata = _data_and_metadata(super()._repr_mimebundle_())
        display({**data, "text/html": "", "text/plain": ""}, metadata=metadata, raw=True)
        self._static_output = display(_beside(self._static), raw=True, display_id=True)
        if self._is_due and self._make is not None:
            self._is_due = False
            self._complete(*self._make)

    def _replace(self, cell: str, run: str) -> None:
        """Closes inspectors that only earlier runs of this cell displayed; their output is gone."""
        self._shown_by.add((cell, run))
        for other in list(_answering):
            if other._is_outdated(cell, run):
                _answering.remove(other)
                other.release_compilation()
                other.close()

    def _is_outdated(self, cell: str, run: str) -> bool:
        if not self._shown_by:
            return False
        return all(shown_cell == cell and shown_run != run for shown_cell, shown_run in self._shown_by)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget's view, with the static form for readers without a kernel."""
        data, metadata = _data_and_metadata(super()._repr_mimebundle_(**kwargs))
        return {**data, **self._static}, metadata


def _data_and_metadata(bundle: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and metadata of a result of ``_repr_mimebundle_``, which may be a dict or a tuple."""
    if isinstance(bundle, tuple):
        data, metadata = bundle
        return data, metadata
    return bundle or {}, {}


def _beside(static: dict[str, Any]) -> dict[str, Any]:
    """The static form as an output below the widget; a displayed widget hides it."""
    form = static.get("text/html")
    if not form:
        return dict(static)
    return {**static, "text/html": fill_template("beside", form=form)}
