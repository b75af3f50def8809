"""The inspector as a widget: anywidget, so that one module serves JupyterLab, Notebook, VS Code and Colab."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from lazynb.notebook.answers import Answers
from lazynb.notebook.page import lab
from lazynb.view.graph.html import fill
from lazynb.view.inspection.contents import countable, inspection
from lazynb.view.inspection.page import BUNDLE
from lazynb.view.inspection.schema import Inspection
from lazynb.xla.compilation import Compilation

_KEPT = 16  # inspectors that answer: ipywidgets keeps every widget, and a compilation keeps its programs
_SOON = 0.02  # seconds in which the kernel says that the cell is done
_LATER = 0.3  # seconds after the cell at which the rest is worked out

_answering: collections.deque[Inspector] = collections.deque()


class Inspector(anywidget.AnyWidget):
    """Shows a compilation and answers its front end's requests.

    Arguments:
      compilation: what to show.
      data: it, as plain data, if that is there already; empty: it follows, see :meth:`complete_later`.
      static: MIME bundle of the static form, which stands in a saved notebook.
      ran: whether the compilation was run.
      show: tabs to open.
    """

    _esm = BUNDLE
    data = traitlets.Dict().tag(sync=True)
    show = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        compilation: Compilation,
        data: Inspection | None = None,
        static: dict[str, Any] | None = None,
        *,
        ran: bool = True,
        show: tuple[str, ...] = (),
    ):
        made = inspection(compilation, ran=ran, live=True) if data is None else data
        super().__init__(data=made, show=list(show))
        self._compilation: Compilation | None = compilation
        self._ran = ran
        self._static = static or {}
        self._answers: Answers | None = None
        self._shown_by: set[tuple[str, str]] = set()
        self._beside: Any = None  # the output that holds the static form
        self.on_msg(self._receive)
        _answering.append(self)
        if len(_answering) > _KEPT:
            _answering.popleft().retire()

    def retire(self) -> None:
        """Lets go of the compilation; what is shown stays."""
        self._compilation = self._answers = None

    def answer(self, request: Any) -> dict[str, Any]:
        """The answer to a request of the front end."""
        if self._compilation is None:
            return {
                "type": "error",
                "id": request.get("id") if isinstance(request, dict) else None,
                "message": "this inspector is too old to answer: run its cell again",
            }
        if self._answers is None:
            self._answers = Answers(self._compilation, self.data)  # type: ignore[arg-type]
        return self._answers.answer(request)

    def _receive(self, _widget: Any, request: Any, _buffers: Any) -> None:
        self.send(self.answer(request))

    def complete_later(self, make: Callable[[], tuple[Inspection, dict[str, Any]]]) -> None:
        """Works out data and static form (by ``make``) when the cell is done: the value is there before what
        explains it."""
        try:
            asyncio.get_running_loop().call_later(_SOON, self._complete, make)
        except RuntimeError:  # no event loop
            self._complete(make)

    def _complete(self, make: Callable[[], tuple[Inspection, dict[str, Any]]]) -> None:
        data, self._static = make()
        self.data = data  # type: ignore[assignment]
        if self._beside is not None:
            self._beside.update(_beside(self._static), raw=True)
        self.fill_in_later()

    def fill_in_later(self) -> None:
        """Works out what the first view does not show when the kernel has nothing else to do."""
        try:
            asyncio.get_running_loop().call_later(_LATER, self.fill_in)
        except RuntimeError:  # no event loop: the front end can still ask
            pass

    def fill_in(self) -> None:
        """Sends what the first view did not show."""
        compilation = self._compilation
        if compilation is None or self._answers is not None or not all(map(countable, compilation.traces)):
            return
        self.data = inspection(compilation, ran=self._ran, live=True, full=True)  # type: ignore[assignment]

    def _ipython_display_(self, **_kwargs: Any) -> None:
        """In JupyterLab and Notebook: the widget, and the static form as an output of its own. They would
        show a widget that no kernel knows any more as an error message, whatever else its output held."""
        asker = lab()
        if not self._static or asker is None:
            raise NotImplementedError  # then IPython takes the bundle
        self._replace(*asker)
        found = super()._repr_mimebundle_()
        data, metadata = found if isinstance(found, tuple) else (found or {}, {})
        display({**data, "text/html": "", "text/plain": ""}, metadata=metadata, raw=True)
        self._beside = display(_beside(self._static), raw=True, display_id=True)

    def _replace(self, cell: str, run: str) -> None:
        """Closes what earlier runs of this cell showed, and no other cell: its output is gone from the
        page."""
        self._shown_by.add((cell, run))
        for other in list(_answering):
            if other._shown_by and all(
                one == cell and other_run != run for one, other_run in other._shown_by
            ):
                _answering.remove(other)
                other.retire()
                other.close()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget's view, and beside it the static form for whoever has no kernel."""
        found = super()._repr_mimebundle_(**kwargs)
        data, metadata = found if isinstance(found, tuple) else (found or {}, {})
        return {**data, **self._static}, metadata


def _beside(static: dict[str, Any]) -> dict[str, Any]:
    """The static form as an output below the widget, which hides it."""
    form = static.get("text/html")
    return {**static, **({"text/html": fill("beside", form=form)} if form else {})}
