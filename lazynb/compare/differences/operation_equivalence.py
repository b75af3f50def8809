"""Which operations are the same computation under other names, or put together otherwise.

``jnp.mean`` is one operation, and inside of the user's own ``jax.jit`` it is a sum and a division: lazynb
records a function that JAX compiles by itself as one, and looks into those that the user compiles. So
operations without an equal partner are compared by the HLO that JAX makes of them: each instruction with what
it reads, back to operations that both sides have.
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

# ---- Operations of one side that are one operation of the other, by the kinds of the instructions alone
# What is computed from other values than before has other expressions; but if a line had a ``mean``, and has
# a sum and a division of the same shapes now, these are the mean.

Kinds = Counter[Hashable]
"""The instructions of an operation, without what they read but for numbers."""


def combined_ops(
    matching: CompilationMatch, before: Mapping[int, Kinds], now: Mapping[int, Kinds]
) -> Iterator[tuple[int, int]]:
    """Pairs of operations on lines that correspond: one operation of one side with each of those of the other
    side that are made of the same instructions together.

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
    """Those of ``nodes`` that are ``whole`` together; none if they are not all of it."""
    rest, parts = Counter(whole), []
    for node in nodes:
        if kinds[node] <= rest:
            rest -= kinds[node]
            parts.append(node)
    return parts if not rest and len(parts) > 1 else []


# ---- Whether two nodes are the same operation -------------------------------------------------------------


def same_types(matching: CompilationMatch, before: int, now: int) -> bool:
    """Whether two nodes give values of the same types."""
    return matching.before.nodes[before]["avals"] == matching.now.nodes[now]["avals"]


_PRIMITIVES = {
    "absolute": "abs", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "divide": "div",
    "equal": "eq", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "maximum": "max", "minimum": "min", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "power": "pow", "subtract": "sub", "true_divide": "div", "where": "select_n",
}  # fmt: skip
"""Names of jax.numpy, by which an operation on its own is called, and of JAX's primitives, by which it is
called inside of the user's jax.jit."""


def same_operation(matching: CompilationMatch, before: int, now: int) -> bool:
    """Whether two nodes are the same operation, with values of the same types. One that JAX makes the same
    HLO of is the same, however it is called."""
    if not same_types(matching, before, now):
        return False
    first, second = matching.before.nodes[before]["name"], matching.now.nodes[now]["name"]
    if _PRIMITIVES.get(first, first) == _PRIMITIVES.get(second, second):
        return True
    old, new = matching.before.lowered.get(before), matching.now.lowered.get(now)
    return old is not None and new is not None and old.work == new.work


class OperationEquivalence:
    """The operations of two sides without an equal partner, of which all is computed on the other side too.

    Attributes:
      pairs: those of both sides that compute the same instruction, which no other does.
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
        """Whether an operation of one side is no difference."""
        return node in self._sides[is_now]


class _Work(NamedTuple):
    """What an operation computes.

    Attributes:
      expressions: of its instructions.
      kinds: what each instruction says, with the numbers that it takes.
    """

    expressions: set[int]
    kinds: Kinds


_Computed = Mapping[int, _Work]


def _rest(own: _Computed, covered: Set[int]) -> dict[int, Kinds]:
    return {node: work.kinds for node, work in own.items() if node not in covered}


def _covered(own: _Computed, others: _Computed) -> frozenset[int]:
    """The nodes of one side of which all is computed on the other side."""
    there = frozenset().union(*(work.expressions for work in others.values()))
    return frozenset(node for node, work in own.items() if work.expressions <= there)


def _empty(side: CompilationSide, covered: Set[int], rest: Set[int]) -> frozenset[int]:
    """The operations of a side that are no HLO at all, on lines where nothing is left of what has no equal
    partner. A conversion to the type that a value has is one wherever it stands: JAX's gradients convert what
    they begin with, on the line of the call, and not under ``jax.jit``."""
    whole = {side.lines[node] for node in covered} - {side.lines[node] for node in rest}
    return frozenset(
        node["id"]
        for node in side.nodes
        if node["kind"] == "op"
        and node["id"] not in side.lowered
        and (side.lines[node["id"]] in whole or (covered and node["primitive"] == "convert_element_type"))
    )


def _is_same(matching: CompilationMatch, before: int, now: int) -> bool:
    """Whether two nodes are inputs, or the same operation, of which JAX makes the same HLO."""
    if matching.now.nodes[now]["kind"] != "op":
        return True
    if not same_operation(matching, before, now):
        return False
    old, new = matching.before.lowered.get(before), matching.now.lowered.get(now)
    return (old and old.work) == (new and new.work)


def _computed(
    numbers: _Numbers, side: CompilationSide, names: Mapping[int, int], same: frozenset[int]
) -> _Computed:
    """What each operation computes that is not in ``same``."""
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
    """By expression that one of the nodes alone has, the node."""
    having: dict[int, list[int]] = defaultdict(list)
    for node in nodes & computed.keys():
        for number in computed[node].expressions:
            having[number].append(node)
    return {number: several[0] for number, several in having.items() if len(several) == 1}


class _Numbers(ValueNumbering):
    """Numbers for the expressions of both sides.

    Attributes:
      scalars: what numbers of Python's are, by their expression.
      spread: the same of arrays all of whose elements are one number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scalars: dict[int, float] = {}
        self.spread: dict[int, float] = {}


class _Recorded(ModuleValueNumbers):
    """The expressions of a program before XLA's passes; what both sides have is not looked into.

    Arguments:
      names: by node of this side that has a partner, what both are called.
      same: the nodes that are equal to their partners.
      place: of the program in its side.

    Attributes:
      taken: by instruction, the numbers among its operands.
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
        """The number of what both sides compute."""
        if instruction.name not in self._own:
            key = self._names[node], self._program.said(instruction)
            self._own[instruction.name] = self._numbers.number(("both", key, self._times[key]))
            self._times[key] += 1
        return self._own[instruction.name]

    def _loop(self, loop: Instruction) -> int:
        """The number of a loop or branch. What it carries is known by its place."""
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
        """By name of an instruction its expression; of one in a function, those of each call."""
        found: dict[str, set[int]] = defaultdict(set)
        for known in self._known.values():
            for name, number in known.items():
                found[name].add(number)
        return found
