"""The inspector as a widget: anywidget lets one module serve JupyterLab, Notebook, VS Code and Colab."""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from lazynb.notebook.frontend_requests import RequestHandler, lab_execution
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.inspection.inspection_data import has_countable_changes, inspection
from lazynb.report.inspection.inspection_page import BUNDLE
from lazynb.report.inspection.operation_data import recorded_graph
from lazynb.xla.compilation import Compilation
from lazynb.xla.inspection_schema import Inspection

_LIVE_INSPECTORS = 16
"""Inspectors that answer: ipywidgets keeps every widget, and a compilation keeps its programs."""

_DELAY_AFTER_CELL = 0.02
"""Seconds in which the kernel says that the cell is done."""

_DELAY_OF_FULL_DATA = 0.3
"""Seconds after the cell at which the rest is worked out."""

_REASONS = ("boundaries", "boundary")
"""The types of answers that say why there are boundaries."""

_NODES_AT_ONCE = 500
"""Nodes of a graph up to which all of it comes at once, in less than half a second."""

_PROGRESS_INTERVAL = 0.2
"""Seconds between two words of how far it is."""

INTERRUPTED = (
    "Interrupted: what XLA did was not read to the end. The program and the values are there; "
    "lazynb.inspect() in a cell reads it again."
)

_Make = Callable[[Callable[[str], None]], tuple[Inspection, dict[str, Any]]]
"""Works out data and static form; tells its argument of each part that it begins."""

_answering: collections.deque[Inspector] = collections.deque()


class Inspector(anywidget.AnyWidget):
    """Shows a compilation and answers its front end's requests.

    Arguments:
      compilation: what to show; None for data from a file, of which nothing more is known.
      data: the compilation as plain data; None if the inspector works it out. Empty data stand for what
        follows, see :meth:`complete_later`.
      static: MIME bundle of the static form, which stands in a saved notebook.
      ran: whether the compilation was run.
      show: tabs to open.
    """

    _esm = BUNDLE
    data = traitlets.Dict().tag(sync=True)
    recorded = traitlets.Dict().tag(sync=True)  # what is known before the data of a large program
    show = traitlets.List(traitlets.Unicode()).tag(sync=True)
    working = traitlets.Unicode("").tag(sync=True)  # what is worked out, while there are no data

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
        self._make: _Make | None = None
        self._is_due = False
        self.on_msg(self._receive)
        _answering.append(self)
        if len(_answering) > _LIVE_INSPECTORS:
            _answering.popleft().release_compilation()

    def release_compilation(self) -> None:
        """Lets the compilation go; what is shown stays."""
        self._compilation = self._answers = self._make = None

    def answer(self, request: Any) -> dict[str, Any]:
        """The answer to a request of the front end."""
        if self._compilation is None:
            return {
                "type": "error",
                "id": request.get("id") if isinstance(request, dict) else None,
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
        """Writes the static form anew, which a stored notebook keeps: the front end learnt of reasons."""
        if self._static_output is not None and self._make is not None:
            _, self._static = self._make(lambda part: None)
            self._static_output.update(_beside(self._static), raw=True)

    def complete_when_shown(self, make: _Make) -> None:
        """Works out data and static form (by ``make``) once it is on the page, which says how far it is."""
        self._make, self._is_due = make, True

    def complete_later(self, make: _Make) -> None:
        """Works out data and static form (by ``make``) when the cell is done, so that the value comes before
        what explains it."""
        self._make = make
        try:
            asyncio.get_running_loop().call_later(_DELAY_AFTER_CELL, self._complete, make)
        except RuntimeError:  # no event loop
            self._complete(make)

    def _complete(self, make: _Make) -> None:
        try:
            self._show_recorded()
            data, self._static = make(self._progress())
        except KeyboardInterrupt:
            self.working = INTERRUPTED
            if self._static_output is not None:
                self._static_output.update(
                    {"text/plain": f"{self._static['text/plain']}\n{INTERRUPTED}"}, raw=True
                )
            raise
        self.data = data  # type: ignore[assignment]
        self.recorded = {}
        if self._static_output is not None:
            self._static_output.update(_beside(self._static), raw=True)
        self.send_full_data_later()

    def _show_recorded(self) -> None:
        """Sends what needs no analysis, if that takes so long that somebody waits for it."""
        compilation = self._compilation
        if compilation is not None and len(compilation.snapshot.nodes) > _NODES_AT_ONCE:
            self.recorded = recorded_graph(compilation)  # type: ignore[assignment]

    def _progress(self) -> Callable[[str], None]:
        """A function that tells the page which part is worked out, not too often."""
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
        """Works out what the first view does not show when the kernel has nothing else to do."""
        try:
            asyncio.get_running_loop().call_later(_DELAY_OF_FULL_DATA, self.send_full_data)
        except RuntimeError:  # no event loop: the front end can still ask
            pass

    def send_full_data(self) -> None:
        """Sends what the first view did not show."""
        compilation = self._compilation
        if compilation is None or self._answers is not None:
            return
        if not all(map(has_countable_changes, compilation.traces)):
            return
        self.data = inspection(compilation, ran=self._ran, live=True, full=True)  # type: ignore[assignment]

    def _ipython_display_(self, **_kwargs: Any) -> None:
        """Shows the widget in JupyterLab and Notebook, with the static form as an output of its own.

        They show a widget that no kernel knows any more as an error message, whatever else its output holds.
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
            self._complete(self._make)

    def _replace(self, cell: str, run: str) -> None:
        """Closes the inspectors that earlier runs of this cell showed, and no other cell: their output is
        gone from the page."""
        self._shown_by.add((cell, run))
        for other in list(_answering):
            if other._is_outdated(cell, run):
                _answering.remove(other)
                other.release_compilation()
                other.close()

    def _is_outdated(self, cell: str, run: str) -> bool:
        """Whether only earlier runs of the cell showed this inspector."""
        if not self._shown_by:
            return False
        return all(shown_cell == cell and shown_run != run for shown_cell, shown_run in self._shown_by)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget's view, and beside it the static form for readers without a kernel."""
        data, metadata = _data_and_metadata(super()._repr_mimebundle_(**kwargs))
        return {**data, **self._static}, metadata


def _data_and_metadata(bundle: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two parts of what ``_repr_mimebundle_`` returns, in each form that IPython allows."""
    if isinstance(bundle, tuple):
        data, metadata = bundle
        return data, metadata
    return bundle or {}, {}


def _beside(static: dict[str, Any]) -> dict[str, Any]:
    """The static form as an output below the widget, which hides it."""
    form = static.get("text/html")
    if not form:
        return dict(static)
    return {**static, "text/html": fill_template("beside", form=form)}
