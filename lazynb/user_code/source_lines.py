"""Source lines of the user: places with text, origins of operations, and positions of breaks.

Recording keeps only a code object and an instruction offset (two pointers). The line and its text are looked
up when they are shown. No line enters a cache key, so moving a line causes no compilation.
"""

from __future__ import annotations

import bisect
import dataclasses
import os
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple

from lazynb.user_code import code_ownership
from lazynb.user_code.cell_magics import body_code, file_of
from lazynb.user_code.cells import cell_number, cell_source, cells_by_file, cells_by_run, line_as_typed
from lazynb.user_code.file_versions import located
from lazynb.user_code.source_files import lines_of_file


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code with its text.

    Attributes:
      file: path of the file, or the file name under which the cell was compiled.
      line: line number, from 1.
      text: source text of the line, stripped; empty if it is not available.
      cell: execution count of the notebook cell; None outside of a notebook.
    """

    file: str
    line: int
    text: str
    cell: int | None = None

    @property
    def label(self) -> str:
        """Short form: ``cell 4, line 2`` or ``train.py:17``."""
        if self.cell is not None:
            return f"cell {self.cell}, line {self.line}"
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def in_full(self) -> str:
        """The label with the text: ``train.py:17: y = x @ w``."""
        return f"{self.label}: {self.text}" if self.text else self.label


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a recorded operation: the user's instruction and the function that it called.

    Attributes:
      code: code object of the user's frame.
      lasti: offset of the instruction in it.
      callee: code object of the function that the user called there; None if it belongs to lazynb.
      call_id: a number that is equal for all operations of one call of ``callee``.
      context: JAX's source context; Flax writes module names to its name stack.
      inside: for an operation that calls the user's functions, its parameters as traced for this call. Equal
        operations share their parameters, though they may come from different lines.
      forward: for an operation of a backward pass, JAX's traceback of the operation that it differentiates,
        or a :class:`lazynb.recording.forward_tracebacks.ForwardTracebackSlice` for several operations; None
        if there is none.
    """

    code: CodeType
    lasti: int
    callee: CodeType | None
    call_id: int
    context: Any
    inside: Any = None
    forward: Any = None

    @property
    def scope(self) -> str:
        """The name stack as text, for example ``MLP/Dense_0``."""
        return str(self.context.name_stack)

    @property
    def file(self) -> str:
        """Path of the file, or the file name of the cell."""
        return file_of(self.code)

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return line_of(self.code, self.lasti)

    @property
    def place(self) -> Place:
        """The line with its source text."""
        return _place_of(self.code, self.lasti)


