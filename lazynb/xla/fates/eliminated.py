"""The fate of operations whose mark, or whose work, did not arrive in the optimised module."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

from lazynb.xla.evidence import COMPILER, INFERRED
from lazynb.xla.fates.cluster_index import ClusterIndex
from lazynb.xla.fates.fate import Fate
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.pass_history import ARRANGING, PassHistory, equal


class Eliminated:
    """Follows what vanished through the passes."""

    def __init__(self, history: PassHistory, cluster_index: ClusterIndex):
        self._history = history
        self._cluster_index = cluster_index
        self._equal: dict[int, dict[str, int]] = {}

    def fate(self, mark: int) -> Fate:
        """What became of an operation of which no instruction that does work bears the mark at the end."""
        here = self._cluster_index.instructions(mark)
        was, hard = self._history.opcodes.get(mark, set()), self._hard(mark)
        if any(one.opcode not in ARRANGING for one in here) or (
            here and not hard and not self._only_constants(mark, here)
        ):
            return self._cluster_index.fate(mark)
        if not was:
            return Fate(
                "cancelled",
                "simplified away before XLA's first pass: no HLO instruction was made of it",
                INFERRED if self._unmarked_at_first else COMPILER,
                by="lowering",
            )
        if not self._needs_input(mark):
            homes = tuple(self._cluster_index.clusters(mark))
            return Fate("folded", "folded to a constant: no input of the program is in it", clusters=homes)
        fate = self._followed(mark)
        if fate.kind == "cancelled" and fate.by == "reshape-decomposer":
            fate = Fate(
                "cancelled", "no work: another name for the same bytes (`reshape-decomposer`)", by=fate.by
            )
        if fate.kind == "cancelled":
            fate = self._moved(hard) or fate
        if fate.kind == "cancelled" and self._cluster_index.clusters(mark):
            fate = dataclasses.replace(
                self._cluster_index.fate(mark), label=INFERRED, text=f"what is left of it: {fate.text}"
            )
        return fate

    def _hard(self, mark: int) -> set[str]:
        """The opcodes that do the operation's work; none where it only arranges values."""
        return self._history.opcodes.get(mark, set()) - ARRANGING - {"call"}

    def _only_constants(self, mark: int, here: Sequence[Instruction]) -> bool:
        return all(one.opcode == "constant" for one in here)

    @cached_property
    def _unmarked_at_first(self) -> bool:
        return any(
            one.opcode not in ARRANGING and not self._history.first[one.name]
            for one in self._history.module(0)
        )

    def _needs_input(self, mark: int) -> bool:
        """Whether an argument of the program enters the operation."""
        module = self._history.module(0)
        waiting = list(self._history.at_first.get(mark, ()))
        seen: set[str] = set()
        while waiting:
            one = module.by_name[waiting.pop()]
            if one.opcode == "parameter":
                caller = module.callers.get(one.computation)
                if caller is None:
                    return True
                waiting.extend(caller.operands)
            waiting.extend(name for name in one.operands if name not in seen)
            seen.update(one.operands)
        return False

    def _moved(self, opcodes: set[str]) -> Fate | None:
        """Where the work is done under the mark of an operation that never was such work: XLA moved it
        there."""
        clusters = dict.fromkeys(
            home for opcode in sorted(opcodes) for home in self._unexplained.get(opcode, ())
        )
        if not clusters:
            return None
        what = " and ".join(f"`{opcode}`" for opcode in sorted(opcodes))
        return Fate("fused", f"XLA moved it: its {what} is done at another place", INFERRED, tuple(clusters))

    @cached_property
    def _unexplained(self) -> dict[str, list[str]]:
        """By opcode, the clusters with such an instruction that no operation accounts for, by what it was at
        first."""
        history = self._history
        found: dict[str, list[str]] = {}
        for one in history.last:
            home = self._cluster_index.cluster(one.name)
            if (
                home is not None
                and not history.last.is_applied(one.computation)
                and not any(
                    one.opcode in history.opcodes.get(mark, ()) for mark in history.lineage.get(one.name, ())
                )
            ):
                found.setdefault(one.opcode, []).append(home)
        return found

    # ---- pass by pass --------------------------------------------------------------------------------------

    def _followed(self, mark: int) -> Fate:
        at = [index for index in range(len(self._history)) if self._work(index, mark)]
        if not at:
            return self._vanished(0, set(self._history.at_first[mark]))
        return self._vanished(at[-1], self._work(at[-1], mark))

    def _work(self, index: int, mark: int) -> set[str]:
        """What bears the mark and does work; all that bears it where the operation never did any."""
        names, module = self._history.marked(index, mark), self._history.module(index)
        hard = self._hard(mark)
        return {name for name in names if not hard or module.by_name[name].opcode not in ARRANGING}

    def _vanished(self, index: int, names: set[str]) -> Fate:
        """The fate of what ``names`` were, which module ``index`` has and the next has not under their
        mark."""
        while index < len(self._history.passes):
            outcome = self._outcome(index, names)
            if isinstance(outcome, Fate):
                return outcome
            if not outcome:
                by = self._history.passes[index].name
                return Fate("cancelled", f"nothing reads it any more: `{by}` removed it", by=by)
            names, index = outcome, index + 1
        return self._unmarked(names)

    def _outcome(self, index: int, names: set[str]) -> Fate | set[str]:
        """What one pass did: a fate, or the unmarked instructions that stand for the operation now."""
        before, after, by = (
            self._history.module(index),
            self._history.module(index + 1),
            self._history.passes[index].name,
        )
        match = self._history.match(index)
        ends = [
            one
            for one in sorted(names)
            if not any(
                user.name in names for user in before.computations[before.by_name[one].computation].users[one]
            )
        ]
        same = {other for name in ends for other in match.same.get(name, ())}
        taken = [other for name in ends for other in match.instead.get(name, ())]
        if same:
            marks = {after.by_name[name].mark for name in same}
            return (
                self._joined(index, ends, same)
                if None not in marks
                else {name for name in same if after.by_name[name].mark is None}
            )
        kept = {name for name in names if name in after.by_name and after.by_name[name].mark is None}
        if kept:
            return kept
        return self._replaced(before, after, taken, by) if taken else set()

    def _joined(self, index: int, ends: Sequence[str], same: set[str]) -> Fate:
        """Another operation's instruction is read in its place: an equal one, or one that does the work of
        both."""
        before, after, by = (
            self._history.module(index),
            self._history.module(index + 1),
            self._history.passes[index].name,
        )
        if index not in self._equal:
            self._equal[index] = equal(before)
        numbers = self._equal[index]
        other = after.by_name[min(same)]
        theirs = (
            {numbers[name] for name in self._history.marked(index, other.mark)}
            if other.mark is not None
            else set()
        )
        if any(numbers[end] in theirs for end in ends):
            return Fate(
                "merged", f"equal to another operation: computed once (`{by}`)", merged_with=other.mark, by=by
            )
        return Fate(
            "cancelled",
            f"`{by}` made one instruction of it and another operation",
            INFERRED,
            merged_with=other.mark,
            by=by,
        )

    @staticmethod
    def _replaced(before: Module, after: Module, taken: Sequence[str], by: str) -> Fate | set[str]:
        others = [after.by_name[name] for name in taken]
        if all(is_constant(after, other.name) for other in others):
            return Fate("folded", f"folded to a constant (`{by}`)", by=by)
        if all(other.name in before.by_name for other in others):
            what = others[0].scope.rpartition("/")[2] or others[0].opcode
            return Fate(
                "cancelled",
                f"`{by}` removed it: what read it now reads `{what}`",
                INFERRED,
                merged_with=others[0].mark,
                by=by,
            )
        marked = [other for other in others if other.mark is not None]
        if marked:
            return Fate(
                "cancelled",
                f"`{by}` made one instruction of it and another operation",
                INFERRED,
                merged_with=marked[0].mark,
                by=by,
            )
        return {other.name for other in others}

    def _unmarked(self, names: set[str]) -> Fate:
        """It arrived in the optimised module, under no mark."""
        homes = tuple(
            dict.fromkeys(home for name in sorted(names) if (home := self._cluster_index.cluster(name)))
        )
        if homes:
            return Fate(
                "fused",
                "XLA wrote it anew without its mark; found by what reads it",
                INFERRED,
                clusters=homes,
            )
        last = self._history.last
        if names and all(name in last.by_name and is_constant(last, name) for name in names):
            return Fate("folded", "folded to a constant", INFERRED)
        return Fate("cancelled", "no work is left of it, only another name for the same bytes", INFERRED)


def is_constant(module: Module, name: str) -> bool:
    """Whether an instruction is a constant, or a constant spread out."""
    one = module.by_name[name]
    computation = module.computations[one.computation]
    while one.opcode in ("broadcast", "bitcast", "reshape", "convert", "copy"):
        one = computation.instructions[one.operands[0]]
    return one.opcode in ("constant", "iota")
