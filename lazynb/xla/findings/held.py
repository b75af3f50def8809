"""Findings about values that a program writes because a name of the user's still holds them.

Under ``jax.jit`` a value between is no result. lazynb's program gives all that names can reach. A value is
told here if other operations of the program read it, nobody asked for it, and without its name no kernel
would have to write it: none reads it from memory for another reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.units import size
from lazynb.xla.clusters import leaves, writer
from lazynb.xla.evidence import INFERRED, VERIFIED
from lazynb.xla.findings.finding import LEAST, Finding, code
from lazynb.xla.hlo.module import Computation
from lazynb.xla.program import CompiledTrace
from lazynb.xla.value_names import result_names

Value = tuple[int, int]
Readers = Mapping[Value, set[int]]
Spared = Mapping[frozenset[str], int]
"""By names, how many bytes less the kernels write without them: what recompiling showed."""


class _Array(NamedTuple):
    """What a program writes for one or more of its results."""

    values: list[Value]
    names: list[str]


def held(
    trace: CompiledTrace,
    snapshot: Snapshot,
    number: int,
    reads: Readers,
    asked: Collection[Value],
    spared: Spared,
) -> Iterator[Finding]:
    """One finding about all such values of a program, or none.

    Arguments:
      number: of the program.
      reads: see :func:`readers_of`.
      asked: values that the user asked for, beside holding them.
      spared: what was tried.
    """
    assert trace.module is not None
    entry = trace.module.computations[trace.module.entry]
    own = set(trace.origins.operations.values())
    between = {value for value in trace.origins.results if value in reads and reads[value] <= own}
    between.difference_update(asked)
    written = _written(trace, snapshot, entry)
    readers = _readers(trace, entry)
    codes = {(each.producer, each.consumer): each.code for each in trace.boundaries}
    kernels = {cluster.name for cluster in trace.clusters}
    found: dict[str, _Array] = {}
    for array, made in written.items():
        producer = writer(entry, array)
        if producer not in kernels or not between.issuperset(made.values) or not _are_variables(made.names):
            continue
        # whoever reads it from memory does so only because it is written there for a name anyway
        if all(codes.get((producer, reader)) == trace.rules.held for reader in readers.get(array, ())):
            found[array] = made
    largest = sorted(found, key=lambda array: -entry.instructions[array].bytes)
    told = [array for array in largest if entry.instructions[array].bytes >= LEAST]
    if told:
        yield from _finding(trace, entry, number, {array: found[array] for array in told}, spared)


def _finding(
    trace: CompiledTrace, entry: Computation, number: int, found: Mapping[str, _Array], spared: Spared
) -> Iterator[Finding]:
    names = list(dict.fromkeys(name for made in found.values() for name in made.names))
    taken = sum(entry.instructions[array].bytes for array in found)
    less, label, verdict = spared.get(frozenset(names)), INFERRED, ""
    if less is not None:
        if less < taken:
            return  # it was tried, and is written all the same
        label = VERIFIED
        verdict = f"Compiled again without: kernels write {size(less)} less."
    yield Finding(
        kind="held",
        text=_sentence(names, taken, "would spare" if less is None else "spares"),
        bytes=taken,
        label=label,
        program=number,
        kernels=tuple(dict.fromkeys(writer(entry, array) for array in found)),
        nodes=tuple(dict.fromkeys(node for made in found.values() for node, _ in made.values)),
        variables=tuple(names),
        verdict=verdict,
    )


def _sentence(names: Sequence[str], taken: int, spares: str) -> str:
    what = f"{code(names)} ({size(taken)})"
    if len(names) == 1:
        return (
            f"{what} is written because its name still holds it: deleting it before the run {spares} that, "
            "if nothing else holds it."
        )
    return (
        f"{what} are written because their names still hold them: deleting them before the run {spares} "
        "that, if nothing else holds them."
    )


def readers_of(snapshot: Snapshot) -> Readers:
    """By value, the operations that read it."""
    readers: dict[Value, set[int]] = {}
    for node in snapshot.nodes:
        if node.kind == "op" and not node.dead:
            for operand in node.operands:
                readers.setdefault(operand, set()).add(node.id)
    return readers


def _written(trace: CompiledTrace, snapshot: Snapshot, entry: Computation) -> dict[str, _Array]:
    """The results of a program by the array that is written for each; equal ones may be one array."""
    root = entry.root
    parts = root.operands if root.opcode == "tuple" else (root.name,)
    written: dict[str, _Array] = {}
    for result, (value, part) in enumerate(zip(trace.origins.results, parts, strict=False)):
        arrays = leaves(entry, part)
        if len(arrays) == 1:
            made = written.setdefault(arrays[0], _Array([], []))
            made.values.append(value)
            made.names.extend(result_names(snapshot, trace.origins, result) or ("",))
    return written


def _readers(trace: CompiledTrace, entry: Computation) -> dict[str, set[str]]:
    """By array, the clusters of the program itself that read it."""
    readers: dict[str, set[str]] = {}
    for cluster in trace.clusters:
        if not cluster.inside:
            for operand in entry.instructions[cluster.name].operands:
                for array in leaves(entry, operand):
                    readers.setdefault(array, set()).add(cluster.name)
    return readers


def _are_variables(names: Sequence[str]) -> bool:
    """Whether ``del`` takes them all away, and they are the user's."""
    return all(name.isidentifier() for name in names)
