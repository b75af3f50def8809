"""The operations that each instruction of a module serves: for which it computes a value.

An instruction serves the operations whose value, or part of it, it computes. It has the mark of one of them,
but XLA computes common parts of two operations once, and copies of such a part keep that mark. So a mark is
trusted only if the value flows to readers of its operation; else the readers' operations count.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property

from lazynb.xla.hlo.instruction_flow import InstructionFlow, Reader
from lazynb.xla.hlo.module import Instruction, Mark, Module
from lazynb.xla.program_origins import OperationGraph

Marks = Mapping[str, frozenset[Mark]]
_NONE: frozenset[Mark] = frozenset()


class InstructionAttribution:
    """The operations that each instruction of a module serves.

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
        self._dataflow = InstructionFlow(module)

    @cached_property
    def _absent_operations(self) -> set[Mark]:
        there = {mark for marks in self._marks.values() for mark in marks}
        there.update(mark for several in self._equal.values() for mark in several)
        return self._graph.operands.keys() - there

    @cached_property
    def _calls(self) -> set[Mark]:
        return {mark[:end] for mark in self._graph.operands for end in range(1, len(mark), 2)}

    @cached_property
    def operations(self) -> Marks:
        """By instruction, the operations that it serves."""
        served: dict[str, frozenset[Mark]] = {}
        for instruction in self._dataflow.reverse_execution_order():
            served[instruction.name] = self._served(instruction, served)
        return served

    def _served(self, instruction: Instruction, served: Marks) -> frozenset[Mark]:
        candidates = self._candidates(instruction)
        if not candidates:
            return _NONE
        own = [mark for mark in candidates if self._arguments_allow(instruction, mark)]
        if not own:
            return self._operations_of_readers(instruction, candidates, served, ()) or frozenset(candidates)
        strict = [
            mark for mark in own if self._reaches_reader(instruction, mark, served, self._absent_operations)
        ]
        loose = strict or [mark for mark in own if self._reaches_reader(instruction, mark, served, None)]
        joined = loose or [mark for mark in own if self._reaches_sibling(instruction, mark, served)]
        if joined and not loose:
            return frozenset(joined)
        found = frozenset(loose) | self._operations_of_readers(instruction, own, served, own)
        # An instruction without readers runs for its side effects, for example a Python callback.
        return found or self._operations_of_readers(instruction, own, served, ()) or frozenset(own)

    def _arguments_allow(self, instruction: Instruction, mark: Mark) -> bool:
        """Whether an instruction may be part of an operation: no program argument reaches it, or one reaches
        both.
        A call around operations is not an operation."""
        if mark not in self._graph.operands and mark in self._calls:
            return False
        return self._graph.shares(self._dataflow.arguments[instruction.name], mark)

    def _candidates(self, instruction: Instruction) -> list[Mark]:
        """The operations that an instruction may serve: its own and those merged into them."""
        candidates = list(self._marks.get(instruction.name, ()))
        for mark in candidates:
            candidates += [other for other in self._equal.get(mark, ()) if other not in candidates]
        return candidates

    def _reaches_reader(
        self, instruction: Instruction, mark: Mark, served: Marks, gone: Container[Mark] | None
    ) -> bool:
        """Whether the value flows to ``mark`` or a reader of it, directly or through operations in ``gone``.
        Operations that ``mark`` reads may lie between: XLA exchanges, say, a transpose and its operand."""
        for reader, serves in self._downstream_readers(instruction, mark, served):
            if isinstance(reader, int):
                serves = self._of_result(reader)
            if mark in serves or any(self._graph.depends_on(other, mark, gone) for other in serves):
                return True
        return False

    def _reaches_sibling(self, instruction: Instruction, mark: Mark, served: Marks) -> bool:
        """Whether the value flows to another operation with which ``mark`` shares an absent reader.
        XLA does the reader's work there: adding to a scatter into zeros becomes a scatter into the addend."""
        beside = {
            other for _, serves in self._downstream_readers(instruction, mark, served) for other in serves
        }
        return any(
            self._graph.depends_on(one, mark, self._absent_operations)
            and any(self._graph.depends_on(one, other, self._absent_operations) for other in beside)
            for one in self._absent_operations
        )

    def _downstream_readers(
        self, instruction: Instruction, mark: Mark, served: Marks
    ) -> Iterator[tuple[Reader, frozenset[Mark]]]:
        """Yields the readers of the value, each with the operations it serves.
        The walk continues past readers that serve none, or only operations that ``mark`` reads."""
        waiting, seen = [instruction], {instruction.name}
        while waiting:
            for reader in self._dataflow.readers(waiting.pop()):
                if isinstance(reader, int):
                    yield reader, _NONE
                elif reader.name not in seen:
                    seen.add(reader.name)
                    serves = served.get(reader.name, _NONE)
                    yield reader, serves
                    if all(other == mark or self._graph.depends_on(mark, other) for other in serves):
                        waiting.append(reader)

    def _of_result(self, number: int) -> frozenset[Mark]:
        results = self._graph.results
        mark = results[number] if number < len(results) else None
        return _NONE if mark is None else frozenset({mark})

    def _operations_of_readers(
        self, instruction: Instruction, marks: Sequence[Mark], served: Marks, own: Sequence[Mark]
    ) -> frozenset[Mark]:
        """The operations of readers that are unrelated to ``own``.
        The instruction is a common part of two operations, or has the mark of an unrelated one."""
        found: set[Mark] = set()
        for mark in marks:
            for reader, serves in self._downstream_readers(instruction, mark, served):
                if not own and serves.issubset(marks):
                    serves = _NONE
                found |= self._of_result(reader) if isinstance(reader, int) and not own else serves
        return frozenset(mark for mark in found if not any(self._graph.related(mark, one) for one in own))
