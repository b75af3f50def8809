"""Readers of XLA's dump: the code of one kernel from HLO to machine code, and ``DumpReader``, which reads the
passes in a thread while XLA still compiles."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from lazynb.running.compiler_dump import Dump
from lazynb.xla.cost.kernel_cost import Cost, kernel_costs
from lazynb.xla.hlo.clusters import Cluster, find_clusters
from lazynb.xla.hlo.module import Instruction, Module, parse
from lazynb.xla.hlo.pass_history import PassHistory
from lazynb.xla.hlo.passes import Pass, first_module_text, read_passes


@dataclasses.dataclass(frozen=True, slots=True)
class KernelCode:
    """The code of a kernel. Each text is empty if the compiler dumped none.

    Attributes:
      hlo: its instruction and the computations that it calls, without metadata.
      facts: launch parameters and plan as pairs: ``("grid", "2048 × 1 × 1")``.
      language: of ``assembly``.
      assembly: assembly code: PTX on a GPU.
      llvm: optimised LLVM IR.
      note: the missing parts, and why they are missing.
    """

    hlo: str
    facts: tuple[tuple[str, str], ...] = ()
    language: str = ""
    assembly: str = ""
    llvm: str = ""
    note: str = ""


def kernel_code(module: Module, cluster: Cluster, platform: str, dump: Dump | None) -> KernelCode:
    """The code of ``cluster``.

    Arguments:
      dump: the compiler's dump; None if it no longer exists.
    """
    instruction = module.by_name[cluster.name]
    hlo = _hlo(module, instruction)
    if platform == "tpu":
        note = "XLA:TPU writes down no code of the machine: this is its plan for the kernel."
        return KernelCode(hlo, facts=tuple(_tpu_facts(instruction)), note=note)
    if dump is None or not dump.exists:
        return KernelCode(hlo, note="The compiler's files are gone: the program came from a cache.")
    if platform in ("cuda", "gpu", "rocm"):
        return _gpu(hlo, cluster, dump)
    llvm = _file_containing(dump, "*.ir-with-opt.ll", f"@{cluster.name}(")
    note = "" if llvm else "XLA:CPU wrote no LLVM IR of it down: only HLO is known."
    return KernelCode(hlo, llvm=llvm, note=note)


def _hlo(module: Module, instruction: Instruction) -> str:
    """The instruction and the computations that it calls, callees first."""
    wanted: dict[str, None] = {}
    waiting = list(instruction.calls)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted[name] = None
            for inner in module.computations[name].instructions.values():
                waiting += inner.calls
    texts = []
    for name in reversed(wanted):
        lines = [
            f"  {'ROOT ' * each.root}%{each.name} = {_without_backend_config(each.plain)}"
            for each in module.computations[name].instructions.values()
        ]
        texts.append("\n".join([f"%{name} {{", *lines, "}"]))
    return "\n\n".join([*texts, f"%{instruction.name} = {_without_backend_config(instruction.plain)}"])


def _without_backend_config(line: str) -> str:
    """A line without ``backend_config``; ``KernelCode.facts`` has its contents."""
    return line.partition(", backend_config=")[0]


# ---- GPU ---------------------------------------------------------------------------------------------------

_THUNK = re.compile(
    r"^\s*(\d+): \w+\s+\[[^\]]*\] (\S+) grid: \[([\d, ]+)\] threads: \[([\d, ]+)\]\s+shared_memory: (\d+)",
    re.M,
)
_ANNOTATION = re.compile(r'profile_annotation: "([^"]*)"\s+thunk_id: (\d+)\s+\}\s+thunk_kind: "k(\w+)"')


def _gpu(hlo: str, cluster: Cluster, dump: Dump) -> KernelCode:
    metadata = dump.text("*.thunk_metadata.txt")
    launches = {int(number): rest for number, *rest in _THUNK.findall(dump.text("*.thunk_sequence.txt"))}
    thunks = {name: (int(id_), kind) for name, id_, kind in _ANNOTATION.findall(metadata)}
    number, kind = thunks.get(cluster.name, (-1, ""))
    launch = launches.get(number)
    if launch is None:
        as_ = f" (it runs as {kind})" if kind else ""
        return KernelCode(hlo, note=f"XLA:GPU generates no kernel for it{as_}: only HLO is known.")
    kernel, grid, threads, shared = launch
    facts = (
        ("kernel", kernel),
        ("grid", _dimensions(grid)),
        ("threads of a block", _dimensions(threads)),
        ("shared memory of a block", f"{int(shared):,} bytes"),
    )
    assembly = _file_containing(dump, "*.ptx", f".entry {kernel}(")
    llvm = _file_containing(dump, "*.ir-with-opt.ll", f"@{kernel}(")
    note = "Compiled without the GPU: the sizes of tiles are defaults, which tuning on the chip may change."
    return KernelCode(
        hlo, facts, "PTX", assembly, llvm, note if "{" in assembly else f"{note} It has no PTX."
    )


def _dimensions(sizes: str) -> str:
    return " × ".join(size.strip() for size in sizes.split(","))


def _file_containing(dump: Dump, pattern: str, sign: str) -> str:
    """The text of the first file that contains ``sign``, the definition of a kernel."""
    for path in dump.files(pattern):
        text = path.read_text(encoding="utf-8", errors="replace")
        if sign in text:
            return text
    return ""


# ---- TPU ---------------------------------------------------------------------------------------------------

_BOUNDS = {
    "input_window_bounds": "window of the input",
    "kernel_window_bounds": "window of the kernel",
    "output_window_bounds": "window of the result",
    "iteration_bounds": "turns",
}


def _tpu_facts(instruction: Instruction) -> list[tuple[str, str]]:
    """XLA:TPU's plan for a kernel: cycle estimate, windows, scoped on-chip memory."""
    config = _config(instruction)
    windows: Mapping[str, Any] = config.get("window_config", {})
    facts = []
    if "estimated_cycles" in windows:
        facts.append(("estimated cycles", f"{int(windows['estimated_cycles']):,}"))
    for key, words in _BOUNDS.items():
        if windows.get(key):
            facts.append((words, " × ".join(windows[key])))
    for used in config.get("used_scoped_memory_configs", ()):
        if int(used.get("size", 0)):
            place = "VMEM" if used.get("memory_space") == "1" else f"memory {used.get('memory_space')}"
            facts.append((f"scoped {place}", f"{int(used['size']):,} bytes"))
    emitter = config.get("convolution_algorithm_config", {}).get("emitter")
    return [*facts, ("emitter", emitter)] if emitter else facts


