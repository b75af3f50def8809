"""Cost of one kernel by XLA's own cost analysis: operations and bytes.

``jaxlib`` analyses only whole modules. The figures of one kernel are those of a module that contains just
this instruction, a parameter for each operand, and the computations that it calls.
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

# ---- Trip count of loops --------------------------------------------------------------------------------


def trip_count(module: Module, loop: Instruction) -> int | None:
    """Return the iterations of a ``while``; None if unknown.
    XLA:TPU does not state them. Then they are counted, if the loop continues while a value that starts at a
    constant and grows by a constant is less than a constant."""
    match = _TRIPS.search(loop.text)
    if match is not None:
        return int(match[1])
    try:
        return _count_from_hlo(module, loop)
    except _NotCountedLoop:
        return None


class _NotCountedLoop(Exception):
    """The loop does not count up to a constant."""


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
    """The instruction behind copies of its value."""
    instruction = computation.instructions[name]
    while instruction.opcode in _COPYING:
        instruction = computation.instructions[instruction.operands[0]]
    return instruction


def _loop_variable_index(computation: Computation, name: str) -> int:
    """Index of ``name`` among the values that a loop carries."""
    element = _skip_copies(computation, name)
    if element.opcode != "get-tuple-element":
        raise _NotCountedLoop
    if computation.instructions[element.operands[0]].opcode != "parameter":
        raise _NotCountedLoop
    return int(element.attribute("index"))


def _tuple_operand(computation: Computation, name: str, number: int) -> str:
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


# What XLA's figures mean (HloCostAnalysis; verified by tests/xla/test_cost.py):
# - flops: one for each element of an elementwise operation, integers and comparisons included; two for a
#   multiply-add in a dot or convolution (without taps on the padding); n - 1 for a sum of n; none for moves.
# - transcendentals (exp, tanh, sin, sqrt of a complex ...): one for each element, not included in flops.
# - bytes: for a fusion, its operands and its result, each once as a whole. A gather of 7 rows counts its
#   whole table inside a fusion, but only the rows outside one. An instruction fused into it counts every
#   element of the table. A dynamic-update-slice in a fusion counts the slice that it writes, even if all is
#   written. So fusions that read or write parts are counted in :mod:`lazynb.xla.cost.operand_utilization`,
#   and ``source`` gives XLA's figures if they differ. A tuple's table of pointers counts 8 bytes per part in
#   0.10 and 4 in 0.12, so loops and whole programs differ slightly between the two.
# - dtype conversion: one operation per element, so bfloat16 that XLA itself widens costs "operations".
# - sort: size * ceil(log2(size)) with the size of the whole array, even for short sorted rows.
# - while: one iteration (body and condition). conditional: for each figure the largest of the branches, so
#   flops may come from one branch and transcendentals from another.
# - custom call: unknown, written as -1; a sum is then one too small, and only ``optimal_seconds`` shows it.


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one execution of a kernel. A figure that XLA does not give is None.

    Attributes:
      flops: operations, as XLA counts them: integer operations and comparisons too, a multiply-add as two.
      transcendentals: elements of ``exp``, ``tanh`` and the like; not included in ``flops``.
      bytes: read and written, each operand and the result as a whole.
      source: where the figures come from and what they cover.
      executions: number of executions in one run of the program; None if unknown.
    """

    flops: float | None
    transcendentals: float | None
    bytes: float | None
    source: str
    executions: int | None = 1


Analysis = Callable[[Sequence[str]], Sequence[jc.Figures]]
"""Returns XLA's figures of HLO modules; for another chip this runs in another process."""


def kernel_costs(
    module: hlo.Module | str, names: Sequence[str], analysis: Analysis = jc.cost_figures
) -> dict[str, Cost]:
    """Return the cost of one execution of each instruction in ``names``, from any computation.

    Args:
      module: optimised HLO, or its text from ``compiled.as_text()``.
      analysis: called once, for all kernels.

    Raises:
      ValueError: the text is not an HLO module.
      KeyError: it has no instruction of that name.
    """
    parsed = hlo.parse(module) if isinstance(module, str) else module
    extract, times = _KernelModules(parsed, analysis), executions(parsed, names)
    kernels = {name: parsed.by_name[name] for name in names}
    extract.request_figures([kernel for kernel in kernels.values() if not _is_transfer(kernel)])
    return {name: _kernel_cost(extract, kernel, times[name]) for name, kernel in kernels.items()}


