"""How the course's figures look: transparent, and readable on a light page and on a dark one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
from IPython.display import display

BLUE, ORANGE, GREEN, PURPLE, GREY = "#2E86C1", "#D9762B", "#22967A", "#B86BA6", "#777C83"
"""Colours that differ for the colour-blind too, and stand out on white as on near-black."""

_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "figure.dpi": 110,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
}


@contextmanager
def figure(
    width: float = 7, height: float = 2.6, *, alt: str = "", **options: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure of so many inches and its axes; shown when the block ends, and not shown when it raises.

    Arguments:
      width, height: inches; at 110 dots each.
      alt: what somebody who cannot see the figure should be told; the first axes' title where there is none.
      options: go to ``plt.subplots``; with several axes, an array of them comes.
    """
    with plt.rc_context(_STYLE):
        drawn, axes = plt.subplots(figsize=(width, height), layout="constrained", **options)
        try:
            yield drawn, axes
            title = drawn.axes[0].get_title() or drawn.axes[0].get_title(loc="left")
            display(drawn, metadata={"image/png": {"alt": alt or title}})
        finally:
            plt.close(drawn)


def bars(
    axes: Any, names: list[str], values: list[float], *, unit: str, colours: Any = BLUE, digits: int = 2
) -> None:
    """Horizontal bars from the top down, each with its value behind it and ``unit`` along the axis."""
    drawn = axes.barh(names, values, color=colours, height=0.62)
    axes.bar_label(drawn, labels=[f"{value:,.{digits}f}" for value in values], padding=4, color=GREY)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.margins(x=0.12)
    axes.tick_params(axis="y", length=0)


def pieces(axes: Any, names: list[str], rows: list[list[float]], *, unit: str) -> None:
    """A horizontal bar for each name from the top down, made of pieces side by side, with the number of them
    behind it."""
    for row, values in enumerate(rows):
        left = 0.0
        for value, colour in zip(values, itertools.cycle((BLUE, ORANGE, GREEN, PURPLE))):
            axes.barh(row, value, left=left, color=colour, height=0.62)
            left += value
        said = f"{left:.2f}, in {len(values)}" if len(values) > 1 else f"{left:.2f}"
        axes.annotate(said, (left, row), (5, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.margins(x=0.15)
    axes.tick_params(axis="y", length=0)