class CodePosition(NamedTuple):
    """The user's line at a trace break, in a cheap form; :attr:`place` looks up the text.

    Attributes:
      code, lasti: code object of the user's frame and the offset of the instruction in it.
      cell: number and source of the cell to which the line belonged.
      running: the running cell, if the stack had no user frame.
      library: code object and offset of the library instruction that read the value; None if the user's line
        did.
      callers: positions of the user's lines that called the function of ``code``, the nearest first.
    """

    code: CodeType
    lasti: int
    cell: tuple[int, str] | None
    running: int | None
    library: tuple[CodeType, int] | None = None
    callers: tuple[CodePosition, ...] = ()

    @property
    def file(self) -> str:
        """Path of the file, or the file name of the cell."""
        return file_of(self.code)

    @property
    def place(self) -> Place:
        """The line with its text."""
        if self.running is not None:
            return Place("", 1, "", self.running)
        return _place_of(self.code, self.lasti, self.cell)

    @property
    def library_place(self) -> Place | None:
        """The line of the library that read the value; None if the user's line did."""
        if self.library is None:
            return None
        return _place_of(*self.library)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for equal lines. It holds the id of the code object, because the hash of a code
        object walks through its contents. It holds the line instead of the offset, because Python 3.11 may
        change the offset when it replaces instructions by faster ones."""
        identity = (id(self.code), line_of(self.code, self.lasti), self.running)
        if self.library is None:
            return identity
        return *identity, id(self.library[0]), line_of(*self.library)

    @property
    def identity_in_cell(self) -> tuple[Any, ...]:
        """As :attr:`identity`, but equal for the line in each run of its cell, also if the cell was edited
        around it: the cell, the text, and the number of lines above it with the same text."""
        number, source = self.cell or (self.running, "")
        cell = cells_by_run.get(number) if number is not None else None
        if cell is None:
            return self.identity
        place = self.place
        above = [line.strip() for line in source.splitlines()[: place.line - 1]].count(place.text)
        return cell, place.text, above, *self.identity[3:]


class _Lines:
    """The line table of one code object, in a form for fast lookup. Code has about as many ranges as lines. A
    linear search for each operation would take quadratic time in the length of a cell."""

    __slots__ = ("_before", "_first", "_lines", "_numbers", "_starts", "code")

    def __init__(self, code: CodeType):
        ranges = list(code.co_lines())
        self.code = code  # keeps the code object alive, and so its id valid
        known = body_code(code)
        self._before = known.before if known is not None else 0
        source = located(code)
        self._numbers = source.numbers if source is not None else None
        self._first = code.co_firstlineno
        self._starts = [start for start, _, _ in ranges] + [ranges[-1][1] if ranges else 0]
        self._lines = [line for _, _, line in ranges] + [None]

    def at(self, lasti: int) -> int:
        """The line of the instruction at ``lasti``; the first line of the code if it is not known."""
        if self._numbers is not None:
            return self._numbers[max(lasti, 0) // 2]
        number = bisect.bisect_right(self._starts, lasti) - 1
        line = self._lines[number] if number >= 0 else None
        return (self._first if line is None else line) + self._before


_line_tables: dict[int, _Lines] = {}  # by id, because hashing a code object walks through it


_TABLES = 256


def line_of(code: CodeType, lasti: int) -> int:
    """The line, from 1, of the instruction at ``lasti``."""
    table = _line_tables.get(id(code))
    if table is None:
        if len(_line_tables) >= _TABLES:
            _line_tables.clear()
        table = _line_tables[id(code)] = _Lines(code)
    return table.at(lasti)


def place(file: str, line: int, cell: tuple[int, str] | None = None) -> Place:
    """The user's line ``line`` of ``file``, with its text.

    Arguments:
      cell: number and source of the cell of the line; by default those of its newest run.
    """
    cell = cell or cells_by_file.get(file)
    file, line = code_ownership.doctest_position(file, line)
    lines = lines_of_file(file)
    text = _line(lines, line)
    if not text and cell is not None:
        text = _line(cell[1].splitlines(), line)
    elif cell is not None:
        text = line_as_typed(text, line, lines, cell[1])
    return Place(file, line, text, cell[0] if cell is not None else None)


def _place_of(code: CodeType, lasti: int, cell: tuple[int, str] | None = None) -> Place:
    file, line, source = file_of(code), line_of(code, lasti), located(code)
    if source is None:
        return place(file, line, cell)
    return Place(file, line, _line(source.lines, line))


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


class Places:
    """Looks up thousands of places, each line and file once.

    (``linecache`` searches for a missing file in each directory of ``sys.path`` at each call.)
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Place] = {}
        self._codes: dict[int, CodeType] = {}  # keeps the code objects alive, and so their ids valid
        self._lines: dict[str, Sequence[str]] = {}

    def of(self, origin: Origin) -> Place:
        """The place of ``origin``."""
        code, line = origin.code, origin.line
        known = self._known.get((id(code), line))
        if known is None:
            self._codes[id(code)] = code
            source = located(code)
            if source is None:
                known = self._place(origin.file, line)
            else:
                known = Place(origin.file, line, _line(source.lines, line))
            self._known[id(code), line] = known
        return known

    def _place(self, file: str, line: int) -> Place:
        file, line = code_ownership.doctest_position(file, line)
        if file not in self._lines:
            self._lines[file] = lines_of_file(file) or (cell_source(file) or "").splitlines()
        text, cell = _line(self._lines[file], line), cell_source(file)
        if cell is not None:
            text = line_as_typed(text, line, self._lines[file], cell)
        return Place(file, line, text, cell_number(file))


def position_of(code: CodeType, lasti: int) -> CodePosition:
    """The position of the instruction at ``lasti`` of the user's ``code``."""
    return CodePosition(code, lasti, cells_by_file.get(file_of(code)), None)