def program_cost(module: hlo.Module | str) -> Cost:
    """Return XLA's cost of one run of a whole program, with one iteration of each loop.

    A program with a custom call has no figures, because XLA's sums are wrong then.

    Raises:
      ValueError: the text is not an HLO module.
    """
    parsed = hlo.parse(module) if isinstance(module, str) else module
    has_loops = any(instruction.opcode == "while" for instruction in parsed)
    [figures] = jc.cost_figures([_KernelModules(parsed).program()])
    return _cost(figures, ", one iteration of each loop" if has_loops else "", parsed)


def executions(module: hlo.Module, names: Sequence[str]) -> dict[str, int | None]:
    """Return how often each instruction runs in one run of the program: the product of trip counts around it.
    None if a trip count is unknown, or if the instruction is in a branch."""
    known: dict[str, int | None] = {module.entry: 1}
    return {name: _executions(module, module.by_name[name].computation, known) for name in names}


def _executions(module: hlo.Module, computation: str, known: dict[str, int | None]) -> int | None:
    """How often a computation is executed; None if unknown.

    Arguments:
      known: results so far, by computation; filled in.
    """
    if computation not in known:
        callers = module.all_callers.get(computation, [])
        times = [_executions_by(module, caller, computation, known) for caller in callers]
        known[computation] = None if None in times or not times else sum(filter(None, times))
    return known[computation]


def _executions_by(
    module: hlo.Module, caller: hlo.Instruction, computation: str, known: dict[str, int | None]
) -> int | None:
    times = _executions(module, caller.computation, known)
    if times is None or caller.opcode == "conditional":
        return None
    if caller.opcode != "while":
        return times
    trips = trip_count(module, caller)
    if trips is None:
        return None
    is_condition = caller.attribute("condition") == f"%{computation}"
    return times * (trips + is_condition)  # the condition runs once more, to end the loop


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
    """Whether it starts or ends an asynchronous operation: XLA's parser ends the process on some of these."""
    return kernel.opcode.endswith(("-start", "-done", "-update"))


def _utilization_cost(whole: Cost, part: OperandUtilization, extract: _KernelModules) -> Cost:
    """XLA's figures of a fusion (``whole``), reduced to the elements that it really reads and computes."""
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
    """XLA's own figures where they differ from ``cost``."""
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
    """What the figures of ``kernel`` cover, if that is not one run of it in one run of the program."""
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
    calls = [instruction for instruction in instructions if instruction.opcode == "custom-call"]
    targets = dict.fromkeys(call.attribute("custom_call_target") for call in calls)
    return f"XLA does not know what the custom call {', '.join(targets)} costs".replace("  ", " ")


def _figure(figures: dict[str, float], name: str) -> float | None:
    value = figures.get(name, 0.0)
    return None if math.isnan(value) or value < 0 else value


class _KernelModules:
    def __init__(self, module: hlo.Module, analysis: Analysis = jc.cost_figures):
        self.module = module
        self._analysis = analysis
        self._bodies: dict[str, str] = {}
        self._figures: dict[str, jc.Figures] = {}

    def request_figures(self, kernels: Sequence[hlo.Instruction]) -> None:
        """Analyse at once all modules that :meth:`figures` will need."""
        parts = [operand_utilization(self.module, kernel) for kernel in kernels]
        inner = [self.module.by_name[name] for part in parts if part is not None for name in part.shares]
        texts = list(dict.fromkeys(map(self.kernel, [*kernels, *inner])))
        self._figures.update(zip(texts, self._analysis(texts), strict=True))

    def figures(self, instruction: hlo.Instruction) -> jc.Figures:
        return self._figures[self.kernel(instruction)]

    def kernel(self, instruction: hlo.Instruction) -> str:
        """Return a module that runs ``instruction`` on parameters."""
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
        """Return the module's text, reduced to what affects cost."""
        entry = self.module.entry
        called = map(self._body, self._reached(self._calls(entry)))
        return "\n".join([_HEADER, *called, "ENTRY " + self._body(entry)])

    def reached(self, instruction: hlo.Instruction) -> list[hlo.Instruction]:
        """Return the instructions of the computations that ``instruction`` calls, at any depth."""
        reached: list[hlo.Instruction] = []
        for name in self._reached(instruction.calls):
            reached += self.module.computations[name].instructions.values()
        return reached

    def _reached(self, calls: Iterable[str]) -> list[str]:
        wanted, stack = set(), list(calls)
        while stack:
            name = stack.pop()
            if name not in wanted:
                wanted.add(name)
                stack += self._calls(name)
        return [name for name in self.module.computations if name in wanted]

    def _calls(self, name: str) -> list[str]:
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
    """The instruction without references to other parts of its module: header tables and neighbours."""
    return f"  {'ROOT ' * root}%{instruction.name} = {_NEIGHBOURS.sub('', instruction.plain)}"


_NEIGHBOURS = re.compile(r", control-predecessors=\{[^}]*\}")
