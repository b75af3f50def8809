"""The formation of kernels: the instructions of a program from before XLA's first pass to after the last, and
the kernel that each would run in if compilation ended there.

A box is an instruction that stays itself while passes rename it, rewrite it or move it into a fusion. Before
the first pass each is alone; after the last the kernels are those of the compiled program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

from lazynb.xla.clusters import CONTROL
from lazynb.xla.formation.homes import homes
from lazynb.xla.formation.own_marks import own_marks
from lazynb.xla.formation.pairing import Pairing
from lazynb.xla.formation.sources import Sources
from lazynb.xla.hlo.module import Mark, Module
from lazynb.xla.hlo.pass_history import PassHistory

_MOST = 400_000  # instructions of all modules


@dataclasses.dataclass(frozen=True, slots=True)
class Stand:
    """What a box is from a stage on.

    Attributes:
      stage: 0 before the first pass, 1 after it, and so on.
      name, opcode: of the instruction.
      kernel: name of the instruction that would run it: a fusion, or its own.
      marks: the recorded operations that it was made from.
    """

    stage: int
    name: str
    opcode: str
    kernel: str
    marks: frozenset[Mark]


@dataclasses.dataclass(slots=True)
class Box:
    """An instruction through the passes.

    Attributes:
      shape: of its result, at first.
      stands: what it is; a new one where that changed.
      end: the first stage at which it is no more; None if it is in the optimised module.
      source: number of the box that it was copied from; None if it is no copy.
      into: number of the box that is read in its place since it ended; None if none is.
    """

    shape: str
    stands: list[Stand]
    end: int | None = None
    source: int | None = None
    into: int | None = None

    def at(self, stage: int) -> Stand | None:
        """What it is at a stage; None if it is not there then."""
        if self.end is not None and stage >= self.end:
            return None
        return next((stand for stand in reversed(self.stands) if stand.stage <= stage), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """That a box reads another, from stage ``start`` until before stage ``end``."""

    producer: int
    consumer: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What a pass did to the boxes.

    Attributes:
      kernels: how many would run after it, without the loops, branches and calls around them.
      together, apart: boxes that were alone and now are in a kernel with others, and the reverse.
      copied: new boxes that are copies.
      added: other new boxes.
      merged: boxes that ended, with another in their place.
      removed: other boxes that ended.
      rewritten: boxes that have another opcode now.
    """

    kernels: int
    together: int
    apart: int
    copied: int
    added: int
    merged: int
    removed: int
    rewritten: int


@dataclasses.dataclass(frozen=True)
class Formation:
    """How the kernels of a program came about.

    Attributes:
      stages: how many: one more than the passes that changed the module.
      boxes: by number.
      links: who reads whom, and when.
    """

    stages: int
    boxes: Sequence[Box]
    links: Sequence[Link]

    def kernels(self, stage: int) -> dict[str, set[int]]:
        """By name of what would run after ``stage`` passes, the boxes in it."""
        found: dict[str, set[int]] = {}
        for number, box in enumerate(self.boxes):
            stand = box.at(stage)
            if stand is not None:
                found.setdefault(stand.kernel, set()).add(number)
        return found

    @cached_property
    def steps(self) -> Sequence[Step]:
        """What was done to the boxes, a stage at a time; the first has what is there before the passes."""
        steps: list[Step] = []
        before: dict[str, set[int]] = {}
        for stage in range(self.stages):
            here = self.kernels(stage)
            steps.append(self._step(stage, before, here))
            before = here
        return steps

    def _step(self, stage: int, before: Mapping[str, set[int]], here: Mapping[str, set[int]]) -> Step:
        """
        Arguments:
          before, here: the kernels without this pass, and with it.
        """
        starting = [box for box in self.boxes if box.stands[0].stage == stage]
        ending = [box for box in self.boxes if box.end == stage]
        changed = [(box.at(stage - 1), box.at(stage)) for box in self.boxes]
        both = [(was, now) for was, now in changed if was is not None and now is not None]
        return Step(
            kernels=sum(not self._is_control(boxes, stage) for boxes in here.values()),
            together=sum(len(before[was.kernel]) == 1 < len(here[now.kernel]) for was, now in both),
            apart=sum(len(before[was.kernel]) > 1 == len(here[now.kernel]) for was, now in both),
            copied=sum(box.source is not None for box in starting),
            added=sum(box.source is None for box in starting),
            merged=sum(box.into is not None for box in ending),
            removed=sum(box.into is None for box in ending),
            rewritten=sum(was.opcode != now.opcode for was, now in both),
        )

    def _is_control(self, boxes: set[int], stage: int) -> bool:
        """Whether what would run is a loop, a branch or a call around others."""
        stands = (self.boxes[number].at(stage) for number in boxes)
        return any(stand is not None and stand.opcode in CONTROL for stand in stands)

    @cached_property
    def ends(self) -> Mapping[Mark, int]:
        """By operation, the first stage at which nothing that was made from it is there; the number of stages
        if something is to the last. An operation of which there never was anything is not in it."""
        ends: dict[Mark, int] = {}
        for box in self.boxes:
            last = self.stages if box.end is None else box.end
            for stand, end in zip(
                box.stands, [*(later.stage for later in box.stands[1:]), last], strict=True
            ):
                ends.update({mark: max(end, ends.get(mark, 0)) for mark in stand.marks})
        return ends


