"""Kernels without an operation belong to the operations that need their values.

A pass that divides an instruction, such as a long reduction, gives its mark to the last part only. Copies and
fills that XLA inserts get no mark.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from lazynb.xla.evidence import Fate
from lazynb.xla.fates.instruction_attribution import Marks
from lazynb.xla.fates.operation_clusters import NAMING, ClusterIndex, computes
from lazynb.xla.hlo.clusters import CONTROL, Cluster
from lazynb.xla.hlo.instruction_flow import WRAPPER_OPCODES, InstructionFlow
from lazynb.xla.hlo.module import Instruction, Mark

_NOT_ATTRIBUTED = NAMING | WRAPPER_OPCODES | CONTROL


def with_needed_kernels(
    assigned: Mapping[Mark, Fate],
    index: ClusterIndex,
    clusters: Sequence[Cluster],
    results: Sequence[Mark | None] = (),
) -> dict[Mark, Fate]:
    """Return the fates, with the kernels that run for an operation without having its mark.

    Arguments:
      results: by result of the program, its operation.
    """
    computing: dict[Mark, list[str]] = {}
    arranging: dict[Mark, list[str]] = {}
    kernels = {cluster.name for cluster in clusters if cluster.is_kernel}
    for instruction, marks in _instructions_needed(assigned, index, kernels, results):
        kernel = index.cluster(instruction.name)
        for mark in marks:
            found = (computing if computes(instruction) else arranging).setdefault(mark, [])
            if kernel is not None and kernel not in (*found, *assigned[mark].clusters):
                found.append(kernel)
    fates = {
        mark: _with_kernels(fate, computing.get(mark, ()), arranging.get(mark, ()))
        for mark, fate in assigned.items()
    }
    return _without_shared_own_kernels(fates, kernels)


def _without_shared_own_kernels(fates: dict[Mark, Fate], kernels: Container[str]) -> dict[Mark, Fate]:
    """The fates, where an operation that now shares all its kernels has none of its own."""
    members = Counter(name for fate in fates.values() if fate.kind != "merged" for name in fate.clusters)
    for mark, fate in fates.items():
        own = [name for name in fate.clusters if name in kernels]
        if fate.kind == "own kernel" and own and all(members[name] > 1 for name in own):
            fates[mark] = dataclasses.replace(fate, kind="fused", text=_OWN.sub(_shared, fate.text))
    return fates


_OWN = re.compile(r"^(?:a kernel|(\d+) kernels) of its own")


def _shared(own: re.Match[str]) -> str:
    return f"fused with other operations into {f'{own[1]} clusters' if own[1] else 'a cluster'}"


def _with_kernels(fate: Fate, computing: Sequence[str], arranging: Sequence[str]) -> Fate:
    only = [kernel for kernel in arranging if kernel not in computing]
    text = fate.text + _note(len(computing), "a part of it is computed in {}")
    text += _note(len(only), "arrays are copied or filled for it in {}")
    return dataclasses.replace(fate, text=text, clusters=(*fate.clusters, *computing, *only))


def _note(kernels: int, sentence: str) -> str:
    if not kernels:
        return ""
    return "; " + sentence.format("another kernel" if kernels == 1 else f"{kernels} other kernels")


def _instructions_needed(
    assigned: Mapping[Mark, Fate],
    index: ClusterIndex,
    kernels: Container[str],
    results: Sequence[Mark | None],
) -> Iterator[tuple[Instruction, frozenset[Mark]]]:
    """Yields the instructions that serve no operation, with the operations that need their value.
    These are instructions that compute, unless a fate already explains them, and all of a kernel without
    operation."""
    placed = {kernel for fate in assigned.values() for kernel in fate.clusters}
    explained = {kernel for fate in assigned.values() if not fate.followed for kernel in fate.clusters}
    known = {
        name: kept
        for name, marks in index.served.items()
        if (kept := frozenset(mark for mark in marks if mark in assigned and assigned[mark].kind != "merged"))
    }
    for instruction in index.dataflow.reverse_execution_order():
        kernel = index.cluster(instruction.name)
        if instruction.name in known or instruction.opcode in _NOT_ATTRIBUTED or kernel not in kernels:
            continue
        if kernel not in placed or (computes(instruction) and kernel not in explained):
            known[instruction.name] = _nearest(index.dataflow, instruction, known, assigned, results)
            yield instruction, known[instruction.name]


def _nearest(
    dataflow: InstructionFlow,
    instruction: Instruction,
    known: Marks,
    assigned: Container[Mark],
    results: Sequence[Mark | None],
) -> frozenset[Mark]:
    """The operations of the nearest readers; if only results read the value, those of the results, else those
    of the nearest operands."""
    found: set[Mark] = set()
    returned: set[Mark] = set()
    waiting, seen = [instruction], {instruction.name}
    while waiting:
        for reader in dataflow.readers(waiting.pop()):
            if isinstance(reader, int):
                returned.update(mark for mark in results[reader : reader + 1] if mark in assigned and mark)
            elif serves := known.get(reader.name):
                found |= serves
            elif reader.name not in seen:
                seen.add(reader.name)
                waiting += dataflow.parameters_of_call(reader) or [reader]
    if found or returned:
        return frozenset(found or returned)
    operands = (known[name] for name in dataflow.ancestors(instruction) if known.get(name))
    return next(operands, frozenset())