def _config(instruction: Instruction) -> dict[str, Any]:
    """The ``backend_config`` of an instruction; empty if it is not JSON."""
    _, found, text = instruction.text.partition(", backend_config=")
    if not found or not text.startswith("{"):
        return {}
    try:
        config, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


# ---- Reading the dump while XLA compiles -------------------------------------------------------------------
# XLA's HLO passes take about a quarter of a compilation. Generating machine code is the rest, during which
# Python only waits. The passes are analysed in that time, so that the inspector adds little to the compile
# time.

_INTERVAL = 0.002  # seconds between polls


@dataclasses.dataclass(frozen=True)
class DumpContents:
    """The contents of a dump.

    Attributes:
      before: HLO before the first pass; empty if XLA dumped none.
      passes: those that changed the module.
      optimised: the module after the last pass; None if XLA dumped none.
      history: the instructions through all passes; None if they cannot be followed.
      clusters: of the optimised module.
      costs: of the clusters, by name; None if they were not computed.
    """

    before: str
    passes: Sequence[Pass]
    optimised: Module | None
    history: PassHistory | None
    clusters: list[Cluster] = dataclasses.field(default_factory=list)
    costs: dict[str, Cost] | None = None

    def history_ending_in(self, module: Module) -> PassHistory | None:
        """The history up to ``module``, the optimised module as JAX prints it. Newer JAX releases print parts
        of results in another way than they dump them."""
        if self.history is None or self.history.last.by_name.keys() == module.by_name.keys():
            return self.history
        return _history(self.before, self.passes, module)


def read_dump(dump: Dump) -> DumpContents:
    """Reads a dump; unreadable parts are left empty."""
    try:
        before, passes, text = (
            first_module_text(dump),
            read_passes(dump),
            dump.text("*after_optimizations.txt"),
        )
    except OSError:  # the directory was deleted meanwhile
        return DumpContents("", [], None, None)
    try:
        optimised = parse(text)
        clusters = find_clusters(optimised)
        costs = None
        if not dump.elsewhere:  # XLA's analysis of another chip's HLO may crash the process
            costs = kernel_costs(optimised, [cluster.name for cluster in clusters])
    except ValueError:
        return DumpContents(before, passes, None, None)
    return DumpContents(before, passes, optimised, _history(before, passes, optimised), clusters, costs)


def _history(before: str, passes: Sequence[Pass], optimised: Module) -> PassHistory | None:
    if not before:
        return None
    history = PassHistory(before, passes, optimised)
    try:
        history.lineage  # noqa: B018
    except ValueError:  # a truncated file
        return None
    return history


class DumpReader:
    """Reads a dump in a thread, as soon as XLA's passes are done.

    Arguments:
      ended: set when no compilation of the dump runs any more; the thread then waits no longer.
    """

    def __init__(self, dump: Dump, ended: threading.Event):
        self._dump = dump
        self._ended = ended
        self._done = threading.Event()
        self._read: DumpContents | None = None
        self._sizes: dict[str, int] = {}  # of the files that were read
        self._thread = threading.Thread(target=self._wait_and_read, name="lazynb-reading", daemon=True)
        self._thread.start()

    def _wait_and_read(self) -> None:
        """Waits for the end of the passes or of the compilation (which may have failed), and reads."""
        with contextlib.suppress(OSError):  # the directory may be deleted meanwhile
            while not self._dump.files("*after_optimizations-*.txt") and not self._ended.is_set():
                if self._done.wait(_INTERVAL):
                    break
            if self._dump.files("*after_optimizations.txt"):
                self._sizes = _sizes(self._dump)
                self._read = read_dump(self._dump)

    def result(self) -> DumpContents:
        """The contents of the dump. Call it after the compilation."""
        self._done.set()
        self._thread.join()
        sizes = _sizes(self._dump)
        was_partial = bool(sizes) and sizes != self._sizes  # a file was read before it was complete
        if self._read is None or was_partial:
            self._sizes, self._read = sizes, read_dump(self._dump)
        return self._read


def _sizes(dump: Dump) -> dict[str, int]:
    """Size in bytes of each file that :func:`read_dump` reads."""
    sizes = {}
    for file in dump.files("*.txt"):
        if "after_optimizations-" not in file.name:
            with contextlib.suppress(OSError):  # it was deleted
                sizes[file.name] = file.stat().st_size
    return sizes
