"""How a program ended."""

from __future__ import annotations

import dataclasses
import sys

INTERRUPTED = 130  # what a shell gives for a program that Ctrl-C ended


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes:
      status: its exit status.
      error: type and text of the exception that ended it, in a line; empty if none did.
      where: the notebook's cell that raised it, such as ``cell 4``; empty for a script.
    """

    status: int = 0
    error: str = ""
    where: str = ""


def failed(error: BaseException, where: str = "") -> Outcome:
    """The outcome of a program that ``error`` ended, which was shown already."""
    if isinstance(error, SystemExit):
        return Outcome(exit_status(error))
    text = " ".join(str(error).split())
    message = type(error).__name__
    if text:
        message += f": {text}"
    status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return Outcome(status, message, where)


def exit_status(error: SystemExit) -> int:
    """The exit status that Python gives for ``error``; says what it says."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)
    return 1
