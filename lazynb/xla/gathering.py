"""Gathering: the programs of several pending traces, run or still to run, become one Compilation."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from lazynb.execute.dumps import dumping
from lazynb.execute.executable import Binding
from lazynb.execute.flush import execution
from lazynb.record.pending import Pending
from lazynb.record.snapshot.describe import Description
from lazynb.record.snapshot.names import names_of
from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.record.snapshot.trace_summary import Input, Names, summarise
from lazynb.record.tensor import LazyTensor
from lazynb.targets.compiled import OutOfMemory
from lazynb.targets.executable import prepare_for
from lazynb.targets.target import Target
from lazynb.xla.compilation import Compilation
from lazynb.xla.cost.too_large import explained
from lazynb.xla.inputs import Inputs
from lazynb.xla.origins import Origins, origins_of
from lazynb.xla.program import CompiledTrace
from lazynb.xla.reading import Reading


class Gathering:
    """Programs, in the order in which they run, and the graph that they compute."""

    def __init__(self) -> None:
        self._description = Description((), {}, opens=True)
        self._programs: list[tuple[Binding, bool, Origins, Inputs]] = []
        self._described: list[Pending] = []  # the description knows traces by id
        self._given: dict[int, tuple[Any, tuple[int, int]]] = {}  # what arrays that exist are, by their id

    def __len__(self) -> int:
        return len(self._programs)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was described."""
        return not self._described

    def describe(self, pending: Pending, names: Names) -> None:
        """Adds the operations of ``pending`` to the graph, after the traces that compute its inputs.

        Arguments:
          names: the names of the user's variables, see :func:`lazynb.record.snapshot.names.names_of`.
        """
        self._described.append(pending)
        summary = summarise(pending, names)
        inputs = [self._known(value, known) for value, known in zip(pending.inputs, summary.inputs)]
        self._description.add(dataclasses.replace(summary, inputs=inputs))

    def _known(self, value: Any, known: Input) -> Input:
        """``known``, or the result of a program that is here already."""
        reference, result = self._given.get(id(value), (None, None))
        if reference is None or reference() is not value:
            return known
        return dataclasses.replace(known, earlier=result)

    def snapshot(self) -> Snapshot:
        """The graph so far."""
        return self._description.snapshot()

    def add(self, pending: Pending, tensors: Sequence[LazyTensor], binding: Binding, is_new: bool) -> None:
        """Adds the program that computes ``tensors`` of ``pending``, which is described already.

        Arguments:
          is_new: whether the program was made now.
        """
        wanted = tuple([tensor._slot for tensor in tensors])
        origins = origins_of(pending, binding, wanted, self._description)
        self._programs.append((binding, is_new, origins, Inputs(pending, binding.inputs)))

    def give(self, pending: Pending, tensors: Sequence[LazyTensor], results: Sequence[Any]) -> None:
        """``results`` are the values of ``tensors`` of ``pending``: the programs after it take them from it.

        They are not kept alive.
        """
        for tensor, result in zip(tensors, results):
            self._given[id(result)] = weakref.ref(result), (id(pending), tensor._slot)

    def compile(self, pending: Pending) -> None:
        """Makes the program of ``pending``, which is described already, and adds it. Runs nothing.

        The traces that compute its inputs must have been compiled before.
        """
        self._add_prepared(pending, execution.prepare(pending))

    def compile_for(self, pending: Pending, target: Target, names: Names) -> None:
        """Makes the program of ``pending``, which is described already, for another chip, and adds it."""
        try:
            self._add_prepared(pending, prepare_for(pending, target, names))
        except OutOfMemory as error:
            raise self._explained(error, pending) from None

    def _explained(self, error: OutOfMemory, pending: Pending) -> OutOfMemory:
        wanted = tuple([tensor._slot for tensor in pending.live()])
        operations = {}
        if error.binding is not None:
            operations = origins_of(pending, error.binding, wanted, self._description).operations
        return explained(error, operations, self.snapshot())

    def _add_prepared(self, pending: Pending, prepared: tuple[Binding, bool] | None) -> None:
        if prepared is not None:
            self.add(pending, pending.live(), *prepared)

    def compilation(self, snapshot: Snapshot | None = None, **about: Any) -> Compilation:
        """All programs.

        Arguments:
          snapshot: the graph, if it was taken before.
          about: what a :class:`Compilation` knows besides.
        """
        graph = snapshot if snapshot is not None else self.snapshot()
        traces = []
        for binding, is_new, origins, inputs in self._programs:
            traces.append(CompiledTrace(binding.executable, is_new, origins, graph, inputs))
        return Compilation(traces, graph, **about)


def compile_tensors(
    tensors: Sequence[Any], namespace: Mapping[str, Any], ahead: bool = True, target: Target | None = None
) -> Compilation:
    """Compiles what ``tensors`` (or pytrees of them) need, or all that is pending of this thread, and runs
    nothing.

    Arguments:
      namespace: the user's variables, whose names the inspector shows.
      ahead: read what XLA writes down while it still compiles, which slows it a little; else when it is asked
        for.
      target: compile for this one, and leave the caches alone.

    Raises what JAX raises for a program that cannot be lowered or compiled; the pending graph stays as it
    was.
    """
    return compile_waiting(execution.waiting(tensors), names_of(namespace), ahead, target)


def compile_waiting(
    waiting: Sequence[Pending], names: Names, ahead: bool = True, target: Target | None = None, **about: Any
) -> Compilation:
    """As :func:`compile_tensors`, of the traces ``waiting``.

    Arguments:
      about: what a :class:`Compilation` knows besides.
    """
    if target is not None:
        target = target.for_inputs([value for pending in waiting for value in pending.inputs], names)
    gathering = Gathering()
    for pending in waiting:
        gathering.describe(pending, names)
    snapshot = gathering.snapshot()
    with written_down(ahead):
        for pending in waiting:
            if target is None:
                gathering.compile(pending)
            else:
                gathering.compile_for(pending, target, names)
    return gathering.compilation(snapshot, target=target, **about)


def written_down(ahead: bool = True) -> Any:
    """A context manager: XLA writes down how it compiles the body's programs.

    Arguments:
      ahead: read that while XLA still compiles.
    """
    return dumping(Reading) if ahead else dumping()
