"""Finds why compiled values differ from eager ones, by recompiling with suspected causes removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from lazynb.compare.numerics.float_arrays import distance, equal_elements, round_to, to_widest
from lazynb.compare.numerics.program_values import CompiledRun, operands_of, types_of
from lazynb.compare.numerics.rounding_bounds import SUMS, ULPS, terms
from lazynb.compare.numerics.value_comparison import PARTS, ComparedEquation, ValueComparison
from lazynb.xla.evidence import INFERRED, UNKNOWN, VERIFIED
from lazynb.xla.hlo.clusters import Cluster, find_clusters
from lazynb.xla.hlo.module import Instruction, Module, parse


@dataclasses.dataclass(frozen=True, slots=True)
class NumericsCause:
    """Why an operation's compiled values differ from the eager ones.

    Attributes:
      code: ``algebra``, ``precision``, ``min-max``, ``library``, ``fma``, ``generator``, ``together``,
        ``fusion``, ``order`` or ``unknown``.
      text: the cause in a sentence.
      label: the evidence: ``verified by recompiling``, ``rule inferred`` or ``not known``.
      experiment: the change of the compilation that removed the difference; empty if none did.
      kernel: the fusion cluster that computes the operation in the compiled program; empty if none does.
      tried: the changes that had no effect.
    """

    code: str
    text: str
    label: str
    experiment: str
    kernel: str
    tried: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A change of the compilation.

    Attributes:
      code: code of the cause that it removes.
      what: the change, as a phrase that follows "compiled again".
      text: the cause, if the change removes the difference.
      options: XLA options.
      platforms: platforms that have these options; empty for all.
      barrier: whether a barrier is inserted before the operation.
    """

    code: str
    what: str
    text: str
    options: tuple[tuple[str, Any], ...] = ()
    platforms: tuple[str, ...] = ()
    barrier: bool = False


EXPERIMENTS = (
    Experiment(
        "algebra",
        "without XLA's pass `algsimp`",
        "XLA rewrites the expression by the rules of algebra, which do not hold for rounded numbers",
        (("xla_disable_hlo_passes", "algsimp"),),
    ),
    Experiment(
        "precision",
        "with `xla_allow_excess_precision=false`",
        "XLA leaves out a rounding to a narrower type between two operations, and so keeps more precision",
        (("xla_allow_excess_precision", False),),
    ),
    Experiment(
        "min-max",
        "with `xla_cpu_enable_fast_min_max=false`",
        "XLA's minimum and maximum take less care of NaN",
        (("xla_cpu_enable_fast_min_max", False),),
        ("cpu",),
    ),
    Experiment(
        "library",
        "without YNNPACK",
        "a library computes it in the compiled program, in another order",
        (("xla_cpu_experimental_ynn_fusion_type", ""),),
        ("cpu",),
    ),
    Experiment(
        "generator",
        "with LLVM's optimisations off (`xla_backend_optimization_level=0`)",
        "the machine code of the kernel rounds at other points than the operations do",
        (("xla_backend_optimization_level", 0),),
        ("cpu",),
    ),
    Experiment(
        "together",
        "with a barrier (`jax.lax.optimization_barrier`) before the operation",
        "XLA compiles it together with what gives its operands",
        barrier=True,
    ),
    Experiment(
        "fusion",
        "without XLA's pass `fusion`",
        "XLA computes it in one kernel with other operations",
        (("xla_disable_hlo_passes", "fusion"),),
    ),
)
"""Experiments in order, narrow causes first, because a broad change removes several causes."""


def cause_of(comparison: ValueComparison, one: ComparedEquation) -> NumericsCause:
    """Why the compiled values of an operation differ from the eager ones.

    Compiles and runs the program once for each experiment, until the difference disappears.
    """
    program = _Inside(comparison.seen.ran, one)
    tried: list[str] = []
    for experiment in _possible(comparison):
        if _disappears(comparison, one, experiment):
            code, text = experiment.code, f"{experiment.text}{program.instead(experiment.code)}"
            if code in ("generator", "together", "fusion") and is_fused_multiply_add(comparison, one):
                code, text = "fma", FMA
            return NumericsCause(code, text, VERIFIED, experiment.what, program.kernel, tuple(tried))
        tried.append(experiment.what)
    if _may_add_otherwise(comparison, one):
        text = "XLA adds the terms in another order than eager JAX"
        return NumericsCause("order", text, INFERRED, "", program.kernel, tuple(tried))
    return NumericsCause("unknown", "why is not known", UNKNOWN, "", program.kernel, tuple(tried))


