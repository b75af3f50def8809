"""A form of ``%%predict``: a row for each line, a button, and below it the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ipywidgets as widgets
from IPython.display import display


class Form(widgets.VBox):
    """Asks something about lines.

    Arguments:
      question: its ``repr`` asks the same, and says what to write where no widgets are shown.
      title: a widget, above the rows.
      rows: for each line its widgets; a narrow page has them below each other.
      reveal: called when the reader wants the answer; returns what is shown.
    """

    def __init__(
        self, question: Any, title: Any, rows: Iterable[Sequence[Any]], reveal: Callable[[], Sequence[Any]]
    ):
        self._question = question
        self._reveal = reveal
        self.button = widgets.Button(
            description="Reveal", button_style="primary", tooltip="what XLA made of it, and why"
        )
        self.output = widgets.Output()
        self.button.on_click(self._show)
        lines = [widgets.HBox(row, layout=widgets.Layout(flex_flow="row wrap")) for row in rows]
        super().__init__([title, *lines, self.button, self.output])

    def _repr_mimebundle_(self, **given: Any) -> Any:
        """The form; as text, what to write where no widgets are shown."""
        bundle = super()._repr_mimebundle_(**given)
        if bundle is not None:
            bundle["text/plain"] = repr(self)
        return bundle

    def __repr__(self) -> str:
        return repr(self._question)

    def _show(self, _button: Any) -> None:
        self.output.clear_output()
        with self.output:
            for shown in self._reveal():
                display(shown)
