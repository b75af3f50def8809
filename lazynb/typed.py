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
    lines = typed_lines(compiled, cell)
    return lines[number - 1].strip() if lines is not compiled and number <= len(lines) else text


def typed_lines(compiled: Sequence[str], cell: str) -> Sequence[str]:
    """The lines of a cell as they were typed, each at the place of what IPython compiled for it; ``compiled``
    itself if they are not the same lines.

    Arguments:
      compiled: all lines of what IPython compiled.
      cell: the cell's text.
    """
    typed = cell.rstrip().splitlines(keepends=True)
    while typed and not typed[0].strip():  # IPython drops empty lines at the beginning
        typed = typed[1:]
    # A magic's body has one for the magic's own line.
    before = next((at for at, line in enumerate(compiled) if line.strip()), len(compiled))
    is_cell_magic = before < len(compiled) and compiled[before].startswith(_CELL_MAGIC)
    same = len("".join(compiled).rstrip().splitlines()) == before + len(typed)
    return ["\n"] * before + typed if typed and (same or is_cell_magic) else compiled
