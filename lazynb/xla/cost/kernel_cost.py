"""The cost of a kernel by XLA's own analysis: operations and bytes.

``jaxlib`` gives XLA's analysis of a whole module only. The figures of one kernel are those of a module that
holds this one instruction, with a parameter for each operand and the computations that it calls.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Sequence

from lazynb import jax_compat as jc
from lazynb.xla.cost.operand_utilization import OperandUtilization, operand_utilization
from lazynb.xla.hlo import module as hlo
from lazynb.xla.hlo.module import Computation, Instruction, Module
from lazynb.xla.hlo.opcodes import Trait, opcodes_of

# ---- How often a loop turns: what XLA found out, or what is counted from the module -----------------------


def trip_count(module: Module, loop: Instruction) -> int | None:
    """Iterations of a ``while``; returns None if that is not known.

    XLA:TPU does not write them down; they are counted where the loop turns while a number that begins and
    grows by constants is less than a third one.
    """
    match = _TRIPS.search(loop.text)
    if match is not None:
        return int(match[1])
    try:
        return _count_from_hlo(module, loop)
    except _NotCountedLoop:
        return None


class _NotCountedLoop(Exception):
    """It is no loop that counts."""


def _count_from_hlo(module: Module, loop: Instruction) -> int:
    around = module.computations[loop.computation]
    condition, body = (
        module.computations[loop.attribute(name).lstrip("%")] for name in ("condition", "body")
    )
    test = _skip_copies(condition, condition.root.name)
    if test.opcode != "compare" or test.attribute("direction") != "LT":
        raise _NotCountedLoop
    number = _loop_variable_index(condition, test.operands[0])
    limit = _constant(condition, test.operands[1])
    first = _constant(around, _tuple_operand(around, loop.operands[0], number))
    grown = _skip_copies(body, _tuple_operand(body, body.root.name, number))
    if grown.opcode != "add" or _loop_variable_index(body, grown.operands[0]) != number:
        raise _NotCountedLoop
    step = _constant(body, grown.operands[1])
    if step <= 0:
        raise _NotCountedLoop
    return max(0, math.ceil((limit - first) / step))


def _skip_copies(computation: Computation, name: str) -> Instruction:
    """What has the value of ``name``, behind copies of it."""
    instruction = computation.instructions[name]
    while instruction.opcode in _COPYING:
        instruction = computation.instructions[instruction.operands[0]]
    return instruction


def _loop_variable_index(computation: Computation, name: str) -> int:
    """Which of the values that a loop carries ``name`` is."""
    element = _skip_copies(computation, name)
    if element.opcode != "get-tuple-element":
        raise _NotCountedLoop
    if computation.instructions[element.operands[0]].opcode != "parameter":
        raise _NotCountedLoop
    return int(element.attribute("index"))


def _tuple_operand(computation: Computation, name: str, number: int) -> str:
    """What a tuple has at place ``number``."""
    whole = computation.instructions[name]
    if whole.opcode != "tuple":
        raise _NotCountedLoop
    return whole.operands[number]


def _constant(computation: Computation, name: str) -> int:
    match = _NUMBER.search(_skip_copies(computation, name).text)
    if match is None:
        raise _NotCountedLoop
    return int(match[1])


_COPYING = opcodes_of(Trait.SAME_VALUES)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_NUMBER = re.compile(r" = [su]\d+\[\]\S* constant\((-?\d+)\)")


# What XLA's figures mean (HloCostAnalysis; tests/xla/test_cost.py holds it to this):
# - flops: one for each element of an elementwise operation, integers and comparisons included; two for a
#   multiplication with addition in a dot or convolution (taps that fall on the padding left out); n - 1 for a
#   sum of n. A copy, gather or transpose has none.
# - transcendentals (exp, tanh, sin, sqrt of a complex ...) are counted apart, one for each element, and are
#   no part of flops.
# - bytes: of a fusion, its operands and its result, each once as a whole. A gather of 7 rows is said to read
#   its whole table when it is in a fusion, and the rows alone when it is not. What is fused into it counts
#   for each element of the table. A dynamic-update-slice in a fusion counts the slice that it writes, also
#   where all is written. So fusions that read or write parts are counted in
#   :mod:`lazynb.xla.cost.operand_utilization`, and the source tells XLA's figures if they differ. A tuple's
#   table of pointers counts 8 bytes a part in 0.10 and 4 in 0.12, so that loops and whole programs differ a
#   little between the two.
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
      executions: how often it runs in one run of the program; None if that is not known.
    """

    flops: float | None
    transcendentals: float | None
    bytes: float | None
    source: str
    executions: int | None = 1


