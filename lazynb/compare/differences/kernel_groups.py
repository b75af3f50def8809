"""Groups of kernels of two sides that do the same work.

Two kernels that compute corresponding operations belong together. An operation that XLA duplicates into
several kernels (a broadcast, a comparison) joins kernels only if nothing else determines their group.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lazynb.compare.differences.compilation_match import CompilationMatch, LinePair
from lazynb.compare.differences.compilation_side import Kernel, KernelFigures
from lazynb.compare.differences.operation_equivalence import OperationEquivalence

if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Boundary


@dataclasses.dataclass(frozen=True, eq=False)
class KernelGroup:
    """Kernels of both sides that do the same work.

    Attributes:
      before, now: the kernels; one of the two may be empty.
      lines: of their operations.
    """

    before: tuple[Kernel, ...]
    now: tuple[Kernel, ...]
    lines: tuple[LinePair, ...]

    @property
    def figures(self) -> tuple[KernelFigures, KernelFigures]:
        """The figures of both sides."""
        return KernelFigures.of(self.before), KernelFigures.of(self.now)


class _Part(NamedTuple):
    """Kernels of both sides in one group under construction."""

    before: list[Kernel]
    now: list[Kernel]


def kernel_groups(matching: CompilationMatch, regrouping: OperationEquivalence) -> list[KernelGroup]:
    """Puts each kernel of both sides into one group."""
    return _KernelGrouping(matching, regrouping).groups()


class _KernelGrouping:
    """Groups kernels, the most certain matches first.

    Arguments:
      matching: of the operations.
      regrouping: operations of one side that equal several of the other side together.
    """

    def __init__(self, matching: CompilationMatch, regrouping: OperationEquivalence):
        self._matching = matching
        self._shared = _shared(matching, regrouping)
        self._old = list(matching.before.kernels)
        self._new = list(matching.now.kernels)
        self._parts: list[_Part] = []

    def groups(self) -> list[KernelGroup]:
        """Computes the groups; see :func:`kernel_groups`."""
        self._pair(self._same_work)
        self._join_what_shares()
        self._pair(self._same_lines)
        self._pair(self._same_form)
        self._parts += [_Part([kernel], []) for kernel in self._old]
        self._parts += [_Part([], [kernel]) for kernel in self._new]
        self._put_between()
        found = [self._group(part) for part in self._parts]
        return _on_one_line(sorted(found, key=lambda group: [kernel.id for kernel in group.now]))

    def _group(self, part: _Part) -> KernelGroup:
        for kernels in part:
            kernels.sort(key=lambda kernel: kernel.id)
        old = frozenset().union(*(kernel.nodes for kernel in part.before))
        new = frozenset().union(*(kernel.nodes for kernel in part.now))
        return KernelGroup(tuple(part.before), tuple(part.now), self._matching.lines_of(old, new))

    # ---- One kernel on each side ---------------------------------------------------------------------------

    def _pair(self, key: Callable[[Kernel, bool], Hashable]) -> None:
        """Pairs remaining kernels, in order, where both sides have equally many kernels with the same key.

        Arguments:
          key: takes a kernel and whether it belongs to ``now``; returns None for a kernel without key.
        """
        old, new = (
            _by(self._old, lambda kernel: key(kernel, False)),
            _by(self._new, lambda kernel: key(kernel, True)),
        )
        paired: set[int] = set()
        for each, first in old.items():
            second = new.get(each, [])
            if each is not None and len(first) == len(second):
                for a, b in _alike(first, second):
                    self._parts.append(_Part([a], [b]))
                    paired |= {id(a), id(b)}
        self._old = [kernel for kernel in self._old if id(kernel) not in paired]
        self._new = [kernel for kernel in self._new if id(kernel) not in paired]

    def _same_work(self, kernel: Kernel, is_now: bool) -> Hashable:
        return self._work(kernel, is_now) or None

    def _work(self, kernel: Kernel, is_now: bool) -> frozenset[int]:
        """The operations of a kernel that both sides have, as numbers that agree between the sides."""
        shared = self._shared[is_now]
        return frozenset(shared[node] for node in kernel.nodes if node in shared)

    def _same_lines(self, kernel: Kernel, is_now: bool) -> Hashable:
        """The lines on which only operations without partner remain."""
        if is_now:
            return self._matching.lines_of(frozenset(), kernel.nodes) or None
        return self._matching.lines_of(kernel.nodes, frozenset()) or None

    def _same_form(self, kernel: Kernel, is_now: bool) -> Hashable:
        """Form of a kernel without source line, which XLA inserted."""
        return None if kernel.nodes else (kernel.kind, kernel.library, kernel.root, kernel.shapes)

    # ---- Several kernels on a side -------------------------------------------------------------------------

    def _join_what_shares(self) -> None:
        old = [(kernel, self._work(kernel, False)) for kernel in self._old]
        new = [(kernel, self._work(kernel, True)) for kernel in self._new]
        times = Counter(node for _, work in old for node in work)
        times_now = Counter(node for _, work in new for node in work)
        edges: list[tuple[Kernel, Kernel, bool]] = []
        for a, work in old:
            for b, work_now in new:
                if shared := work & work_now:
                    sure = any(times[node] == times_now[node] == 1 for node in shared)
                    edges.append((a, b, sure))
        sure_of = {id(kernel) for a, b, sure in edges if sure for kernel in (a, b)}
        joined = [(a, b) for a, b, sure in edges if sure or not {id(a), id(b)} <= sure_of]
        taken = {id(kernel) for pair in joined for kernel in pair}
        self._parts += _connected(joined)
        self._old = [kernel for kernel in self._old if id(kernel) not in taken]
        self._new = [kernel for kernel in self._new if id(kernel) not in taken]

    # ---- Kernels between others ----------------------------------------------------------------------------

    def _put_between(self) -> None:
        """Adds a kernel that only one side has to the group that it reads from and writes to."""
        for is_now in (False, True):
            side = self._matching.now if is_now else self._matching.before
            reads, read_by = _neighbours(side.boundaries)
            moved = True
            while moved:
                lone = [part for part in self._parts if not part[1 - is_now] and len(part[is_now]) == 1]
                moved = any([self._joins(part, is_now, reads, read_by) for part in lone])

    def _joins(
        self, part: _Part, is_now: bool, reads: dict[int, set[int]], read_by: dict[int, set[int]]
    ) -> bool:
        number = part[is_now][0].id
        for other in self._parts:
            kernels = {kernel.id for kernel in other[is_now]}
            if other[1 - is_now] and kernels & reads[number] and kernels & read_by[number]:
                other[is_now].append(part[is_now][0])
                self._parts.remove(part)
                return True
        return False


def _shared(
    matching: CompilationMatch, regrouping: OperationEquivalence
) -> tuple[dict[int, int], dict[int, int]]:
    """A number for each operation that both sides have; operations that are equal together share one."""
    old, new = dict(matching.now_of), {node: node for node in matching.before_of}
    joined: dict[int, int] = {}

    def first(number: int) -> int:
        while number in joined:
            number = joined[number]
        return number

    for before, now in regrouping.pairs:
        a, b = first(old.setdefault(before, now)), first(new.setdefault(now, now))
        if a != b:
            joined[a] = b
    return {node: first(each) for node, each in old.items()}, {
        node: first(each) for node, each in new.items()
    }


def _neighbours(boundaries: Sequence[Boundary]) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """For each cluster, the clusters that it reads from and the clusters that read from it."""
    reads: dict[int, set[int]] = defaultdict(set)
    read_by: dict[int, set[int]] = defaultdict(set)
    for boundary in boundaries:
        if boundary["consumer"] is not None:
            reads[boundary["consumer"]].add(boundary["producer"])
            read_by[boundary["producer"]].add(boundary["consumer"])
    return reads, read_by


def _on_one_line(found: Sequence[KernelGroup]) -> list[KernelGroup]:
    """Merges the kernels that only one side has if they have the same lines."""
    whole = [group for group in found if group.before and group.now]
    lone: dict[Hashable, list[KernelGroup]] = defaultdict(list)
    for group in found:
        if not (group.before and group.now):
            lone[bool(group.now), group.lines].append(group)
    for same in lone.values():
        before = tuple(kernel for group in same for kernel in group.before)
        now = tuple(kernel for group in same for kernel in group.now)
        whole.append(KernelGroup(before, now, same[0].lines))
    return whole


def _by(kernels: Iterable[Kernel], key: Callable[[Kernel], Hashable]) -> dict[Hashable, list[Kernel]]:
    found: dict[Hashable, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        found[key(kernel)].append(kernel)
    return found


def _alike(first: Sequence[Kernel], second: Sequence[Kernel]) -> list[tuple[Kernel, Kernel]]:
    """Pairs kernels that do the same work: first kernels of the same form, then by order."""
    pairs, rest = [], list(second)
    left = []
    for kernel in first:
        same = next((other for other in rest if _form(other) == _form(kernel)), None)
        if same is None:
            left.append(kernel)
        else:
            rest.remove(same)
            pairs.append((kernel, same))
    return pairs + list(zip(left, rest, strict=True))


def _form(kernel: Kernel) -> Hashable:
    return kernel.kind, kernel.library, kernel.root, kernel.shapes, kernel.flops


def _connected(pairs: Sequence[tuple[Kernel, Kernel]]) -> list[_Part]:
    """Connected components of the graph with these pairs as edges."""
    part_of: dict[int, int] = {}
    parts: dict[int, _Part] = {}
    for number, (a, b) in enumerate(pairs):
        own = parts[number] = _Part([a], [b])
        for kernel in (a, b):
            known = part_of.get(id(kernel), number)
            if known in parts and known != number:
                _merge(own, parts.pop(known))
        for kernel in (*own.before, *own.now):
            part_of[id(kernel)] = number
    return list(parts.values())


def _merge(own: _Part, other: _Part) -> None:
    for mine, theirs in ((own.before, other.before), (own.now, other.now)):
        mine += [kernel for kernel in theirs if all(kernel is not each for each in mine)]
