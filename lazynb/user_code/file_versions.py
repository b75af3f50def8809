"""The texts that the user's files had: a code object is shown with the text from which it was compiled.

A module may be edited, and reloaded (``%autoreload``), while operations of its older code are still shown.
IPython compiles a changed function alone, from its unparsed syntax tree, so its line numbers are not those of
the file.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import NamedTuple

from lazynb.user_code.source_files import lines_of_file

_STARTED = time.time_ns()
_KEPT = 20  # texts of a file
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Located(NamedTuple):
    """Where the source of a code object is.

    Attributes:
      lines: the lines of the file; none if the text is gone.
      numbers: the line number of each instruction; None if they are those of the code.
    """

    lines: Sequence[str]
    numbers: Sequence[int] | None = None


class FileVersion:
    """One text of a file.

    Attributes:
      stamp: modification time and size.
      lines: the lines.
    """

    def __init__(self, file: str, stamp: tuple[int, int]):
        linecache.checkcache(file)
        self.stamp = stamp
        self.lines: Sequence[str] = lines_of_file(file)

    @functools.cached_property
    def _parsed(self) -> tuple[ast.AST, list[CodeType]]:
        text = "".join(self.lines)
        try:
            return ast.parse(text), list(_codes_of(text))
        except (SyntaxError, ValueError):
            return ast.Module([], []), []

    def locate(self, code: CodeType) -> Located | None:
        """Where the source of ``code`` is in this text; None if the text does not contain it."""
        tree, codes = self._parsed
        if any(one.co_name == code.co_name and one == code for one in codes):
            return Located(self.lines)
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS):
                for snippet in _snippets(node):
                    if any(one.co_name == code.co_name and one == code for one in _codes_of(snippet)):
                        return Located(self.lines, _numbers(code, ast.parse(snippet), node))
        return None


def _codes_of(text: str) -> Iterator[CodeType]:
    waiting = [compile(text, "", "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _snippets(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The texts from which IPython compiles a function alone, or a method."""
    text = ast.unparse(node)
    yield text
    yield "class __autoreload_class__:\n" + textwrap.indent(text, "    ")


def _numbers(code: CodeType, snippet: ast.AST, original: ast.AST) -> list[int]:
    """The line number of each instruction of ``code``, compiled from ``snippet``, in the text of
    ``original``."""
    own = next(node for node in ast.walk(snippet) if isinstance(node, _FUNCTIONS))
    lines: dict[tuple[int | None, ...], int] = {}
    for node, other in zip(ast.walk(own), ast.walk(original), strict=False):
        if type(node) is not type(other):
            break
        if isinstance(node, ast.expr | ast.stmt) and isinstance(other, ast.expr | ast.stmt):
            at = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
            lines.setdefault(at, other.lineno)
            lines.setdefault((node.lineno,), other.lineno)
    first = getattr(original, "lineno", 1)
    return [lines.get(at, lines.get(at[:1], first)) for at in code.co_positions()]


_versions: dict[str, list[FileVersion]] = {}
_chosen: dict[int, tuple[CodeType, Located, int]] = {}  # by id of the code; for a number of versions


def note_version(file: str) -> None:
    """Keeps the text of ``file`` if it is new. Called when code of the file is first seen."""
    stamp = _stamp(file)
    if stamp is None:  # not a file, as a line that is typed in
        return
    known = _versions.setdefault(file, [])
    if not known or known[-1].stamp != stamp:
        known.append(FileVersion(file, stamp))
        del known[:-_KEPT]


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def located(code: CodeType) -> Located | None:
    """Where the source of ``code`` is; None if its file has had one text only, or it is in no file."""
    known = _versions.get(code.co_filename, [])
    if not known or (len(known) == 1 and known[0].stamp[0] < _STARTED):
        return None
    chosen = _chosen.get(id(code))
    if chosen is None or chosen[2] != len(known):
        if len(_chosen) > 10_000:
            _chosen.clear()
        found = next((place for one in reversed(known) if (place := one.locate(code)) is not None), None)
        chosen = _chosen[id(code)] = code, found or Located(()), len(known)
    return chosen[1]


def lines_with(file: str, texts: Mapping[int, str]) -> Sequence[str]:
    """The newest lines of ``file`` that have ``texts`` at these line numbers; none if there are none.

    Arguments:
      texts: stripped texts; an empty one is not known.
    """
    for lines in [*(one.lines for one in reversed(_versions.get(file, []))), lines_of_file(file)]:
        told = {number: lines[number - 1].strip() if number <= len(lines) else None for number in texts}
        if all(told[number] == text for number, text in texts.items() if text):
            return lines
    return ()