Analysis = Callable[[Sequence[str]], Sequence[jc.Figures]]
"""Gives XLA's figures of HLO modules; that of another chip is asked in another process."""


def kernel_costs(
    module: hlo.Module | str, names: Sequence[str], analysis: Analysis = jc.cost_figures
) -> dict[str, Cost]:
    """The cost of one execution of each of the instructions ``names``, which may stand in any computation.

    Args:
      module: optimised HLO, or its text as ``compiled.as_text()`` gives it.
      analysis: asked once, of all kernels.

    Raises:
      ValueError: the text is no HLO module.
      KeyError: it has no instruction of that name.
    """
    parsed = hlo.parse(module) if isinstance(module, str) else module
    extract, times = _KernelModules(parsed, analysis), executions(parsed, names)
    kernels = {name: parsed.by_name[name] for name in names}
    extract.request_figures([kernel for kernel in kernels.values() if not _is_transfer(kernel)])
    return {name: _kernel_cost(extract, kernel, times[name]) for name, kernel in kernels.items()}


def program_cost(module: hlo.Module | str) -> Cost:
    """The cost of one run of a whole program as XLA gives it: of each loop one iteration.

    A program with a custom call has no figures, since XLA's sums are wrong then.

    Raises:
      ValueError: the text is no HLO module.
    """
    parsed = hlo.parse(module) if isinstance(module, str) else module
    has_loops = any(instruction.opcode == "while" for instruction in parsed)
    [figures] = jc.cost_figures([_KernelModules(parsed).program()])
    return _cost(figures, ", one iteration of each loop" if has_loops else "", parsed)


def executions(module: hlo.Module, names: Sequence[str]) -> dict[str, int | None]:
    """How often each instruction is executed in one run of the program: the product of the iterations of the
    loops around it.

    It is None if XLA does not know the number of iterations of one of them, or if the instruction stands in a
    branch.
    """
    known: dict[str, int | None] = {module.entry: 1}
    return {name: _executions(module, module.by_name[name].computation, known) for name in names}


def _executions(module: hlo.Module, computation: str, known: dict[str, int | None]) -> int | None:
    """How often a computation is executed; returns None if that is not known.

    Arguments:
      known: the same for computations that were asked about, which are added.
    """
    if computation not in known:
        callers = module.all_callers.get(computation, [])
        times = [_executions_by(module, caller, computation, known) for caller in callers]
        known[computation] = None if None in times or not times else sum(filter(None, times))
    return known[computation]


def _executions_by(
    module: hlo.Module, caller: hlo.Instruction, computation: str, known: dict[str, int | None]
) -> int | None:
    """How often ``caller`` executes ``computation``."""
    times = _executions(module, caller.computation, known)
    if times is None or caller.opcode == "conditional":
        return None
    if caller.opcode != "while":
        return times
    trips = trip_count(module, caller)
    if trips is None:
        return None
    is_condition = caller.attribute("condition") == f"%{computation}"
    return times * (trips + is_condition)  # the last time it is false


