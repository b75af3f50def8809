"""Places in the user's code: the lines that called operations and reads.

Recording keeps only a code object and an instruction offset (two pointers). The line and its text are looked
up when they are shown. No place enters a key, so moving a line compiles nothing.
"""

from __future__ import annotations

import bisect
import dataclasses
import inspect
import itertools
import linecache
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from lazynb.jax_compat.jax_names import (
    FORWARDING_FUNCTIONS,
    MACHINERY_FILES,
    OPERATOR_PREFIX,
    PACKAGE_FOLDER,
    PRIVATE_FOLDER,
)
from lazynb.user_code import code_ownership
from lazynb.user_code.cells import history, line_as_typed

# ---- Frames of which it is known who called them: those of the PyTorch modules that run -------------------
# A call of a model is forty frames deep, and each operation in it looks for the user's line. A frame's
# callers stay the same while it runs, so the way up ends at the first landmark. It is taken away when the
# module ends.


class CachedCallStack:
    """What lies above a running frame.

    Attributes:
      frame: the frame.
      user: the nearest frame of the user's above it.
      called: the frame that the user's called; empty if it is lazynb's or JAX's own.
      call: a number of that call: the same for all landmarks in it, and for no others.
      origin: what recording kept of the last operation below it, see
      :class:`lazynb.user_code.call_stack.Origin`.
    """

    __slots__ = ("call", "called", "frame", "origin", "user")

    def __init__(self, frame: FrameType, user: FrameType, called: Sequence[FrameType], call: int) -> None:
        self.frame, self.user, self.called, self.call = frame, user, called, call
        self.origin: Any = None


cached_call_stacks: dict[int, CachedCallStack] = {}
"""By the ``id`` of the frame, which they keep."""

_numbers = itertools.count(1)


def cache_call_stack(frame: FrameType, user: FrameType, below: Sequence[FrameType], call: int) -> None:
    """Makes ``frame`` a landmark. ``user``, ``below`` and ``call`` are what ``user_frame`` says of it."""
    cached_call_stacks[id(frame)] = CachedCallStack(frame, user, below[:1], call or next(_numbers))


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code.

    Attributes:
      file: path of the file, or the name under which the cell was compiled.
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
        """With its text: ``train.py:17: y = x @ w``."""
        return f"{self.label}: {self.text}" if self.text else self.label


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """The part of the stack that recording keeps: the user's instruction and the function called there.

    Attributes:
      code: code object of the user's frame.
      lasti: offset of the instruction in it.
      callee: code object of the function that the user called there; None if that is lazynb's own.
      call_id: a number that is the same for all operations of one invocation of ``callee``.
      context: JAX's source context; Flax writes the names of modules to its name stack.
      inside: parameters of an operation that calls the user's functions, as traced for this call: equal
        operations share theirs, and may have been written on other lines.
      forward: of an operation of a backward pass, JAX's traceback of the operation that it differentiates, or
        a :class:`lazynb.recording.pending_trace.ForwardTracebackSlice` for several operations; None if there
        is none.
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
    def line(self) -> int:
        """Line number, from 1."""
        return line_of(self.code, self.lasti)

    @property
    def place(self) -> Place:
        """The line with its source text."""
        return place(self.code.co_filename, self.line)


_cells: dict[str, tuple[int, str]] = {}


def register_cell(file: str, number: int, source: str) -> None:
    """Notes that the code compiled as ``file`` is notebook cell ``number``; the newest run counts."""
    _cells[file] = (number, source)
    known_places.clear()  # they say of which run of the cell they are
    _positions.clear()
    _known_callers.clear()
    history.add(file, number, source)


def cell_source(file: str) -> str | None:
    """The source of the notebook cell whose code was compiled as ``file``; returns None for another file."""
    cell = _cells.get(file)
    return cell[1] if cell is not None else None


def cell_number(file: str) -> int | None:
    """The execution count of the newest run of the cell whose code was compiled as ``file``.

    Returns None for another file.
    """
    cell = _cells.get(file)
    return cell[0] if cell is not None else None


def file_text(file: str) -> str:
    """The text of a cell, or of a file as it is now; empty if there is none."""
    cell = _cells.get(file)
    if cell is not None:
        return cell[1]
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


known_places: dict[bytes, tuple[Any, ...]] = {}
"""What :func:`here` gave, with the code, by the instructions of the stack: the accelerator's."""

