"""Usage of the programs that ran: bytes moved and memory, kernel launches, and a recorder for measuring them.

The figures equal those in the inspector: bytes from XLA's own analysis, times the executions of each kernel,
and the memory that one run of a program allocates.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Iterable
from typing import Any

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.recording.snapshot.trace_description import Names
from lazynb.recording.snapshot.variable_names import names_of, user_namespace
from lazynb.running.compiler_dump import DumpUnavailable
from lazynb.running.observers import Observer, RunEvent
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import line_range
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import CompilationBuilder
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.program_memory import Buffer, memory_stats, parse_memory
from lazynb.xla.cost.total_cost import CostRange
from lazynb.xla.hlo.clusters import find_clusters
from lazynb.xla.hlo.module import parse
from lazynb.xla.program_interface import Inputs
from lazynb.xla.program_origins import ProgramOrigins

PROGRAMS_KEPT = 256
"""Limit on programs with known lines. Later programs only have figures and the last line."""

_PARTS = 3  # limit on kernels, or values in memory, named for a program


@dataclasses.dataclass(frozen=True, slots=True)
class Contribution:
    """A kernel that moves bytes, or a value that occupies memory.

    Attributes:
      text: its description.
      bytes: bytes in one run of the program.
      where: short form of the user's lines that it computes; empty if unknown.
    """

    text: str
    bytes: float
    where: str


@dataclasses.dataclass(frozen=True, slots=True)
class Footprint:
    """A program that ran.

    Attributes:
      location: the user's line of its last operation.
      operations: recorded operations in it.
      runs: number of runs.
      moved: bytes that one run moves through memory; None if XLA returns no HLO.
      unknown: why the bounds of ``moved`` differ, a phrase each.
      allocated: bytes for one run: arguments, results, intermediates, shared memory once; None if unknown.
      kernels: kernels that move most; only for programs in an explanation.
      holders: values that occupy most memory at the peak; likewise.
    """

    location: Place
    operations: int
    runs: int
    moved: CostRange | None
    unknown: tuple[str, ...]
    allocated: int | None
    kernels: tuple[Contribution, ...] = ()
    holders: tuple[Contribution, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Footprints:
    """The programs that ran, in order of first run."""

    programs: tuple[Footprint, ...]

    @property
    def moved(self) -> CostRange:
        """Bytes that all runs moved through memory."""
        total = CostRange()
        for program in self.programs:
            own = program.moved if program.moved is not None else CostRange(0.0, None)
            total += own.times(program.runs, program.runs)
        return total

    @property
    def unknown(self) -> tuple[str, ...]:
        """Why ``moved`` is not exact, a phrase each; empty if it is."""
        said: dict[str, None] = {}
        for program in self.programs:
            said.update(dict.fromkeys(program.unknown))
            if program.moved is None:
                said["XLA gives no HLO of a program"] = None
        return tuple(said)

    @property
    def largest(self) -> int:
        """Bytes of the run that needed most; 0 if nothing ran or XLA has no figures."""
        return max((program.allocated or 0 for program in self.programs), default=0)

    @property
    def unsized(self) -> int:
        """Number of programs for which XLA has no memory figure."""
        return sum(program.allocated is None for program in self.programs)


class FootprintCounter(Observer):
    """Records each program at its first run, and counts its runs. Keeps no values alive."""

    def __init__(self) -> None:
        self._runs: dict[Executable, int] = {}
        self._gathered: dict[Executable, CompilationBuilder] = {}
        self._known: dict[Executable, Footprint] = {}

    def ran(self, event: RunEvent) -> None:
        executable = event.run.binding.executable
        self._runs[executable] = self._runs.get(executable, 0) + 1
        if self._runs[executable] > 1 or len(self._gathered) >= PROGRAMS_KEPT:
            return
        gathering = CompilationBuilder()
        gathering.describe(event.pending, _names())
        gathering.add(event.pending, event.tensors, event.run.binding, event.run.miss is not None)
        self._gathered[executable] = gathering

    def footprints(self, moved: bool = False, held: bool = False) -> Footprints:
        """The footprints of the programs that ran so far.

        Arguments:
          moved: whether to list the kernels that move most.
          held: whether to list what occupies the memory of the largest program, which is compiled again.
        """
        runs = dict(self._runs)
        known = {executable: self._figures(executable) for executable in runs}
        largest = max(known, key=lambda one: known[one].allocated or 0, default=None) if held else None
        programs = []
        for executable, count in runs.items():
            own = dataclasses.replace(known[executable], runs=count)
            if executable in self._gathered:
                compilation = self._gathered[executable].compilation()
                own = dataclasses.replace(
                    own,
                    kernels=tuple(_movers(compilation)) if moved else (),
                    holders=tuple(_holders(compilation)) if executable is largest else (),
                )
            programs.append(own)
        return Footprints(tuple(programs))

    def _figures(self, executable: Executable) -> Footprint:
        if executable not in self._known:
            self._known[executable] = _figures(executable)
        return self._known[executable]


def _names() -> Names:
    try:
        return names_of(user_namespace())
    except Exception:  # raised by one of the user's containers
        return {}


def _figures(executable: Executable) -> Footprint:
    trace = CompiledProgram(executable, False, ProgramOrigins({}, {}, ()), Snapshot(()), Inputs(()))
    allocated = parse_memory("", "", memory_stats(executable.compiled)).allocated_bytes
    moved, unknown = (trace.total.bytes, trace.total.unknown) if trace.text else (None, ())
    return Footprint(executable.place, executable.operations, 0, moved, unknown, allocated)


# ---- Details for an explanation ----------------------------------------------------------------------------


def _movers(compilation: Compilation) -> list[Contribution]:
    """The kernels that move most bytes in a run."""
    [trace] = compilation.traces
    parts = []
    for cluster in trace.clusters:
        cost = trace.costs.get(cluster.name)
        if cluster.kind == "control" or cost is None or cost.bytes is None:
            continue
        moved = cost.bytes * (cost.executions if cost.executions is not None else 1)
        text = f"kernel {cluster.name}"
        if cost.executions is None:
            text += " (each time)"
        parts.append(Contribution(text, moved, _where(compilation, trace.nodes_of(cluster))))
    return _largest(parts)


def _holders(compilation: Compilation) -> list[Contribution]:
    """The values that occupy most memory at the peak."""
    [trace] = compilation.traces
    with contextlib.suppress(DumpUnavailable):
        _ = trace.dump  # compiles again if XLA's dump is missing
    memory = trace.memory
    if memory.peak_step is None:
        return []
    seen: dict[tuple[int, int], Contribution] = {}  # memory location → one of the buffers that share it
    for buffer in memory.live(memory.peak_step):
        if buffer.kind != "constant":
            seen.setdefault((buffer.allocation, buffer.offset), _holder(compilation, trace, buffer))
    return _largest(seen.values())


def _holder(compilation: Compilation, trace: CompiledProgram, buffer: Buffer) -> Contribution:
    name = f"`{'`, `'.join(buffer.variables)}`" if buffer.variables else buffer.instruction
    kind = {"argument": "argument", "output": "result", "temp": "value in between"}[buffer.kind]
    nodes = trace.inputs_of_parameter(buffer.instruction)
    instruction = trace.module.by_name.get(buffer.instruction) if trace.module is not None else None
    if instruction is not None and buffer.kind != "argument":
        home = next((one for one in trace.clusters if instruction.name in one.instructions), None)
        nodes = trace.nodes_of(home) if home is not None else trace.nodes_of_instruction(instruction)
    return Contribution(f"{kind} {name}", buffer.bytes, _where(compilation, nodes))


def _largest(parts: Iterable[Contribution]) -> list[Contribution]:
    return sorted(parts, key=lambda part: -part.bytes)[:_PARTS]


def _where(compilation: Compilation, nodes: Iterable[int]) -> str:
    """The lines of nodes, with the text if there is only one."""
    places = [place for node in nodes if (place := compilation.snapshot.nodes[node].place) is not None]
    if not places:
        return ""
    if len(set(places)) == 1:
        return f"{places[0].label}: {places[0].text}"
    return line_range(places)


# ---- Kernel launches --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramLaunches:
    """A program that ran.

    Attributes:
      location: the user's line of its last operation.
      operations: recorded operations in it.
      kernels: kernels of one run, with a kernel inside a loop that XLA kept (``scan``, ``while_loop``)
        counted once; None if XLA returns no HLO.
      runs: number of runs.
    """

    location: Place
    operations: int
    kernels: int | None
    runs: int


@dataclasses.dataclass(frozen=True, slots=True)
class Launches:
    """The programs that ran, most launches first.

    Attributes:
      programs: each program.
      total: number of launched kernels, as far as known.
      unknown: number of programs without HLO.
    """

    programs: tuple[ProgramLaunches, ...]

    @property
    def total(self) -> int:
        return sum(map(_count, self.programs))

    @property
    def unknown(self) -> int:
        return sum(program.kernels is None for program in self.programs)


def _count(program: ProgramLaunches) -> int:
    return (program.kernels or 0) * program.runs


class LaunchCounter:
    """Counts runs by program, and kernels on demand. Keeps at most :data:`LAUNCHES_KEPT` programs alive."""

    def __init__(self) -> None:
        self._runs: collections.OrderedDict[Executable, int] = collections.OrderedDict()
        self._dropped: list[ProgramLaunches] = []

    def note(self, executable: Executable) -> None:
        """Counts a run of ``executable``."""
        self._runs[executable] = self._runs.get(executable, 0) + 1
        if len(self._runs) > LAUNCHES_KEPT:
            self._dropped.append(_launched(*self._runs.popitem(last=False)))

    def launches(self) -> Launches:
        """The launches so far."""
        kept = [_launched(executable, runs) for executable, runs in self._runs.items()]
        return Launches(tuple(sorted([*self._dropped, *kept], key=_count, reverse=True)))


LAUNCHES_KEPT = 1_000


def _launched(executable: Executable, runs: int) -> ProgramLaunches:
    return ProgramLaunches(executable.place, executable.operations, kernels_of(executable.compiled), runs)


def kernels_of(compiled: Any) -> int | None:
    """Number of kernels in JAX's compiled object; None if the backend returns no HLO."""
    try:
        text = compiled.as_text()
    except Exception:  # the error for missing HLO depends on the backend
        return None
    if not text:
        return None
    return sum(cluster.is_kernel for cluster in find_clusters(parse(text)))


