"""What compiling one program took: lowering, XLA's stages, its passes and its kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from lazynb.execute.dumps import Dump
from lazynb.xla.compilable import Compilable
from lazynb.xla.times.compile_events import BACKEND, Compiling, Event, NoTimes, read_events
from lazynb.xla.times.passes import PassTime, pass_times

READING, PASSES, PLANNING, KERNELS, LLVM, LOADING = (
    "reading StableHLO",
    "HLO passes",
    "scheduling and buffers",
    "kernels to LLVM IR",
    "LLVM to machine code",
    "the rest of XLA",
)
"""XLA:CPU's stages, one after the other."""

_TIMING = "XLA's own timing, with what it wrote down for this view,"
THIS = f"{_TIMING} of this compilation"
AGAIN = f"{_TIMING} of a second compilation, made to see the passes"
EARLIER = f"{_TIMING} of the compilation whose program the cache gave"


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of XLA's compilation.

    Attributes:
      name: one of :data:`READING` to :data:`LOADING`.
      seconds: by the clock; several threads work in the stages of kernels and of LLVM.
    """

    name: str
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel that XLA:CPU compiled to machine code.

    Attributes:
      name: its HLO instruction. Kernels that are equal but for their operands are compiled once, under the
        name of one of them.
      seconds: in which MLIR made LLVM IR of it, in its thread; None if XLA made that directly. LLVM's own
        time is not known by kernel.
    """

    name: str
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class CompileTimes:
    """What compiling one program took. All times are in seconds.

    Attributes:
      lowering: from the recorded trace to StableHLO, by lazynb's clock; None if it was not lowered now.
      compiling: JAX and XLA after that, by lazynb's clock; None if it was not compiled now.
      loading: reading it from the persistent cache, by lazynb's clock; None if it did not come from there.
      xla: the part of ``compiling`` that XLA's profiler saw; None if there is no such timing.
      stages: of ``xla``, which they add up to. What XLA writes down for the inspector is in them: texts of
        modules, buffers, machine code, and on JAX 0.10 LLVM IR; only ``writing`` can be told.
      passes: over HLO, in the order in which they ended.
      checking: seconds in which XLA checked the module between passes.
      writing: inferred seconds in which it wrote the module's text between passes; None if unknown.
      kernels: that were compiled; library calls are not among them.
      source: whose timing ``xla`` to ``kernels`` are.
      why_not: why there are none; empty if there are.
    """

    lowering: float | None = None
    compiling: float | None = None
    loading: float | None = None
    xla: float | None = None
    stages: tuple[Stage, ...] = ()
    passes: tuple[PassTime, ...] = ()
    checking: float | None = None
    writing: float | None = None
    kernels: tuple[KernelTime, ...] = ()
    source: str = ""
    why_not: str = ""

    def stage(self, name: str) -> float | None:
        """Seconds of a stage; None if XLA did not time it."""
        return next((stage.seconds for stage in self.stages if stage.name == name), None)


def compile_times(executable: Compilable, cache_event: str) -> CompileTimes:
    """What is known of how long ``executable`` took to compile.

    Arguments:
      cache_event: ``hit``, ``compiled``, ``disk`` or ``given``, see :class:`CompiledTrace`.
    """
    times = _clocked(executable, cache_event)
    dump = executable.dump
    if dump is None:
        return dataclasses.replace(times, why_not=_NOT_HERE.get(cache_event, _UNWRITTEN))
    if dump.profile.data is None:
        return dataclasses.replace(times, why_not=f"Not timed: {dump.profile.why_not}.")
    try:
        compiling = read_events(dump.profile.data)
    except NoTimes as error:
        return dataclasses.replace(times, why_not=f"Not timed: {error}.")
    source = AGAIN if dump.profile.again else EARLIER if cache_event == "hit" else THIS
    return _with_profile(times, compiling, dump, source)


_NOT_HERE = {
    "hit": "Not compiled here: the program was in lazynb's cache.",
    "disk": "Not compiled here: the program was loaded from the persistent cache.",
    "given": "Not compiled here: the program was given compiled.",
}
_UNWRITTEN = "Not timed: nobody asked for it when it was compiled."


def _clocked(executable: Compilable, cache_event: str) -> CompileTimes:
    """What lazynb's own clock says of this compilation."""
    if cache_event not in ("compiled", "disk"):
        return CompileTimes()
    lowering = executable.lowering_seconds
    rest = executable.compile_seconds - (lowering or 0.0)
    if cache_event == "disk":
        return CompileTimes(lowering, loading=rest)
    return CompileTimes(lowering, compiling=rest)


def _with_profile(times: CompileTimes, compiling: Compiling, dump: Dump, source: str) -> CompileTimes:
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


def _stages(whole: Event) -> Iterator[Stage]:
    """The stages between the events that part them; a stage whose events are missing is part of the next."""
    start = whole.start
    for name, end in _ends(whole):
        if end is not None:
            yield Stage(name, end - start)
            start = end


def _ends(whole: Event) -> Iterator[tuple[str, float | None]]:
    """When each stage ended; None if there is no event that says so."""
    backend = whole.find(BACKEND)
    pipeline = next((event for event in whole.walk() if event.module), None)
    emitting = whole.find("ThunkEmitter::EmitEntryComputation")
    consuming = whole.find("ThunkEmitter::ConsumeKernels")
    codegen = whole.find("Codegen")
    yield READING, pipeline.start if pipeline is not None else None
    yield PASSES, backend.start if backend is not None else None
    yield PLANNING, emitting.start if emitting is not None else None
    yield KERNELS, consuming.end if consuming is not None else None
    yield LLVM, codegen.end if codegen is not None else None
    yield LOADING, whole.end


def _kernels(compiling: Compiling, dump: Dump) -> Iterator[KernelTime]:
    """The kernels that MLIR lowered, and others of which XLA wrote down machine code."""
    known = {_kernel(event.module): event.seconds for event in compiling.kernels}
    yield from (KernelTime(name, seconds) for name, seconds in known.items())
    for path in dump.files("*.obj-file.*.o"):
        name = _kernel(path.name.partition(".obj-file.")[2].removesuffix(".o"))
        if name not in known and not name.startswith("part_"):  # functions that kernels call
            yield KernelTime(name, None)


def _kernel(module: str) -> str:
    """The instruction that a module of MLIR or LLVM is of."""
    name = module.removeprefix("__compute_module_").removesuffix("_kernel_module")
    return name.removesuffix("_computation")
