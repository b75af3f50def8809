"""Which kernels of one side do the work of which kernels of the other.

Two kernels that compute corresponding operations belong together. What two kernels share only because XLA
computes it in both (a broadcast, a comparison) does not join them, as long as something else tells where they
belong.
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
        """Those of both sides."""
        return KernelFigures.of(self.before), KernelFigures.of(self.now)


class _Part(NamedTuple):
    """Some kernels of both sides."""

    before: list[Kernel]
    now: list[Kernel]


def kernel_groups(matching: CompilationMatch, regrouping: OperationEquivalence) -> list[KernelGroup]:
    """The kernels of both sides, each in one group."""
    return _KernelGrouping(matching, regrouping).groups()


class _KernelGrouping:
    """Puts kernels together, the surest first.

    Arguments:
      matching: of the operations.
      regrouping: which of them are some others together.
    """

    def __init__(self, matching: CompilationMatch, regrouping: OperationEquivalence):
        self._matching = matching
        self._shared = _shared(matching, regrouping)
        self._old = list(matching.before.kernels)
        self._new = list(matching.now.kernels)
        self._parts: list[_Part] = []

    def groups(self) -> list[KernelGroup]:
        """See :func:`groups`."""
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

    # ---- one kernel is one kernel --------------------------------------------------------------------------

    def _pair(self, key: Callable[[Kernel, bool], Hashable]) -> None:
        """Pairs what is left where as many kernels of both sides have the same key, in their order.

        Arguments:
          key: of a kernel, and whether it is one of now; None for none.
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
        """The operations of a kernel that the other side has too, by the same numbers on both sides."""
        shared = self._shared[is_now]
        return frozenset(shared[node] for node in kernel.nodes if node in shared)

    def _same_lines(self, kernel: Kernel, is_now: bool) -> Hashable:
        """The lines on which nothing but operations without partner is left."""
        if is_now:
            return self._matching.lines_of(frozenset(), kernel.nodes) or None
        return self._matching.lines_of(kernel.nodes, frozenset()) or None

    def _same_form(self, kernel: Kernel, is_now: bool) -> Hashable:
        """Of kernels that stand on no line: what XLA put in itself."""
        return None if kernel.nodes else (kernel.kind, kernel.library, kernel.root, kernel.shapes)

    # ---- some kernels are some others ----------------------------------------------------------------------

    def _join_what_shares(self) -> None:
        """Joins the kernels that share work."""
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

    # ---- kernels between others ----------------------------------------------------------------------------

    def _put_between(self) -> None:
        """A kernel that only one side has, and that stands between two kernels of a group, belongs to it: it
        cuts what was one."""
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
    """By operation of each side that the other has too, a number; one for all that are some others
    together."""
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
    """By cluster, those that it reads from, and those that read from it."""
    reads: dict[int, set[int]] = defaultdict(set)
    read_by: dict[int, set[int]] = defaultdict(set)
    for boundary in boundaries:
        if boundary["consumer"] is not None:
            reads[boundary["consumer"]].add(boundary["producer"])
            read_by[boundary["producer"]].add(boundary["consumer"])
    return reads, read_by


def _on_one_line(found: Sequence[KernelGroup]) -> list[KernelGroup]:
    """The groups, in which the kernels that only one side has are together if they stand on the same
    lines."""
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
    """Pairs kernels that do the same work: first those that look the same, then in their order."""
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
    """The kernels of ``pairs``, together with all that a chain of pairs leads to."""
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
