"""Lines of a cell as the user typed them: IPython turns a magic into a call before it compiles the cell."""

from __future__ import annotations

from collections.abc import Sequence

_CALL = "get_ipython()."
_CELL_MAGIC = f"{_CALL}run_cell_magic("


def as_typed(text: str, number: int, compiled: Sequence[str], cell: str) -> str:
    """The line ``text`` as it stands in the cell; ``text`` itself if it is no magic, or not found there.

    Arguments:
      number: of the line, from 1.
      compiled: all lines of what IPython compiled.
      cell: the cell's text.
    """
    if _CALL not in text:
        return text
    typed = cell.rstrip().splitlines()
    while typed and not typed[0].strip():  # IPython drops empty lines at the beginning
        typed = typed[1:]
    if text.startswith(_CELL_MAGIC):
        return typed[0].strip() if typed else text
    lines = "".join(compiled).rstrip().splitlines()
    return typed[number - 1].strip() if len(lines) == len(typed) and number <= len(typed) else text
