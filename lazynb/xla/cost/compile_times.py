"""Compilation time of one program: lowering, XLA's stages, its passes and its kernels."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Iterator, Sequence

from lazynb.running.compiler_dump import Dump
from lazynb.xla.cost.profiler_events import (
    BACKEND,
    CHECKERS,
    CompileEvent,
    CompileEvents,
    NoCompileProfile,
    read_events,
)
from lazynb.xla.program_interface import InspectableProgram

# ---- Seconds of each HLO pass -----------------------------------------------------------------------------
# From XLA's profile and the files that it dumped meanwhile.

START = "pipeline-start"


@dataclasses.dataclass(slots=True)
class PassTime:
    """One run of a pass.

    Attributes:
      pipeline, name: as in XLA.
      seconds: by XLA's profiler, without nested pipelines and without the check of the module after the pass,
        but with the dump of the module's text if the pass changed it.
      changed: whether it changed the module.
      writing: the part of ``seconds`` that dumped the text, which XLA does only for the inspection. It is
        inferred from the dump rate elsewhere in the same compilation. None if unknown.
      file: number of the file with the module after it; None if it changed nothing or the file is unknown.
    """

    pipeline: str
    name: str
    seconds: float
    changed: bool
    writing: float | None = 0.0
    file: int | None = None

    @property
    def own(self) -> float:
        """Seconds without writing, as far as that is known."""
        return max(0.0, self.seconds - (self.writing or 0.0))


@dataclasses.dataclass(frozen=True, slots=True)
class PassTimes:
    """All passes of one compilation.

    Attributes:
      passes: in the order in which they ended.
      checking: seconds in which XLA checked the module between them.
      writing: inferred seconds in which it dumped the module's text; None if unknown.
    """

    passes: tuple[PassTime, ...]
    checking: float
    writing: float | None


def pass_times(whole: CompileEvent, dump: Dump) -> PassTimes:
    """Return the passes in the events of a compilation.

    Arguments:
      dump: the files that XLA wrote in the same compilation.
    """
    events = list(whole.walk())
    pipelines = [event for event in events if _is_pipeline(event)]
    found = [(one.end, _pass(pipeline, one)) for pipeline in pipelines for one in _passes(pipeline)]
    passes = [one for _, one in sorted(found, key=lambda pair: pair[0])]
    checking = sum(event.seconds for event in events if event.name == CHECKERS)
    return PassTimes(tuple(passes), checking, _estimate_dump_seconds(passes, pipelines, _files(dump)))


def _is_pipeline(event: CompileEvent) -> bool:
    return bool(event.module) and event.name.endswith(f" ({event.module})")


def _passes(pipeline: CompileEvent) -> Iterator[CompileEvent]:
    yield from (event for event in pipeline.inside if event.name != CHECKERS)


def _pass(pipeline: CompileEvent, event: CompileEvent) -> PassTime:
    apart = [inner for inner in event.inside if inner.name == CHECKERS or _is_pipeline(inner)]
    changed = any(inner.name == CHECKERS for inner in event.inside)
    name = pipeline.name.removesuffix(f" ({pipeline.module})")
    return PassTime(name, event.name, event.seconds - sum(inner.seconds for inner in apart), changed)


# ---- Dump time ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _DumpedModule:
    """A dumped module text; ``is_last`` if its pass had ended."""

    number: int
    pipeline: str
    after: str
    is_last: bool
    bytes: int


_NAME = re.compile(r"\.(\d{4})\.([^.]+)\.after_(.+?)(\.before_.+)?\.txt$")


def _files(dump: Dump) -> list[_DumpedModule]:
    files = []
    for path in dump.files("*.after_*.txt"):
        match = _NAME.search(path.name)
        if match is not None:
            files.append(
                _DumpedModule(int(match[1]), match[2], match[3], bool(match[4]), path.stat().st_size)
            )
    return sorted(files, key=lambda file: file.number)


def _estimate_dump_seconds(
    passes: Sequence[PassTime], pipelines: Sequence[CompileEvent], files: Sequence[_DumpedModule]
) -> float | None:
    """Sets ``writing`` of each pass that changed the module and returns the seconds of all dumps.
    The rate comes from the texts that XLA dumps at the start of a pipeline, where nothing else happens."""
    changed = [one for one in passes if one.changed]
    for one in changed:
        one.writing = None
    starts = [file for file in files if file.after == START]
    after = [file for file in files if file.after != START and file.is_last]
    gaps = list(map(_pipeline_start_gap, sorted(pipelines, key=lambda pipeline: pipeline.start)))
    named = [(_file_name_part(one.pipeline), _file_name_part(one.name)) for one in changed]
    if (
        named != [(file.pipeline, file.after) for file in after]
        or len(starts) != len(pipelines)
        or not starts
    ):
        return None
    # The median: a text took a hundred times as long while the machine was busy with other work.
    rate = statistics.median(gap / max(1, file.bytes) for gap, file in zip(gaps, starts))
    for one, file in zip(changed, after):
        one.file = file.number
        one.writing = min(one.seconds, rate * file.bytes)
    for file in files:
        if not file.is_last:  # dumped during the pass that ended next
            one = next(one for one in changed if one.file is not None and one.file > file.number)
            one.writing = min(one.seconds, (one.writing or 0.0) + rate * file.bytes)
    return sum(gaps) + sum(one.writing or 0.0 for one in changed)


def _pipeline_start_gap(pipeline: CompileEvent) -> float:
    """Seconds from the check at the start of a pipeline to its first pass: the text is dumped then."""
    checked = [event for event in pipeline.inside if event.name == CHECKERS][:1]
    first = pipeline.inside.index(checked[0]) if checked else -1
    until = pipeline.inside[first + 1].start if first + 1 < len(pipeline.inside) else pipeline.end
    return max(0.0, until - (checked[0].end if checked else pipeline.start))


def _file_name_part(name: str) -> str:
    return re.sub(r"[ /\\\[\]]", "_", name)


PARSE_STAGE, PASSES_STAGE, SCHEDULING_STAGE, EMISSION_STAGE, LLVM_STAGE, OTHER_STAGE = (
    "reading StableHLO",
    "HLO passes",
    "scheduling and buffers",
    "kernels to LLVM IR",
    "LLVM to machine code",
    "the rest of XLA",
)
"""XLA:CPU's stages, in order."""

