"""One cell compiled for several chips: what each would run, and the lines where they differ."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from lazynb.errors import LazynbError
from lazynb.source import Place
from lazynb.targets.compiled import TargetError
from lazynb.targets.compilers import CompilerMissing
from lazynb.targets.process import CompilerCrashed
from lazynb.targets.target import Target
from lazynb.xla.clusters import Cluster
from lazynb.xla.compilation import Compilation
from lazynb.xla.cost.kernel_cost import executions
from lazynb.xla.cost.roof import moved, written_by
from lazynb.xla.program import CompiledTrace

HERE = "this machine"


@dataclasses.dataclass(frozen=True)
class Made:
    """What one target would run.

    Attributes:
      target: its title.
      kernels: how many.
      runs: how often they run, one in a loop as often as that turns; None if that is not known.
      transfers: values that are brought to another memory, beside other work where it can be.
      moved: bytes that they read and write in the device's memory, each array as a whole, a loop's body once.
      moved_in_all: the same, a loop's body as often as it turns; None if that is not known.
      largest: bytes of the largest array that a kernel or a transfer writes there.
      seconds: what the program takes at least, by the chip's published peaks, a loop's body once; None where
        there are none.
      seconds_in_all: the same, a loop's body as often as it turns; None if that is not known.
    """

    target: str
    kernels: int
    runs: int | None
    transfers: int
    moved: int
    moved_in_all: int | None
    largest: int
    seconds: float | None
    seconds_in_all: float | None


@dataclasses.dataclass(frozen=True)
class LineDifference:
    """A line whose kernels it shares with other lines on one target than on another.

    Attributes:
      place: the line.
      shared: for each target, the numbers of the other lines that it shares a kernel with.
    """

    place: Place
    shared: tuple[tuple[int, ...], ...]


def for_each(
    targets: Sequence[Target | None],
    compiled: Callable[[Target | None], Compilation],
    *,
    may_be_empty: bool = False,
) -> tuple[dict[Target | None, Compilation], dict[str, str]]:
    """What ``compiled`` gives for each target; and by title why it gives nothing, for those whose compiler is
    missing or refuses the program.

    Arguments:
      may_be_empty: whether it is no error if no target is left.

    Raises:
      LazynbError: no target is left; the error is that of the first.
    """
    found: dict[Target | None, Compilation] = {}
    refused: dict[Target | None, LazynbError] = {}
    for target in targets:
        try:
            found[target] = compiled(target)
        except (TargetError, CompilerMissing, CompilerCrashed) as error:
            refused[target] = error
    if refused and not found and not may_be_empty:
        raise next(iter(refused.values()))
    return found, {title_of(target): str(error) for target, error in refused.items()}


def title_of(target: Target | None, is_jit: bool = False) -> str:
    """What the user reads for a target, and for a program compiled as ``jax.jit`` of the code would be."""
    title = HERE if target is None else target.title
    return f"{title}, as jax.jit" if is_jit else title


def pairs(compilations: Sequence[Compilation]) -> list[tuple[Compilation, Compilation]]:
    """What lazynb runs beside what ``jax.jit`` would run, by target."""
    lazy = {title_of(one.target): one for one in compilations if one.form is None}
    jitted = {title_of(one.target): one for one in compilations if one.form is not None}
    return [(lazy[title], jitted[title]) for title in lazy if title in jitted]


def made(compilation: Compilation) -> Made:
    """What ``compilation`` runs."""
    steps = [step for trace in compilation.traces for step in _steps(trace)]
    kernels = [step for step in steps if step.cluster.is_kernel]
    ended = [step.cluster for step in steps if not step.cluster.opcode.endswith("-start")]
    written = [part for cluster in ended for part in written_by(cluster)]
    here = compilation.target is None
    return Made(
        target=title_of(compilation.target, compilation.form is not None),
        kernels=len(kernels),
        runs=_in_all((step.times, 1) for step in kernels),
        transfers=sum(step.cluster.is_begun_transfer for step in steps),
        moved=sum(moved(step.cluster) for step in steps),
        moved_in_all=_in_all((step.times, moved(step.cluster)) for step in steps),
        largest=max(written, default=0),
        seconds=None if here else sum(step.seconds for step in steps),
        seconds_in_all=None if here else _in_all((step.times, step.seconds) for step in steps),
    )


class _Step(NamedTuple):
    """A cluster that does something, how often it runs (None: not known), and what one run takes at least."""

    cluster: Cluster
    times: int | None
    seconds: float


def _steps(trace: CompiledTrace) -> list[_Step]:
    if trace.module is None:
        return []
    working = [cluster for cluster in trace.clusters if cluster.kind != "control"]
    times = executions(trace.module, [cluster.name for cluster in working])
    least = {name: bound.seconds for name, bound in trace.bounds.items()}
    return [_Step(cluster, times[cluster.name], least.get(cluster.name, 0.0)) for cluster in working]


Figure = TypeVar("Figure", int, float)


def _in_all(figures: Iterable[tuple[int | None, Figure]]) -> Figure | None:
    """The sum of figures, each as often as its step runs; None if that is not known."""
    total: Figure = 0
    for times, figure in figures:
        if figure and times is None:
            return None
        total += figure * (times or 0)
    return total


def differences(compilations: Sequence[Compilation]) -> list[LineDifference]:
    """The lines on which the compilations differ, in the order of the program."""
    shared = [_shared(compilation) for compilation in compilations]
    places = {place for one in shared for place in one}
    found = []
    for place in sorted(places, key=_order):
        lines = tuple(one.get(place, ()) for one in shared)
        if len(set(lines)) > 1:
            found.append(LineDifference(place, lines))
    return found


def _order(place: Place) -> tuple[int, str, int]:
    return place.cell or 0, place.file, place.line


def _shared(compilation: Compilation) -> dict[Place, tuple[int, ...]]:
    """By line, the other lines that share a kernel with it."""
    by_kernel: dict[str, set[Place]] = collections.defaultdict(set)
    for node, fate in compilation.fates.items():
        place = compilation.snapshot.nodes[node].place
        if place is not None:
            for name in fate.clusters:
                by_kernel[name].add(place)
    others: dict[Place, set[Place]] = collections.defaultdict(set)
    for places in by_kernel.values():
        for place in places:
            others[place] |= places - {place}
    return {place: tuple(sorted(each.line for each in found)) for place, found in others.items()}
