"""Where in the user's code an operation was asked for.

Recording keeps only a code object and an instruction offset (two pointers); line and text are looked up when
somebody wants to see them. Source never enters a key: moving a line compiles nothing.
"""

from __future__ import annotations

import bisect
import dataclasses
import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from lazynb._jax.names import (
    FORWARDING_FUNCTIONS,
    MACHINERY_FILES,
    OPERATOR_PREFIX,
    PACKAGE_FOLDER,
    PRIVATE_FOLDER,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code.

    Attributes:
      file: path of the file, or the name under which the cell was compiled.
      line: line number, from 1.
      text: source text of the line, stripped; empty where it cannot be had.
      cell: execution count of the notebook cell, else None.
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


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What recording keeps of the stack: the user's instruction and the function called from it.

    Attributes:
      code: code object of the user's frame.
      lasti: offset of the instruction in it.
      callee: code object of the function that the user called there; None when lazynb was reached at once.
      call_id: the same number for operations of one invocation of ``callee``.
      context: JAX's source context, whose name stack Flax writes module names to.
    """

    code: CodeType
    lasti: int
    callee: CodeType | None
    call_id: int
    context: Any

    @property
    def scope(self) -> str:
        """The name stack as text, for example ``MLP/Dense_0``."""
        return str(self.context.name_stack)

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return line_of(self.code, self.lasti)

    @property
    def place(self) -> Place:
        """The line with its source text."""
        return place(self.code.co_filename, self.line)


_cells: dict[str, tuple[int, str]] = {}


def register_cell(file: str, number: int, source: str) -> None:
    """Remembers that code compiled as ``file`` is notebook cell ``number``; the newest run wins."""
    _cells[file] = (number, source)


def cell_source(file: str) -> str | None:
    """Source of the notebook cell whose code was compiled as ``file``; None for any other file."""
    found = _cells.get(file)
    return found[1] if found is not None else None


def cell_number(file: str) -> int | None:
    """Execution count of the newest run of the cell whose code was compiled as ``file``; None for any other
    file."""
    found = _cells.get(file)
    return found[0] if found is not None else None


_current_cell: int | None = None


def set_current_cell(number: int | None) -> None:
    """Says which notebook cell is running, for what is asked for by a magic rather than a line of code."""
    global _current_cell
    _current_cell = number


def current_cell() -> int | None:
    """The notebook cell that is running, if any."""
    return _current_cell


class _Lines:
    """The lines of one code object's instructions, to be looked up one by one. Code has as many ranges as it
    has lines: walking through them for each operation takes a time that grows with the square of a cell's
    length."""

    __slots__ = ("_first", "_lines", "_starts", "code")

    def __init__(self, code: CodeType):
        ranges = list(code.co_lines())
        self.code = code  # kept alive, so that its id stays its own
        self._first = code.co_firstlineno
        self._starts = [start for start, _, _ in ranges] + [ranges[-1][1] if ranges else 0]
        self._lines = [line for _, _, line in ranges] + [None]

    def at(self, lasti: int) -> int:
        """The line of the instruction at ``lasti``; the first where none is known."""
        found = bisect.bisect_right(self._starts, lasti) - 1
        line = self._lines[found] if found >= 0 else None
        return self._first if line is None else line


_tables: dict[int, _Lines] = {}  # by id: hashing a code object walks through it
_TABLES = 256


def line_of(code: CodeType, lasti: int) -> int:
    """The line, from 1, of the instruction at ``lasti``."""
    table = _tables.get(id(code))
    if table is None:
        if len(_tables) >= _TABLES:
            _tables.clear()
        table = _tables[id(code)] = _Lines(code)
    return table.at(lasti)


def place(file: str, line: int, cell: tuple[int, str] | None = None) -> Place:
    """The user's line ``line`` of ``file``, with its text; ``cell`` is number and source of its cell then."""
    cell = cell or _cells.get(file)
    text = linecache.getline(file, line).strip()
    if not text and cell is not None:
        text = _line(cell[1].splitlines(), line)
    return Place(file, line, text, cell[0] if cell is not None else None)


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


class Places:
    """The user's lines with their texts, for whoever asks for those of thousands of operations: each is
    looked up once, and so is each file (what is not there, ``linecache`` looks for in every directory of
    ``sys.path``, each time it is asked)."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], Place] = {}
        self._codes: dict[int, CodeType] = {}  # kept alive, so that the ids stay their own
        self._lines: dict[str, Sequence[str]] = {}

    def of(self, origin: Origin) -> Place:
        """``origin.place``."""
        code, line = origin.code, origin.line
        found = self._found.get((id(code), line))
        if found is None:
            self._codes[id(code)] = code
            found = self._found[id(code), line] = self._place(code.co_filename, line)
        return found

    def _place(self, file: str, line: int) -> Place:
        cell = _cells.get(file)
        lines = self._lines.get(file)
        if lines is None:
            lines = self._lines[file] = linecache.getlines(file) or (
                cell[1].splitlines() if cell is not None else ()
            )
        return Place(file, line, _line(lines, line), cell[0] if cell is not None else None)


def _library_roots() -> tuple[str, ...]:
    paths = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    paths.add(os.path.dirname(os.path.abspath(__file__)))
    paths.add(os.path.dirname(os.__file__))
    return tuple(sorted(os.path.join(path, "") for path in paths))


OWN_ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
"""The folder of this package."""

_LIBRARY_ROOTS = _library_roots()
_LIBRARY_MARKS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_is_user: dict[
    int, tuple[bool, CodeType]
] = {}  # by id, as hashing a code object walks through it; it is kept alive here


def is_user_file(file: str) -> bool:
    """Whether ``file`` is the user's own: not in the standard library, an installed package or lazynb."""
    if file.startswith("<frozen"):
        return False
    return not file.startswith(_LIBRARY_ROOTS) and not any(mark in file for mark in _LIBRARY_MARKS)


def is_user_code(code: CodeType) -> bool:
    """Whether ``code`` is the user's own, see :func:`is_user_file`."""
    known = _is_user.get(id(code))
    if known is None:
        if len(_is_user) > 100_000:  # code objects of re-run cells; a plain bound is enough
            _is_user.clear()
        known = _is_user[id(code)] = is_user_file(code.co_filename), code
    return known[0]


def user_frame(frame: FrameType) -> tuple[FrameType, Sequence[FrameType]]:
    """The nearest frame of the user's code in or above ``frame``, and the frames from the function called
    there downwards.

    Between the two, JAX puts frames of its own machinery (``api_boundary``, ``cache_miss``, operator
    forwarding), which nobody wrote: they are passed over. Where no frame is the user's (a script inside an
    installed package), the outermost one stands in.
    """
    below: list[FrameType] = []
    while True:  # a call of a PyTorch module is forty frames deep: what is known already costs no call
        code = frame.f_code
        known = _is_user.get(id(code))
        above = frame.f_back
        if (known[0] if known is not None else is_user_code(code)) or above is None:
            break
        below.append(frame)
        frame = above
    below.reverse()
    for index, callee in enumerate(below):
        if not is_machinery(callee.f_code):
            return frame, below[index:]
    return frame, ()


_machinery: dict[int, tuple[bool, CodeType]] = {}


def is_machinery(code: CodeType) -> bool:
    """Whether ``code`` is JAX's or lazynb's own forwarding (``api_boundary``, operators), which nobody called
    by name."""
    known = _machinery.get(id(code))
    if known is None:
        if len(_machinery) > 100_000:
            _machinery.clear()
        jax_own = PRIVATE_FOLDER in code.co_filename
        forwards = code.co_name in FORWARDING_FUNCTIONS or code.co_name.startswith(OPERATOR_PREFIX)
        known = _machinery[id(code)] = (
            (
                code.co_filename.endswith(MACHINERY_FILES)
                or (jax_own and forwards)
                or code.co_filename.startswith(OWN_ROOT)
            ),
            code,
        )
    return known[0]


class Spot(NamedTuple):
    """The user's line that was running, in the cheapest form: resolved to a :class:`Place` when somebody
    looks.

    Attributes:
      code, lasti: code object of the user's frame and the offset of the instruction in it.
      cell: number and source of the cell it belonged to then.
      running: the cell that was running, where no line of the user's was.
      library: code object and offset of the library's instruction that asked, where the user's line only led
        there.
    """

    code: CodeType
    lasti: int
    cell: tuple[int, str] | None
    running: int | None
    library: tuple[CodeType, int] | None = None

    @property
    def place(self) -> Place:
        """The line with its text."""
        if self.running is not None:
            return Place("", 1, "", self.running)
        return place(self.code.co_filename, line_of(self.code, self.lasti), self.cell)

    @property
    def library_place(self) -> Place | None:
        """The library's line."""
        if self.library is None:
            return None
        code, lasti = self.library
        return place(code.co_filename, line_of(code, lasti))

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for equal lines. (A code object's own hash walks through it. The offset is not always the
        same: Python 3.11 replaces instructions by faster ones.)"""
        library = self.library
        found = (id(self.code), line_of(self.code, self.lasti), self.running)
        return found if library is None else (*found, id(library[0]), line_of(*library))


def here(depth: int = 1) -> Spot:
    """The user's line that is running now."""
    frame = sys._getframe(depth)
    library = None
    while True:  # every break comes here: what is known already costs no call
        code = frame.f_code
        known = _is_user.get(id(code))
        user = known[0] if known is not None else is_user_code(code)
        above = frame.f_back
        if user or above is None:
            break
        if library is None:
            known = _ours.get(id(code))
            if not (known[0] if known is not None else _is_ours(code)):
                library = code, frame.f_lasti
        frame = above
    if not user:
        return Spot(code, frame.f_lasti, _cells.get(code.co_filename), _current_cell)
    # As ``Spot(...)`` does it, without the Python function that NamedTuple writes for it.
    return tuple.__new__(Spot, (code, frame.f_lasti, _cells.get(code.co_filename), None, library))


_ours: dict[int, tuple[bool, CodeType]] = {}


def _is_ours(code: CodeType) -> bool:
    """Whether ``code`` is lazynb's or JAX's own, through which every use of a tensor goes."""
    known = _ours.get(id(code))
    if known is None:
        if len(_ours) > 100_000:
            _ours.clear()
        jax_own = PACKAGE_FOLDER in code.co_filename or code.co_filename.startswith("<frozen")
        known = _ours[id(code)] = (code.co_filename.startswith(OWN_ROOT) or jax_own), code
    return known[0]


class CallCounter:
    """Numbers the invocations of functions that the user calls, so that their operations can be drawn as one.

    Two operations belong to one invocation when they come, one after the other, from the same instruction of
    the user and the same callee frame, and the second from further on in the callee (a frame's address may be
    used again by the next call, which starts from the top). A loop inside the callee counts as several
    invocations. The number serves drawing only: no key depends on it.
    """

    __slots__ = ("_call", "_position", "number")

    def __init__(self) -> None:
        self._call: tuple[int, int, int] = (0, 0, 0)
        self._position: list[int] = []
        self.number = 0

    def of(self, frame: FrameType, below: Sequence[FrameType]) -> int:
        """The number of the invocation whose frames are ``below``, called from ``frame``."""
        call = (id(frame), frame.f_lasti, id(below[0]) if below else 0)
        position = [callee.f_lasti for callee in below]
        if not below or call != self._call or position <= self._position:
            self.number += 1
        self._call, self._position = call, position
        return self.number