FMA = (
    "a product and a sum are one fused multiply-add, which does not round the product: the compiled values "
    "are those of one, to the bit"
)


def is_fused_multiply_add(comparison: ValueComparison, one: ComparedEquation) -> bool:
    """Whether the compiled values of a sum are bit-identical to those with an unrounded product."""
    equation, program = one.equation, comparison.code.program
    if equation.primitive.name not in ("add", "sub", "add_any"):
        return False
    dtype, value = equation.avals[0].dtype, equation.results[0]
    makers, compiled = program.maker(), comparison.compiled
    given = [to_widest(operand) for operand in operands_of(equation, compiled)]
    for number, operand in enumerate(equation.operands):
        maker = makers.get(operand) if isinstance(operand, int) else None
        if maker is None or maker.primitive.name not in ("mul", "square", "integer_pow"):
            continue
        product = comparison.exact(maker, operands_of(maker, compiled))
        terms_ = [*given[:number], product[0], *given[number + 1 :]]
        exact = comparison.exact(equation, terms_)[0]
        if bool(equal_elements(round_to(exact, dtype), to_widest(compiled[value])).all()):
            return True
    return False


def _possible(comparison: ValueComparison) -> Iterator[Experiment]:
    platform = comparison.executable.platform
    for experiment in EXPERIMENTS:
        if not experiment.platforms or platform in experiment.platforms:
            yield experiment


def _disappears(comparison: ValueComparison, one: ComparedEquation, experiment: Experiment) -> bool:
    equation = one.equation
    try:
        ran = comparison.executable.run(
            equation.results,
            options=dict(experiment.options),
            barrier=equation if experiment.barrier else None,
        )
    except Exception:  # XLA lacks the option, or requires the pass
        return False
    results = [to_widest(ran.values[value]) for value in equation.results]
    if one.verdict == PARTS:
        operands = operands_of(equation, comparison.eager)
        return not any(mark.any() for mark in comparison.beyond_rounding_at(equation, results, operands))
    value, dtype = equation.results[one.result], equation.avals[one.result].dtype
    left = distance(comparison.eager[value], results[one.result], dtype)
    return left.ulps is not None and one.apart.ulps is not None and left.ulps <= min(ULPS, one.apart.ulps / 4)


def _may_add_otherwise(comparison: ValueComparison, one: ComparedEquation) -> bool:
    equation = one.equation
    if equation.primitive.name not in SUMS or one.verdict == PARTS:
        return False
    return terms(equation, types_of(equation, comparison.code.program)) > 2


class _Inside:
    """An operation in the optimised program; ``kernel`` is its cluster, empty if there is none."""

    def __init__(self, ran: CompiledRun, one: ComparedEquation):
        self.kernel, self._opcode, self._name = "", None, one.equation.name
        text = ran.text()
        self._is_known = bool(text)
        if not text:
            return
        module = parse(text)
        for cluster, instruction in _marked(module, one.equation.number):
            self.kernel, self._opcode = cluster.name, instruction.opcode

    def instead(self, code: str) -> str:
        """The instruction that XLA uses instead of the operation, as the end of a sentence."""
        if not self._is_known or code != "algebra":
            return ""
        if self._opcode is None:
            return ": nothing is left of it in the compiled program"
        if self._opcode.startswith(self._name):
            return f": its `{self._opcode}` has other operands there"
        return f": in its place stands `{self._opcode}`"


def _marked(module: Module, number: int) -> Iterator[tuple[Cluster, Instruction]]:
    """The instructions that an operation was lowered to, with their clusters."""
    by_name = {
        instruction.name: instruction
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
    }
    for cluster in find_clusters(module):
        for name in cluster.instructions:
            instruction = by_name.get(name)
            if instruction is not None and instruction.mark is not None and instruction.mark[0] == number:
                yield cluster, instruction
