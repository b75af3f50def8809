"""Bodies of cell magics (``%%time``, ``%%timeit``, ``%%prun``, ...), and the code compiled from them.

A magic compiles its body under a name of its own, such as ``<timed exec>`` or ``<string>``. Its code is
recognised by the positions of its instructions: they are those of the body, compiled alone.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import functools
from collections.abc import Callable, Iterator
from types import CodeType
from typing import NamedTuple

# ---- Bodies ---------------------------------------------------------------------------------------------


def _blank_lines(text: str) -> int:
    """Number of empty lines at the beginning of ``text``, which IPython drops."""
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines) if line.strip()), 0)


def _ends_with(lines: list[str], end: list[str]) -> bool:
    return [line.strip() for line in lines[len(lines) - len(end) :]] == [line.strip() for line in end]


class MagicBody:
    """The body of a cell magic.

    Arguments:
      text: the body as typed.
      cell: the whole cell as typed. A body that is not its end was not typed; its magic is then line 1.
      transform: IPython's function that makes Python of a cell.
      register: registers the typed text of the body, beginning with empty lines for the lines before it, as
        a part of the cell; returns its file name. Its first argument is the text that is compiled.

    Attributes:
      lines: the lines of the body.
      before: number of lines before the body, in the cell without the empty lines at its beginning.
    """

    def __init__(
        self,
        text: str,
        cell: str,
        transform: Callable[[str], str],
        register: Callable[[str, str], str],
    ):
        self.text = text
        self.lines = text.splitlines()
        whole = cell.splitlines()[_blank_lines(cell) :]
        own = len(whole) > len(self.lines) and _ends_with(whole, self.lines)
        self.before = len(whole) - len(self.lines) if own else 1
        self._transform = transform
        self._register = register

    def as_typed(self, text: str) -> str | None:
        """``text``, which ends with the body, after an empty line for each line of the cell before it; None
        for another text."""
        more = len(text.splitlines()) - len(self.lines)
        if not 0 <= more <= self.before or not _ends_with(text.splitlines(), self.lines):
            return None
        return "\n" * (self.before - more) + text

    def compiled_text(self, text: str) -> str:
        """Python of ``text``, with the line numbers of the cell."""
        typed = self.as_typed(text)
        return "\n" * (_blank_lines(typed) if typed is not None else 0) + self._transform(text)

    @functools.cached_property
    def file(self) -> str:
        """The file name under which the body is registered."""
        return self._register(self.compiled_text(self.text), "\n" * self.before + self.text)

    @functools.cached_property
    def positions(self) -> set[Position]:
        """The positions of all instructions of the body, with the line numbers of the cell."""
        try:
            code = compile(self.compiled_text(self.text), "", "exec", _AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError):
            return set()
        return set().union(*map(_positions, _codes(code)))

    @functools.cached_property
    def names(self) -> set[str]:
        """The names of its functions and classes."""
        try:
            tree = ast.parse(self.compiled_text(self.text))
        except (SyntaxError, ValueError):
            return set()
        return {getattr(node, "name", "<lambda>") for node in ast.walk(tree) if isinstance(node, _SCOPES)}


_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_INLINE = frozenset(("<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))

bodies: collections.deque[MagicBody] = collections.deque(maxlen=100)
"""The newest bodies, the last one last."""

_running: list[MagicBody] = []


@contextlib.contextmanager
def running(body: MagicBody) -> Iterator[None]:
    """Notes that the magic of ``body`` runs."""
    depth = len(_running)
    _running.append(body)
    bodies.append(body)
    try:
        yield
    finally:
        del _running[depth:]


def running_body() -> MagicBody | None:
    """The body of the innermost magic that runs."""
    return _running[-1] if _running else None


# ---- Code of bodies -------------------------------------------------------------------------------------

Position = tuple[int | None, int | None, int | None, int | None]


class BodyCode(NamedTuple):
    """Code that was compiled from the body of a cell magic.

    Attributes:
      file: the file name of the body.
      before: number of lines to add to its line numbers; 0 if they are those of the cell.
      code: the code object, which keeps its id valid.
    """

    file: str
    before: int
    code: CodeType


_known: dict[int, BodyCode] = {}
_KEPT = 10_000


def body_code(code: CodeType) -> BodyCode | None:
    """The body from which ``code`` was compiled; None for other code, and before :func:`find_body`."""
    return _known.get(id(code)) if _known else None


def file_of(code: CodeType) -> str:
    """The file name of ``code``, or of the notebook cell for code of a cell magic's body."""
    known = body_code(code)
    return known.file if known is not None else code.co_filename


def is_timed(code: CodeType) -> bool:
    """Whether ``code`` is the function in which ``%%timeit`` runs a body."""
    return code.co_name == "inner" and code.co_varnames[:2] == ("_it", "_timer")


def find_body(code: CodeType) -> BodyCode | None:
    """Searches the body from which ``code`` was compiled, the newest first.

    Code at the level of a module runs only while its magic does.
    """
    is_module = code.co_name == "<module>" or is_timed(code)
    for body in reversed(_running if is_module else bodies):
        shares = [(_share(code, body, before), -before) for before in {0, body.before}]
        share, before = max(shares)
        if share > 0.5:
            if len(_known) >= _KEPT:
                _known.clear()
            for one in _codes(code):
                _known[id(one)] = BodyCode(body.file, -before, one)
            return _known[id(code)]
    return None


def _share(code: CodeType, body: MagicBody, before: int) -> float:
    """The share of the positions of ``code`` that ``body`` has, if ``before`` lines are added to them."""
    positions = _positions(code)
    if is_timed(code):
        positions = {at for at in positions - _TEMPLATE if (at[0] or 0) > body.before - before}
    elif code.co_name not in _INLINE and code.co_name not in body.names:
        return 0.0
    moved = {(_moved(at[0], before), _moved(at[1], before), at[2], at[3]) for at in positions}
    return len(moved & body.positions) / len(moved) if moved else 0.0


def _moved(line: int | None, by: int) -> int | None:
    return None if line is None else line + by


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _positions(code: CodeType) -> set[Position]:
    """The positions of instructions that have a length, so without those that only begin a function."""
    return {at for at in code.co_positions() if None not in at and at[2:] != (0, 0)}


def _template() -> set[Position]:
    lines = ("s", "_t0 = _timer()", "for _i in _it:", "    s", "_t1 = _timer()", "return _t1 - _t0")
    text = "\n    ".join(("def inner(_it, _timer):", *lines))
    return set().union(*map(_positions, _codes(compile(text, "", "exec", dont_inherit=True))))


_TEMPLATE = _template()
"""The positions of the function around the statements of ``%%timeit``."""
