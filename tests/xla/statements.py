"""Every statement about the kernels, fates and boundaries of a compilation, held against a reading of the HLO
that shares no code with lazynb's (``plain_hlo``, ``plain_flow``).

``python -m tests.xla.statements --programs 300 --seed 1`` does it with random programs and prints what is wrong;
``--inside`` with programs of which parts stand inside of functions.
LLVM's optimisation, which comes after the HLO, is left out there: it takes 40 % of the time.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

from xla import plain_hlo, random_inside
from xla.plain_flow import PlainFlow
from xla.random_programs import compiled, random_program

from lazynb.report.inspection.inspection_data import inspection

ARRANGING = {"bitcast", "broadcast", "reshape", "copy"}
CONTROL = ("while", "conditional", "call")


class Graph:
    """The recorded operations, by node: which arguments of the program enter them, which results they enter."""

    def __init__(self, compilation, trace):
        self.nodes = {node.id: node for node in compilation.snapshot.nodes}
        self.operations = list(trace.origins.operations.values())
        argument_of = {}
        for position in range(len(trace._executable._packing)):
            for number in trace._executable._packing.taken(position):
                argument_of[trace.origins.inputs[number]] = position
        self.arguments: dict[int, set[int]] = {}
        for id_, node in self.nodes.items():
            self.arguments[id_] = {argument_of[id_]} if id_ in argument_of else set()
            for operand, _ in node.operands:
                self.arguments[id_] |= self.arguments[operand]
        self.direct = dict(self.arguments)  # without what comes from the turn before
        for inner, loops in self.loops().items():
            for loop in loops:  # what enters a loop may reach all of it in some turn
                self.arguments[inner] = self.arguments[inner] | self.arguments[loop]
        self.results: dict[int, set[int]] = {id_: set() for id_ in self.nodes}
        for number, (id_, _) in enumerate(trace.origins.results):
            self.results[id_].add(number)
        self.readers: dict[int, set[int]] = {id_: set() for id_ in self.nodes}
        for id_ in sorted(self.nodes, reverse=True):
            for operand, _ in self.nodes[id_].operands:
                self.results[operand] |= self.results[id_]
                self.readers[operand].add(id_)
        for inner, loops in self.loops().items():
            for loop in loops:
                self.results[inner] |= self.results[loop]

    def loops(self) -> dict[int, list[int]]:
        """By node, the loops and branches that it is inside of."""
        kinds = ("scan", "while", "cond")
        own = {
            node.calls[-1].id: id_
            for id_, node in self.nodes.items()
            if node.primitive in kinds and node.calls
        }
        return {
            id_: [own[call.id] for call in node.calls if call.id in own and own[call.id] != id_]
            for id_, node in self.nodes.items()
        }


def wrong(compilation) -> Iterator[str]:
    """What is said of ``compilation`` and is not so."""
    yield from wrong_marks(compilation)
    for trace in compilation.traces:
        yield from wrong_boundaries(trace)


def wrong_marks(compilation) -> Iterator[str]:
    """What is said of the kernels and fates of ``compilation`` and is not so."""
    yield from wrong_ids(compilation)
    for trace in compilation.traces:
        reading = Reading(compilation, trace)
        for check in (reading.kernels, reading.claims, reading.omissions, reading.absences, reading.company):
            yield from check()


class Reading:
    """One program, read by means of its own."""

    def __init__(self, compilation, trace):
        self.compilation, self.trace = compilation, trace
        self.flow, self.graph = PlainFlow(trace.text), Graph(compilation, trace)
        self.fates = trace.fates
        self.node_of = trace.origins.operations
        self.kernel_names = [name for name, _, _ in plain_hlo.kernels(trace.text)]
        self.first = PlainFlow(trace.before, parts=True) if trace.before else None
        self.partners = {
            node for node, fate in self.fates.items() if fate.merged_with is not None or fate.kind == "merged"
        } | {fate.merged_with for fate in self.fates.values()}

    def kernels(self) -> Iterator[str]:
        """Each kernel shown runs, each that runs is shown, in order."""
        shown = [cluster.name for cluster in self.trace.clusters]
        if shown != self.kernel_names:
            yield f"kernels: {shown} are shown, {self.kernel_names} run"
        if sorted(self.fates) != sorted(self.graph.operations):
            yield "an operation has no fate"
        for node, fate in self.fates.items():
            if fate.kind == "lost" or not set(fate.clusters) <= set(shown):
                yield f"%{node}: {fate}"

    def node(self, name: str) -> int | None:
        return self.node_of.get(self.flow.mark[name])

    def claims(self) -> Iterator[str]:
        """Where an operation is said to be in a kernel, something there computes its value, or a part of it."""
        for node, fate in self.fates.items():
            for kernel in fate.clusters:
                if not any(self.serves(name, node, fate) for name in self.flow.computing(kernel)):
                    yield f"%{node} {self.graph.nodes[node].name} is not in {kernel}: {fate}"

    def serves(self, name: str, node: int, fate) -> bool:
        """Whether an instruction may be part of an operation: if arguments enter it, some of those enter the
        operation (XLA may do others' work before), it enters a result that the operation enters, and it bears
        its mark, or one stands for it, or it bears none and the next marks that read its value are there."""
        more, fewer = self.flow.arguments[name], self.graph.arguments[node]
        if more.isdisjoint(fewer) and more:
            return False
        if self.flow.results[name].isdisjoint(self.graph.results[node]):
            return False
        if not fate.followed or fate.merged_with is not None:
            return True
        return self.node(name) == node or (self.node(name) is None and node in self.next_marked(name))

    def next_marked(self, name: str) -> set[int]:
        """The operations whose marks the nearest readers of an instruction bear; all if only results read it."""
        found, seen, waiting = set(), {name}, [name]
        while waiting:
            for reader in self.flow.after[waiting.pop()] - seen:
                seen.add(reader)
                if self.node(reader) is None:
                    waiting.append(reader)
                else:
                    found.add(self.node(reader))
        return found or set(self.fates)

    def omissions(self) -> Iterator[str]:
        """Where an instruction bears an operation's mark, and the value goes on to what reads that operation,
        the operation is said to be in the kernel."""
        for kernel in self.kernel_names:
            if self.flow.opcode[kernel] in CONTROL:
                continue
            for name in self.flow.computing(kernel):
                node = self.node(name)
                if node is None or node in self.partners or kernel in self.fates[node].clusters:
                    continue
                readers = {self.node(other) for other in self.flow.readers(name) if self.agreed(other)}
                if readers & (self.graph.readers[node] - self.partners) and not readers & self.partners:
                    yield f"%{node} {self.graph.nodes[node].name} is in {kernel} ({name}): {self.fates[node]}"

    def agreed(self, name: str) -> bool:
        """Whether an instruction is in a kernel that its operation is said to be in: what it has in common with
        another is computed elsewhere under its mark."""
        node = self.node(name)
        return node is not None and self.kernel_of.get(name) in self.fates[node].clusters

    @functools.cached_property
    def kernel_of(self) -> dict[str, str]:
        """By instruction, the innermost kernel."""
        return {name: kernel for kernel in self.kernel_names for name in self.flow.within(kernel)}

    def absences(self) -> Iterator[str]:
        """What nothing is said to compute is computed nowhere, and the reason is true."""
        present: dict[int, list[str]] = {}
        for name in self.computing_everywhere:
            node = self.node(name)
            if node is None or self.flow.opcode[name] in ARRANGING:
                continue
            if self.flow.arguments[name] <= self.entered(node):
                present.setdefault(node, []).append(name)
        for node, fate in self.fates.items():
            said = f"%{node} {self.graph.nodes[node].name}: {fate}"
            if not fate.clusters and present.get(node) and node not in self.partners:
                yield f"{said}, but {present[node]}"
            if fate.kind == "folded" and self.entered(node) & self.graph.direct[node]:
                yield f"{said}, but an argument enters it"
            if fate.kind == "dead":
                yield f"{said}, but it was compiled"
            if fate.label == "absent in the first pass" and self.at_first(node):
                yield f"{said}, but the first module has {self.at_first(node)}"

    @functools.cached_property
    def computing_everywhere(self) -> set[str]:
        return {name for kernel in self.kernel_names for name in self.flow.computing(kernel)}

    def entered(self, node: int) -> set[int]:
        """The arguments that enter an operation, as the first module has it."""
        if self.first is None:
            return self.graph.arguments[node]
        return set().union(*(self.first.arguments[name] for name in self.at_first(node)))

    def at_first(self, node: int) -> list[str]:
        return self._at_first.get(node, [])

    @functools.cached_property
    def _at_first(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for name in self.first.lines if self.first is not None else ():
            for node in {self.node_of.get(mark) for mark in self.first.marks(name)}:
                found.setdefault(node, []).append(name)
        return found

    def company(self) -> Iterator[str]:
        """A kernel of its own holds no other operation, a kernel that is shared does; a library is called."""
        members: dict[str, set[int]] = {}
        for node, fate in self.fates.items():
            for kernel in fate.clusters if fate.kind != "merged" else ():
                members.setdefault(kernel, set()).add(node)
        for node, fate in self.fates.items():
            said = f"%{node} {self.graph.nodes[node].name}: {fate}"
            run = [name for name in fate.clusters if self.flow.opcode[name] not in CONTROL]
            alone = [name for name in run if members.get(name) == {node}]
            if fate.kind == "own kernel" and run and not alone:
                yield f"{said}, but {members}"
            if fate.kind == "fused" and run and len(alone) == len(run):
                yield f"{said}, but it is alone"
            if fate.kind == "library" and not any(
                self.flow.opcode[name] == "custom-call" or "kind=kCustom" in self.flow.lines[name]
                for name in run
            ):
                yield f"{said}, but no library is called"


def wrong_boundaries(trace) -> Iterator[str]:
    """The arrays between kernels are those that one writes and another reads; the compiler's reasons are
    those inferred."""
    pairs, _, _ = plain_hlo.edges(trace.text)
    inferred = [one for one in trace.boundaries if one.consumer]
    if {(one.producer, one.consumer) for one in inferred} != pairs:
        yield f"boundaries: {inferred}, but {pairs}"
    for one, said in zip(inferred, [one for one in trace.ask() if one.consumer]):
        if one.code not in (said.code, "unknown"):
            yield f"{one.producer} → {one.consumer} is {one.code}, the compiler says {said.said!r}"


def wrong_ids(compilation) -> Iterator[str]:
    """Ids are dense, in order of execution, and those of what a loop runs begin with the loop's; a line has
    the kernels of its operations."""
    data = inspection(compilation)
    counts: Counter[str] = Counter()
    labels = {cluster["id"]: cluster["label"] for cluster in data["clusters"]}
    for cluster in data["clusters"]:
        around = f"{labels[cluster['inside']]}." if cluster["inside"] is not None else "c"
        if cluster["label"] != f"{around}{counts[around]}":
            yield f"{cluster['name']} is {cluster['label']}, not {around}{counts[around]}"
        counts[around] += 1
    shown = {(fate["node"], cluster) for fate in data["fates"] for cluster in fate["clusters"]}
    if shown != {(node, cluster["id"]) for cluster in data["clusters"] for node in cluster["nodes"]}:
        yield "a kernel's operations are not those whose fates name it"


def failures(seed: int, inside: bool = False) -> list[str]:
    """What is wrong of what is said about a random program, or one with parts ``inside`` of functions."""
    try:
        compilation = random_inside.compiled(seed) if inside else compiled(random_program(seed))
        return list(wrong(compilation))
    except Exception:
        return [traceback.format_exc()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inside", action="store_true", help="parts stand inside of jit, loops, branches")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.programs):
        found = failures(seed, options.inside)
        bad += bool(found)
        for sentence in found:
            print(f"seed {seed}: {sentence}", flush=True)
        if (seed - options.seed + 1) % 50 == 0:
            print(f"{seed - options.seed + 1} programs, {bad} wrong", flush=True)
    print(f"{options.programs} programs, {bad} of them with something wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