_current_cell: int | None = None


def set_current_cell(number: int | None) -> None:
    """Sets the running notebook cell: the place of breaks that a magic causes, and not a line of code."""
    global _current_cell
    _current_cell = number


def current_cell() -> int | None:
    """The running notebook cell; returns None if no cell runs."""
    return _current_cell


class _Lines:
    """The lines of one code object's instructions, in a form for a fast look-up.

    Code has about as many ranges as lines. A walk through them for each operation would take a time that
    grows with the square of a cell's length.
    """

    __slots__ = ("_first", "_lines", "_starts", "code")

    def __init__(self, code: CodeType):
        ranges = list(code.co_lines())
        self.code = code  # kept alive, so that its id stays its own
        self._first = code.co_firstlineno
        self._starts = [start for start, _, _ in ranges] + [ranges[-1][1] if ranges else 0]
        self._lines = [line for _, _, line in ranges] + [None]

    def at(self, lasti: int) -> int:
        """The line of the instruction at ``lasti``; the first line of the code if it is not known."""
        number = bisect.bisect_right(self._starts, lasti) - 1
        line = self._lines[number] if number >= 0 else None
        return self._first if line is None else line


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
      cell: number and source of the cell to which the line belonged; by default those of its newest run.
    """
    cell = cell or _cells.get(file)
    file, line = code_ownership.doctest_position(file, line)
    text = linecache.getline(file, line).strip()
    if not text and cell is not None:
        text = _line(cell[1].splitlines(), line)
    elif cell is not None:
        text = line_as_typed(text, line, linecache.getlines(file), cell[1])
    return Place(file, line, text, cell[0] if cell is not None else None)


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


class Places:
    """The user's lines with their texts, for thousands of operations.

    Each line and each file is looked up once. (``linecache`` searches for a missing file in every directory
    of ``sys.path``, at each call.)
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Place] = {}
        self._codes: dict[int, CodeType] = {}  # kept alive, so that the ids stay their own
        self._lines: dict[str, Sequence[str]] = {}

    def of(self, origin: Origin) -> Place:
        """``origin.place``."""
        code, line = origin.code, origin.line
        known = self._known.get((id(code), line))
        if known is None:
            self._codes[id(code)] = code
            known = self._known[id(code), line] = self._place(code.co_filename, line)
        return known

    def _place(self, file: str, line: int) -> Place:
        file, line = code_ownership.doctest_position(file, line)
        if file not in self._lines:
            self._lines[file] = linecache.getlines(file) or (cell_source(file) or "").splitlines()
        text, cell = _line(self._lines[file], line), cell_source(file)
        if cell is not None:
            text = line_as_typed(text, line, self._lines[file], cell)
        return Place(file, line, text, cell_number(file))


PACKAGE_ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
"""The folder of this package."""


def _library_roots() -> tuple[str, ...]:
    """The folders of the standard library, of installed packages and of lazynb."""
    paths = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    paths.add(PACKAGE_ROOT.rstrip(os.sep))
    paths.add(os.path.dirname(os.__file__))
    return tuple(sorted(os.path.join(path, "") for path in paths))


_LIBRARY_ROOTS = _library_roots()
_LIBRARY_MARKS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# By the id of a code object, because hashing it walks through it. The code object is kept alive here.
_is_user: dict[int, tuple[bool, CodeType]] = {}


def is_user_file(file: str) -> bool:
    """Whether ``file`` is the user's own: not in the standard library, an installed package or lazynb, and
    not generated."""
    if file.startswith("<frozen ") or (file not in _cells and code_ownership.is_generated(file)):
        return False
    return not file.startswith(_LIBRARY_ROOTS) and not any(mark in file for mark in _LIBRARY_MARKS)


def is_user_code(code: CodeType) -> bool:
    """Whether ``code`` is the user's own, see :func:`is_user_file`."""
    known = _is_user.get(id(code))
    if known is None:
        if len(_is_user) > 100_000:  # each run of a cell has a new code object; a plain bound is enough
            _is_user.clear()
        code_ownership.register_doctest(code.co_filename)
        known = _is_user[id(code)] = is_user_file(code.co_filename), code
    return known[0]


