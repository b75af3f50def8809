"""What a kernel costs by XLA's own analysis: operations and bytes.

``jaxlib`` gives XLA's analysis of a whole module only. The figures of one kernel are those of a module that
holds this one instruction, with a parameter for each operand and the computations that it calls.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence

from lazynb import _jax as jc
from lazynb.xla.hlo import module as hlo

# What XLA's figures mean (HloCostAnalysis; tests/xla/test_cost.py holds it to this):
# - flops: one for each element of an elementwise operation, integers and comparisons included; two for a
#   multiplication with addition in a dot or convolution (taps that fall on the padding left out); n - 1 for a
#   sum of n. A copy, gather or transpose has none.
# - transcendentals (exp, tanh, sin, sqrt of a complex ...) are counted apart, one for each element, and are
#   no part of flops.
# - bytes: of a fusion, its operands and its result, each once as a whole. A gather of 7 rows is said to read
#   its whole table when it is in a fusion, and the rows alone when it is not.
#   A dynamic-update-slice in a fusion counts the slice that it writes. A tuple's table of pointers counts 8
#   bytes a part in 0.10 and 4 in 0.12, so that loops and whole programs differ a little between the two.
# - a conversion of dtype is one operation an element, so that bfloat16 that XLA widens by itself costs
#   "operations".
# - sort: size * ceil(log2(size)) with the size of the whole array, however short the sorted rows.
# - while: one iteration, body and condition, whatever the number of iterations. conditional: for each figure
#   the largest of the branches, so that flops may come from one branch and transcendentals from another.
# - custom call: nothing is known, written as -1; in a sum that is one too few, and nothing says so but
#   ``optimal_seconds``.


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What one execution of a kernel costs. A figure that XLA does not give is None.

    Attributes:
      flops: operations, as XLA counts them: integer operations and comparisons too, a multiply-add as two.
      transcendentals: elements of ``exp``, ``tanh`` and the like; no part of ``flops``.
      bytes: read and written, each operand and the result as a whole.
      source: where the figures come from and what they stand for.
    """

    flops: float | None
    transcendentals: float | None
    bytes: float | None
    source: str


def kernel_costs(module: hlo.Module | str, names: Sequence[str]) -> dict[str, Cost]:
    """The cost of one execution of each of the instructions ``names``, which may stand in any computation.

    Args:
      module: optimised HLO, or its text as ``compiled.as_text()`` gives it.

    Raises:
      ValueError: the text is no HLO module.
      KeyError: it has no instruction of that name.
    """
    known = hlo.parse(module) if isinstance(module, str) else module
    extract, often = _Extract(known), executions(known, names)
    return {name: _kernel_cost(extract, known.by_name[name], often[name]) for name in names}


def program_cost(module: hlo.Module | str) -> Cost:
    """The cost of one run of a whole program as XLA gives it: of each loop one iteration.

    A program with a custom call has no figures, since XLA's sums are wrong then.

    Raises:
      ValueError: the text is no HLO module.
    """
    known = hlo.parse(module) if isinstance(module, str) else module
    loops = any(one.opcode == "while" for one in known)
    return _cost(_Extract(known).program(), ", one iteration of each loop" if loops else "", known)


def executions(module: hlo.Module, names: Sequence[str]) -> dict[str, int | None]:
    """How often each instruction is executed in one run of the program: the product of the iterations of the
    loops around it.

    None where XLA does not know the number of iterations of one of them, or where the instruction stands in a
    branch.
    """
    return {name: _often(module, module.by_name[name].computation) for name in names}


def trip_count(loop: hlo.Instruction) -> int | None:
    """Iterations of a ``while``, where XLA found out."""
    found = _TRIPS.search(loop.text)
    return int(found[1]) if found else None


_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


def _often(module: hlo.Module, computation: str) -> int | None:
    times = 1
    while computation != module.entry:
        caller = module.callers.get(computation)
        if caller is None or caller.opcode == "conditional":
            return None
        if caller.opcode == "while":
            trips = trip_count(caller)
            if trips is None:
                return None
            times *= trips + (caller.attribute("condition") == f"%{computation}")  # the last time it is false
        computation = caller.computation
    return times


def _kernel_cost(extract: _Extract, one: hlo.Instruction, often: int | None) -> Cost:
    inner = extract.reached(one)
    return _cost(extract.kernel(one), _meaning(one, inner, often), [one, *inner])


