"""Message for a program that does not fit into a target's memory, with its largest values.

The compiler states needed and available memory; its dump up to the failure shows the values at the peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.user_code.text_format import size
from lazynb.xla.cost.program_memory import Buffer, ProgramMemory, parse_memory
from lazynb.xla.hlo.module import Mark, Module, parse
from lazynb.xla.program_origins import ProgramOrigins, value_names
from lazynb.xla.targets.target_compilation import OutOfMemory

_MAX_LISTED = 5
_MIN_SHARE_OF_PEAK = 0.01  # smaller values are not listed


def explain_out_of_memory(error: OutOfMemory, origins: ProgramOrigins, snapshot: Snapshot) -> OutOfMemory:
    """Return ``error`` with the largest values of the program in its message.

    Arguments:
      origins: maps the program's marks, arguments and results to the graph.
      snapshot: the graph that was compiled.
    """
    head = f"This does not fit on {_device_phrase(error)}"
    if error.needed is not None and error.available is not None:
        head += f": it needs {size(error.needed)} of {size(error.available)}"
        head += ", without donation of inputs" * error.may_fit_with_donation
    values = _largest_values(error)
    if not values:
        if error.compiled is not None:
            return _with_message(error, f"{head}.")
        return error if error.needed is None else _with_message(error, f"{head}. {_compiler_message(error)}")
    memory, largest, module = values
    said = _ValueDescriptions(error, module, origins, snapshot)
    lines = [f"  {said.line(buffer)}" for buffer in largest[:_MAX_LISTED]]
    if len(largest) > _MAX_LISTED:
        lines.append(f"  and {len(largest) - _MAX_LISTED} more of {size(largest[-1].bytes)} or more")
    step = memory.steps[memory.peak_step] if memory.peak_step is not None and memory.steps else ""
    at = f" at {step}" if step else ""
    return _with_message(error, "\n".join([f"{head}. Most is in use{at}; the largest values there:", *lines]))


def _with_message(error: OutOfMemory, message: str) -> OutOfMemory:
    made = OutOfMemory(message, error.target, error.dump, error.compiled)
    made.needed, made.available, made.executable = error.needed, error.available, error.executable
    return made


def _device_phrase(error: OutOfMemory) -> str:
    return f"one {error.target.chip.title}" if error.target.devices > 1 else error.target.title


def _compiler_message(error: OutOfMemory) -> str:
    return f"The compiler: {str(error).partition(': ')[2]}"


def _largest_values(error: OutOfMemory) -> tuple[ProgramMemory, list[Buffer], Module | None] | None:
    if error.dump is None or not error.dump.exists:
        return None
    dump = error.dump
    memory = parse_memory(dump.text("*buffer-assignment.txt"), dump.text("*-live-range.txt"))
    if memory.peak_step is None:
        return None
    living = [buffer for buffer in memory.live(memory.peak_step) if not buffer.space]
    apart: dict[tuple[int, int], Buffer] = {}  # values in the same place are one value for the user
    for buffer in sorted(living, key=lambda buffer: -buffer.bytes):
        apart.setdefault((buffer.allocation, buffer.offset), buffer)
    largest = [
        buffer for buffer in apart.values() if buffer.bytes >= _MIN_SHARE_OF_PEAK * (memory.peak_bytes or 0)
    ]
    compiled = error.compiled
    text = compiled.as_text() if compiled else dump.text("*after_optimizations_before_buffer_assignment.txt")
    return (memory, largest, parse(text) if text else None) if largest else None


_KINDS = {
    "argument": "an input",
    "output": "a result",
    "temp": "between kernels",
    "constant": "a constant",
}


class _ValueDescriptions:
    def __init__(
        self, error: OutOfMemory, module: Module | None, origins: ProgramOrigins, snapshot: Snapshot
    ):
        self._module = module
        self._operations = origins.operations
        self._nodes = snapshot.nodes
        self._names: Mapping[str, tuple[str, ...]] = {}
        if module is not None:
            taken = error.executable._packing.taken
            self._names = value_names(module, snapshot, taken, origins)

    def line(self, buffer: Buffer) -> str:
        """``7.5 GiB  f32[20000,40000], between kernels (tanh, cell 3, line 2: y = jnp.tanh(x))``"""
        shape = re.sub(r"\{[^}]*\}", "", buffer.shape) or buffer.name
        named = " ".join(f"`{name}`" for name in self._names.get(buffer.name, ()))
        words = f"{size(buffer.bytes):>9}  {shape}, {_KINDS[buffer.kind]}{named and f' {named}'}"
        if buffer.padding is not None and buffer.padding >= 1.1:
            words += f", {buffer.padding:.3g} times its elements' size by padding"
        node = self._operations.get(self._mark(buffer), -1)
        return words + (_operation_phrase(self._nodes[node]) if node >= 0 else "")

    def _mark(self, buffer: Buffer) -> Mark:
        instruction = self._module.by_name.get(buffer.instruction) if self._module is not None else None
        return () if instruction is None or instruction.mark is None else instruction.mark


def _operation_phrase(node: Node) -> str:
    """The user's operation that computes a value, and its line."""
    where = f", {node.place.label}: {node.place.text.strip()}" if node.place is not None else ""
    return f" ({node.name}{where})"
