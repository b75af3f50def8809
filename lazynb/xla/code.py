"""Code: what the compiler made of one kernel, from HLO to machine code, as far as it wrote that down."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from lazynb.execute.dumps import Dump
from lazynb.xla.clusters import Cluster
from lazynb.xla.hlo.module import Instruction, Module


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """What the compiler made of a kernel. Each text is empty where there is none.

    Attributes:
      hlo: its instruction and the computations that it calls, without metadata.
      facts: what is known of how it runs, in pairs: ``("grid", "2048 × 1 × 1")``.
      language: of ``assembly``.
      assembly: for the machine: PTX on a GPU.
      llvm: LLVM IR, as optimised.
      note: what is missing, and why.
    """

    hlo: str
    facts: tuple[tuple[str, str], ...] = ()
    language: str = ""
    assembly: str = ""
    llvm: str = ""
    note: str = ""


def kernel_code(module: Module, cluster: Cluster, platform: str, dump: Dump | None) -> Code:
    """The code of ``cluster``.

    Arguments:
      dump: what the compiler wrote down; None if that is gone.
    """
    instruction = module.by_name[cluster.name]
    hlo = _hlo(module, instruction)
    if platform == "tpu":
        note = "XLA:TPU writes down no code of the machine: this is its plan for the kernel."
        return Code(hlo, facts=tuple(_plan(instruction)), note=note)
    if dump is None or not dump.exists:
        return Code(hlo, note="The compiler's files are gone: the program came from a cache.")
    if platform in ("cuda", "gpu", "rocm"):
        return _gpu(hlo, cluster, dump)
    llvm = _named(dump, "*.ir-with-opt.ll", f"@{cluster.name}(")
    note = "" if llvm else "XLA:CPU wrote no LLVM IR of it down: only HLO is known."
    return Code(hlo, llvm=llvm, note=note)


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
            f"  {'ROOT ' * each.root}%{each.name} = {_short(each.plain)}"
            for each in module.computations[name].instructions.values()
        ]
        texts.append("\n".join([f"%{name} {{", *lines, "}"]))
    return "\n\n".join([*texts, f"%{instruction.name} = {_short(instruction.plain)}"])


def _short(line: str) -> str:
    """A line without the plan of the backend, which is told in facts."""
    return line.partition(", backend_config=")[0]


# ---- GPU ---------------------------------------------------------------------------------------------------

_THUNK = re.compile(
    r"^\s*(\d+): \w+\s+\[[^\]]*\] (\S+) grid: \[([\d, ]+)\] threads: \[([\d, ]+)\]\s+shared_memory: (\d+)",
    re.M,
)
_ANNOTATION = re.compile(r'profile_annotation: "([^"]*)"\s+thunk_id: (\d+)\s+\}\s+thunk_kind: "k(\w+)"')


def _gpu(hlo: str, cluster: Cluster, dump: Dump) -> Code:
    metadata = dump.text("*.thunk_metadata.txt")
    launches = {int(number): rest for number, *rest in _THUNK.findall(dump.text("*.thunk_sequence.txt"))}
    thunks = {name: (int(id_), kind) for name, id_, kind in _ANNOTATION.findall(metadata)}
    number, kind = thunks.get(cluster.name, (-1, ""))
    launch = launches.get(number)
    if launch is None:
        as_ = f" (it runs as {kind})" if kind else ""
        return Code(hlo, note=f"XLA:GPU launches no kernel of its own making for it{as_}: only HLO is known.")
    kernel, grid, threads, shared = launch
    facts = (
        ("kernel", kernel),
        ("grid", _by(grid)),
        ("threads of a block", _by(threads)),
        ("shared memory of a block", f"{int(shared):,} bytes"),
    )
    assembly = _named(dump, "*.ptx", f".entry {kernel}(")
    llvm = _named(dump, "*.ir-with-opt.ll", f"@{kernel}(")
    note = "Compiled without the GPU: the sizes of tiles are defaults, which tuning on the chip may change."
    return Code(hlo, facts, "PTX", assembly, llvm, note if "{" in assembly else f"{note} It has no PTX.")


def _by(sizes: str) -> str:
    return " × ".join(size.strip() for size in sizes.split(","))


def _named(dump: Dump, pattern: str, sign: str) -> str:
    """The first file that has ``sign`` in it: what defines a kernel."""
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


def _plan(instruction: Instruction) -> list[tuple[str, str]]:
    """What XLA:TPU wrote beside a kernel: estimate, windows, the memory on the chip that it works in."""
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
    """The ``backend_config`` of an instruction; empty if it has none that is JSON."""
    _, found, text = instruction.text.partition(", backend_config=")
    if not found or not text.startswith("{"):
        return {}
    try:
        config, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}
