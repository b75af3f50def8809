"""The ipywidgets forms of ``%%predict``: a row for each line, a button, and below it the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from lazynb.report.prediction_report import KernelQuestion, SharedKernelQuestion
from lazynb.user_code.source_lines import Place, Place as NodePlace

# ---- Base class of both forms ------------------------------------------------------------------------------


class QuestionForm(widgets.VBox):
    """A form with a row for each line and a button for the answer.

    Arguments:
      question: an object whose ``repr`` is the question as text, with what to write if no widgets are shown.
      title: a widget above the rows.
      rows: the widgets of each line; they wrap on a narrow page.
      reveal: called when the button is clicked; returns the objects to display.
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
        """The form; its ``text/plain`` is the question as text."""
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


# ---- Which lines share a kernel ----------------------------------------------------------------------------
# A row of letter buttons for each line.

_LETTERS = "ABCDEFGH"


class PredictForm(QuestionForm):
    """Asks which lines will share a kernel.

    Arguments:
      places: the lines.
      reveal: called with the groups of line numbers; returns the objects to display.
    """

    def __init__(self, places: Sequence[NodePlace], reveal: Callable[[list[set[int]]], Sequence[Any]]):
        self._places = list(places)
        self.choices = [self._choice(number, place) for number, place in enumerate(self._places)]
        title = widgets.HTML(
            "<b>Which lines will share a kernel?</b> Give lines of one kernel the same letter."
        )
        rows = zip(map(self._line, self._places), self.choices)
        super().__init__(SharedKernelQuestion(places), title, rows, lambda: reveal(self.groups()))

    @staticmethod
    def _line(place: NodePlace) -> Any:
        layout = widgets.Layout(width="auto", min_width="16em", max_width="44em", flex="1 1 16em")
        style = "white-space:pre-wrap;overflow-wrap:anywhere"
        text = f'<code style="{style}">{place.line:>3}&nbsp; {escape(place.text)}</code>'
        return widgets.HTML(text, layout=layout)

    @staticmethod
    def _choice(number: int, place: NodePlace) -> Any:
        letter = _LETTERS[min(number, len(_LETTERS) - 1)]
        return widgets.ToggleButtons(
            options=list(_LETTERS),
            value=letter,
            style={"button_width": "2.4em"},
            tooltips=[f"line {place.line}: kernel {letter}" for letter in _LETTERS],
        )

    def groups(self) -> list[set[int]]:
        """The line numbers, grouped by letter."""
        by_letter: dict[str, set[int]] = {}
        for place, choice in zip(self._places, self.choices):
            by_letter.setdefault(choice.value, set()).add(place.line)
        return list(by_letter.values())


_HLO = (
    "margin:4px 0;padding:4px 8px;max-height:260px;overflow:auto;white-space:pre-wrap;"
    "overflow-wrap:anywhere;line-height:1.35;font-size:12px;border:1px solid var(--jp-border-color2, #ccc)"
)


class KernelForm(QuestionForm):
    """Asks which lines are in a kernel.

    Arguments:
      question: the kernel and the lines.
      reveal: called with the numbers of the ticked lines; returns the objects to display.
    """

    def __init__(self, question: KernelQuestion, reveal: Callable[[set[int]], Sequence[Any]]):
        self._places = question.places
        self.boxes = [_box(place) for place in self._places]
        rows = zip(self.boxes, map(_code, self._places))
        super().__init__(question, _head(question), rows, lambda: reveal(self.lines()))

    def lines(self) -> set[int]:
        """The numbers of the ticked lines."""
        return {place.line for place, box in zip(self._places, self.boxes) if box.value}


def _head(question: KernelQuestion) -> Any:
    hlo = question.kernel.hlo.rstrip()
    label = f"HLO of the kernel {question.kernel.label}"
    text = (
        f'<pre style="{_HLO}" tabindex="0" role="region" aria-label="{label}">{escape(hlo)}</pre>'
        if hlo
        else ""
    )
    layout = widgets.Layout(max_width="100%")
    return widgets.HTML(f"<b>{escape(question.title)}</b> Tick them.{text}", layout=layout)


def _box(place: Place) -> Any:
    """A checkbox named after the line number. Its tooltip, also read by screen readers, is the code."""
    return widgets.Checkbox(
        value=False,
        indent=False,
        description=f"line {place.line}",
        tooltip=place.text,
        layout=widgets.Layout(width="6em"),
    )


def _code(place: Place) -> Any:
    style = "display:block;white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.4;padding:6px 0"
    layout = widgets.Layout(width="auto", min_width="16em", max_width="60em", flex="1 1 16em")
    return widgets.HTML(f'<code style="{style}">{escape(place.text)}</code>', layout=layout)