_TIMING = "XLA's own timing, with what it wrote down for this view,"
FROM_THIS_COMPILATION = f"{_TIMING} of this compilation"
FROM_SECOND_COMPILATION = f"{_TIMING} of a second compilation, made to see the passes"
FROM_CACHED_COMPILATION = f"{_TIMING} of the compilation whose program the cache gave"


@dataclasses.dataclass(frozen=True, slots=True)
class CompileStage:
    """A stage of XLA's compilation.

    Attributes:
      name: one of :data:`PARSE_STAGE` to :data:`OTHER_STAGE`.
      seconds: wall time; the stages of kernels and of LLVM use several threads.
    """

    name: str
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel that XLA:CPU compiled to machine code.

    Attributes:
      name: its HLO instruction; kernels that differ only in operands are compiled once, under one's name.
      seconds: of MLIR making LLVM IR of it, in its thread; None if XLA made that directly. LLVM does not
        report times per kernel.
    """

    name: str
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class CompileTimes:
    """Compilation time of one program. All times are in seconds.

    Attributes:
      lowering: from the recorded trace to StableHLO, by lazynb's clock; None if it was not lowered now.
      compiling: JAX and XLA after that, by lazynb's clock; None if it was not compiled now.
      loading: reading it from the persistent cache, by lazynb's clock; None if it was not in there.
      xla: the part of ``compiling`` that XLA's profiler saw; None if there is no such timing.
      stages: of ``xla``; their sum is ``xla``. They include what XLA dumps for the inspector: texts of
        modules, buffers, machine code, and on JAX 0.10 LLVM IR; only ``writing`` can be separated.
      passes: over HLO, in the order in which they ended.
      checking: seconds in which XLA checked the module between passes.
      writing: inferred seconds in which it dumped the module's text between passes; None if unknown.
      kernels: the compiled kernels, without library calls.
      source: which compilation ``xla`` to ``kernels`` come from.
      why_not: why these are missing; else empty.
    """

    lowering: float | None = None
    compiling: float | None = None
    loading: float | None = None
    xla: float | None = None
    stages: tuple[CompileStage, ...] = ()
    passes: tuple[PassTime, ...] = ()
    checking: float | None = None
    writing: float | None = None
    kernels: tuple[KernelTime, ...] = ()
    source: str = ""
    why_not: str = ""

    def stage(self, name: str) -> float | None:
        """Return the seconds of a stage; None if XLA did not time it."""
        return next((stage.seconds for stage in self.stages if stage.name == name), None)


def compile_times(executable: InspectableProgram, cache_event: str) -> CompileTimes:
    """Return the known compilation times of ``executable``.

    Arguments:
      cache_event: as in :class:`lazynb.xla.compiled_program.CompiledProgram`.
    """
    times = _wall_clock_times(executable, cache_event)
    dump = executable.dump
    if dump is None:
        return dataclasses.replace(times, why_not=_NOT_HERE.get(cache_event, _UNWRITTEN))
    if dump.profile.data is None:
        return dataclasses.replace(times, why_not=f"Not timed: {dump.profile.why_not}.")
    try:
        compiling = read_events(dump.profile.data)
    except NoCompileProfile as error:
        return dataclasses.replace(times, why_not=f"Not timed: {error}.")
    source = (
        FROM_SECOND_COMPILATION
        if dump.profile.again
        else FROM_CACHED_COMPILATION
        if cache_event == "hit"
        else FROM_THIS_COMPILATION
    )
    return _with_profile(times, compiling, dump, source)


_NOT_HERE = {
    "hit": "Not compiled here: the program was in lazynb's cache.",
    "disk": "Not compiled here: the program was loaded from the persistent cache.",
    "given": "Not compiled here: the program was given compiled.",
}
_UNWRITTEN = "Not timed: no timing was requested when it was compiled."


def _wall_clock_times(executable: InspectableProgram, cache_event: str) -> CompileTimes:
    if cache_event not in ("compiled", "disk"):
        return CompileTimes()
    lowering = executable.lowering_seconds
    rest = executable.compile_seconds - (lowering or 0.0)
    if cache_event == "disk":
        return CompileTimes(lowering, loading=rest)
    return CompileTimes(lowering, compiling=rest)


def _with_profile(times: CompileTimes, compiling: CompileEvents, dump: Dump, source: str) -> CompileTimes:
    whole = compiling.whole
    known = pass_times(whole, dump)
    return dataclasses.replace(
        times,
        xla=whole.seconds,
        stages=tuple(_stages(whole)),
        passes=known.passes,
        checking=known.checking,
        writing=known.writing,
        kernels=tuple(_kernels(compiling, dump)),
        source=source,
    )


def _stages(whole: CompileEvent) -> Iterator[CompileStage]:
    """The stages, delimited by events; a stage with missing events is part of the next."""
    start = whole.start
    for name, end in _stage_ends(whole):
        if end is not None:
            yield CompileStage(name, end - start)
            start = end


def _stage_ends(whole: CompileEvent) -> Iterator[tuple[str, float | None]]:
    """Yields the end of each stage; None if no event marks it."""
    backend = whole.find(BACKEND)
    pipeline = next((event for event in whole.walk() if event.module), None)
    emitting = whole.find("ThunkEmitter::EmitEntryComputation")
    consuming = whole.find("ThunkEmitter::ConsumeKernels")
    codegen = whole.find("Codegen")
    yield PARSE_STAGE, pipeline.start if pipeline is not None else None
    yield PASSES_STAGE, backend.start if backend is not None else None
    yield SCHEDULING_STAGE, emitting.start if emitting is not None else None
    yield EMISSION_STAGE, consuming.end if consuming is not None else None
    yield LLVM_STAGE, codegen.end if codegen is not None else None
    yield OTHER_STAGE, whole.end


def _kernels(compiling: CompileEvents, dump: Dump) -> Iterator[KernelTime]:
    """The kernels that MLIR lowered, and others with dumped machine code."""
    known = {_kernel(event.module): event.seconds for event in compiling.kernels}
    yield from (KernelTime(name, seconds) for name, seconds in known.items())
    for path in dump.files("*.obj-file.*.o"):
        name = _kernel(path.name.partition(".obj-file.")[2].removesuffix(".o"))
        if name not in known and not name.startswith("part_"):  # functions that kernels call
            yield KernelTime(name, None)


def _kernel(module: str) -> str:
    name = module.removeprefix("__compute_module_").removesuffix("_kernel_module")
    return name.removesuffix("_computation")
