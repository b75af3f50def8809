"""Which operations are the same computation under other names, or put together otherwise.

``jnp.mean`` is one operation, and inside of the user's own ``jax.jit`` it is a sum and a division: lazynb
records a function that JAX compiles by itself as one, and looks into those that the user compiles. So
operations without an equal partner are compared by the HLO that JAX makes of them: each instruction with what
it reads, back to operations that both sides have.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from lazynb.compare.lowered import PLUMBING, Before
from lazynb.compare.matching import Matching
from lazynb.compare.put_together import Kinds, put_together
from lazynb.compare.same_operation import same_operation
from lazynb.compare.side import Side
from lazynb.xla.hlo.expressions import Expressions, ModuleExpressions
from lazynb.xla.hlo.module import Instruction


class Regrouping:
    """The operations of two sides without an equal partner, of which all is computed on the other side too.

    Attributes:
      pairs: those of both sides that compute the same instruction, which no other does.
    """

    def __init__(self, matching: Matching):
        same = {old: new for old, new in matching.now_of.items() if _is_same(matching, old, new)}
        both = {node: node for node in matching.before_of}
        numbers = _Numbers()
        old = _computed(numbers, matching.before, matching.now_of, frozenset(same))
        new = _computed(numbers, matching.now, both, frozenset(same.values()))
        covered = _covered(old, new), _covered(new, old)
        first, second = _only(old, covered[0]), _only(new, covered[1])
        pairs = {(first[number], second[number]) for number in first.keys() & second.keys()}
        pairs |= set(put_together(matching, _rest(old, covered[0]), _rest(new, covered[1])))
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


def _empty(side: Side, covered: Set[int], rest: Set[int]) -> frozenset[int]:
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


def _is_same(matching: Matching, before: int, now: int) -> bool:
    """Whether two nodes are inputs, or the same operation, of which JAX makes the same HLO."""
    if matching.now.nodes[now]["kind"] != "op":
        return True
    if not same_operation(matching, before, now):
        return False
    old, new = matching.before.lowered.get(before), matching.now.lowered.get(now)
    return (old and old.work) == (new and new.work)


def _computed(numbers: _Numbers, side: Side, names: Mapping[int, int], same: frozenset[int]) -> _Computed:
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


class _Numbers(Expressions):
    """Numbers for the expressions of both sides.

    Attributes:
      scalars: what numbers of Python's are, by their expression.
      spread: the same of arrays all of whose elements are one number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scalars: dict[int, float] = {}
        self.spread: dict[int, float] = {}


class _Recorded(ModuleExpressions):
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
        program: Before,
        side: Side,
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
        if instruction.opcode not in PLUMBING and len(nodes) == 1 and nodes <= self._same:
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
