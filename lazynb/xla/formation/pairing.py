"""The pairing of the instructions before and after a pass: which of them is still itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lazynb.xla.clusters import CONTROL
from lazynb.xla.hlo.instruction_match import InstructionMatch
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.pass_history import Marks


class Pairing:
    """Which instruction goes on as which over one pass.

    One goes on as what computes the same at its place, else as what is new there; each goes on as one at
    most, and the others that compute the same are its copies.

    Arguments:
      match: of the modules.
      old, new: the instructions that are paired, before and after: by name, the operations that each was made
        from.

    Attributes:
      continued: by name after, the name before.
      copied: by name after, the name before of what it is a copy of.
      ended: by name before, the name after of what is read in its place; None if nothing of these is.
    """

    def __init__(self, before: Module, after: Module, match: InstructionMatch, old: Marks, new: Marks):
        self._before, self._after, self._match = before, after, match
        self._old, self._new = old, new
        self._alike = _alike(after, [name for name in new if name not in before.by_name], new)
        self.continued: dict[str, str] = {}
        self._gone = dict.fromkeys(old)
        for find in (self._named, self._same, self._unmoved, self._written_anew, self._instead):
            self._go_on(find)
        self.copied = self._copies()
        self.ended = {name: self._successor(name) for name in self._gone}

    def _go_on(self, find: Callable[[str], Iterable[str]]) -> None:
        """Pairs what is left with the first of ``find`` that is free."""
        for name in list(self._gone):
            free = (each for each in find(name) if each in self._new and each not in self.continued)
            found = next(free, None)
            if found is not None:
                self.continued[found] = name
                del self._gone[name]

    # Each gives the instructions that one may go on as.

    def _named(self, name: str) -> Iterator[str]:
        """The same at its place, under its name."""
        return iter([name] if name in self._match.same.get(name, ()) else [])

    def _same(self, name: str) -> Iterable[str]:
        """The same at its place."""
        return self._match.same.get(name, ())

    def _unmoved(self, name: str) -> Iterator[str]:
        """What has its name, its opcode and its operations, where nothing says what stands at its place."""
        if name in self._match.same or self._new.get(name) != self._old[name]:
            return
        if self._after.by_name[name].opcode == self._before.by_name[name].opcode:
            yield name

    def _written_anew(self, name: str) -> Iterable[str]:
        """What is new and was made from the same operations in the same way: a function that is resolved, or
        the body of a loop, is written anew."""
        marks = self._old[name]
        return self._alike.get((marks, *_form(self._before.by_name[name])), ()) if marks else ()

    def _instead(self, name: str) -> Iterator[str]:
        """Something new at its place."""
        if self._before.by_name[name].opcode in CONTROL:
            return iter(())  # it was resolved: what it ran is itself
        return (each for each in self._match.instead.get(name, ()) if each not in self._before.by_name)

    def _copies(self) -> dict[str, str]:
        copied: dict[str, str] = {}
        for name in self._old:
            for clone in self._match.same.get(name, ()):
                if clone in self._new and clone not in self.continued:
                    copied.setdefault(clone, name)
        return copied

    def _successor(self, name: str) -> str | None:
        """What is read where ``name`` was."""
        found = [*self._match.same.get(name, ()), *self._match.instead.get(name, ())]
        return next((each for each in found if each in self.continued or each in self._new), None)


def _alike(module: Module, names: Iterable[str], marks: Marks) -> dict[object, list[str]]:
    """The instructions that were made from the same operations, with the same opcode and type."""
    found: dict[object, list[str]] = {}
    for name in names:
        found.setdefault((marks[name], *_form(module.by_name[name])), []).append(name)
    return found


def _form(one: Instruction) -> tuple[str, str]:
    return one.opcode, one.shape.partition("{")[0]