# ---- Recorder of the programs that ran --------------------------------------------------------------------
# Each program is recorded once, to be measured and saved.

_PROGRAMS = 64
_OPERATIONS = 20_000


class ProgramRecorder(Observer):
    """Records each program at its first run, and counts its runs.

    Attributes:
      left_out: number of programs beyond the limit.
    """

    def __init__(self) -> None:
        self._runs: dict[int, int] = {}  # by id of the executable, which is kept alive
        self._noted: dict[int, CompilationBuilder] = {}
        self._executables: list[Any] = []
        self._operations = 0
        self.left_out = 0

    def ran(self, event: RunEvent) -> None:
        executable = event.run.binding.executable
        key = id(executable)
        self._runs[key] = self._runs.get(key, 0) + 1
        if self._runs[key] > 1:
            return
        self._executables.append(executable)
        if len(self._noted) >= _PROGRAMS or self._operations > _OPERATIONS:
            self.left_out += 1
            return
        self._operations += len(event.pending)
        gathering = self._noted[key] = CompilationBuilder()
        gathering.describe(event.pending, _program_names())
        gathering.add(event.pending, event.tensors, event.run.binding, event.run.miss is not None)

    def compilations(self) -> list[Compilation]:
        """One compilation for each program, in order of first run."""
        return [
            gathering.compilation(runs=[self._runs[key]], unlisted=0)
            for key, gathering in self._noted.items()
        ]


def _program_names() -> Names:
    try:
        return names_of(user_namespace())
    except Exception:  # raised by one of the user's containers
        return {}
