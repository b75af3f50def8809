"""Bit-exact cuts: places at which a trace may become two programs without changing any bit of the results.

Each value that crosses a cut is rounded. Within one program the compiler need not round it: LLVM contracts a
product and a sum to a fused multiply-add, bfloat16 values stay in float32, and XLA's ``algebraic_simplifier``
rewrites some pairs of operations (``(a / b) / c``, a sum of sums, ``exp(a) * exp(b)``). So a value may cross
if no such pair has one side before the cut and one after it. A value with an operation unknown to this module
may not cross.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

from lazynb import jax_compat as jc
from lazynb.jax_compat.jax_names import (
    COMPARING,
    CONVERTING,
    EMBEDDING_PRIMITIVES,
    INLINE_CALL_PRIMITIVES,
    MOVING,
    OPAQUE,
    PRODUCTS,
    QUOTIENTS,
    REDUCING,
    SUMS,
)
from lazynb.recording.operation import Operation
from lazynb.recording.trie import State

# ---- One form for operations of traces and of jaxprs -------------------------------------------------------


@dataclasses.dataclass(slots=True, eq=False)
class Equation:
    """One operation.

    Attributes:
      name: the name of its primitive.
      operands: the values that it reads; None for a constant.
      results: the values that it computes.
      constant: whether it reads a constant.
      same_dtype: whether its first result has the dtype of its first operand.
      body: the body that it calls with its operands; None if it is no call.
    """

    name: str
    operands: tuple[Hashable, ...]
    results: tuple[Hashable, ...]
    constant: bool
    same_dtype: bool
    body: Body | None


class Body:
    """Operations in order.

    Attributes:
      equations: the operations.
      given: the values from outside, in order.
      results: the returned values; None for a constant.
      avals: the avals of all values.
      made: the number of the operation that computes a value, by value.
    """

    def __init__(
        self,
        equations: Sequence[Equation],
        given: Sequence[Hashable],
        results: Sequence[Hashable],
        avals: dict[Hashable, Any],
    ):
        self.equations = equations
        self.given = list(given)
        self.results = results
        self.avals = avals
        self.made = {value: number for number, equation in enumerate(equations) for value in equation.results}

    @cached_property
    def read(self) -> dict[Hashable, list[int]]:
        """The numbers of the operations that read a value, by value."""
        read: dict[Hashable, list[int]] = {}
        for number, equation in enumerate(self.equations):
            for value in equation.operands:
                read.setdefault(value, []).append(number)
        return read

    def crossing(self, cut: int) -> list[Hashable]:
        """Returns the values computed before operation ``cut`` and read by it or a later one."""
        return [value for value, made in self.made.items() if made < cut <= self.read.get(value, [made])[-1]]


def body_of_path(path: Sequence[State]) -> Body:
    """Returns the operations of a trace; its values are slots."""
    avals: dict[Hashable, Any] = {}
    bodies: dict[Operation, Body | None] = {}
    equations = []
    for step in path:
        avals.update(enumerate(step.avals, step.first))
        operation = step.operation
        if operation is None:
            continue
        name, results = operation.primitive.name, tuple(range(step.first, step.slots))
        if operation not in bodies:
            bodies[operation] = _called(name, operation.params, step.operands, results)
        same = _is_same([avals[slot] for slot in step.operands], step.avals)
        equations.append(Equation(name, step.operands, results, False, same, bodies[operation]))
    return Body(equations, [step.first for step in path if step.operation is None], (), avals)


def _body_of_jaxpr(jaxpr: Any) -> Body:
    equations = []
    avals: dict[Hashable, Any] = {}
    constants = set(jaxpr.constvars)
    for eqn in jaxpr.eqns:
        operands = tuple([_value(atom, constants) for atom in eqn.invars])
        results = tuple(eqn.outvars)
        same = _is_same([atom.aval for atom in eqn.invars], [var.aval for var in results])
        body = _called(eqn.primitive.name, eqn.params, operands, results)
        equations.append(Equation(eqn.primitive.name, operands, results, None in operands, same, body))
    return Body(equations, jaxpr.invars, [_value(atom, constants) for atom in jaxpr.outvars], avals)


def _value(atom: Any, constants: set[Any]) -> Hashable:
    return None if isinstance(atom, jc.Literal) or atom in constants else atom


def _is_same(operands: Sequence[Any], results: Sequence[Any]) -> bool:
    return bool(operands) and bool(results) and operands[0].dtype == results[0].dtype


def _called(
    name: str, params: dict[str, Any], operands: Sequence[Any], results: Sequence[Any]
) -> Body | None:
    """Returns the body that an operation calls with its operands; None if it is no call."""
    if name not in INLINE_CALL_PRIMITIVES:
        return None
    jaxprs = [getattr(jaxpr, "jaxpr", jaxpr) for jaxpr in jc.jaxprs_in(params)]
    if len(jaxprs) != 1 or (len(jaxprs[0].invars), len(jaxprs[0].outvars)) != (len(operands), len(results)):
        return None
    return _body_of_jaxpr(jaxprs[0])


_CONTRACTING = frozenset(("dot_general", "conv_general_dilated"))
_READ_BY: Sequence[tuple[frozenset[str], frozenset[str]]] = (
    (PRODUCTS - QUOTIENTS, OPAQUE | COMPARING | _CONTRACTING | {"mul"}),
    (PRODUCTS & QUOTIENTS, OPAQUE | COMPARING | _CONTRACTING),
    (QUOTIENTS - PRODUCTS, OPAQUE | COMPARING | _CONTRACTING | SUMS | {"reduce_sum"}),
    (REDUCING, OPAQUE | COMPARING | {"mul", "div"}),
)
"""Classes of operations, each with the operations that may read its result after a cut."""


class Producer(NamedTuple):
    """An operation that computed a value.

    Attributes:
      name: the name of its primitive.
      constant: whether it reads a constant.
      spread: whether the value was broadcast or put into a larger one since.
    """

    name: str
    constant: bool
    spread: bool


class Rounding:
    """Finds bit-exact cuts among the operations of a trace."""

    def __init__(self, path: Sequence[State]):
        self._body = body_of_path(path)

    def bytes_crossing(self) -> list[int]:
        """Returns, for each operation, the bytes of results that would cross a cut before it."""
        changes = [0] * (len(self._body.equations) + 1)
        for value, made in self._body.made.items():
            last = self._body.read.get(value, [made])[-1]
            changes[made + 1] += _size(self._body.avals[value])
            changes[last + 1] -= _size(self._body.avals[value])
        return list(accumulate(changes))[:-1]

    def is_settled(self, start: int, end: int) -> bool:
        """Whether each product among the operations ``start`` to ``end`` has only one possible rounding.

        If a sum and another operation read a product, the compiler computes the product once or twice,
        depending on the rest of the program. A product computed only for the sum is contracted with it. Of
        two products in one sum, either may be contracted.
        """
        return _is_settled(self._body, range(start, end))

    def keeps_bits(self, cut: int) -> bool:
        """Whether a cut before operation ``cut`` keeps every bit of every result."""
        return all(self._can_cross(value, cut) for value in self._body.crossing(cut))

    def _can_cross(self, value: Hashable, cut: int) -> bool:
        if _moves(self._body.equations[self._body.made[value]]):
            return False  # the compiler moves it to its reader, and reads it in another order
        aval = self._body.avals[value]
        if jc.is_key(aval) or aval.dtype.kind in "biu":
            return True  # exact
        if aval.dtype.itemsize < _IN_FULL.get(aval.dtype.kind, _NEVER):
            return False
        readers = _readers(self._body, value, cut)
        return all(_is_kept(maker, readers) for maker in _producers(self._body, value))


_NEVER = 1 << 10
_IN_FULL = {"f": 4, "c": 8}
"""Bytes from which a dtype is computed in its own precision; a smaller one may stay in float32."""


def _size(aval: Any) -> int:
    return prod(aval.shape) * int(getattr(aval.dtype, "itemsize", 8))


def _is_kept(maker: Producer, readers: Sequence[Equation]) -> bool:
    """Whether ``readers`` read the rounded result of ``maker`` within one program too."""
    names = {reader.name for reader in readers}
    if (maker.spread or maker.name == "iota") and names & (REDUCING | _CONTRACTING):
        return False
    if maker.constant and any(reader.constant for reader in readers):
        return False
    if maker.name in OPAQUE or maker.name in SUMS:
        return True
    return any(maker.name in made and names <= read for made, read in _READ_BY)


class _Call(NamedTuple):
    """A call of a body.

    Attributes:
      equation: the call.
      body: the body that contains it.
      call: the call of that body; None for a trace.
    """

    equation: Equation
    body: Body
    call: _Call | None


def _is_settled(body: Body, numbers: Sequence[int], call: _Call | None = None) -> bool:
    """As :meth:`Rounding.is_settled`, for some operations of ``body``, called at ``call``."""
    for number in numbers:
        equation = body.equations[number]
        inner = equation.body
        if inner is not None:
            own = _Call(equation, body, call)
            if not _is_settled(inner, range(len(inner.equations)), own):
                return False
        if equation.name in SUMS and _products_in(body, equation, call) > 1:
            return False
        for value in equation.results:
            if any(maker.name in PRODUCTS for maker in _makers_in(body, equation, value)):
                readers = _readers(body, value, number + 1)
                if len(readers) > 1 and any(reader.name in _ADDING for reader in readers):
                    return False
    return True


def _products_in(body: Body, equation: Equation, call: _Call | None) -> int:
    """Returns the number of operands of ``equation`` that are products, computed in any body."""
    return sum(_is_product(body, value, call) for value in set(equation.operands))


def _is_product(body: Body, value: Hashable, call: _Call | None) -> bool:
    for maker, (source, _) in _sources(body, value):
        if maker is not None:
            if maker.name in PRODUCTS:
                return True
        elif call is not None and source in body.given:
            operand = call.equation.operands[body.given.index(source)]
            if _is_product(call.body, operand, call.call):
                return True
    return False


_ADDING = SUMS | frozenset(("reduce_sum", "cumsum", "reduce_window_sum"))


def _makers_in(body: Body, equation: Equation, value: Hashable) -> Iterator[Producer]:
    """Yields the inner operation of ``equation`` that computed its result ``value``; none for a move."""
    if equation.body is not None:
        yield from _producers(equation.body, equation.body.results[equation.results.index(value)])
    elif not _moves(equation):
        yield Producer(equation.name, equation.constant, False)


def _moves(equation: Equation) -> bool:
    """Whether the results hold the bits of the operands."""
    if equation.name in CONVERTING:
        return equation.same_dtype
    return equation.name in MOVING


def _producers(body: Body, value: Hashable) -> Iterator[Producer]:
    for maker, _ in _sources(body, value):
        if maker is not None:
            yield maker


def _sources(body: Body, value: Hashable) -> Iterator[tuple[Producer | None, tuple[Hashable, bool]]]:
    """Yields the sources from which ``value`` was made only by moving data. Each is a computed value with its
    producer, or a given value with None, and whether it was spread since."""
    left, seen = [(value, False)], set()
    while left:
        value, spread = left.pop()
        if value in seen:
            continue
        seen.add(value)
        number = body.made.get(value)
        if number is None:
            yield None, (value, spread)
            continue
        equation = body.equations[number]
        if equation.body is not None:
            position = equation.results.index(value)
            for maker, (inner, wide) in _sources(equation.body, equation.body.results[position]):
                if maker is not None:
                    yield maker._replace(spread=maker.spread or spread), (inner, wide)
                elif inner in equation.body.given:
                    operand = equation.operands[equation.body.given.index(inner)]
                    left.append((operand, spread or wide))
        elif _moves(equation):
            left += [
                (operand, spread or equation.name in EMBEDDING_PRIMITIVES) for operand in equation.operands
            ]
        else:
            yield Producer(equation.name, equation.constant, spread), (value, spread)


def _readers(body: Body, value: Hashable, start: int) -> list[Equation]:
    """Returns the operations from number ``start`` on that compute with ``value``."""
    return _uses(body, value, start)[0]


def _uses(body: Body, value: Hashable, start: int = 0) -> tuple[list[Equation], set[Hashable]]:
    """As :func:`_readers`, with the values that ``value`` became only by moving data."""
    readers: list[Equation] = []
    reached = {value}
    left = [number for number in body.read.get(value, ()) if number >= start]
    heapq.heapify(left)
    done = -1
    while left:
        number = heapq.heappop(left)
        if number == done:
            continue
        done, equation = number, body.equations[number]
        new: set[Hashable] = set()
        if equation.body is not None:
            taken = [position for position, operand in enumerate(equation.operands) if operand in reached]
            for position in taken:
                inner, moved = _uses(equation.body, equation.body.given[position])
                readers += inner
                results = zip(equation.results, equation.body.results, strict=True)
                new |= {result for result, within in results if within in moved}
        elif _moves(equation):
            new.update(equation.results)
        else:
            readers.append(equation)
        for result in new - reached:
            for reading in body.read.get(result, ()):
                heapq.heappush(left, reading)
        reached |= new
    return readers, reached