def formation(history: PassHistory) -> Formation:
    """The formation of the kernels that ``history`` ends in.

    Raises:
      ValueError: there are too many instructions to follow each, or what XLA wrote down is no HLO.
    """
    stages = len(history)
    if sum(len(history.module(stage).by_name) for stage in range(stages)) > _MOST:
        raise ValueError("the program is too large to follow each of its instructions through the passes")
    following = _Following(history)
    for stage in range(stages):
        following.go_to(stage)
    return Formation(stages, following.boxes, following.links())


class _Following:
    """Follows the instructions, a pass at a time."""

    def __init__(self, history: PassHistory):
        self._history = history
        self.boxes: list[Box] = []
        self._numbers: dict[str, int] = {}  # of the boxes, by name in the module looked at
        self._spans: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def go_to(self, stage: int) -> None:
        """Looks at the module of a stage, having looked at that before."""
        module = self._history.module(stage)
        kernel_of = homes(module)
        marks = own_marks(module, self._history.marks(stage), kernel_of.keys())
        before, self._numbers, copied = self._numbers, {}, {}
        if stage:
            old = {name: self.boxes[number].stands[-1].marks for name, number in before.items()}
            match = self._history.match(stage - 1)
            pairing = Pairing(
                self._history.module(stage - 1), module, match, old, {name: marks[name] for name in kernel_of}
            )
            self._numbers = {name: before[was] for name, was in pairing.continued.items()}
            copied = {name: before[was] for name, was in pairing.copied.items()}
        for name, kernel in kernel_of.items():
            one = module.by_name[name]
            self._stand(one.shape, Stand(stage, name, one.opcode, kernel, marks[name]), copied.get(name))
        if stage:
            for name, successor in pairing.ended.items():
                box = self.boxes[before[name]]
                box.end, box.into = stage, None if successor is None else self._numbers[successor]
        self._link(stage, module)

    def _stand(self, shape: str, stand: Stand, source: int | None) -> None:
        """Notes what an instruction is at a stage."""
        if stand.name not in self._numbers:
            self._numbers[stand.name] = len(self.boxes)
            self.boxes.append(Box(shape, [stand], source=source))
            return
        box = self.boxes[self._numbers[stand.name]]
        if dataclasses.replace(box.stands[-1], stage=stand.stage) != stand:
            box.stands.append(stand)

    def _link(self, stage: int, module: Module) -> None:
        """Notes who reads whom at a stage."""
        sources = Sources(module, self._numbers.keys())
        for name, number in self._numbers.items():
            for source in sources.of(module.by_name[name]):
                spans = self._spans.setdefault((self._numbers[source], number), [])
                start = spans.pop()[0] if spans and spans[-1][1] == stage else stage
                spans.append((start, stage + 1))

    def links(self) -> list[Link]:
        """Who read whom, and when."""
        return [Link(*pair, *span) for pair, spans in sorted(self._spans.items()) for span in spans]
