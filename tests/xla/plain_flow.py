"""Which arguments of a program enter each instruction of its optimised HLO, and which of its results it enters,
read by means of its own (``plain_hlo``).

Parts of tuples are told apart where the program gives its results, and what a fusion gives: what comes out of
a loop depends on all that goes into it, as the recorded operation does.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict

from xla import plain_hlo

SILENT = {"constant", "iota", "parameter", "tuple", "get-tuple-element", "after-all", "opt-barrier"}
SPREADING = {"broadcast", "reshape", "bitcast", "copy", "convert"}
NESTING = {"fusion", "while", "conditional", "call", "async-start"}
WRAPPING = {"fusion", "call", "async-start"}


class PlainFlow:
    """The flow of values through a module.

    Arguments:
      parts: whether a slice of what was joined or padded takes only what lies in it.

    Attributes:
      opcode: by instruction.
      mark: by instruction, that of its operation; None if it bears none.
      arguments: by instruction, the arguments of the program that enter it.
      results: by instruction, the results of the program that it enters.
    """

    def __init__(self, text: str, parts: bool = False):
        self.parts = parts
        self.lines: dict[str, str] = {}
        self.opcode: dict[str, str] = {}
        self.mark: dict[str, tuple[int, ...] | None] = {}
        self.block: dict[str, str] = {}
        self.after: dict[str, set[str]] = defaultdict(set)
        self.before: dict[str, list[str]] = defaultdict(list)
        self.roots: dict[str, str] = {}
        self.blocks = plain_hlo.blocks(text)
        self.callers: dict[str, str] = {}
        self.all_callers: dict[str, list[str]] = defaultdict(list)
        for block, lines in self.blocks.items():
            for line in lines:
                self._add(block, line)
        for name in list(self.lines):
            self._join(name)
        entry = [name for name, block in self.block.items() if block == "ENTRY"]
        given = [name for name in entry if self.opcode[name] == "parameter"]
        self.arguments = self._reached({name: self._argument(name) for name in given}, self.after)
        self.results = self._reached(self._ends(), self.before)

    def _add(self, block: str, line: str) -> None:
        name, _, opcode, _ = plain_hlo.LINE.match(line).groups()
        self.lines[name], self.opcode[name], self.block[name] = line, opcode, block
        self.mark[name] = plain_hlo.mark_of(line) or None
        if line.strip().startswith("ROOT "):
            self.roots[block] = name

    def operands(self, name: str) -> list[str]:
        shown = plain_hlo.operands(plain_hlo.table_of([self.lines[name]]), name)
        return [one.partition("#")[0] for one in shown]

    def _join(self, name: str) -> None:
        """The edges into an instruction, and through what it runs."""
        operands = self.operands(name)
        if self.opcode[name] == "get-tuple-element":
            operands = [self._part(operands[0], name)]
        if self.parts and self.opcode[name] == "slice":
            operands = self._sliced(name, operands[0])
        is_wrapped = self.opcode[name] in WRAPPING and plain_hlo.called(self.lines[name])
        for operand in () if is_wrapped else operands:
            self._edge(operand, name)
        if self.opcode[name] not in NESTING:
            return
        for number, block in enumerate(plain_hlo.called(self.lines[name])):
            self.callers[block] = name
            self.all_callers[block].append(name)
            self._edge(self.roots[block], name)
            given = operands[number + 1 :] if self.opcode[name] == "conditional" else operands
            for parameter in self.parameters(block):
                place = int(re.search(r"parameter\((\d+)\)", self.lines[parameter])[1])
                if place < len(given):
                    self._edge(given[place], parameter)

    def _part(self, source: str, name: str) -> str:
        """What a part is of: of a fusion with several results, the one behind it; of a tuple, one of it."""
        inner = self.root(source)
        if self.opcode[inner] != "tuple" or (inner == source and self.roots["ENTRY"] == source):
            return source
        return self.operands(inner)[int(re.search(r"index=(\d+)", self.lines[name])[1])]

    def _sliced(self, name: str, source: str) -> list[str]:
        """What a slice takes elements from: the source, or those that it was put together from."""
        line = self.lines[source]
        shown = plain_hlo.operands(plain_hlo.table_of([line]), source)
        given = self.operands(source)
        text = self.lines[name].partition("slice={")[2]
        ranges = [(int(low), int(high)) for low, high in re.findall(r"\[(\d+):(\d+)", text)]
        if self.opcode[source] == "concatenate":
            axis = int(re.search(r"dimensions=\{(\d+)\}", line)[1])
            ends = list(itertools.accumulate(self.sizes(one)[axis] for one in shown))
            low, high = ranges[axis]
            return [one for one, start, end in zip(given, [0, *ends], ends) if start < high and low < end]
        if self.opcode[source] == "pad" and not re.search(r"padding=[^,]*_\d+_", line):
            lows = [int(low) for low in re.findall(r"(-?\d+)_", re.search(r"padding=([\d_x-]+)", line)[1])]
            inside = [(low, low + size) for low, size in zip(lows, self.sizes(shown[0]))]
            if all(start <= low and high <= end for (low, high), (start, end) in zip(ranges, inside)):
                return given[:1]
        return [source]

    def sizes(self, shown: str) -> list[int]:
        """The sizes of an operand as it is written: an instruction, or a part of one."""
        name, _, part = shown.partition("#")
        shapes = re.findall(r"\[([\d,]*)\]", plain_hlo.LINE.match(self.lines[name])[2])
        return [int(size) for size in shapes[int(part or 0)].split(",") if size]

    def parameters(self, block: str) -> list[str]:
        names = [plain_hlo.LINE.match(line).group(1) for line in self.blocks[block]]
        return [name for name in names if self.opcode[name] == "parameter"]

    def _edge(self, source: str, target: str) -> None:
        self.after[source].add(target)
        self.before[target].append(source)

    def _argument(self, name: str) -> set[int]:
        """Those that are never read are no parameters, so the numbers are those of JAX."""
        return {int(re.search(r'op_name="args\[(\d+)\]', self.lines[name])[1])}

    def _ends(self) -> dict[str, set[int]]:
        """By instruction, the results of the program that it gives."""
        root = self.roots["ENTRY"]
        if self.opcode[root] != "tuple":
            return {root: set(range(99))}
        ends: dict[str, set[int]] = {}
        for number, name in enumerate(self.operands(root)):
            ends.setdefault(name, set()).add(number)
        return ends

    def _reached(self, starts, onward) -> dict[str, set[int]]:
        """By instruction, what reaches it."""
        top = self.roots["ENTRY"] if self.opcode[self.roots["ENTRY"]] == "tuple" else None
        reached: dict[str, set[int]] = defaultdict(set)
        for start, numbers in starts.items():
            waiting = [start]
            seen = {start}
            while waiting:
                one = waiting.pop()
                reached[one] |= numbers
                new = [other for other in onward[one] if other not in seen and other != top]
                seen.update(new)
                waiting.extend(new)
        return reached

    def marks(self, name: str) -> set[tuple[int, ...]]:
        """The operations that an instruction belongs to, of a module whose functions are still called."""
        if self.mark[name] is not None:
            return {self.mark[name]}
        path = plain_hlo.path_of(self.lines[name])
        return {mark + path for mark in self._calls(self.block[name])} if path else set()

    def _calls(self, block: str) -> set[tuple[int, ...]]:
        """The calls of the function that a block is a part of."""
        found = set()
        for caller in self.all_callers[block]:
            found |= self.marks(caller) if self.opcode[caller] == "call" else self._calls(self.block[caller])
        return found

    # ---- what stands in a kernel ---------------------------------------------------------------------------

    def within(self, kernel: str) -> list[str]:
        """The instructions that a kernel consists of; for a loop, branch or call, all that it runs too."""
        found, waiting = [kernel], [kernel]
        while waiting:
            name = waiting.pop()
            if self.opcode[name] in NESTING:
                for block in plain_hlo.called(self.lines[name]):
                    inside = [plain_hlo.LINE.match(line).group(1) for line in self.blocks[block]]
                    found += inside
                    waiting += inside
        return found

    def root(self, kernel: str) -> str:
        """The instruction whose value a kernel writes."""
        while self.opcode[kernel] == "fusion":
            kernel = self.roots[plain_hlo.called(self.lines[kernel])[0]]
        return kernel

    def is_constant(self, name: str) -> bool:
        """Whether a value is a constant or counts up, or is one spread out."""
        while self.opcode[name] in SPREADING or self.opcode[name] == "parameter":
            if self.opcode[name] == "parameter":
                caller = self.callers.get(self.block[name])
                if caller is None or self.opcode[caller] != "fusion":
                    return False
            name = self.before[name][0]
        return self.opcode[name] in ("constant", "iota")

    def computing(self, kernel: str) -> list[str]:
        """The instructions of a kernel that compute something for the operation that they bear: no constants,
        nor what spreads them, unless that is what the kernel writes."""
        root = self.root(kernel)
        return [
            name
            for name in self.within(kernel)
            if self.opcode[name] not in SILENT | {"fusion"} or name == root
            if name == root or not self.is_constant(name)
        ]

    def readers(self, name: str) -> set[str]:
        """What computes with a value, in its kernel or in another."""
        found, waiting, seen = set(), [name], set()
        while waiting:
            for other in self.after[waiting.pop()]:
                if other in seen:
                    continue
                seen.add(other)
                if self.opcode[other] in SILENT | {"fusion", "bitcast"} and other != self.roots["ENTRY"]:
                    waiting.append(other)
                    if self.opcode[other] == "bitcast":
                        found.add(other)
                elif self.opcode[other] not in SILENT:
                    found.add(other)
        return found
