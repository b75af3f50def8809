"""Source lines of instructions, from names and frames that JAX left in StableHLO and HLO; and
``OperationReader``, which builds the graph of a program that lazynb did not record."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.user_code import source_lines
from lazynb.user_code.code_ownership import is_user_file
from lazynb.user_code.source_lines import Place
from lazynb.xla.hlo.module import Mark
from lazynb.xla.program_origins import ProgramOrigins

Frame = tuple[str, int]
"""A file and a line number."""

_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')
_FRAME = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2})")


def path_of(location: str) -> list[str]:
    """The name stack in an MLIR location, ``loc("jit(step)/mul"(...))``; empty if it has none."""
    match = _NAME.match(location)
    return split_name_stack(_unescape_mlir(match[1])) if match is not None else []


def frames_of(location: str) -> list[Frame]:
    """The frames in an MLIR location, innermost first."""
    return [(_unescape_mlir(file), int(line)) for file, line in _FRAME.findall(location)]


def split_name_stack(path: str) -> list[str]:
    """Splits a name stack into names. A name may contain a slash inside parentheses:
    ``jit(a)/transpose(jvp(b/c))``."""
    found, depth, name = [], 0, ""
    for letter in path:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth <= 0:
            found.append(name)
            name = ""
        else:
            name += letter
    return [*found, name]


def _unescape_mlir(text: str) -> str:
    """Unescapes an MLIR string, which writes non-ASCII letters as bytes."""
    if "\\" not in text:
        return text
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text.replace("\\\\", "\\5C").replace('\\"', '"'))
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return raw


def user_place(frames: Sequence[Frame], otherwise: Place | None = None) -> Place | None:
    """The innermost of ``frames`` in the user's code; else ``otherwise``; without that, the innermost
    frame."""
    for file, line in frames:
        if is_user_file(file):
            return source_lines.place(file, line)
    if otherwise is not None or not frames:
        return otherwise
    return source_lines.place(*frames[0])


class HloFrames:
    """The frames of HLO instructions, from tables before the computations or from the instructions' lines.

    Arguments:
      text: of the module.
    """

    def __init__(self, text: str):
        self._text = text.partition("\n\n%")[0].partition("\nENTRY ")[0]

    def of(self, line: str) -> list[Frame]:
        """The frames of the instruction in ``line``, innermost first."""
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
        """By number of a frame, its location and the number of its parent frame; 0 for none. XLA prints the
        parent's number plus 1: the first frame, which has no parent, has 1."""
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


class FileLines:
    """The lines of instructions in their own file.

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
        """The line of an instruction as a frame; empty if it is not in the file."""
        number = self._numbers.get(name)
        return [] if number is None else [(self._file, number)]


_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_FRAME_ID = re.compile(r"\bstack_frame_id=(\d+)")
_FILE = re.compile(r'\bsource_file="([^"]*)"')
_LINE = re.compile(r"\bsource_line=(\d+)")


# ---- Graph of the operations of an external program --------------------------------------------------------
# The number of a node is its mark.

Reference = tuple[int, int]
"""A node, and the number of its result."""


@dataclasses.dataclass(frozen=True)
class CallContext:
    """The calls around an operation.

    Attributes:
      path: the name stack of the innermost call.
      name: of the called function; None for the program itself.
      number: of the call.
      place: the user's line of the call.
    """

    path: tuple[str, ...] = ()
    name: str | None = None
    number: int | None = None
    place: Place | None = None


@dataclasses.dataclass(frozen=True)
class ReadProgram:
    """An external program: its operations and inputs, and their nodes by mark, argument and result."""

    snapshot: Snapshot
    origins: ProgramOrigins


class OperationReader:
    """Builds the graph from operations in order: operands must be added before their readers."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._inputs: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def input(self, aval: str, name: str = "") -> Reference:
        node = self._node("input", name or "input", "", (), (aval,))
        self._inputs[len(self._inputs)] = node.id
        if name:
            self._nodes[-1] = dataclasses.replace(node, names=(name,))
        return node.id, 0

    def operation(
        self,
        name: str,
        operands: Iterable[Reference],
        avals: Sequence[str],
        place: Place | None,
        path: Sequence[str] = (),
        around: CallContext | None = None,
    ) -> int:
        """Adds an operation; returns its mark.

        Arguments:
          path: its name stack from JAX, innermost last.
          around: the calls around it.
        """
        around = around or CallContext()
        node = self._node("op", name, name, tuple(dict.fromkeys(operands)), tuple(avals))
        self._nodes[-1] = dataclasses.replace(
            node,
            place=place,
            call=around.name,
            call_id=around.number,
            scope="/".join(each for each in path[:-1] if not each.startswith("jit(")),
            result_names=((),) * len(avals),
        )
        return node.id

    def _node(
        self, kind: str, name: str, primitive: str, operands: tuple[Reference, ...], avals: tuple[str, ...]
    ) -> Node:
        node = Node(
            id=len(self._nodes),
            kind=kind,
            name=name,
            primitive=primitive,
            operands=operands,
            avals=avals,
            place=None,
            call=None,
            call_id=None,
            scope="",
            names=(),
            value=None,
            output=False,
        )
        self._nodes.append(node)
        return node

    def read(self, results: Sequence[Reference]) -> ReadProgram:
        """The finished graph, with ``results`` as its outputs."""
        for number in {node for node, _ in results}:
            self._nodes[number] = dataclasses.replace(self._nodes[number], output=True)
        operations: dict[Mark, int] = {(node.id,): node.id for node in self._nodes if node.kind == "op"}
        origins = ProgramOrigins(operations, dict(self._inputs), tuple(results))
        return ReadProgram(Snapshot(tuple(self._nodes)), origins)


_TYPES = {
    "pred": "bool",
    "i1": "bool",
    "bf16": "bfloat16",
    "token": "token",
    "c64": "complex64",
    "c128": "complex128",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
_DTYPE_KINDS = {"f": "float", "i": "int", "si": "int", "s": "int", "ui": "uint", "u": "uint"}


def format_aval(element: str, sizes: Sequence[str]) -> str:
    """Formats a type as ``float32[8,4]``, from an element type in HLO's or MLIR's notation."""
    written = re.fullmatch(r"([a-z]+)(\d+)(\w*)", element)
    name = _TYPES.get(element, "")
    if not name and written is not None and written[1] in _DTYPE_KINDS:
        rest = f"_{written[3].lower()}" if written[3] else ""
        name = f"{_DTYPE_KINDS[written[1]]}{written[2]}{rest}"
    return f"{name or element}[{','.join(sizes)}]"