def _kernel_cost(extract: _KernelModules, kernel: hlo.Instruction, times: int | None) -> Cost:
    if _is_transfer(kernel):
        return Cost(None, None, None, "a transfer, which runs beside other kernels", times)
    inner = extract.reached(kernel)
    cost = _cost(
        extract.figures(kernel), _figure_scope(extract.module, kernel, inner, times), [kernel, *inner]
    )
    part = operand_utilization(extract.module, kernel)
    if part is not None and cost.flops is not None:
        cost = _utilization_cost(cost, part, extract)
    return dataclasses.replace(cost, executions=times)


def _is_transfer(kernel: hlo.Instruction) -> bool:
    """Whether it starts or ends what runs beside other kernels: XLA's parser ends the process on some."""
    return kernel.opcode.endswith(("-start", "-done", "-update"))


def _utilization_cost(whole: Cost, part: OperandUtilization, extract: _KernelModules) -> Cost:
    """``whole``, XLA's figures of a fusion, with what it touches in their place."""
    saved = {"flops": 0.0, "transcendentals": 0.0}
    for name, share in part.shares.items():
        figures = extract.figures(extract.module.by_name[name])
        if not isinstance(figures, dict):
            continue
        for figure in saved:
            saved[figure] += (_figure(figures, figure) or 0.0) * (1 - share)
    cost = dataclasses.replace(
        whole,
        flops=_subtract(whole.flops, saved["flops"]),
        transcendentals=_subtract(whole.transcendentals, saved["transcendentals"]),
        bytes=float(part.bytes),
    )
    said = _differing_figures(whole, cost)
    if not said:
        return whole
    return dataclasses.replace(
        cost, source=f"{whole.source}, counted by what it touches; XLA itself says {said}"
    )


def _subtract(figure: float | None, saved: float) -> float | None:
    return None if figure is None else max(0.0, round(figure - saved))


def _differing_figures(whole: Cost, cost: Cost) -> str:
    """XLA's own figures, where they are others."""
    names = {"flops": "FLOPs", "transcendentals": "transcendentals", "bytes": "bytes"}
    said = []
    for name, words in names.items():
        figure = getattr(whole, name)
        if figure is not None and figure != getattr(cost, name):
            said.append(f"{figure:,.0f} {words}")
    return ", ".join(said)


def _figure_scope(
    module: hlo.Module, kernel: hlo.Instruction, inner: Sequence[hlo.Instruction], times: int | None
) -> str:
    """What the figures of ``kernel`` stand for, if that is not simply one run of it in one run of the
    program."""
    meaning = ""
    if kernel.opcode == "while":
        trips = trip_count(module, kernel)
        number = "an unknown number" if trips is None else trips
        meaning = f" of one iteration (body and condition) of {number}"
    elif kernel.opcode == "conditional":
        meaning = ", for each figure the largest of the branches"
    if any(instruction.opcode == "while" for instruction in inner):
        meaning += ", one iteration of each loop inside"
    if times is None:
        return f"{meaning}; how often it runs is not known"
    if times == 1:
        return meaning
    return f"{meaning}; it runs {times:,} times"


def _cost(figures: jc.Figures, meaning: str, instructions: Iterable[hlo.Instruction]) -> Cost:
    """What XLA's ``figures`` say of a module that is made of ``instructions``."""
    if isinstance(figures, str):
        return Cost(None, None, None, f"XLA's cost analysis cannot read this instruction: {figures}")
    if figures is None:
        return Cost(None, None, None, "this backend has no cost analysis")
    if figures.get("optimal_seconds", 0.0) < 0:
        return Cost(None, None, None, _unknown_call(instructions))
    return Cost(
        flops=_figure(figures, "flops"),
        transcendentals=_figure(figures, "transcendentals"),
        bytes=_figure(figures, "bytes accessed"),
        source=f"XLA's cost analysis{meaning}",
    )


