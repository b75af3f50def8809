"""Cost of one run of a whole program: each kernel as often as it runs, with bounds for unknown figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from lazynb.xla.cost.kernel_cost import Cost, trip_count
from lazynb.xla.hlo.clusters import CONTROL
from lazynb.xla.hlo.module import Instruction, Module


@dataclasses.dataclass(frozen=True, slots=True)
class CostRange:
    """A figure, or its bounds.

    Attributes:
      low: lower bound.
      high: upper bound; None if there is none.
    """

    low: float = 0.0
    high: float | None = 0.0

    @property
    def exact(self) -> float | None:
        """The figure; None if only bounds are known."""
        return self.low if self.low == self.high else None

    def __add__(self, other: CostRange) -> CostRange:
        high = None if self.high is None or other.high is None else self.high + other.high
        return CostRange(self.low + other.low, high)

    def times(self, least: int, most: int | None) -> CostRange:
        """Return ``least`` to ``most`` times the figure; ``most`` is None if there is no bound."""
        if self.high == 0:
            return self
        high = None if most is None or self.high is None else self.high * most
        return CostRange(self.low * least, high)


def either_branch(choices: Iterable[CostRange]) -> CostRange:
    """Return the range of an unknown one of ``choices``."""
    choices = list(choices)
    if not choices:
        return CostRange()
    highs = [choice.high for choice in choices if choice.high is not None]
    return CostRange(
        min(choice.low for choice in choices), max(highs) if len(highs) == len(choices) else None
    )


@dataclasses.dataclass(frozen=True, slots=True)
class TotalCost:
    """The cost of one run of a program.

    Attributes:
      flops, transcendentals, bytes: as in :class:`lazynb.xla.cost.kernel_cost.Cost`, of all kernels.
      unknown: reasons why figures are only bounds, a phrase each; empty if all are exact.
    """

    flops: CostRange
    transcendentals: CostRange
    bytes: CostRange
    unknown: tuple[str, ...]

    def __add__(self, other: TotalCost) -> TotalCost:
        return TotalCost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes + other.bytes,
            tuple(dict.fromkeys(self.unknown + other.unknown)),
        )


ZERO_COST = TotalCost(CostRange(), CostRange(), CostRange(), ())


def program_total(module: Module, costs: Mapping[str, Cost]) -> TotalCost:
    """Return the cost of one run of ``module``.

    The contents of a loop count once per known iteration. A branch counts as the range of its sides.

    Arguments:
      costs: of one execution of each cluster, by name.
    """
    figures = {}
    for figure in ("flops", "transcendentals", "bytes"):
        own = {name: getattr(cost, figure) for name, cost in costs.items()}
        figures[figure] = _of_computation(module, module.entry, own)
    return TotalCost(**figures, unknown=tuple(_unknown_reasons(module, costs)))


def _of_computation(module: Module, name: str, own: Mapping[str, float | None]) -> CostRange:
    total = CostRange()
    for instruction in module.computations[name].instructions.values():
        if instruction.name in own:
            total += _of_cluster(module, instruction, own)
    return total


def _of_cluster(module: Module, cluster: Instruction, own: Mapping[str, float | None]) -> CostRange:
    if cluster.opcode not in CONTROL:
        figure = own[cluster.name]
        return CostRange(0, None) if figure is None else CostRange(figure, figure)
    inner = {name: _of_computation(module, name, own) for name in cluster.calls}
    if cluster.opcode == "conditional":
        return either_branch(inner.values())
    if cluster.opcode != "while":
        return sum(inner.values(), start=CostRange())
    trips = trip_count(module, cluster)
    body = inner[cluster.attribute("body").lstrip("%")]
    condition = inner[cluster.attribute("condition").lstrip("%")]
    if trips is None:
        return body.times(0, None) + condition.times(1, None)
    return body.times(trips, trips) + condition.times(trips + 1, trips + 1)


def _unknown_reasons(module: Module, costs: Mapping[str, Cost]) -> Iterable[str]:
    for name, cost in costs.items():
        cluster = module.by_name[name]
        if cluster.opcode == "while" and trip_count(module, cluster) is None:
            yield f"how often the loop {name} turns is not known"
        elif cluster.opcode == "conditional":
            yield f"which branch of {name} is taken is not known"
        elif cost.flops is None and cluster.opcode not in CONTROL:
            yield f"of {name}: {cost.source}"