def user_frame(frame: FrameType) -> tuple[FrameType, Sequence[FrameType], int]:
    """The nearest frame of the user's code in or above ``frame``, the frames below it, and their call.

    The list begins with the function that the user called. JAX's machinery between the two
    (``api_boundary``, ``cache_miss``, operator forwarding) is left out. If no frame is the user's, the
    nearest one of generated code takes its place (``python -c``), or the outermost one (a script inside of
    an installed package). Where a landmark tells, the list has that function alone, and the last is the
    landmark's number of the call; otherwise it is 0.
    """
    below: list[FrameType] = []
    # Known code costs no call here.
    while True:
        if cached_call_stacks and (known_here := cached_call_stacks.get(id(frame))) is not None:
            return known_here.user, known_here.called, known_here.call
        code = frame.f_code
        known = _is_user.get(id(code))
        above = frame.f_back
        if known[0] if known is not None else is_user_code(code):
            break
        below.append(frame)
        if above is None:
            frame = _fallback_frame(below)
            del below[below.index(frame) :]
            break
        frame = above
    below.reverse()
    for index, callee in enumerate(below):
        if not is_machinery(callee.f_code):
            return frame, below[index:], 0
    return frame, (), 0


def nearest_cached_call_stack(frame: FrameType | None) -> CachedCallStack | None:
    """The first landmark in or above ``frame``, if no frame of the user's comes before it."""
    while frame is not None:
        found = cached_call_stacks.get(id(frame))
        if found is not None:
            return found
        known = _is_user.get(id(frame.f_code))
        if known is None or known[0]:
            return None
        frame = frame.f_back
    return None


def _fallback_frame(frames: Sequence[FrameType]) -> FrameType:
    """Of frames that are not the user's, the one to show: see :func:`user_frame`."""
    for frame in frames:
        if code_ownership.is_generated(frame.f_code.co_filename):
            return frame
    return frames[-1]


_machinery: dict[int, tuple[bool, CodeType]] = {}


def is_machinery(code: CodeType) -> bool:
    """Whether ``code`` is forwarding of JAX or lazynb (``api_boundary``, operators), not called by name."""
    known = _machinery.get(id(code))
    if known is None:
        if len(_machinery) > 100_000:
            _machinery.clear()
        known = _machinery[id(code)] = _forwards(code), code
    return known[0]


def _forwards(code: CodeType) -> bool:
    file, name = code.co_filename, code.co_name
    if file.endswith(MACHINERY_FILES) or file.startswith(PACKAGE_ROOT) or _runs_magic(file):
        return True
    if PRIVATE_FOLDER not in file:
        return False
    return name in FORWARDING_FUNCTIONS or name.startswith(OPERATOR_PREFIX)


def _runs_magic(file: str) -> bool:
    """Whether ``file`` is of what runs the code of ``%time`` and ``%timeit``, or that code, whose lines are
    shown as the magic's."""
    if file.startswith(("<timed ", "<magic-timeit")) or file.endswith(f"{os.sep}timeit.py"):
        return True
    return f"{os.sep}IPython{os.sep}" in file


class CodePosition(NamedTuple):
    """The user's line that was running, in a cheap form that gives a :class:`Place` later.

    Attributes:
      code, lasti: code object of the user's frame and the offset of the instruction in it.
      cell: number and source of the cell to which the line belonged.
      running: the running cell, if no line of the user's was running.
      library: code object and offset of the library's instruction that asked for the value; None if the
        user's line did.
      callers: the user's lines that called the function of ``code``, the nearest first.
    """

    code: CodeType
    lasti: int
    cell: tuple[int, str] | None
    running: int | None
    library: tuple[CodeType, int] | None = None
    callers: tuple[CodePosition, ...] = ()

    @property
    def place(self) -> Place:
        """The line with its text."""
        if self.running is not None:
            return Place("", 1, "", self.running)
        return place(self.code.co_filename, line_of(self.code, self.lasti), self.cell)

    @property
    def library_place(self) -> Place | None:
        """The library's line that asked for the value; None if the user's line did."""
        if self.library is None:
            return None
        code, lasti = self.library
        return place(code.co_filename, line_of(code, lasti))

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for equal lines.

        It has the id of the code object, whose hash would walk through the code. It has the line and not the
        offset, because the latter may change when Python 3.11 replaces instructions by faster ones.
        """
        identity = (id(self.code), line_of(self.code, self.lasti), self.running)
        if self.library is None:
            return identity
        return *identity, id(self.library[0]), line_of(*self.library)


def position_of(code: CodeType, lasti: int) -> CodePosition:
    """The instruction at ``lasti`` of the user's ``code``."""
    return CodePosition(code, lasti, _cells.get(code.co_filename), None)


