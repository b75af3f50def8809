"""Reads optimised HLO by its own means, lines and regular expressions, so that the analysis is not held
against itself."""

from __future__ import annotations

import re
from collections import defaultdict

IDLE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"}
LINE = re.compile(r"^ +(?:ROOT )?%([^ ]+) = (.*?) ([a-z][a-z0-9-]*)\((.*)$")
SIZES = {
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "pred": 1,
    "f64": 8,
    "s64": 8,
    "u64": 8,
    "bf16": 2,
    "f16": 2,
    "u8": 1,
    "s8": 1,
    "c64": 8,
}


def blocks(text: str) -> dict[str, list[str]]:
    """By computation its lines; the entry under ``ENTRY``."""
    found: dict[str, list[str]] = {}
    name = None
    for line in text.splitlines():
        if re.match(r"^(ENTRY )?%\S+ \(.*\{$", line):
            name = "ENTRY" if line.startswith("ENTRY") else line.split()[0][1:]
            found[name] = []
        elif line.startswith("}"):
            name = None
        elif name is not None:
            found[name].append(line)
    return found


def kernels(text: str, block: str = "ENTRY") -> list[tuple[str, str, str]]:
    """What runs, in order: (name, opcode, computation); a loop's, branch's or call's own after it."""
    lines, found = blocks(text), []
    for line in lines[block]:
        name, _, opcode, _ = LINE.match(line).groups()
        if opcode in IDLE:
            continue
        found.append((name, opcode, block))
        if opcode in ("while", "conditional", "call"):
            for inner in called(line):
                found.extend(kernels(text, inner))
    return found


def called(line: str) -> list[str]:
    """The computations that a line runs or applies."""
    plain = line.partition(", metadata=")[0]
    found = []
    for part in re.findall(r"(?:condition|body|calls|to_apply|\w+_computations?)=(\{[^}]*\}|%[^ ,]+)", plain):
        found += re.findall(r"%([^ ,}]+)", part)
    return found


def marks(text: str) -> dict[str, dict[int, set[str]]]:
    """By kernel, the marks in it (on its own line or, of a fusion, within), each with the opcodes that bear
    it."""
    lines, found = blocks(text), {}
    for name, opcode, block in kernels(text):
        own = next(
            line for line in lines[block] if line.strip().removeprefix("ROOT ").startswith(f"%{name} = ")
        )
        waiting, inside = ([own] if opcode != "fusion" else []), defaultdict(set)
        if opcode == "fusion":
            [body] = called(own)
            waiting = list(lines[body])
        for line in waiting:
            if LINE.match(line).group(3) == "fusion":
                waiting.extend(line for body in called(line) for line in lines[body])
                continue  # what it does is said in there
            mark = mark_of(line)
            what = LINE.match(line).group(3)
            if mark and what not in ("parameter", "constant"):
                inside[mark].add(what)
        found[name] = dict(inside)
    return found


def mark_of(line: str) -> tuple[int, ...]:
    """The operation that a line was made from: its step, then where it stands in the functions that it is inside
    of; empty if it bears no mark."""
    names = scope_of(line).removeprefix("jit(lazynb)/").split("/")
    if not re.fullmatch(r"n\d+", names[0]):
        return ()
    return int(names[0][1:]), *path_of(line)


def path_of(line: str) -> tuple[int, ...]:
    """Where a line stands in a function."""
    scope = scope_of(line).removeprefix("jit(lazynb)/").partition("jit(lazynb)")[0]
    places = [re.fullmatch(r"i(\d+)\.(\d+)", name) for name in scope.split("/")]
    return tuple(int(number) for place in places if place for number in place.groups())


def scope_of(line: str) -> str:
    found = re.search(r'op_name="([^"]*)"', line)
    return found[1] if found else ""


def by_mark(text: str) -> dict[tuple[int, ...] | int, set[str]]:
    """By mark its opcodes; under -1 those of lines that bear none, as the insides of functions before the
    first pass."""
    found: dict[int, set[str]] = {}
    for lines in blocks(text).values():
        for line in lines:
            found.setdefault(mark_of(line) or -1, set()).add(LINE.match(line).group(3))
    return found


def opcodes(text: str) -> list[str]:
    """Of all lines, but those of computations that a reduction or sort applies."""
    applied = {
        inner
        for lines in blocks(text).values()
        for line in lines
        if LINE.match(line).group(3) not in ("fusion", "while", "conditional", "call")
        for inner in called(line)
    }
    return [
        LINE.match(line).group(3)
        for name, lines in blocks(text).items()
        if name not in applied
        for line in lines
    ]


def size(shape: str) -> int:
    """Bytes of all arrays in a shape."""
    total = 0
    for dtype, sizes in re.findall(r"([a-z]+\d*)\[([\d,]*)\]", shape):
        count = 1
        for one in filter(None, sizes.split(",")):
            count *= int(one)
        total += count * SIZES[dtype]
    return total


def edges(text: str) -> tuple[set[tuple[str, str]], set[str], dict[str, int]]:
    """Pairs of kernels of which one reads the other; the kernels that write results; and what each kernel
    reads, in bytes."""
    lines, pairs, read = blocks(text), set(), {}
    everything = kernels(text)
    for block in {where for _, _, where in everything}:
        names = {name for name, _, where in everything if where == block}
        table = table_of(lines[block])
        for name in names:
            arrays = {leaf for operand in operands(table, name) for leaf in leaves(table, operand)}
            read[name] = sum(size(table[leaf][0]) for leaf in arrays if table[leaf][1] != "constant")
            pairs |= {(maker(table, leaf), name) for leaf in arrays if maker(table, leaf) in names}
    table = table_of(lines["ENTRY"])
    root = next(LINE.match(line).group(1) for line in lines["ENTRY"] if line.strip().startswith("ROOT"))
    return pairs, {maker(table, leaf) for leaf in leaves(table, root)}, read


def table_of(lines: list[str]) -> dict[str, tuple[str, str, str]]:
    """By name: shape, opcode, and what stands behind the opening parenthesis."""
    return {
        name: (shape, opcode, rest)
        for name, shape, opcode, rest in (LINE.match(line).groups() for line in lines)
    }


def operands(table, name: str) -> list[str]:
    rest, depth, end = table[name][2], 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(rest[end], 0)
        end += 1
    return re.findall(r"%([^ ,)]+)", rest[:end])


def leaves(table, name: str) -> set[str]:
    opcode = table[name][1]
    if opcode == "bitcast":
        return leaves(table, operands(table, name)[0])
    if opcode == "tuple":
        return set().union(*(leaves(table, one) for one in operands(table, name)))
    if opcode == "get-tuple-element":
        [source] = operands(table, name)
        if table[source][1] == "tuple":
            number = int(re.search(r"index=(\d+)", table[name][2])[1])
            return leaves(table, operands(table, source)[number])
    return {name}


def maker(table, name: str) -> str:
    while table[name][1] in ("get-tuple-element", "bitcast"):
        [name] = operands(table, name)
    return name
