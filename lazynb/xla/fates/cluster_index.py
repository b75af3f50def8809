"""Which operations live in which clusters of the optimised module, by the marks of its instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lazynb.xla.clusters import Cluster
from lazynb.xla.evidence import COMPILER, INFERRED
from lazynb.xla.fates.fate import Fate
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.pass_history import ARRANGING, by_mark


def cluster_of(clusters: Iterable[Cluster]) -> dict[str, str]:
    """By name of an instruction, the cluster that it stands in."""
    return {name: cluster.name for cluster in clusters for name in cluster.instructions}


class ClusterIndex:
    """Which operations live in which clusters.

    Attributes:
      marked: by mark, the instructions that bear it.
      unattributed: whether instructions that do work bear no mark, and nothing tells what they were made
        from.
    """

    def __init__(
        self, module: Module, clusters: Sequence[Cluster], lineage: Mapping[str, frozenset[int]] | None = None
    ):
        self._module = module
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._home = cluster_of(clusters)
        running = [one for one in module if not module.is_applied(one.computation)]
        own = {one.name: frozenset({one.mark}) for one in running if one.mark is not None}
        self.marked = by_mark(own)
        self._inferred = by_mark(
            {
                one.name: (lineage or {}).get(one.name, frozenset())
                for one in running
                if one.mark is None and works(one)
            }
        )
        self.unattributed = any(
            one.mark is None and works(one) and one.name in self._home and not (lineage or {}).get(one.name)
            for one in running
        )
        self._inhabitants: dict[str, set[int]] = {}
        for mark in self.marked.keys() | self._inferred.keys():
            for name in self.homes(mark):
                self._inhabitants.setdefault(name, set()).add(mark)

    def instructions(self, mark: int) -> list[Instruction]:
        """What was made from an operation, in the order of the text."""
        names = self.marked.get(mark, set()) | self._inferred.get(mark, set())
        return [self._module.by_name[name] for name in sorted(names, key=self._module.order.__getitem__)]

    def homes(self, mark: int) -> list[str]:
        """The clusters that hold a part of an operation; those that do its work, where any does."""
        all_ = self.instructions(mark)
        return list(
            dict.fromkeys(home for one in [*filter(works, all_), *all_] if (home := self._house(one)))
        )

    def _house(self, one: Instruction) -> str | None:
        if one.name in self._home:
            return self._home[one.name]
        caller = self._module.callers.get(one.computation)  # a loop's or branch's arrangement of its values
        return (
            caller.name
            if caller is not None and caller.name in self._clusters and one.opcode in ARRANGING
            else None
        )

    def home(self, name: str) -> str | None:
        """The cluster that an instruction stands in."""
        return self._home.get(name)

    def certain(self, mark: int) -> bool:
        """Whether its mark alone says what became of it: instructions that do work bear it."""
        return any(
            works(self._module.by_name[name]) and name in self._home for name in self.marked.get(mark, ())
        )

    def fate(self, mark: int) -> Fate:
        """The fate of an operation of which there is something in the optimised module."""
        homes = [self._clusters[name] for name in self.homes(mark)]
        if not homes:
            return _fate_of_unattributed({one.opcode for one in self.instructions(mark)})
        known = {self._house(self._module.by_name[name]) for name in self.marked.get(mark, ())}
        label = COMPILER if all(cluster.name in known for cluster in homes) else INFERRED
        hard = {self._home.get(one.name) for one in self.instructions(mark) if works(one)}
        working = [
            cluster for cluster in homes if cluster.name in hard and cluster.kind != "control"
        ] or homes
        kind = self._kind(working)
        return Fate(kind, _words(kind, working, homes), label, tuple(cluster.name for cluster in homes))

    def _kind(self, working: Sequence[Cluster]) -> str:
        if all(cluster.kind == "library" for cluster in working):
            return "library"
        kernels = [cluster for cluster in working if cluster.kind != "control"]
        return (
            "fused" if any(len(self._inhabitants[cluster.name]) > 1 for cluster in kernels) else "own kernel"
        )


def works(one: Instruction) -> bool:
    """Whether an instruction computes anything."""
    return one.opcode not in ARRANGING and one.opcode != "fusion"


def _words(kind: str, working: Sequence[Cluster], homes: Sequence[Cluster]) -> str:
    libraries = dict.fromkeys(
        cluster.library or "a library" for cluster in working if cluster.kind == "library"
    )
    loops = dict.fromkeys(
        cluster.opcode for cluster in homes if cluster.kind == "control" and cluster.opcode != "call"
    )
    kernels = [cluster for cluster in working if cluster.kind != "control"]
    passed = [cluster for cluster in homes if cluster not in working and cluster.kind != "control"]
    also = ", and passed on in what reads it" if passed else ""
    if kind == "library":
        return f"part of a call of {' and '.join(libraries)}{also}"
    named = [*(f"a call of {name}" for name in libraries), *(f"a {opcode}" for opcode in loops)]
    if named:
        also = (
            f", among them {' and '.join(named)}{also}"
            if len(kernels) > 1
            else f", in {' and '.join(named)}{also}"
        )
    if kind == "fused":
        return (
            "fused with other operations into "
            + (f"{len(kernels)} clusters" if len(kernels) > 1 else "a cluster")
            + also
        )
    if not kernels:
        return f"runs as {' and '.join(named) or 'a call'} of its own"
    return (f"{len(kernels)} kernels of its own" if len(kernels) > 1 else "a kernel of its own") + also


def _fate_of_unattributed(opcodes: set[str]) -> Fate:
    """It is in the module, but nothing runs for it."""
    if opcodes <= {"constant"}:
        return Fate("folded", "folded to a constant")
    if "bitcast" in opcodes:
        return Fate("cancelled", "no work: another view of the same bytes (bitcast)")
    return Fate("cancelled", f"no work: it only arranges values ({', '.join(sorted(opcodes))})")