def current_position(depth: int = 1) -> CodePosition:
    """The user's line that runs now.

    Arguments:
      depth: number of frames from this one to the first that may be the user's.
    """
    frame = lowest = sys._getframe(depth)
    asker = None
    while True:  # every break comes here, so known code costs no call
        code = frame.f_code
        kind = _is_user.get(id(code))
        user = kind[0] if kind is not None else is_user_code(code)
        above = frame.f_back
        if user or above is None:
            break
        if asker is None:
            kind = _ours.get(id(code))
            if not (kind[0] if kind is not None else is_library_internal(code)):
                asker = frame
        frame = above
    if not user:
        return _position_without_user_frame(lowest)
    callers: tuple[CodePosition, ...] = ()
    if code.co_flags & inspect.CO_OPTIMIZED or not _is_main(frame):
        callers = _callers(frame)
    by = (id(asker.f_code), asker.f_lasti) if asker is not None else None
    known = _positions.get(same := (id(code), frame.f_lasti, by, id(callers)))
    return known[0] if known is not None else _new_position(same, frame, asker, callers)


def _new_position(
    same: Any, frame: FrameType, asker: FrameType | None, callers: tuple[CodePosition, ...]
) -> CodePosition:
    """The spot of ``frame``, which :func:`here` finds by ``same`` from now on."""
    code, library = frame.f_code, None
    if asker is not None and not code_ownership.is_generated(asker.f_code.co_filename):
        library = asker.f_code, asker.f_lasti
    if len(_positions) > 10_000:
        _positions.clear()
    spot = CodePosition(code, frame.f_lasti, _cells.get(code.co_filename), None, library, callers)
    _positions[same] = spot, asker.f_code if asker is not None else None
    return spot


_positions: dict[tuple[Any, ...], tuple[CodePosition, CodeType | None]] = {}
"""Each value keeps alive what its key has the ids of."""


class _ThreadHandoff(threading.local):
    """The work of a thread.

    Attributes:
      spot: the user's line that handed it over; None if it is not known.
    """

    spot: CodePosition | None = None


thread_handoff = _ThreadHandoff()


def _position_without_user_frame(frame: FrameType) -> CodePosition:
    """The place where no line of the user's runs.

    That of the line that handed the work to this thread, of generated code, or of the running cell.
    """
    spot = thread_handoff.spot or getattr(threading.current_thread(), STARTED_AT, None)
    if spot is not None:
        return spot
    frames = [frame]
    while (above := frames[-1].f_back) is not None:
        frames.append(above)
    frame = _fallback_frame(frames)
    return CodePosition(frame.f_code, frame.f_lasti, _cells.get(frame.f_code.co_filename), _current_cell)


STARTED_AT = "_lazynb_started"
"""The attribute of a thread that has the user's line which started it."""

_CALLERS = 16  # lines
_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_SCRIPTS = os.path.join(sysconfig.get_paths()["scripts"], "")


def _callers(frame: FrameType) -> tuple[CodePosition, ...]:
    """The user's lines that called the function that runs in ``frame``, the nearest first, each once."""
    stack = [(frame.f_code, frame.f_lasti)]
    key = [id(frame.f_code), frame.f_lasti]
    above = frame.f_back
    while above is not None and len(stack) < _USER_FRAMES:  # every break comes here too
        code = above.f_code
        known = _is_user.get(id(code))
        if known[0] if known is not None else is_user_code(code):
            stack.append((code, above.f_lasti))
            key += (id(code), above.f_lasti)
            if code.co_name == "<module>" and _is_main(above):
                break
        above = above.f_back
    kept = _known_callers.get(same := tuple(key))
    if kept is None:
        if len(_known_callers) > 10_000:
            _known_callers.clear()
        kept = _known_callers[same] = stack, _positions_of_stack(stack)
    return kept[1]


