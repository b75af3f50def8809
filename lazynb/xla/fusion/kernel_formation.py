"""Formation of kernels: each instruction from before XLA's first pass to after the last, and its kernel.

The kernel is the one that would run the instruction if compilation ended at that stage. A box is an
instruction that keeps its identity while passes rename it, rewrite it or move it into a fusion. Before the
first pass each box is alone; after the last pass the kernels are those of the compiled program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from lazynb.xla.hlo.array_flow import InstructionSources
from lazynb.xla.hlo.clusters import CONTROL, kernel_of_instruction
from lazynb.xla.hlo.module import Instruction, Mark, Module
from lazynb.xla.hlo.pass_history import Marks, PassHistory
from lazynb.xla.hlo.passes import InstructionMatch

# ---- Operations of functions that are called several times ----------------------------------------------
# JAX lowers a function once for all its calls, so its instructions belong to each call. XLA copies the body
# for each call before it inlines the calls.

_NONE: frozenset[Mark] = frozenset()


def marks_by_call(module: Module, marks: Marks, names: Collection[str]) -> dict[str, frozenset[Mark]]:
    """Return the operations of each instruction in ``names``.
    In a function body that XLA copied for each call, an instruction belongs to that call alone."""
    calls = {one.name: marks.get(one.name, _NONE) for one in module if one.opcode == "call"}
    called = _NONE.union(*calls.values())
    wanted, own = {*names, *calls}, {}
    for computation in reversed(module.computations.values()):  # XLA prints callees first
        callers = module.all_callers.get(computation.name, ())
        around = _NONE.union(*(calls.get(caller.name, _NONE) for caller in callers))
        for name in computation.instructions.keys() & wanted:
            own[name] = _marks_of_callers(marks.get(name, _NONE), around, called)
            if name in calls:
                calls[name] = own[name]
    return own


def _marks_of_callers(
    marks: frozenset[Mark], around: frozenset[Mark], called: frozenset[Mark]
) -> frozenset[Mark]:
    """The ``marks`` inside the calls ``around``, if all marks are inside some of the calls ``called``."""
    if len(marks) < 2 or not all(_is_inside_call(mark, called) for mark in marks):
        return marks
    return frozenset(mark for mark in marks if _is_inside_call(mark, around)) or marks


def _is_inside_call(mark: Mark, calls: frozenset[Mark]) -> bool:
    return any(mark[:length] in calls for length in range(1, len(mark) + 1))


# ---- Pairing of instructions before and after a pass ----------------------------------------------------


class InstructionPairing:
    """Pairs each instruction before a pass with the one that continues it after the pass.

    It is continued by the one that computes the same in its place, else by a new one there. Each is continued
    by at most one; others that compute the same are its copies.

    Arguments:
      match: of the modules.
      old, new: by name, before and after: the paired instructions, with the operations each was made from.

    Attributes:
      continued: by name after, the name before.
      copied: by name after, the name before of the instruction that it copies.
      ended: by name before, the name after of the instruction read in its place; None if there is none.
    """

    def __init__(self, before: Module, after: Module, match: InstructionMatch, old: Marks, new: Marks):
        self._before, self._after, self._match = before, after, match
        self._old, self._new = old, new
        self._alike = _by_form(after, [name for name in new if name not in before.by_name], new)
        self.continued: dict[str, str] = {}
        self._gone = dict.fromkeys(old)
        for find in (self._same_name, self._same, self._unmoved, self._rewritten, self._replaced):
            self._pair_remaining(find)
        self.copied = self._copies()
        self.ended = {name: self._successor(name) for name in self._gone}

    def _pair_remaining(self, find: Callable[[str], Iterable[str]]) -> None:
        """Pairs each unpaired instruction with the first free candidate from ``find``."""
        for name in list(self._gone):
            free = (each for each in find(name) if each in self._new and each not in self.continued)
            found = next(free, None)
            if found is not None:
                self.continued[found] = name
                del self._gone[name]

    # Each of these methods returns candidates that may continue an instruction.

    def _same_name(self, name: str) -> Iterator[str]:
        """The same computation in its place, under the same name."""
        return iter([name] if name in self._match.same.get(name, ()) else [])

    def _same(self, name: str) -> Iterable[str]:
        return self._match.same.get(name, ())

    def _unmoved(self, name: str) -> Iterator[str]:
        """The one with its name, opcode and operations, if the match has no entry for its place."""
        if name in self._match.same or self._new.get(name) != self._old[name]:
            return
        if self._after.by_name[name].opcode == self._before.by_name[name].opcode:
            yield name

    def _rewritten(self, name: str) -> Iterable[str]:
        """New instructions made from the same operations with the same form.
        Passes rewrite a function when they inline it, and the body of a loop."""
        marks = self._old[name]
        return self._alike.get((marks, *_form(self._before.by_name[name])), ()) if marks else ()

    def _replaced(self, name: str) -> Iterator[str]:
        if self._before.by_name[name].opcode in CONTROL:
            return iter(())  # it was inlined: the instructions that it ran continue by themselves
        return (each for each in self._match.instead.get(name, ()) if each not in self._before.by_name)

    def _copies(self) -> dict[str, str]:
        copied: dict[str, str] = {}
        for name in self._old:
            for clone in self._match.same.get(name, ()):
                if clone in self._new and clone not in self.continued:
                    copied.setdefault(clone, name)
        return copied

    def _successor(self, name: str) -> str | None:
        """The instruction read in the place of ``name``."""
        found = [*self._match.same.get(name, ()), *self._match.instead.get(name, ())]
        return next((each for each in found if each in self.continued or each in self._new), None)


def _by_form(module: Module, names: Iterable[str], marks: Marks) -> dict[object, list[str]]:
    found: dict[object, list[str]] = {}
    for name in names:
        found.setdefault((marks[name], *_form(module.by_name[name])), []).append(name)
    return found


def _form(one: Instruction) -> tuple[str, str]:
    return one.opcode, one.shape.partition("{")[0]


_MAX_INSTRUCTIONS = 400_000  # sum over all modules


@dataclasses.dataclass(frozen=True, slots=True)
class BoxState:
    """State of a box from a stage on.

    Attributes:
      stage: 0 before the first pass, 1 after it, and so on.
      name, opcode: of the instruction.
      kernel: name of the instruction that would run it: a fusion, or itself.
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
      stands: its states, one for each change.
      end: the first stage without it; None if it is in the optimised module.
      source: number of the box that it was copied from; None if it is not a copy.
      into: number of the box that is read in its place after its end; None if there is none.
    """

    shape: str
    stands: list[BoxState]
    end: int | None = None
    source: int | None = None
    into: int | None = None

    def at(self, stage: int) -> BoxState | None:
        """Return its state at a stage; None if it does not exist then."""
        if self.end is not None and stage >= self.end:
            return None
        return next((stand for stand in reversed(self.stands) if stand.stage <= stage), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """Box ``consumer`` reads box ``producer`` from stage ``start`` until before stage ``end``."""

    producer: int
    consumer: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class PassEffect:
    """The changes of one pass, as numbers of boxes.

    Attributes:
      kernels: number of kernels after it, without loops, branches and calls around them.
      together, apart: boxes that were alone and now share a kernel, and the reverse.
      copied: new boxes that are copies.
      added: other new boxes.
      merged: boxes that ended and were replaced by another.
      removed: other boxes that ended.
      rewritten: boxes whose opcode changed.
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
class KernelFormation:
    """The formation of a program's kernels.

    Attributes:
      stages: number of stages: one more than the passes that changed the module.
      boxes: by number.
      links: reads between boxes, with their stages.
    """

    stages: int
    boxes: Sequence[Box]
    links: Sequence[Link]

    def kernels(self, stage: int) -> dict[str, set[int]]:
        """Return the boxes of each kernel (or control cluster) after ``stage`` passes, by its name."""
        found: dict[str, set[int]] = {}
        for number, box in enumerate(self.boxes):
            stand = box.at(stage)
            if stand is not None:
                found.setdefault(stand.kernel, set()).add(number)
        return found

    @cached_property
    def steps(self) -> Sequence[PassEffect]:
        """The effect of each stage on the boxes; stage 0 counts what exists before the passes."""
        steps: list[PassEffect] = []
        before: dict[str, set[int]] = {}
        for stage in range(self.stages):
            here = self.kernels(stage)
            steps.append(self._step(stage, before, here))
            before = here
        return steps

    def _step(self, stage: int, before: Mapping[str, set[int]], here: Mapping[str, set[int]]) -> PassEffect:
        """
        Arguments:
          before, here: the kernels before this pass, and after it.
        """
        starting = [box for box in self.boxes if box.stands[0].stage == stage]
        ending = [box for box in self.boxes if box.end == stage]
        changed = [(box.at(stage - 1), box.at(stage)) for box in self.boxes]
        both = [(was, now) for was, now in changed if was is not None and now is not None]
        return PassEffect(
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
        stands = (self.boxes[number].at(stage) for number in boxes)
        return any(stand is not None and stand.opcode in CONTROL for stand in stands)

    @cached_property
    def ends(self) -> Mapping[Mark, int]:
        """By operation, the first stage without any instruction made from it.
        The number of stages if there is one to the last; operations that never had one are left out."""
        ends: dict[Mark, int] = {}
        for box in self.boxes:
            last = self.stages if box.end is None else box.end
            for stand, end in zip(
                box.stands, [*(later.stage for later in box.stands[1:]), last], strict=True
            ):
                ends.update({mark: max(end, ends.get(mark, 0)) for mark in stand.marks})
        return ends


def kernel_formation(history: PassHistory) -> KernelFormation:
    """Return the formation of the kernels that ``history`` ends in.

    Raises:
      ValueError: there are too many instructions to follow each, or XLA's dump is not HLO.
    """
    stages = len(history)
    if sum(len(history.module(stage).by_name) for stage in range(stages)) > _MAX_INSTRUCTIONS:
        raise ValueError("the program is too large to follow each of its instructions through the passes")
    following = _FormationBuilder(history)
    for stage in range(stages):
        following.advance(stage)
    return KernelFormation(stages, following.boxes, following.links())


class _FormationBuilder:
    def __init__(self, history: PassHistory):
        self._history = history
        self.boxes: list[Box] = []
        self._numbers: dict[str, int] = {}  # of the boxes, by name in the current module
        self._spans: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def advance(self, stage: int) -> None:
        """Process the module of a stage, after that of the stage before."""
        module = self._history.module(stage)
        kernel_of = kernel_of_instruction(module)
        marks = marks_by_call(module, self._history.marks(stage), kernel_of.keys())
        before, self._numbers, copied = self._numbers, {}, {}
        if stage:
            old = {name: self.boxes[number].stands[-1].marks for name, number in before.items()}
            match = self._history.match(stage - 1)
            pairing = InstructionPairing(
                self._history.module(stage - 1), module, match, old, {name: marks[name] for name in kernel_of}
            )
            self._numbers = {name: before[was] for name, was in pairing.continued.items()}
            copied = {name: before[was] for name, was in pairing.copied.items()}
        for name, kernel in kernel_of.items():
            one = module.by_name[name]
            self._add_state(
                one.shape, BoxState(stage, name, one.opcode, kernel, marks[name]), copied.get(name)
            )
        if stage:
            for name, successor in pairing.ended.items():
                box = self.boxes[before[name]]
                box.end, box.into = stage, None if successor is None else self._numbers[successor]
        self._link(stage, module)

    def _add_state(self, shape: str, stand: BoxState, source: int | None) -> None:
        if stand.name not in self._numbers:
            self._numbers[stand.name] = len(self.boxes)
            self.boxes.append(Box(shape, [stand], source=source))
            return
        box = self.boxes[self._numbers[stand.name]]
        if dataclasses.replace(box.stands[-1], stage=stand.stage) != stand:
            box.stands.append(stand)

    def _link(self, stage: int, module: Module) -> None:
        sources = InstructionSources(module, self._numbers.keys())
        for name, number in self._numbers.items():
            for source in sources.of(module.by_name[name]):
                spans = self._spans.setdefault((self._numbers[source], number), [])
                start = spans.pop()[0] if spans and spans[-1][1] == stage else stage
                spans.append((start, stage + 1))

    def links(self) -> list[Link]:
        return [Link(*pair, *span) for pair, spans in sorted(self._spans.items()) for span in spans]
