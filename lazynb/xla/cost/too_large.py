"""A program that does not fit into a chip's memory: which of the user's values take it.

The compiler says how much is needed and how much there is. What it had written down till then says which
values live at the step at which most is in use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.targets.compiled import OutOfMemory
from lazynb.units import size
from lazynb.xla.cost.memory import Buffer, Memory, parse_memory
from lazynb.xla.hlo.module import Mark, Module, parse
from lazynb.xla.origins import Origins
from lazynb.xla.value_names import value_names

_MOST = 5
_LEAST = 0.01  # of the peak: smaller values are not the matter


def explained(error: OutOfMemory, origins: Origins | None, snapshot: Snapshot) -> OutOfMemory:
    """``error`` with the largest values of the program in its message.

    Arguments:
      origins: what the program's marks, arguments and results are in the graph, if that is known.
      snapshot: the graph that was compiled.
    """
    head = f"This does not fit on {_one(error)}"
    if error.needed is not None and error.available is not None:
        head += f": it needs {size(error.needed)} of {size(error.available)}"
    values = _values(error)
    if not values:
        return error if error.needed is None else _again(error, f"{head}. The compiler: {_said(error)}")
    memory, largest, module = values
    said = _Words(error, module, origins, snapshot)
    lines = [f"  {said.line(buffer)}" for buffer in largest[:_MOST]]
    if len(largest) > _MOST:
        lines.append(f"  and {len(largest) - _MOST} more of {size(largest[-1].bytes)} or more")
    step = memory.steps[memory.peak_step] if memory.peak_step is not None and memory.steps else ""
    at = f" at {step}" if step else ""
    return _again(error, "\n".join([f"{head}. Most is in use{at}; the largest values there:", *lines]))


def _again(error: OutOfMemory, message: str) -> OutOfMemory:
    made = OutOfMemory(message, error.target, error.dump)
    made.needed, made.available = error.needed, error.available
    return made


def _one(error: OutOfMemory) -> str:
    return f"one {error.target.chip.title}" if error.target.devices > 1 else error.target.title


def _said(error: OutOfMemory) -> str:
    return str(error).partition(": ")[2]


def _values(error: OutOfMemory) -> tuple[Memory, list[Buffer], Module | None] | None:
    if error.dump is None or not error.dump.exists:
        return None
    dump = error.dump
    memory = parse_memory(dump.text("*buffer-assignment.txt"), dump.text("*-live-range.txt"))
    if memory.peak_step is None:
        return None
    living = [buffer for buffer in memory.live(memory.peak_step) if not buffer.space]
    apart: dict[tuple[int, int], Buffer] = {}  # what lies in the same place is one value to the user
    for buffer in sorted(living, key=lambda buffer: -buffer.bytes):
        apart.setdefault((buffer.allocation, buffer.offset), buffer)
    largest = [buffer for buffer in apart.values() if buffer.bytes >= _LEAST * (memory.peak_bytes or 0)]
    text = dump.text("*after_optimizations_before_buffer_assignment.txt")
    return (memory, largest, parse(text) if text else None) if largest else None


_KINDS = {
    "argument": "an input",
    "output": "a result",
    "temp": "between kernels",
    "constant": "a constant",
}


class _Words:
    """What is said of the values of a program."""

    def __init__(
        self, error: OutOfMemory, module: Module | None, origins: Origins | None, snapshot: Snapshot
    ):
        self._module = module
        self._operations = origins.operations if origins is not None else {}
        self._nodes = snapshot.nodes
        self._names: Mapping[str, tuple[str, ...]] = {}
        if module is not None and origins is not None:
            taken = error.binding.executable._packing.taken
            self._names = value_names(module, snapshot, taken, origins)

    def line(self, buffer: Buffer) -> str:
        """``7.5 GiB  f32[20000,40000], between kernels (tanh, cell 3, line 2: y = jnp.tanh(x))``"""
        shape = re.sub(r"\{[^}]*\}", "", buffer.shape) or buffer.name
        named = " ".join(f"`{name}`" for name in self._names.get(buffer.name, ()))
        words = f"{size(buffer.bytes):>9}  {shape}, {_KINDS[buffer.kind]}{named and f' {named}'}"
        if buffer.padding is not None and buffer.padding >= 1.1:
            words += f", {buffer.padding:.3g} times its elements' size by padding"
        node = self._operations.get(self._mark(buffer), -1)
        return words + (_written(self._nodes[node]) if node >= 0 else "")

    def _mark(self, buffer: Buffer) -> Mark:
        """The mark of the operation that gives a value; empty if it has none."""
        instruction = self._module.by_name.get(buffer.instruction) if self._module is not None else None
        return () if instruction is None or instruction.mark is None else instruction.mark


def _written(node: Node) -> str:
    """Which operation of the user's gives a value, and its line."""
    where = f", {node.place.label}: {node.place.text.strip()}" if node.place is not None else ""
    return f" ({node.name}{where})"