_USER_FRAMES = 64
_known_callers: dict[tuple[int, ...], tuple[list[tuple[CodeType, int]], tuple[CodePosition, ...]]] = {}
"""By the stack's code and instructions; the code is kept alive, so that its ids stay its own."""


def _positions_of_stack(stack: list[tuple[CodeType, int]]) -> tuple[CodePosition, ...]:
    code, lasti = stack[0]
    found = {(code.co_filename, line_of(code, lasti))}
    spots: list[CodePosition] = []
    for caller, instruction in stack[1:]:
        if caller.co_filename.startswith(_SCRIPTS):
            continue
        line = caller.co_filename, line_of(caller, instruction)
        if line not in found and not _is_inline_scope(code, caller) and len(spots) < _CALLERS:
            spots.append(CodePosition(caller, instruction, _cells.get(caller.co_filename), None))
            found.add(line)
        code = caller
    return tuple(spots)


def _is_main(frame: FrameType) -> bool:
    """Whether ``frame`` is the cell, script or example itself, which no line of the user's calls."""
    if code_ownership.is_doctest(frame.f_code.co_filename):
        return True
    return frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__"


def _is_inline_scope(code: CodeType, caller: CodeType) -> bool:
    """Whether ``code`` is a comprehension or the body of a class in ``caller``: no line calls it."""
    if code.co_name not in _COMPREHENSIONS and code.co_flags & inspect.CO_OPTIMIZED:
        return False
    return any(code is constant for constant in caller.co_consts)


_ours: dict[int, tuple[bool, CodeType]] = {}


def is_library_internal(code: CodeType) -> bool:
    """Whether ``code`` is lazynb's or JAX's own; each use of a tensor goes through such code."""
    known = _ours.get(id(code))
    if known is None:
        if len(_ours) > 100_000:
            _ours.clear()
        jax_own = PACKAGE_FOLDER in code.co_filename or code.co_filename.startswith("<frozen")
        known = _ours[id(code)] = (code.co_filename.startswith(PACKAGE_ROOT) or jax_own), code
    return known[0]


USERS, OURS, MODULE, EXAMPLE = 1, 2, 4, 8


def code_kind(code: CodeType) -> int:
    """What :func:`here` asks of code: the sum of those above. ``OURS`` is lazynb's or JAX's, ``MODULE`` in no
    function, ``EXAMPLE`` in a docstring."""
    kind = USERS if is_user_code(code) else OURS if is_library_internal(code) else 0
    kind += MODULE if code.co_name == "<module>" else 0
    return kind + (EXAMPLE if code_ownership.is_doctest(code.co_filename) else 0)


class CallCounter:
    """Numbers the invocations of functions that the user calls, so that their operations can be drawn as one.

    Two operations in a row belong to one invocation if they come from the same instruction of the user and
    the same callee frame, and the second comes from a later instruction of the callee. (The next call may use
    the address of the frame again, but it starts from the top.) A loop inside the callee counts as several
    invocations. The number is only for drawings: no key depends on it.

    Attributes:
      number: of the last invocation.
    """

    __slots__ = ("_call", "_position", "number")

    def __init__(self) -> None:
        self._call: tuple[int, int, int] = (0, 0, 0)
        self._position: list[int] = []
        self.number = 0

    def of(self, frame: FrameType, below: Sequence[FrameType], known: int) -> int:
        """The number of the invocation whose frames are ``below``, called from ``frame``.

        Arguments:
          known: the number that a landmark has of the call; 0 if there is none.
        """
        if known:
            call = (id(frame), frame.f_lasti, -known)
            self.number += call != self._call
            self._call, self._position = call, []
            return self.number
        call = (id(frame), frame.f_lasti, id(below[0]) if below else 0)
        position = [callee.f_lasti for callee in below]
        if not below or call != self._call or position <= self._position:
            self.number += 1
        self._call, self._position = call, position
        return self.number

    @property
    def last(self) -> int:
        """The same for all operations of the last call, loops inside the callee included; a later call from
        there may have it too."""
        return hash(self._call)
