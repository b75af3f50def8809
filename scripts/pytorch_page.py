"""The tables in docs/pytorch.md that commands write, each between two marks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "pytorch.md"
END = "<!-- end -->"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str], what: str, begin: str, make: Callable[[], str]) -> int:
    """Writes what ``make`` gives after the mark ``begin``, or prints it.

    Arguments:
      what: is written, for ``--help``.
    """
    parser = argparse.ArgumentParser(description=f"Writes a table of {what} in docs/pytorch.md.")
    parser.add_argument("--print", action="store_true", help="print it instead")
    asked = parser.parse_args(arguments)
    text = make()
    if asked.print:
        print(text)
        return 0
    before, mark, rest = PAGE.read_text().partition(begin)
    if not mark:  # a JAX that has no table yet: below the others
        end = before.rindex(END) + len(END)
        before, rest = f"{before[:end]}\n\n", f"{END}{before[end:]}"
    PAGE.write_text(f"{before}{begin}\n{text}\n{END}{rest.partition(END)[2]}")
    return 0
