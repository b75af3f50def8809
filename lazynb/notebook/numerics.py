"""``%%numerics``: a cell eagerly and compiled, operation by operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazynb.errors import LazynbError
from lazynb.execute.flush import execution
from lazynb.execute.observers import Broke, Observer, observing
from lazynb.notebook.leftovers import Earlier
from lazynb.numerics.code import code_of
from lazynb.numerics.comparison import Comparison
from lazynb.numerics.numerics import Numerics
from lazynb.numerics.run import NOTHING_RECORDED
from lazynb.record.mode import recording
from lazynb.record.pending import closure


class _Breaks(Observer):
    """Notes the trace breaks of a cell."""

    def __init__(self) -> None:
        self.first: Broke | None = None
        self.count = 0

    def broke(self, event: Broke) -> None:
        """Notes a trace break."""
        self.first = self.first or event
        self.count += 1

    def notes(self) -> tuple[str, ...]:
        """That a part of the cell is missing; nothing if none is."""
        if self.first is None:
            return ()
        place, others = self.first.spot.place, self.count - 1
        more = f" (and {others:,} times more)" if others else ""
        return (
            f"{place.label} needed a value in the middle ({self.first.kind}{more}): what ran before that is "
            "not compared, only what the cell left pending at its end; move that line to another cell to "
            "compare all",
        )


def numerics_of_cell(name: str, run: Callable[[], Any], earlier: Earlier) -> tuple[Any, Numerics]:
    """Runs a cell lazily, and compares what it leaves pending. That is pending still.

    Arguments:
      name: of the cell.
      run: runs it; gives the value of its last expression.
      earlier: what earlier cells left pending.

    Returns: what ``run`` gave, and the numerics.
    """
    __tracebackhide__ = True
    breaks = _Breaks()
    with recording(), observing(breaks):
        value = run()
    own = [pending for pending in execution.waiting([]) if pending not in earlier]
    tensors = [tensor for pending in own for tensor in pending.live()]
    if not tensors:
        return value, Numerics(name, None, (*breaks.notes(), NOTHING_RECORDED))
    try:
        waiting = closure(tensors)
        code = code_of(waiting, tensors, {}, lambda array: False, lambda step: step.constant is not None)
    except LazynbError as error:
        return value, Numerics(name, None, (*breaks.notes(), str(error)))
    numerics = Numerics(name, Comparison(code), breaks.notes())
    numerics.settle()
    return value, numerics
