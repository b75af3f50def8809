"""Exercises that check themselves.

A cell ends with ``check(answer, truth)``. As long as the answer is ``...``, it says so and no more.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import FunctionType
from typing import Any


def check(
    answer: Any, truth: Any | Callable[[Any], str | None], *, hint: str = "", evidence: Any = ""
) -> None:
    """Says whether an answer is right.

    Arguments:
      answer: the reader's; ``...``, or a function whose body is ``...``, where there is none yet.
      truth: the right answer, or a function of the answer that returns what is wrong with it (None: nothing).
        A function is called once there is an answer, so what it compiles or runs costs nothing before.
      hint: said with a wrong answer.
      evidence: shown with a right one: a text, anything else that a cell can show, or a function without
        arguments that gives it.
    """
    if is_open(answer):
        print("Replace the ... with your answer.")
        return
    wrong = truth(answer) if callable(truth) else None if answer == truth else f"{answer!r} is not it."
    if wrong:
        print("Not yet:", " ".join(filter(None, (wrong, hint))))
        return
    shown = evidence() if callable(evidence) else evidence
    if isinstance(shown, str) or shown is None:
        print("Right.", shown or "")
    else:
        print("Right.")
        _display(shown)


def is_open(answer: Any) -> bool:
    """Whether this is still the ``...`` of the exercise: itself, or a function with nothing else in it."""
    if not isinstance(answer, FunctionType):
        return answer is ...
    return _steps(answer) == _steps(_nothing)


def _nothing(): ...


def _steps(function: FunctionType) -> list[tuple[str, Any]]:
    return [(one.opname, one.argval) for one in dis.get_instructions(function)]


def _display(value: Any) -> None:
    from IPython.display import display

    display(value)
