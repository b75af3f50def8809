"""The form of ``%%predict``: a row of buttons for each line, then the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from lazynb.notebook.form import Form
from lazynb.notebook.question import Question
from lazynb.record.snapshot.snapshot import Place

_LETTERS = "ABCDEFGH"


class PredictForm(Form):
    """Asks which lines will share a kernel.

    Arguments:
      places: the lines.
      reveal: called with the groups of line numbers when the reader wants the answer; returns what is shown.
    """

    def __init__(self, places: Sequence[Place], reveal: Callable[[list[set[int]]], Sequence[Any]]):
        self._places = list(places)
        self.choices = [self._choice(number, place) for number, place in enumerate(self._places)]
        title = widgets.HTML(
            "<b>Which lines will share a kernel?</b> Give lines of one kernel the same letter."
        )
        rows = zip(map(self._line, self._places), self.choices)
        super().__init__(Question(places), title, rows, lambda: reveal(self.groups()))

    @staticmethod
    def _line(place: Place) -> Any:
        layout = widgets.Layout(width="auto", min_width="16em", max_width="44em", flex="1 1 16em")
        style = "white-space:pre-wrap;overflow-wrap:anywhere"
        text = f'<code style="{style}">{place.line:>3}&nbsp; {escape(place.text)}</code>'
        return widgets.HTML(text, layout=layout)

    @staticmethod
    def _choice(number: int, place: Place) -> Any:
        letter = _LETTERS[min(number, len(_LETTERS) - 1)]
        return widgets.ToggleButtons(
            options=list(_LETTERS),
            value=letter,
            style={"button_width": "2.4em"},
            tooltips=[f"line {place.line}: kernel {letter}" for letter in _LETTERS],
        )

    def groups(self) -> list[set[int]]:
        """The lines that were given the same letter."""
        by_letter: dict[str, set[int]] = {}
        for place, choice in zip(self._places, self.choices):
            by_letter.setdefault(choice.value, set()).add(place.line)
        return list(by_letter.values())
