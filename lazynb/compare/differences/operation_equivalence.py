"""Detects equal computations that are recorded under other names or as other operations.

``jnp.mean`` is one operation, but a sum and a division inside the user's own ``jax.jit``: lazynb records a
function that JAX jits internally as one operation, and looks into functions that the user jits. Operations
without an equal partner are therefore compared by their lowered HLO: each instruction with its operands, back
to operations that both sides have.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from lazynb.compare.differences.compilation_match import CompilationMatch, LinePair
from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.compare.differences.lowered_operations import STRUCTURAL_OPCODES, ProgramBeforePasses
from lazynb.xla.hlo.module import Instruction
from lazynb.xla.hlo.value_numbering import ModuleValueNumbers, ValueNumbering

# ---- Several operations that equal one of the other side --------------------------------------------------
# Matched by instruction kinds only, because different operands give different expressions. If a line had a
# ``mean`` and now has a sum and a division of the same shapes, these are the mean.

Kinds = Counter[Hashable]
"""The instructions of an operation, without operands except numbers."""


def combined_ops(
    matching: CompilationMatch, before: Mapping[int, Kinds], now: Mapping[int, Kinds]
) -> Iterator[tuple[int, int]]:
    """Pairs one operation with operations of the other side that together equal it, on corresponding lines.

    Arguments:
      before, now: operations without an equal partner.
    """
    old, new = _by_line(matching, before, False), _by_line(matching, now, True)
    used: set[int] = set()
    for pair in old.keys() & new.keys():
        for whole in old[pair]:
            if parts := _parts(before[whole], [node for node in new[pair] if node not in used], now):
                used.update(parts)
                yield from ((whole, part) for part in parts)
    taken: set[int] = set()
    for pair in old.keys() & new.keys():
        for whole in new[pair]:
            left = [node for node in old[pair] if node not in taken]
            if whole not in used and (parts := _parts(now[whole], left, before)):
                taken.update(parts)
                yield from ((part, whole) for part in parts)


def _by_line(matching: CompilationMatch, nodes: Iterable[int], is_now: bool) -> dict[LinePair, list[int]]:
    side = matching.now if is_now else matching.before
    found: dict[LinePair, list[int]] = defaultdict(list)
    for node in sorted(nodes):
        line = side.lines[node]
        if line is not None:
            found[matching.of_now(line) if is_now else matching.of_before(line)].append(node)
    return found


def _parts(whole: Kinds, nodes: Iterable[int], kinds: Mapping[int, Kinds]) -> list[int]:
    """The subset of ``nodes`` that together equals ``whole``; empty if there is none."""
    rest, parts = Counter(whole), []
    for node in nodes:
        if kinds[node] <= rest:
            rest -= kinds[node]
            parts.append(node)
    return parts if not rest and len(parts) > 1 else []


# ---- Equality of two nodes --------------------------------------------------------------------------------


def same_types(matching: CompilationMatch, before: int, now: int) -> bool:
    """Whether two nodes return values of the same types."""
    return matching.before.nodes[before]["avals"] == matching.now.nodes[now]["avals"]


_PRIMITIVES = {
    "absolute": "abs", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "divide": "div",
    "equal": "eq", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "maximum": "max", "minimum": "min", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "power": "pow", "subtract": "sub", "true_divide": "div", "where": "select_n",
}  # fmt: skip
"""Name in jax.numpy, used outside jax.jit → name of JAX's primitive, used inside the user's jax.jit."""


def same_operation(matching: CompilationMatch, before: int, now: int) -> bool:
    """Whether two nodes are the same operation on the same types, by name or by lowered HLO."""
    if not same_types(matching, before, now):
        return False
    first, second = matching.before.nodes[before]["name"], matching.now.nodes[now]["name"]
    if _PRIMITIVES.get(first, first) == _PRIMITIVES.get(second, second):
        return True
    old, new = matching.before.lowered.get(before), matching.now.lowered.get(now)
    return old is not None and new is not None and old.work == new.work


class OperationEquivalence:
    """The operations without an equal partner that the other side computes completely in other operations.

    Attributes:
      pairs: operations of both sides that compute the same instruction, which no other operation computes.
    """

    def __init__(self, matching: CompilationMatch):
        same = {old: new for old, new in matching.now_of.items() if _is_same(matching, old, new)}
        both = {node: node for node in matching.before_of}
        numbers = _Numbers()
        old = _computed(numbers, matching.before, matching.now_of, frozenset(same))
        new = _computed(numbers, matching.now, both, frozenset(same.values()))
        covered = _covered(old, new), _covered(new, old)
        first, second = _only(old, covered[0]), _only(new, covered[1])
        pairs = {(first[number], second[number]) for number in first.keys() & second.keys()}
        pairs |= set(combined_ops(matching, _rest(old, covered[0]), _rest(new, covered[1])))
        before = covered[0] | {old for old, _ in pairs}
        now = covered[1] | {new for _, new in pairs}
        self.pairs = sorted(pairs)
        self._sides = (
            before | _empty(matching.before, before, old.keys() - before),
            now | _empty(matching.now, now, new.keys() - now),
        )

    def covers(self, node: int, is_now: bool) -> bool:
        """Whether an operation of one side does not count as a difference."""
        return node in self._sides[is_now]


class _Work(NamedTuple):
    """The computation of an operation.

    Attributes:
      expressions: value numbers of its instructions.
      kinds: each instruction with the numbers that it reads.
    """

    expressions: set[int]
    kinds: Kinds


_Computed = Mapping[int, _Work]


def _rest(own: _Computed, covered: Set[int]) -> dict[int, Kinds]:
    return {node: work.kinds for node, work in own.items() if node not in covered}


def _covered(own: _Computed, others: _Computed) -> frozenset[int]:
    """The nodes of one side that the other side computes completely."""
    there = frozenset().union(*(work.expressions for work in others.values()))
    return frozenset(node for node, work in own.items() if work.expressions <= there)


def _empty(side: CompilationSide, covered: Set[int], rest: Set[int]) -> frozenset[int]:
    """Operations without HLO, on lines where no operation without equal partner remains. A conversion to a
    value's own type counts on every line: JAX's gradients convert their initial value on the line of the
    call, but not under ``jax.jit``."""
    whole = {side.lines[node] for node in covered} - {side.lines[node] for node in rest}
    return frozenset(
        node["id"]
        for node in side.nodes
        if node["kind"] == "op"
        and node["id"] not in side.lowered
        and (side.lines[node["id"]] in whole or (covered and node["primitive"] == "convert_element_type"))
    )


def _is_same(matching: CompilationMatch, before: int, now: int) -> bool:
    """Whether two nodes are inputs, or the same operation with the same lowered HLO."""
    if matching.now.nodes[now]["kind"] != "op":
        return True
    if not same_operation(matching, before, now):
        return False
    old, new = matching.before.lowered.get(before), matching.now.lowered.get(now)
    return (old and old.work) == (new and new.work)


def _computed(
    numbers: _Numbers, side: CompilationSide, names: Mapping[int, int], same: frozenset[int]
) -> _Computed:
    """The computation of each operation that is not in ``same``."""
    work = {node: frozenset(made.work) for node, made in side.lowered.items() if node not in same}
    if not work:
        return {}
    found: dict[int, _Work] = defaultdict(lambda: _Work(set(), Counter()))
    for place, program in enumerate(side.before_passes):
        expressions = _Recorded(numbers, program, side, names, same, place)
        for name, several in expressions.values().items():
            said = program.said(program.module.by_name[name])
            for node in program.nodes[name] & work.keys():
                if said in work[node]:
                    found[node].expressions.update(several)
                    found[node].kinds[said, expressions.taken.get(name, ())] += 1
    return dict(found)


def _only(computed: _Computed, nodes: frozenset[int]) -> dict[int, int]:
    """Expression → node, for expressions that exactly one of the nodes has."""
    having: dict[int, list[int]] = defaultdict(list)
    for node in nodes & computed.keys():
        for number in computed[node].expressions:
            having[number].append(node)
    return {number: several[0] for number, several in having.items() if len(several) == 1}


class _Numbers(ValueNumbering):
    """Value numbers for the expressions of both sides.

    Attributes:
      scalars: expression → value of a Python number.
      spread: expression → number that fills an array.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scalars: dict[int, float] = {}
        self.spread: dict[int, float] = {}


