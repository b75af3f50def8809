"""Comparison of one cell compiled for several chips, and by lazynb and ``jax.jit``."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.running.record_table import plural
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import size
from lazynb.xla.compilation import Compilation
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.kernel_cost import executions
from lazynb.xla.cost.roofline import bytes_moved, bytes_written
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo.value_numbering import ValueNumbering
from lazynb.xla.recorded_operations import Value
from lazynb.xla.targets.compiler_packages import CompilerMissing
from lazynb.xla.targets.compiler_process import CompilerCrashed
from lazynb.xla.targets.target_chip import Target
from lazynb.xla.targets.target_compilation import TargetError

# ---- Additional work compared with ``jax.jit`` ------------------------------------------------------------
# lazynb's program returns all values that are still reachable from Python names.

_LISTED = 8


@dataclasses.dataclass(frozen=True)
class Liveness:
    """Outputs and inputs that lazynb's program has and ``jax.jit`` of the same code does not.

    Attributes:
      arrays: number of results that ``jax.jit`` would not return.
      bytes: total size of these arrays.
      names: the user's names for them, where they have one.
      numbers: number of inputs that are Python numbers; ``jax.jit`` has constants for them.
      anyway: number of the arrays that the program of ``jax.jit`` also writes for certain, because one of its
        kernels reads them from another. It may write some of the others.
      named_anyway: the user's names for these.
    """

    arrays: int
    bytes: int
    names: tuple[str, ...]
    numbers: int
    anyway: int = 0
    named_anyway: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Sentences for the user; empty if there is no difference."""
        said = []
        if self.arrays:
            one = self.arrays == 1
            what = "This array is" if one else f"These {self.arrays:,} arrays are"
            named = f": {listed(self.names)}" if self.names else ""
            said.append(
                f"{what} written ({size(self.bytes)}) because {'it is' if one else 'they are'} still in reach"
                f"{named}. Under jax.jit {'it is no result' if one else 'they are no results'}."
            )
        if self.anyway:
            said.append(self._written_anyway())
        if self.numbers:
            inputs, constants = ("an input", "a constant") if self.numbers == 1 else ("inputs", "constants")
            numbers = plural(self.numbers, "number")
            said.append(f"{numbers} of Python's: {inputs} of lazynb's program, under jax.jit {constants}.")
        return said

    def _written_anyway(self) -> str:
        what = "all" if self.anyway == self.arrays else f"{self.anyway:,}"
        them = f"{what} of them" if self.arrays > 1 else "it"
        named = f": {listed(self.named_anyway)}" if self.named_anyway and self.anyway < self.arrays else ""
        return (
            f"The program of jax.jit writes {them} to memory all the same, because one of its kernels reads "
            f"what another gives{named}."
        )


def liveness(lazy: Compilation, jitted: Compilation) -> Liveness:
    """Compares ``lazy`` with ``jitted``, which is ``jax.jit`` of the same code."""
    given = {value for trace in jitted.traces for value in trace.origins.results}
    arrays: dict[Value, int] = {}
    for trace in lazy.traces:
        for value, aval in zip(trace.origins.results, trace.result_types, strict=True):
            if value not in given:
                arrays[value] = 0 if jc.is_key(aval) else aval.size * np.dtype(aval.dtype).itemsize
    numbers = sum(trace.numbers for trace in lazy.traces)
    anyway = _extra_outputs(lazy, jitted, arrays)
    return Liveness(
        len(arrays),
        sum(arrays.values()),
        _names(lazy, arrays),
        numbers,
        len(anyway),
        _names(lazy, [value for value in arrays if value in anyway]),
    )


def _names(compilation: Compilation, values: Iterable[Value]) -> tuple[str, ...]:
    """The user's names for values, where they have one."""
    names: list[str] = []
    for node, result in values:
        found = compilation.snapshot.nodes[node]
        names += found.result_names[result][:1] if found.result_names else found.names[:1]
    return tuple(names)


