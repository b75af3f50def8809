"""Fates of operations whose mark, or whose work, is not in the optimised module."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence
from functools import cached_property

from lazynb.xla.evidence import ABSENT_IN_FIRST_PASS, INFERRED, Fate
from lazynb.xla.fates.operation_clusters import ClusterIndex
from lazynb.xla.hlo import pass_history
from lazynb.xla.hlo.module import Instruction, Mark, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.pass_history import DATA_ARRANGING, PassHistory, equal_instructions
from lazynb.xla.program_origins import OperationGraph


class EliminationTracker:
    """Follows vanished operations through XLA's passes."""

    def __init__(
        self,
        history: PassHistory,
        cluster_index: ClusterIndex,
        graph: OperationGraph,
        unentered: Container[Mark] = (),
    ):
        """
        Arguments:
          unentered: the marks of operations that depend on no argument of the program.
        """
        self._history = history
        self._unentered = unentered
        self._graph = graph
        self._cluster_index = cluster_index
        self._equal: dict[int, dict[str, int]] = {}

    def fate(self, mark: Mark) -> Fate:
        """Return the fate of an operation whose mark is on no working instruction of the optimised module."""
        if self._is_in_optimised_module(mark):
            return self._cluster_index.fate(mark)
        if not self._history.opcodes.get(mark):
            return self._fate_without_hlo(mark)
        clusters = tuple(self._cluster_index.clusters(mark))
        fate = self._followed(mark)
        if not self._needs_input(mark) and (fate.kind != "cancelled" or fate.by in ("", _FOLDING)):
            text = "folded to a constant: no input of the program is in it"
            return Fate("folded", text, clusters=clusters)
        if fate.kind == "cancelled" and fate.by == "reshape-decomposer":
            text = "no work: another name for the same bytes (`reshape-decomposer`)"
            fate = Fate("cancelled", text, by=fate.by)
        passed = [name for name in clusters if name not in fate.clusters]
        if fate.kind == "fused" and passed:
            text = f"{fate.text}, and passed on in what reads it"
            fate = dataclasses.replace(fate, clusters=(*fate.clusters, *passed), text=text)
        if fate.kind == "cancelled" and clusters:
            text = f"what is left of it: {fate.text}"
            fate = dataclasses.replace(self._cluster_index.fate(mark), followed=False, text=text)
        return fate

    def _is_in_optimised_module(self, mark: Mark) -> bool:
        instructions = self._cluster_index.instructions(mark)
        if self._needs_input(mark):  # constants that come from other operations may have its mark
            is_constant = self._cluster_index.dataflow.is_constant
            instructions = [one for one in instructions if not is_constant(one)]
        if any(instruction.opcode not in DATA_ARRANGING for instruction in instructions):
            return True
        if self._computing_opcodes(mark):
            return False
        return any(instruction.opcode != "constant" for instruction in instructions)

    def _computing_opcodes(self, mark: Mark) -> set[str]:
        """The opcodes that do the operation's work; empty if it only arranges values."""
        return self._history.opcodes.get(mark, set()) - DATA_ARRANGING - {"call"}

    def _fate_without_hlo(self, mark: Mark) -> Fate:
        """The fate of an operation whose mark is on no instruction of the first module.
        StableHLO's constants, and operations that only spread them, become HLO without their scopes."""
        if mark in self._unentered and not any(map(self._computing_opcodes, self._graph.before(mark))):
            text = "folded to a constant: no input of the program is in it"
            return Fate("folded", text, INFERRED, followed=False)
        text = "simplified away before XLA's first pass: no HLO instruction was made of it"
        if self._unmarked_at_first:
            return Fate("cancelled", text, INFERRED, by="lowering", followed=False)
        return Fate("cancelled", text, ABSENT_IN_FIRST_PASS, by="lowering")

    @cached_property
    def _unmarked_at_first(self) -> bool:
        """Whether the first module contains working instructions of an unknown operation."""
        for instruction in self._history.module(0):
            if instruction.opcode not in DATA_ARRANGING and not self._history.first[instruction.name]:
                return True
        return False

    def _needs_input(self, mark: Mark) -> bool:
        if mark in self._graph.constants:
            return False
        module = self._history.module(0)
        waiting = list(self._history.first_instructions.get(mark, ()))
        seen: set[str] = set()
        while waiting:
            instruction = module.by_name[waiting.pop()]
            if instruction.opcode == "parameter":
                callers = self._callers(instruction, mark)
                if not callers:
                    return True
                waiting.extend(name for one in callers for name in one.operands)
            waiting.extend(name for name in instruction.operands if name not in seen)
            seen.update(instruction.operands)
        return False

    def _callers(self, parameter: Instruction, mark: Mark) -> Sequence[Instruction]:
        """The callers that set a parameter of the first module; those around ``mark``, if there are any."""
        callers = self._history.module(0).all_callers.get(parameter.computation, ())
        first = self._history.first
        around = [one for one in callers if any(mark[: len(each)] == each for each in first[one.name])]
        return around or callers

    def _moved(self, mark: Mark, index: int, names: set[str]) -> Fate | None:
        """The fate of work that XLA moved when pass ``index`` removed it; None if there is no such place.
        At the new place it has the mark of another operation, which never did such work and which reads this
        one or is read by it, with no third such operation between."""
        for since, work in ((index, names), (0, self._marked_work(0, mark))):
            moved = pass_history.moved_instructions(self._history, since, index, work)
            clusters = self._places(mark, moved)
            if clusters:
                opcodes = {self._history.last.by_name[name].opcode for name in moved}
                what = " and ".join(f"`{opcode}`" for opcode in sorted(opcodes))
                text = f"XLA moved it: its {what} is done at another place"
                return Fate("fused", text, clusters=tuple(clusters), followed=False)
        return None

    def _places(self, mark: Mark, names: set[str]) -> dict[str, None]:
        """The clusters of the instructions among ``names`` that may do the work of an operation."""
        clusters: dict[str, None] = {}
        for opcode in sorted(self._computing_opcodes(mark)):
            places: dict[Mark, list[str]] = {}
            for other, instruction, cluster in self._unattributed_instructions.get(opcode, ()):
                if instruction.name in names and self._arguments_allow(instruction, mark):
                    places.setdefault(other, []).append(cluster)
            for other in [mark] if mark in places else self._graph.nearest(list(places), mark):
                clusters.update(dict.fromkeys(places[other]))
        return clusters

    def _arguments_allow(self, instruction: Instruction, mark: Mark) -> bool:
        """Whether the program arguments that reach an instruction permit that it does an operation's work.
        All of them must reach the operation, unless the instruction moves elements, which XLA may do
        later."""
        entering = self._cluster_index.dataflow.arguments[instruction.name]
        if self._graph.has_all_arguments(entering, mark):
            return True
        return instruction.opcode in _MOVING and not self._graph.arguments.get(mark, 0) & ~entering

    @cached_property
    def _unattributed_instructions(self) -> dict[str, list[tuple[Mark, Instruction, str]]]:
        """By opcode, (operation, instruction, cluster) where the operation had no such opcode at first.
        If the operation is unknown, the operations of the instruction's operands and users are listed."""
        module = self._history.last
        places: dict[str, list[tuple[Mark, Instruction, str]]] = {}
        for instruction in module:
            cluster = self._cluster_index.cluster(instruction.name)
            if cluster is None or module.is_applied(instruction.computation):
                continue
            if not self._is_explained(instruction):
                lineage = self._history.lineage
                for mark in lineage.get(instruction.name) or self._neighbour_operations(instruction):
                    places.setdefault(instruction.opcode, []).append((mark, instruction, cluster))
        return places

    def _neighbour_operations(self, instruction: Instruction) -> set[Mark]:
        computation = self._history.last.computations[instruction.computation]
        beside = [*instruction.operands, *(user.name for user in computation.users[instruction.name])]
        if instruction.root:
            caller = self._history.last.callers.get(instruction.computation)
            beside += [user.name for user in self._users(caller)]
        return {mark for name in beside for mark in self._history.lineage.get(name, ())}

    def _users(self, instruction: Instruction | None) -> Sequence[Instruction]:
        if instruction is None:
            return ()
        return self._history.last.computations[instruction.computation].users[instruction.name]

    def _is_explained(self, instruction: Instruction) -> bool:
        """Whether one of the instruction's operations had this opcode in the first module."""
        history = self._history
        marks = history.lineage.get(instruction.name, ())
        return any(instruction.opcode in history.applied_opcodes.get(mark, ()) for mark in marks)

    # ---- Pass by pass --------------------------------------------------------------------------------------

    def _followed(self, mark: Mark) -> Fate:
        indices = [index for index in range(len(self._history)) if self._marked_work(index, mark)]
        if not indices:
            return self._fate_after_pass(mark, 0, set(self._history.first_instructions[mark]))
        return self._fate_after_pass(mark, indices[-1], self._marked_work(indices[-1], mark))

    def _marked_work(self, index: int, mark: Mark) -> set[str]:
        """The working instructions with the mark; all with it if the operation only arranges values.
        Computations applied to each element are part of their reduction and left out."""
        module = self._history.module(index)
        marked = [module.by_name[name] for name in self._history.marked(index, mark)]
        if self._computing_opcodes(mark):
            marked = [one for one in marked if one.opcode not in DATA_ARRANGING]
        standing = [one for one in marked if not module.is_applied(one.computation)]
        return {one.name for one in standing}

    def _fate_after_pass(self, mark: Mark, index: int, names: set[str]) -> Fate:
        """The fate of ``names``, which are in module ``index`` but no longer under their mark in the next."""
        while index < len(self._history.passes):
            outcome = self._outcome(index, names)
            if not outcome:
                by = self._history.passes[index].name
                outcome = Fate("cancelled", f"nothing reads it any more: `{by}` removed it", by=by)
            if isinstance(outcome, Fate):
                moved = self._moved(mark, index, names) if outcome.kind == "cancelled" else None
                return moved or outcome
            names, index = outcome, index + 1
        return self._fate_of_unmarked(mark, names)

    def _outcome(self, index: int, names: set[str]) -> Fate | set[str]:
        """The effect of one pass: a fate, or the unmarked instructions that replace the operation."""
        before, after = self._history.module(index), self._history.module(index + 1)
        match = self._history.match(index)
        ends = [name for name in sorted(names) if not _is_read_by(before, name, names)]
        same = {other for name in ends for other in match.same.get(name, ())}
        if same:
            return _without_mark(after, same) or self._merge_fate(index, ends, same)
        kept = _without_mark(after, names & after.by_name.keys())
        if kept:
            return kept
        taken = [other for name in ends for other in match.instead.get(name, ())]
        if taken:
            return self._replaced(before, after, taken, self._history.passes[index].name)
        return set()

    def _merge_fate(self, index: int, ends: Sequence[str], same: set[str]) -> Fate:
        """The fate if an instruction of another operation is read instead: an equal or a combined one."""
        by = self._history.passes[index].name
        if index not in self._equal:
            self._equal[index] = equal_instructions(self._history.module(index))
        numbers = self._equal[index]
        mark = self._history.module(index + 1).by_name[min(same)].mark
        others = self._history.marked(index, mark) if mark is not None else set()
        if not {numbers[end] for end in ends}.isdisjoint(numbers[name] for name in others):
            text = f"equal to another operation: one of the two is kept (`{by}`)"
            return Fate("merged", text, merged_with=mark, by=by)
        return _combined_fate(mark, by)

    @staticmethod
    def _replaced(before: Module, after: Module, names: Sequence[str], by: str) -> Fate | set[str]:
        """The fate of an operation whose readers now read ``names``; or ``names``, if they have no mark."""
        others = [after.by_name[name] for name in names]
        if all(is_constant(after, name) for name in names):
            return Fate("folded", f"folded to a constant (`{by}`)", by=by)
        if all(name in before.by_name for name in names):
            what = others[0].scope.rpartition("/")[2] or others[0].opcode
            text = f"`{by}` removed it: what read it now reads `{what}`"
            return Fate("cancelled", text, merged_with=others[0].mark, by=by, followed=False)
        marks = [other.mark for other in others if other.mark is not None]
        if marks:
            return _combined_fate(marks[0], by)
        return set(names)

    def _fate_of_unmarked(self, mark: Mark, names: set[str]) -> Fate:
        """The fate of instructions that are in the optimised module without a mark.
        Instructions there with the mark that serve other operations do not count."""
        last = self._history.last
        serving = {one.name for one in self._cluster_index.instructions(mark)}
        names = {
            name for name in names & last.by_name.keys() if last.by_name[name].mark is None or name in serving
        }
        names |= self._copies(serving)
        holders = map(self._cluster_index.cluster, sorted(names))
        clusters = tuple(dict.fromkeys(holder for holder in holders if holder is not None))
        if clusters:
            text = "XLA wrote it anew without its mark; found by what reads it"
            return Fate("fused", text, clusters=clusters, followed=False)
        if names and all(name in last.by_name and is_constant(last, name) for name in names):
            return Fate("folded", "folded to a constant", followed=False)
        text = "no work is left of it, only another name for the same bytes"
        return Fate("cancelled", text, followed=False)

    def _copies(self, names: set[str]) -> set[str]:
        """The unmarked copies of ``names``: the operation became another view of the same bytes."""
        dataflow, by_name = self._cluster_index.dataflow, self._history.last.by_name
        readers = [reader for name in names for reader in dataflow.readers(by_name[name])]
        copies = [one for one in readers if isinstance(one, Instruction) and one.opcode == "copy"]
        return {one.name for one in copies if one.mark is None}


def _is_read_by(module: Module, name: str, readers: set[str]) -> bool:
    computation = module.computations[module.by_name[name].computation]
    return any(user.name in readers for user in computation.users[name])


def _without_mark(module: Module, names: set[str]) -> set[str]:
    return {name for name in names if module.by_name[name].mark is None}


def _combined_fate(mark: Mark | None, by: str) -> Fate:
    """The fate if one instruction does the work of the operation and of the one with ``mark``."""
    text = f"`{by}` made one instruction of it and another operation"
    return Fate("cancelled", text, merged_with=mark, by=by, followed=False)


_FOLDING = "constant_folding"
_MOVING = opcodes_of(OpcodeKind.MOVEMENT) | opcodes_of(Trait.SAME_VALUES)
_SPREADING = opcodes_of(Trait.SPREADS)


def is_constant(module: Module, name: str) -> bool:
    """Return whether an instruction is a constant, an iota, or only spreads one."""
    one = module.by_name[name]
    computation = module.computations[one.computation]
    while one.opcode in _SPREADING:
        one = computation.instructions[one.operands[0]]
    return one.opcode in ("constant", "iota")
