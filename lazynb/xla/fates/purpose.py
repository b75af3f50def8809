"""The purpose of each instruction: the recorded operations whose value it computes, or a part of it.

An instruction bears the mark of one operation, but XLA computes equal things once: what two operations have
in common bears the mark of one, wherever it is computed again for the other. So a mark is believed where its
operation is served: where the value goes on to what reads that operation. Elsewhere the instruction serves
whom its readers serve.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property

from lazynb.xla.fates.dataflow import Dataflow, Reader
from lazynb.xla.fates.operation_graph import OperationGraph
from lazynb.xla.hlo.module import Instruction, Mark, Module

Marks = Mapping[str, frozenset[Mark]]
_NONE: frozenset[Mark] = frozenset()


class Purposes:
    """Whom the instructions of a module serve.

    Arguments:
      marks: by instruction, the operations that it was made from.
      graph: of the operations.
      equal: by mark, the operations that were merged into that one.
    """

    def __init__(
        self,
        module: Module,
        marks: Marks,
        graph: OperationGraph,
        equal: Mapping[Mark, Sequence[Mark]] | None = None,
    ):
        self._module = module
        self._marks = marks
        self._graph = graph
        self._equal = equal or {}
        self._dataflow = Dataflow(module)

    @cached_property
    def _gone(self) -> set[Mark]:
        """The operations of which there is no instruction."""
        there = {mark for marks in self._marks.values() for mark in marks}
        there.update(mark for several in self._equal.values() for mark in several)
        return self._graph.operands.keys() - there

    @cached_property
    def _calls(self) -> set[Mark]:
        """The marks of the calls around operations."""
        return {mark[:end] for mark in self._graph.operands for end in range(1, len(mark), 2)}

    @cached_property
    def served(self) -> Marks:
        """By instruction, the operations that it serves."""
        served: dict[str, frozenset[Mark]] = {}
        for instruction in self._dataflow.backwards():
            served[instruction.name] = self._served(instruction, served)
        return served

    def _served(self, instruction: Instruction, served: Marks) -> frozenset[Mark]:
        candidates = self._candidates(instruction)
        if not candidates:
            return _NONE
        own = [mark for mark in candidates if self._may_be(instruction, mark)]
        if not own:
            return self._foreign(instruction, candidates, served, ()) or frozenset(candidates)
        strict = [mark for mark in own if self._confirmed(instruction, mark, served, self._gone)]
        loose = strict or [mark for mark in own if self._confirmed(instruction, mark, served, None)]
        joined = loose or [mark for mark in own if self._joined(instruction, mark, served)]
        if joined and not loose:
            return frozenset(joined)
        found = frozenset(loose) | self._foreign(instruction, own, served, own)
        # What nobody reads is there for what it does, as a call of Python.
        return found or self._foreign(instruction, own, served, ()) or frozenset(own)

    def _may_be(self, instruction: Instruction, mark: Mark) -> bool:
        """Whether an instruction may be a part of an operation: if arguments of the program enter it, some of
        those enter the operation. A call around operations is none."""
        if mark not in self._graph.operands and mark in self._calls:
            return False
        return self._graph.shares(self._dataflow.arguments[instruction.name], mark)

    def _candidates(self, instruction: Instruction) -> list[Mark]:
        """The operations that an instruction may serve: those that it was made from, and those that were
        merged into them."""
        candidates = list(self._marks.get(instruction.name, ()))
        for mark in candidates:
            candidates += [other for other in self._equal.get(mark, ()) if other not in candidates]
        return candidates

    def _confirmed(
        self, instruction: Instruction, mark: Mark, served: Marks, gone: Container[Mark] | None
    ) -> bool:
        """Whether the value goes on to what serves the operation ``mark``, or one that reads it: at once, or
        through operations in ``gone``.

        Between them may stand what serves operations that it reads: XLA exchanges two, as a transpose and
        what it is of.
        """
        for reader, serves in self._onward(instruction, mark, served):
            if isinstance(reader, int):
                serves = self._of_result(reader)
            if mark in serves or any(self._graph.follows(other, mark, gone) for other in serves):
                return True
        return False

    def _joined(self, instruction: Instruction, mark: Mark, served: Marks) -> bool:
        """Whether the value goes on to what serves an operation beside ``mark``, and what read both is gone:
        XLA does it there. What was added to a scatter into zeros is what it scatters into."""
        beside = {other for _, serves in self._onward(instruction, mark, served) for other in serves}
        return any(
            self._graph.follows(one, mark, self._gone)
            and any(self._graph.follows(one, other, self._gone) for other in beside)
            for one in self._gone
        )

    def _onward(
        self, instruction: Instruction, mark: Mark, served: Marks
    ) -> Iterator[tuple[Reader, frozenset[Mark]]]:
        """What reads the value, with whom it serves; past what serves none, or only operations that ``mark``
        reads."""
        waiting, seen = [instruction], {instruction.name}
        while waiting:
            for reader in self._dataflow.readers(waiting.pop()):
                if isinstance(reader, int):
                    yield reader, _NONE
                elif reader.name not in seen:
                    seen.add(reader.name)
                    serves = served.get(reader.name, _NONE)
                    yield reader, serves
                    if all(other == mark or self._graph.follows(mark, other) for other in serves):
                        waiting.append(reader)

    def _of_result(self, number: int) -> frozenset[Mark]:
        results = self._graph.results
        mark = results[number] if number < len(results) else None
        return _NONE if mark is None else frozenset({mark})

    def _foreign(
        self, instruction: Instruction, marks: Sequence[Mark], served: Marks, own: Sequence[Mark]
    ) -> frozenset[Mark]:
        """The operations of readers that have nothing to do with ``own``: a part of two was the same, or
        somebody else's mark is on it."""
        found: set[Mark] = set()
        for mark in marks:
            for reader, serves in self._onward(instruction, mark, served):
                if not own and serves.issubset(marks):
                    serves = _NONE
                found |= self._of_result(reader) if isinstance(reader, int) and not own else serves
        return frozenset(mark for mark in found if not any(self._graph.related(mark, one) for one in own))