def listed(names: Sequence[str]) -> str:
    """The first few names, separated by commas."""
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join([*names[:_LISTED], *more])


def _extra_outputs(one: Compilation, other: Compilation, values: Collection[Value]) -> set[Value]:
    """The ``values``, results of ``one``, that a kernel of ``other`` writes for another kernel.

    Both compilations are of one graph. An array counts only if both compute it by the same operations from
    the same inputs; arrays that XLA computes in different ways are left out.
    """
    numbers = ValueNumbering()
    handed_on: set[int] = set()
    for trace in other.traces:
        if trace.module is not None:
            handed_on |= numbers.of(trace.module, _input_identity(other, trace)).kernel_to_kernel()
    found: set[Value] = set()
    for trace in one.traces:
        if trace.module is not None and handed_on:
            given = numbers.of(trace.module, _input_identity(one, trace)).results()
            results = zip(trace.origins.results, given, strict=False)
            found.update(value for value, number in results if value in values and number in handed_on)
    return found


def _input_identity(compilation: Compilation, trace: CompiledProgram) -> Callable[[str], Hashable | None]:
    """Identifies a parameter by its input nodes in the graph, or by its number."""

    def behind(name: str) -> Hashable | None:
        number = trace.scalar_of_parameter(name)
        if number is not None:
            return number
        nodes = trace.inputs_of_parameter(name)
        is_known = nodes and all(compilation.snapshot.nodes[node].kind == "input" for node in nodes)
        return tuple(nodes) if is_known else None

    return behind


HERE = "this machine"


@dataclasses.dataclass(frozen=True)
class ProgramFigures:
    """Figures of the program for one target.

    Attributes:
      target: its title.
      runs: executions of kernels, with loop iterations counted; None if unknown.
      transfers: values moved to another memory, in parallel with other work where possible.
      moved: bytes read and written in device memory, each array as a whole, a loop's body once.
      moved_in_all: the same with each loop iteration counted; None if unknown.
      largest: bytes of the largest array that a kernel or transfer writes there.
      seconds: lower bound from the chip's published peaks, a loop's body once; None without peaks.
      seconds_in_all: the same with each loop iteration counted; None if unknown.
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


LineKernels = tuple[tuple[Place, ...], ...]


@dataclasses.dataclass(frozen=True)
class LineDifference:
    """A line whose kernels differ between targets.

    ``kernels`` has, for each target and each kernel of the line, the other lines of that kernel. None: it is
    not known whether the line has a kernel there, because of some kernels the line is not known.
    """

    place: Place
    kernels: tuple[LineKernels | None, ...]


def compile_for_targets(
    targets: Sequence[Target | None],
    compiled: Callable[[Target | None], Compilation],
    *,
    may_be_empty: bool = False,
    is_jit: bool = False,
) -> tuple[dict[Target | None, Compilation], dict[str, str]]:
    """Compiles for each target.

    Arguments:
      compiled: compiles for one target.
      may_be_empty: whether to return normally if no target can be compiled.
      is_jit: whether it compiles like ``jax.jit`` of the code.

    Returns:
      The compilations by target; and the error text by title, for targets whose compiler is missing or
      rejects the program.

    Raises:
      LazynbError: no target could be compiled; this is the error of the first.
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
    return found, {title_of(target, is_jit): str(error) for target, error in refused.items()}


def title_of(target: Target | None, is_jit: bool = False) -> str:
    """The user's title for a target, and for a program compiled like ``jax.jit`` of the code."""
    title = HERE if target is None else target.title
    return f"{title}, as jax.jit" if is_jit else title


def pairs(compilations: Sequence[Compilation]) -> list[tuple[Compilation, Compilation]]:
    """Pairs lazynb's program with the ``jax.jit`` program of the same target."""
    lazy = {title_of(one.target): one for one in compilations if one.form is None}
    jitted = {title_of(one.target): one for one in compilations if one.form is not None}
    return [(lazy[title], jitted[title]) for title in lazy if title in jitted]


