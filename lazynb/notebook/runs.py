"""The programs of one cell: those that it ran and those that it left to run, apart from earlier cells'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lazynb.execute.observers import Broke, Observer, Ran
from lazynb.notebook.as_jit import why_not
from lazynb.notebook.leftovers import Earlier
from lazynb.record.pending import Pending
from lazynb.record.snapshot.names import names_of
from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.record.snapshot.trace_summary import Names
from lazynb.source import Origin, line_of
from lazynb.targets.target import Target
from lazynb.xla.as_jit import Jitted, NotOneFunction
from lazynb.xla.compilation import Compilation
from lazynb.xla.gathering import Gathering, compile_waiting, written_down

_PROGRAMS = 32  # of one cell
_OPERATIONS = 3_000

_Key = tuple[int, int, int]


class CellRuns(Observer):
    """Notes each program that a cell runs, once a line.

    A loop that runs a program a thousand times costs a look-up each time.

    Arguments:
      earlier: the traces that earlier cells recorded.
      namespace: the user's variables, whose names the inspector shows.
      cell: the number of the cell, once it is known.
    """

    def __init__(self, earlier: Earlier, namespace: Mapping[str, Any], cell: int | None = None):
        self.cell = cell
        self._earlier = earlier
        self._namespace = namespace
        self._own = Gathering()
        self._left: dict[int | None, Gathering] = {}  # by the cell that left it pending
        self._runs: dict[_Key, int] = {}
        self._kept: list[_Key] = []  # of this cell, in their order
        self._unlisted = 0
        self._operations = 0
        self._last: Sequence[Pending] = ()  # that ran
        self._broke: Broke | None = None  # the first trace break

    @property
    def is_empty(self) -> bool:
        """Whether the cell ran nothing, and left nothing."""
        return self._own.is_empty and not self._left

    @property
    def has_run(self) -> bool:
        """Whether a program of the cell ran."""
        return len(self._own) > 0

    def ran(self, event: Ran) -> None:
        """Notes the program that ran, if it is new."""
        run, pending = event.run, event.pending
        key = (id(run.binding.executable), *_place(pending))
        self._runs[key] = self._runs.get(key, 0) + 1
        if self._runs[key] > 1:
            return
        gathering = self._gathering(pending)
        if len(self._runs) > _PROGRAMS or self._operations >= _OPERATIONS:
            self._unlisted += gathering is self._own
            return
        if gathering is self._own:
            self._kept.append(key)
        self._operations += len(pending)
        self._last = (pending,)
        gathering.describe(pending, self._names())
        gathering.add(pending, event.tensors, run.binding, run.miss is not None)
        gathering.give(pending, event.tensors, event.results)

    def broke(self, event: Broke) -> None:
        """Notes the first trace break."""
        self._broke = self._broke or event

    def _names(self) -> Names:
        try:
            return names_of(self._namespace)
        except Exception:  # one of the user's containers
            return {}

    def _gathering(self, pending: Pending) -> Gathering:
        if pending not in self._earlier:
            return self._own
        return self._left.setdefault(self._earlier[pending], Gathering())

    # ---- what was not run ----------------------------------------------------------------------------------

    def describe(self, waiting: Sequence[Pending]) -> None:
        """Adds what is pending to the graphs."""
        names = names_of(self._namespace)
        for pending in waiting:
            self._gathering(pending).describe(pending, names)

    def compile(self, waiting: Sequence[Pending], ahead: bool = True) -> None:
        """Makes the programs of what is pending, which is described already. Runs nothing.

        Arguments:
          ahead: see :func:`lazynb.xla.gathering.written_down`.
        """
        with written_down(ahead):
            for pending in waiting:
                self._gathering(pending).compile(pending)

    def compile_for(self, waiting: Sequence[Pending], target: Target, ahead: bool = True) -> Compilation:
        """What is pending of this cell as programs for another chip; of earlier cells if there is no more."""
        own = [pending for pending in waiting if pending not in self._earlier]
        names = names_of(self._namespace)
        return compile_waiting(own or waiting, names, ahead, target, cell=self.cell)

    def as_jit(
        self, waiting: Sequence[Pending], leaves: Sequence[Any], is_constant: Callable[[Any], bool]
    ) -> Jitted:
        """What ``jax.jit`` of the cell would compile, with ``leaves`` for its results.

        Arguments:
          is_constant: whether the cell itself made an array.

        Raises:
          NotOneFunction: the cell is no jitted function; the message says why.
        """
        self._check_whole()
        gathering, names = Gathering(), names_of(self._namespace)
        for pending in waiting:
            if pending not in self._earlier:
                gathering.describe(pending, names)
        return gathering.as_jit(leaves, is_constant)

    def as_jit_later(self, leaves: Sequence[Any], is_constant: Callable[[Any], bool]) -> Callable[[], Jitted]:
        """As :meth:`as_jit`, once what is pending is described, made when it is called."""
        self._check_whole()
        return self._own.as_jit_later(leaves, is_constant)

    def _check_whole(self) -> None:
        """
        Raises:
          NotOneFunction: some of the cell ran already.
        """
        if self._broke is not None:
            raise NotOneFunction(why_not(self._broke))
        if len(self._own):
            raise NotOneFunction("a part of the cell ran before its end")

    # ---- what is shown -------------------------------------------------------------------------------------

    def snapshot(self, shown: Sequence[Pending] = ()) -> Snapshot:
        """The graph that :meth:`compilation` shows."""
        gathering, _ = self._shown(shown)
        return gathering.snapshot()

    def compilation(
        self,
        shown: Sequence[Pending] = (),
        snapshot: Snapshot | None = None,
        asked: Sequence[Any] | None = None,
    ) -> Compilation:
        """What the cell recorded, and beside it what earlier cells had left.

        Arguments:
          shown: traces of earlier cells, of which the last is shown if the cell recorded nothing; by default
            the last that ran.
          snapshot: the graph that is shown, if it was taken before.
          asked: what the cell gives; None if nobody knows.
        """
        gathering, cell = self._shown(shown)
        wanted = gathering.values_of(asked) if asked is not None else None
        earlier = [
            left.compilation(cell=number) for number, left in self._left.items() if left is not gathering
        ]
        if gathering is not self._own:
            return gathering.compilation(snapshot, cell=cell, earlier=earlier, asked=wanted)
        runs = [self._runs[key] for key in self._kept]
        runs += [0] * (len(gathering) - len(runs))
        return gathering.compilation(
            snapshot, cell=cell, earlier=earlier, runs=runs, unlisted=self._unlisted, asked=wanted
        )

    def _shown(self, shown: Sequence[Pending]) -> tuple[Gathering, int | None]:
        """What is shown, and the cell that recorded it."""
        held = shown or self._last
        if not self._own.is_empty or not held:
            return self._own, self.cell
        return self._gathering(held[-1]), self._earlier[held[-1]]


def _place(pending: Pending) -> tuple[int, int]:
    """Where the last operation was asked for: it tells apart equal programs of different lines.

    It is the line, since Python 3.11 replaces instructions by faster ones, which changes their offsets.
    """
    for tensor in reversed(pending.records):
        code = tensor._code
        if isinstance(code, Origin):
            return id(code.code), code.line
        if code is not None:
            return id(code), line_of(code, tensor._lasti)
    return 0, 0
