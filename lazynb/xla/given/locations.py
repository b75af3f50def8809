"""Where the instructions of a program were written: names and frames that JAX left in StableHLO and HLO."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from lazynb import source
from lazynb.source import Place, is_user_file

Frame = tuple[str, int]
"""A file and a line of it."""

_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')
_FRAME = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2})")


def path_of(location: str) -> list[str]:
    """The name stack in a location as MLIR writes it, ``loc("jit(step)/mul"(...))``; empty if it has none."""
    match = _NAME.match(location)
    return parts(_plain(match[1])) if match is not None else []


def frames_of(location: str) -> list[Frame]:
    """The frames in a location as MLIR writes it, the innermost first."""
    return [(_plain(file), int(line)) for file, line in _FRAME.findall(location)]


def parts(path: str) -> list[str]:
    """The names of a name stack. One may hold a slash within parentheses: ``jit(a)/transpose(jvp(b/c))``."""
    found, depth, name = [], 0, ""
    for letter in path:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth <= 0:
            found.append(name)
            name = ""
        else:
            name += letter
    return [*found, name]


def _plain(text: str) -> str:
    """A string of MLIR's: other letters than ASCII are written as bytes."""
    if "\\" not in text:
        return text
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text.replace("\\\\", "\\5C").replace('\\"', '"'))
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return raw


def place_of(frames: Sequence[Frame], otherwise: Place | None = None) -> Place | None:
    """The user's line that is nearest, of ``frames`` with the innermost first; ``otherwise`` if none is the
    user's, and without that the innermost."""
    for file, line in frames:
        if is_user_file(file):
            return source.place(file, line)
    if otherwise is not None or not frames:
        return otherwise
    return source.place(*frames[0])


class Frames:
    """The frames that a module of HLO tells of its instructions, in tables in front of them or in their own
    lines.

    Arguments:
      text: of the module.
    """

    def __init__(self, text: str):
        self._text = text.partition("\n\n%")[0].partition("\nENTRY ")[0]

    def of(self, line: str) -> list[Frame]:
        """Those of the instruction in ``line``, the innermost first."""
        number = _FRAME_ID.search(line)
        if number is not None:
            return self._stack(int(number[1]))
        file, at = _FILE.search(line), _LINE.search(line)
        return [(file[1], int(at[1]))] if file is not None and at is not None else []

    def _stack(self, number: int) -> list[Frame]:
        found = []
        while number in self._parents:
            location, number = self._parents[number]
            if location in self._lines:
                file, line = self._lines[location]
                found.append((self._files.get(file, ""), line))
        return found

    @cached_property
    def _files(self) -> dict[int, str]:
        table = self._table("FileNames")
        return {int(number): name for number, name in re.findall(r'^(\d+) "(.*)"$', table, re.MULTILINE)}

    @cached_property
    def _lines(self) -> dict[int, tuple[int, int]]:
        """By number of a location, the number of its file and the line."""
        rows = re.findall(
            r"^(\d+) \{file_name_id=(\d+).*?\bline=(\d+)", self._table("FileLocations"), re.MULTILINE
        )
        return {int(number): (int(file), int(line)) for number, file, line in rows}

    @cached_property
    def _parents(self) -> dict[int, tuple[int, int]]:
        """By number of a frame, its location and the number of the frame around it; 0 for none. XLA prints
        that number with 1 added: the first frame, around which there is none, says 1."""
        rows = re.findall(r"^(\d+) \{(.*)\}$", self._table("StackFrames"), re.MULTILINE)
        found = {}
        for number, fields in rows:
            known = dict(re.findall(r"(\w+)=(\d+)", fields))
            found[int(number)] = int(known.get("file_location_id", 0)), int(known.get("parent_frame_id", 0))
        above = 1 if any(parent >= number for number, (_, parent) in found.items()) else 0
        return {number: (location, parent - above) for number, (location, parent) in found.items()}

    def _table(self, name: str) -> str:
        _, _, rest = self._text.partition(f"\n{name}\n")
        return rest.partition("\n\n")[0]


class Lines:
    """Where instructions stand in their own file.

    Arguments:
      text: of the file.
    """

    def __init__(self, text: str, file: str):
        self._file = file
        self._numbers: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            match = _INSTRUCTION.match(line)
            if match is not None:
                self._numbers.setdefault(match[1], number)

    def of(self, name: str) -> list[Frame]:
        """That of an instruction, as a frame; none if it is not there."""
        number = self._numbers.get(name)
        return [] if number is None else [(self._file, number)]


_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_FRAME_ID = re.compile(r"\bstack_frame_id=(\d+)")
_FILE = re.compile(r'\bsource_file="([^"]*)"')
_LINE = re.compile(r"\bsource_line=(\d+)")