def program_figures(compilation: Compilation) -> ProgramFigures:
    """Computes the figures of ``compilation``."""
    steps = [step for trace in compilation.traces for step in _steps(trace)]
    kernels = [step for step in steps if step.cluster.is_kernel]
    ended = [step.cluster for step in steps if not step.cluster.opcode.endswith("-start")]
    written = [part for cluster in ended for part in bytes_written(cluster)]
    here = compilation.target is None
    return ProgramFigures(
        target=title_of(compilation.target, compilation.form is not None),
        kernels=len(kernels),
        runs=_in_all((step.times, 1) for step in kernels),
        transfers=sum(step.cluster.is_transfer_start for step in steps),
        moved=sum(bytes_moved(step.cluster) for step in steps),
        moved_in_all=_in_all((step.times, bytes_moved(step.cluster)) for step in steps),
        largest=max(written, default=0),
        seconds=None if here else sum(step.seconds for step in steps),
        seconds_in_all=None if here else _in_all((step.times, step.seconds) for step in steps),
    )


class _Step(NamedTuple):
    """A cluster that does work, its executions (None if unknown), and a lower bound of one in seconds."""

    cluster: Cluster
    times: int | None
    seconds: float


def _steps(trace: CompiledProgram) -> list[_Step]:
    if trace.module is None:
        return []
    working = [cluster for cluster in trace.clusters if cluster.kind != "control"]
    times = executions(trace.module, [cluster.name for cluster in working])
    least = {name: bound.seconds for name, bound in trace.bounds.items()}
    return [_Step(cluster, times[cluster.name], least.get(cluster.name, 0.0)) for cluster in working]


Figure = TypeVar("Figure", int, float)


def _in_all(figures: Iterable[tuple[int | None, Figure]]) -> Figure | None:
    """The sum of figures times executions; None if the executions are unknown."""
    total: Figure = 0
    for times, figure in figures:
        if figure and times is None:
            return None
        total += figure * (times or 0)
    return total


def line_differences(compilations: Sequence[Compilation]) -> list[LineDifference]:
    """The lines on which the compilations differ, in program order."""
    kernels = [_kernels_by_line(compilation) for compilation in compilations]
    absent = [None if kernels_of_no_line(compilation) else () for compilation in compilations]
    places = {place for one in kernels for place in one}
    found = []
    for place in sorted(places, key=_order):
        own = tuple(one.get(place, none) for one, none in zip(kernels, absent, strict=True))
        if len(set(own)) > 1:
            found.append(LineDifference(place, own))
    return found


def _order(place: Place) -> tuple[int, str, int]:
    return place.cell or 0, place.file, place.line


def kernels_of_no_line(compilation: Compilation) -> int:
    """The number of kernels of which no operation with a line is known."""
    return sum(not places for places in _lines_of_kernels(compilation))


def _lines_of_kernels(compilation: Compilation) -> list[set[Place]]:
    found: list[set[Place]] = []
    for trace in compilation.traces:
        lines: dict[str, set[Place]] = {each.name: set() for each in trace.clusters if each.is_kernel}
        for node, fate in trace.fates.items():
            place = compilation.snapshot.nodes[node].place
            if place is not None:
                for name in lines.keys() & set(fate.clusters):
                    lines[name].add(place)
        found += lines.values()
    return found


def _kernels_by_line(compilation: Compilation) -> dict[Place, LineKernels]:
    """By line, for each of its kernels the other lines that have a part in it."""
    found: dict[Place, list[tuple[Place, ...]]] = collections.defaultdict(list)
    for places in _lines_of_kernels(compilation):
        for place in places:
            found[place].append(tuple(sorted(places - {place}, key=_order)))
    return {place: tuple(sorted(own, key=lambda each: [*map(_order, each)])) for place, own in found.items()}
