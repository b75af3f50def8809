"""Training steps as users write them, with the truth beside their lines.

A program is a function that makes a step and its arguments. A comment at the end of a line says what the
compiled step has of it, worked out by hand from the code:

- ``forward``: operations that compute what the line says;
- ``backward``: operations that the gradient made, of those of the line;
- ``twice``: operations of the line that a checkpoint computes again for the gradient;
- ``3 turns``: it runs a loop that turns so often;
- ``grad``: it asks for the gradient: all that is ``backward`` or ``twice`` leads here.

Of a line without a comment the step has nothing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

STEPS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}
WORDS = re.compile(
    r"# ((?:forward|backward|twice|grad|\d+ turns)(?:, (?:forward|backward|twice|grad|\d+ turns))*)$"
)


def step(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """Puts a program into the table."""
    STEPS[make.__name__] = make
    return make


def words(make: Callable[..., Any]) -> dict[int, set[str]]:
    """What is said beside the lines of a program, by number of the line in its file."""
    lines, first = inspect.getsourcelines(make)
    found = {number: WORDS.search(line.rstrip()) for number, line in enumerate(lines, first)}
    return {number: set(match[1].split(", ")) for number, match in found.items() if match}