class _Recorded(ModuleValueNumbers):
    """The expressions of a program before XLA's passes. Operations that both sides have are leaves.

    Arguments:
      names: node of this side that has a partner → name that both share.
      same: the nodes that are equal to their partners.
      place: index of the program on its side.

    Attributes:
      taken: instruction → numbers among its operands.
    """

    def __init__(
        self,
        numbers: _Numbers,
        program: ProgramBeforePasses,
        side: CompilationSide,
        names: Mapping[int, int],
        same: frozenset[int],
        place: int,
    ):
        self._program, self._side, self._names, self._same = program, side, names, same
        self._place = place
        self._scalars, self._spread = numbers.scalars, numbers.spread
        self.taken: dict[str, tuple[float, ...]] = {}
        self._times: dict[Hashable, int] = defaultdict(int)
        self._own: dict[str, int] = {}
        super().__init__(numbers, program.module, self._input)

    def _input(self, name: str) -> Hashable | None:
        for node in self._program.nodes[name]:
            with contextlib.suppress(TypeError, ValueError):
                return float(self._side.nodes[node]["value"])  # type: ignore[arg-type]
            if node in self._names:
                return self._names[node]
        return None

    def _number(self, instruction: Instruction, operands: list[int], arguments: tuple[int, ...]) -> int:
        number = super()._number(instruction, operands, arguments)
        taken = [self._scalars.get(operand, self._spread.get(operand)) for operand in operands]
        self.taken[instruction.name] = tuple(value for value in taken if value is not None)
        if instruction.opcode == "broadcast" and taken[0] is not None:
            self._spread[number] = taken[0]
        nodes = self._program.nodes[instruction.name]
        if instruction.opcode not in STRUCTURAL_OPCODES and len(nodes) == 1 and nodes <= self._same:
            return self._leaf(instruction, *nodes)
        if instruction.opcode == "convert" and operands[0] in self._scalars:
            return self._scalar(instruction.shape, self._scalars[operands[0]])
        return number

    def _leaf(self, instruction: Instruction, node: int) -> int:
        """The number of an instruction that both sides compute."""
        if instruction.name not in self._own:
            key = self._names[node], self._program.said(instruction)
            self._own[instruction.name] = self._numbers.number(("both", key, self._times[key]))
            self._times[key] += 1
        return self._own[instruction.name]

    def _loop(self, loop: Instruction) -> int:
        """The number of a loop or branch. Carried values are identified by position."""
        nodes = self._program.nodes[loop.name]
        key: Hashable = tuple(sorted(self._names.get(node, -1) for node in nodes))
        if len(nodes) != 1 or not nodes <= self._same:
            key = key, self._place
        turn = self._times["loop", key]
        self._times["loop", key] += 1
        for place, called in enumerate(loop.calls):
            count = len(self._module.computations[called].parameters)
            carried = [self._numbers.number(("carried", key, turn, place, part)) for part in range(count)]
            self._called(called, carried)
        return self._numbers.number(("loop", key, turn))

    def _scalar(self, shape: str, value: Any) -> int:
        number = super()._scalar(shape, value)
        with contextlib.suppress(TypeError, ValueError):
            self._scalars[number] = np.float64(value).item()
        return number

    def values(self) -> dict[str, set[int]]:
        """Name of an instruction → its expressions; in a function, one for each call."""
        found: dict[str, set[int]] = defaultdict(set)
        for known in self._known.values():
            for name, number in known.items():
                found[name].add(number)
        return found