def _meaning(one: hlo.Instruction, inner: Sequence[hlo.Instruction], often: int | None) -> str:
    """What the figures of ``one`` stand for, where that is not simply one run of it in one run of the
    program."""
    said = ""
    if one.opcode == "while":
        trips = trip_count(one)
        said = f" of one iteration (body and condition) of {'an unknown number' if trips is None else trips}"
    elif one.opcode == "conditional":
        said = ", for each figure the largest of the branches"
    if any(other.opcode == "while" for other in inner):
        said += ", one iteration of each loop inside"
    if often is None:
        return said + "; how often it runs is not known"
    return said if often == 1 else f"{said}; it runs {often} times"


def _cost(text: str, meaning: str, instructions: Iterable[hlo.Instruction]) -> Cost:
    """What XLA says of the module ``text``, which is made of ``instructions``."""
    try:
        found = jc.cost_properties(text)
    except ValueError as error:
        return Cost(None, None, None, f"XLA's cost analysis cannot read this instruction: {error}")
    if found is None:
        return Cost(None, None, None, "this backend has no cost analysis")
    if found.get("optimal_seconds", 0.0) < 0:
        calls = dict.fromkeys(
            one.attribute("custom_call_target") for one in instructions if one.opcode == "custom-call"
        )
        return Cost(
            None,
            None,
            None,
            f"XLA does not know what the custom call {', '.join(calls)} costs".replace("  ", " "),
        )
    return Cost(
        _figure(found, "flops"),
        _figure(found, "transcendentals"),
        _figure(found, "bytes accessed"),
        f"XLA's cost analysis{meaning}",
    )


def _figure(found: dict[str, float], name: str) -> float | None:
    value = found.get(name, 0.0)
    return None if math.isnan(value) or value < 0 else value


class _Extract:
    """Writes parts of a module as modules of their own."""

    def __init__(self, module: hlo.Module):
        self._module = module
        self._bodies: dict[str, str] = {}

    def kernel(self, one: hlo.Instruction) -> str:
        """A module that runs ``one`` on parameters."""
        computation = self._module.computations[one.computation]
        parameters = [
            f"  %{name} = {computation.instructions[name].shape} parameter({number})"
            for number, name in enumerate(dict.fromkeys(one.operands))
        ]
        root = _line(one, True)
        if one.opcode == "parameter":
            root = root.replace(f"parameter({hlo.parameter_number(one)})", "parameter(0)")
        return "\n".join([_HEADER, *self._called(one), "ENTRY %kernel {", *parameters, root, "}"])

    def program(self) -> str:
        """The module without what says nothing about cost."""
        last = self._module.computations[self._module.entry]
        called = dict.fromkeys(name for one in last.instructions.values() for name in self._reached(one))
        return "\n".join(
            [_HEADER, *(self._body(name) for name in called), "ENTRY " + self._body(self._module.entry)]
        )

    def reached(self, one: hlo.Instruction) -> list[hlo.Instruction]:
        """The instructions of the computations that ``one`` calls, theirs too."""
        return [
            inner
            for name in self._reached(one)
            for inner in self._module.computations[name].instructions.values()
        ]

    def _called(self, one: hlo.Instruction) -> list[str]:
        return [self._body(name) for name in self._reached(one)]

    def _reached(self, one: hlo.Instruction) -> list[str]:
        """Computations that ``one`` calls, directly or not; callees first, as the text of a module has
        them."""
        wanted, stack = set(), list(one.calls)
        while stack:
            name = stack.pop()
            if name not in wanted:
                wanted.add(name)
                stack += [
                    callee
                    for inner in self._module.computations[name].instructions.values()
                    for callee in inner.calls
                ]
        return [name for name in self._module.computations if name in wanted]

    def _body(self, name: str) -> str:
        if name not in self._bodies:
            lines = (_line(one, one.root) for one in self._module.computations[name].instructions.values())
            self._bodies[name] = "\n".join([f"%{name} {{", *lines, "}"])
        return self._bodies[name]


_HEADER = "HloModule cost"


def _line(one: hlo.Instruction, root: bool) -> str:
    """The instruction without what refers to other parts of its module: the header's tables, and its
    neighbours."""
    return f"  {'ROOT ' * root}%{one.name} = {_NEIGHBOURS.sub('', one.plain)}"


_NEIGHBOURS = re.compile(r", control-predecessors=\{[^}]*\}")
