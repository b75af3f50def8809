"""The form of ``%%predict --kernel``: a box to tick for each line, then the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from lazynb.notebook.form import Form
from lazynb.source import Place
from lazynb.view.reports.kernel_lines import KernelQuestion

_HLO = (
    "margin:4px 0;padding:4px 8px;max-height:260px;overflow:auto;white-space:pre-wrap;"
    "overflow-wrap:anywhere;line-height:1.35;font-size:12px;border:1px solid var(--jp-border-color2, #ccc)"
)


class KernelForm(Form):
    """Asks which lines are in a kernel.

    Arguments:
      question: the kernel and the lines.
      reveal: called with the numbers of the ticked lines; returns what is shown.
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
    """Its name is the line's number; its tooltip, which a screen reader reads too, the code."""
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
