"""Makes a program that shows a difference shorter, as long as it still shows it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from .comparison import Outcome, compare
from .processes import Worlds
from .programs import Program, Step


def minimise(program: Program, outcome: Outcome, worlds: Worlds, seconds: float) -> tuple[Program, Outcome]:
    """The shortest program found within ``seconds`` that differs in the same way, and what it came to, in
    worlds of its own.

    The first try is the program by itself up to its difference, each signal at the instruction where it
    arrived. Where that shows nothing, the difference needs what ran before in the same processes, and the
    program stays as it is.
    """
    assert outcome.finding is not None
    what, end = outcome.finding.what, time.monotonic() + seconds
    worlds.renew()
    best, known = dataclasses.replace(program, steps=tuple(outcome.steps)), outcome
    found = compare(best, worlds)
    if found.finding is None or found.finding.what != what:
        text = "(not by itself, only after earlier programs) " + outcome.finding.text
        finding = dataclasses.replace(outcome.finding, text=text)
        return program, dataclasses.replace(outcome, finding=finding)
    best, known = dataclasses.replace(best, steps=tuple(found.steps)), found
    shorter = True
    while shorter and what != "hang":
        shorter = False
        for candidate in _shorter(best):
            if time.monotonic() > end:
                return best, known
            found = compare(candidate, worlds)
            if found.finding is not None and found.finding.what == what:
                steps = tuple(found.steps)
                shorter = len(steps) < len(best.steps) or _looks(steps) < _looks(best.steps)
                best, known = dataclasses.replace(candidate, steps=steps), found
                if shorter:
                    break
    return best, known


def _looks(steps: tuple[Step, ...]) -> int:
    return sum(len(step.look) if step.look is not None else 9 for step in steps) + sum(
        step.statement.repeat for step in steps
    )


def _shorter(program: Program) -> Iterator[Program]:
    """Programs with some of the steps, the fewest first; then with fewer looks and rounds."""
    steps = program.steps
    size = len(steps) // 2
    while size >= 1:
        for start in range(0, len(steps), size):
            left = steps[:start] + steps[start + size :]
            if left:
                yield dataclasses.replace(program, steps=left)
        size //= 2
    for number, step in enumerate(steps):
        simpler = [dataclasses.replace(step, look=())] if step.look != () else []
        if step.statement.repeat > 1:
            fewer = dataclasses.replace(step.statement, repeat=step.statement.repeat // 2)
            simpler.append(dataclasses.replace(step, statement=fewer))
        for one in simpler:
            yield dataclasses.replace(program, steps=steps[:number] + (one,) + steps[number + 1 :])
