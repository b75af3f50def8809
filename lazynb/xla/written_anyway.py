"""The results of one program that another writes to memory though they are no results of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable

from lazynb.xla.compilation import Compilation
from lazynb.xla.hlo.expressions import Expressions
from lazynb.xla.program import CompiledTrace
from lazynb.xla.recorded import Value


def written_anyway(one: Compilation, other: Compilation, values: Collection[Value]) -> set[Value]:
    """Those of ``values``, results of ``one``, that a kernel of ``other`` writes for another kernel.

    The two are of one graph. An array is among them only if both compute it by the same operations from the
    same inputs; what XLA computes another way in each is left out.
    """
    numbers = Expressions()
    handed_on: set[int] = set()
    for trace in other.traces:
        if trace.module is not None:
            handed_on |= numbers.of(trace.module, _inputs(other, trace)).handed_on()
    found: set[Value] = set()
    for trace in one.traces:
        if trace.module is not None and handed_on:
            given = numbers.of(trace.module, _inputs(one, trace)).results()
            results = zip(trace.origins.results, given, strict=False)
            found.update(value for value, number in results if value in values and number in handed_on)
    return found


def _inputs(compilation: Compilation, trace: CompiledTrace) -> Callable[[str], Hashable | None]:
    """Which inputs of the graph a parameter stands for, or the number that it is."""

    def behind(name: str) -> Hashable | None:
        number = trace.number_behind(name)
        if number is not None:
            return number
        nodes = trace.inputs_behind(name)
        is_known = nodes and all(compilation.snapshot.nodes[node].kind == "input" for node in nodes)
        return tuple(nodes) if is_known else None

    return behind
