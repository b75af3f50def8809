"""Whether an array still goes from one kernel to another, read from the text of two modules by means of the tests'
own: nothing here comes from lazynb."""

from __future__ import annotations

import re
from functools import cache

from xla import plain_hlo

MOVERS = {"bitcast", "copy", "reshape", "transpose", "convert", "broadcast", "get-tuple-element", "tuple"}
ONE_TO_ONE = MOVERS - {"broadcast", "tuple", "get-tuple-element"}


class Text:
    """A module, by lines."""

    def __init__(self, text: str):
        self.blocks = plain_hlo.blocks(text)
        self.tables = {name: plain_hlo.table_of(lines) for name, lines in self.blocks.items()}
        self.kernels = [(name, block) for name, _, block in plain_hlo.kernels(text)]
        self.pairs = plain_hlo.edges(text)[0]

    def scope(self, block: str, name: str) -> str:
        found = re.search(r'op_name="(?:jit\(lazynb\)/)?(n\d+[^"]*)"', self.tables[block][name][2])
        return found[1] if found else ""

    def users(self, block: str, name: str) -> list[str]:
        table = self.tables[block]
        return [user for user in table if name in plain_hlo.operands(table, user)]

    def root(self, block: str) -> str:
        [line] = [line for line in self.blocks[block] if line.strip().startswith("ROOT ")]
        return plain_hlo.LINE.match(line)[1]

    def body(self, block: str, kernel: str) -> str:
        """The computation of a kernel that is a fusion; empty for any other."""
        rest = self.tables[block][kernel]
        return re.search(r"calls=%([^ ,]+)", rest[2])[1] if rest[1] == "fusion" else ""

    def written(self, kernel: str, block: str) -> list[tuple[str, str]]:
        """(computation, instruction) of each value that a kernel writes."""
        body = self.body(block, kernel)
        if not body:
            return [(block, kernel)]
        root = self.root(body)
        if self.tables[body][root][1] != "tuple":
            return [(body, root)]
        return [(body, name) for name in plain_hlo.operands(self.tables[body], root)]

    def names(self, block: str, name: str) -> set[tuple[str, int]]:
        """What a value is called: scope and elements, of the instruction and of what it only moves."""
        found = {(self.scope(block, name), count(self.tables[block][name][0]))}
        shape, opcode, _ = self.tables[block][name]
        if opcode in ONE_TO_ONE and not (
            self.scope(block, name) and self.scope(block, name) != self.scope(block, self.first(block, name))
        ):
            source = self.first(block, name)
            if source and count(self.tables[block][source][0]) == count(shape):
                found |= self.names(block, source)
        return {pair for pair in found if pair[0]} or found

    def first(self, block: str, name: str) -> str:
        return next(iter(plain_hlo.operands(self.tables[block], name)), name)

    def places(self, producer: str, kernel: str, block: str) -> list[tuple[str, str]]:
        """(computation, instruction) as which the producer's array is known where ``kernel`` works with it."""
        body, table = self.body(block, kernel), self.tables[block]
        if not body:
            return []
        found = []
        for number, operand in enumerate(plain_hlo.operands(table, kernel)):
            if producer in {plain_hlo.maker(table, leaf) for leaf in plain_hlo.leaves(table, operand)}:
                found += [
                    (body, name)
                    for name, (_, opcode, rest) in self.tables[body].items()
                    if opcode == "parameter" and rest.startswith(f"{number})")
                ]
        return found

    def work(self, producer: str, kernel: str) -> set[str]:
        """For which operations ``kernel`` reads what ``producer`` writes."""
        [block] = [where for name, where in self.kernels if name == kernel]
        places = self.places(producer, kernel, block)
        if not places:
            return self.of_instruction(block, kernel, kernel)
        return set().union(*(self.behind(body, name, kernel) for body, name in places))

    def behind(self, block: str, name: str, kernel: str) -> set[str]:
        found = set()
        if self.root(block) == name:
            found |= self.after(kernel)
        for user in self.users(block, name):
            if self.root(block) == user and self.tables[block][user][1] == "tuple":
                found |= self.after(kernel)
            else:
                found |= self.of_instruction(block, user, kernel)
        return found

    def of_instruction(self, block: str, name: str, kernel: str) -> set[str]:
        scope = self.scope(block, name)
        opcode = self.tables[block][name][1]
        if scope and opcode not in MOVERS:
            return {scope}
        behind = self.after(kernel) if name == kernel else self.behind(block, name, kernel)
        if any(re.match(r"n\d", one) for one in behind) or scope:
            return behind | ({scope} if scope else set())
        return behind | {opcode}

    @cache  # noqa: B019
    def after(self, kernel: str) -> frozenset[str]:
        """For which operations others read what a kernel writes."""
        readers = [reader for producer, reader in self.pairs if producer == kernel]
        return frozenset().union(*(self.work(kernel, reader) for reader in readers))


def count(shape: str) -> int:
    sizes = re.search(r"\[([\d,]*)\]", shape)[1]
    total = 1
    for size in filter(None, sizes.split(",")):
        total *= int(size)
    return total


def still_crosses(before: str, producer: str, consumer: str, after: str) -> bool | None:
    """Whether what ``producer`` writes and ``consumer`` reads before is, after, written by one kernel and read by
    another that does what the consumer read it for. None where names do not tell it: two values have one, or two
    readers do the same."""
    old, new = Text(before), Text(after)
    [block] = [where for name, where in old.kernels if name == producer]
    values = set().union(*(old.names(*place) for place in old.written(producer, block)))
    writers = [
        kernel
        for kernel, where in old.kernels
        if any(values & old.names(*place) for place in old.written(kernel, where))
    ]
    if len(writers) > 1:
        return None
    wanted = old.work(producer, consumer)
    others = [reader for writer, reader in old.pairs if writer == producer and reader != consumer]
    elsewhere = {scope for reader in others for scope in old.work(producer, reader)}
    doubt = False
    for kernel, where in new.kernels:
        if not any(values & new.names(*place) for place in new.written(kernel, where)):
            continue
        for writer, reader in new.pairs:
            if writer == kernel:
                work = new.work(writer, reader)
                if not others or work & (wanted - elsewhere):
                    return True
                doubt = doubt or not work & (elsewhere - wanted)
    return None if doubt else False
