"""The question of ``%%predict`` as text, for where there are no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.record.snapshot.snapshot import Place


class Question:
    """Which lines will share a kernel? It displays as text, which says how to answer.

    Arguments:
      places: the lines.
    """

    def __init__(self, places: Sequence[Place]):
        self._places = tuple(places)

    def __repr__(self) -> str:
        lines = [f"{place.line:>5}  {place.text}" for place in self._places]
        numbers = " | ".join(str(place.line) for place in self._places)
        answer = f"Answer in the magic's line, | between kernels, such as %%predict {numbers}"
        if not lines:
            return "No line of this cell recorded an operation, so there is no kernel to predict."
        return "\n".join(["Which lines will share a kernel?", *lines, answer])