def _unknown_call(instructions: Iterable[hlo.Instruction]) -> str:
    """The reason why there are no figures: a custom call among ``instructions``."""
    calls = [instruction for instruction in instructions if instruction.opcode == "custom-call"]
    targets = dict.fromkeys(call.attribute("custom_call_target") for call in calls)
    return f"XLA does not know what the custom call {', '.join(targets)} costs".replace("  ", " ")


def _figure(figures: dict[str, float], name: str) -> float | None:
    value = figures.get(name, 0.0)
    return None if math.isnan(value) or value < 0 else value


class _KernelModules:
    """Writes parts of a module as modules of their own."""

    def __init__(self, module: hlo.Module, analysis: Analysis = jc.cost_figures):
        self.module = module
        self._analysis = analysis
        self._bodies: dict[str, str] = {}
        self._figures: dict[str, jc.Figures] = {}

    def request_figures(self, kernels: Sequence[hlo.Instruction]) -> None:
        """Asks for the figures of all that :meth:`figures` will be asked about, at once."""
        parts = [operand_utilization(self.module, kernel) for kernel in kernels]
        inner = [self.module.by_name[name] for part in parts if part is not None for name in part.shares]
        texts = list(dict.fromkeys(map(self.kernel, [*kernels, *inner])))
        self._figures.update(zip(texts, self._analysis(texts), strict=True))

    def figures(self, instruction: hlo.Instruction) -> jc.Figures:
        """What XLA says that ``instruction`` costs."""
        return self._figures[self.kernel(instruction)]

    def kernel(self, instruction: hlo.Instruction) -> str:
        """A module that runs ``instruction`` on parameters."""
        computation = self.module.computations[instruction.computation]
        parameters = [
            f"  %{name} = {computation.instructions[name].shape} parameter({number})"
            for number, name in enumerate(dict.fromkeys(instruction.operands))
        ]
        root = _line(instruction, True)
        if instruction.opcode == "parameter":
            root = root.replace(f"parameter({hlo.parameter_number(instruction)})", "parameter(0)")
        called = map(self._body, self._reached(instruction.calls))
        return "\n".join([_HEADER, *called, "ENTRY %kernel {", *parameters, root, "}"])

    def program(self) -> str:
        """The module without what says nothing about cost."""
        entry = self.module.entry
        called = map(self._body, self._reached(self._calls(entry)))
        return "\n".join([_HEADER, *called, "ENTRY " + self._body(entry)])

    def reached(self, instruction: hlo.Instruction) -> list[hlo.Instruction]:
        """The instructions of the computations that ``instruction`` calls, directly or not."""
        reached: list[hlo.Instruction] = []
        for name in self._reached(instruction.calls):
            reached += self.module.computations[name].instructions.values()
        return reached

    def _reached(self, calls: Iterable[str]) -> list[str]:
        """The computations ``calls`` and those that they call, directly or not; callees first, as in the text
        of a module."""
        wanted, stack = set(), list(calls)
        while stack:
            name = stack.pop()
            if name not in wanted:
                wanted.add(name)
                stack += self._calls(name)
        return [name for name in self.module.computations if name in wanted]

    def _calls(self, name: str) -> list[str]:
        """The computations that the instructions of a computation call."""
        instructions = self.module.computations[name].instructions.values()
        return [callee for instruction in instructions for callee in instruction.calls]

    def _body(self, name: str) -> str:
        if name not in self._bodies:
            instructions = self.module.computations[name].instructions.values()
            lines = [_line(instruction, instruction.root) for instruction in instructions]
            self._bodies[name] = "\n".join([f"%{name} {{", *lines, "}"])
        return self._bodies[name]


_HEADER = "HloModule cost"


def _line(instruction: hlo.Instruction, root: bool) -> str:
    """The instruction without what refers to other parts of its module: the header's tables, and its
    neighbours."""
    return f"  {'ROOT ' * root}%{instruction.name} = {_NEIGHBOURS.sub('', instruction.plain)}"


_NEIGHBOURS = re.compile(r", control-predecessors=\{[^}]*\}")
