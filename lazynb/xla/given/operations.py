"""The operations of a program that was not recorded, as a graph of nodes; a node's number is its mark."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.source import Place
from lazynb.xla.hlo.module import Mark
from lazynb.xla.origins import Origins

Reference = tuple[int, int]
"""A node, and which of its results."""


@dataclasses.dataclass(frozen=True)
class Around:
    """The calls that an operation stands in.

    Attributes:
      path: the name stack of the innermost call.
      name: of the function that is called; None for the program itself.
      number: of the call.
      place: the user's line of the call.
    """

    path: tuple[str, ...] = ()
    name: str | None = None
    number: int | None = None
    place: Place | None = None


@dataclasses.dataclass(frozen=True)
class Read:
    """What was read of a program.

    Attributes:
      snapshot: its operations and inputs.
      origins: by mark, argument and result.
    """

    snapshot: Snapshot
    origins: Origins


class Operations:
    """Takes the operations in their order: what one reads must be there before."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._inputs: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def input(self, aval: str, name: str = "") -> Reference:
        """Adds the next input."""
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
        around: Around | None = None,
    ) -> int:
        """Adds an operation; gives its mark.

        Arguments:
          path: the names that JAX gave it, the innermost last.
          around: the call that it stands in.
        """
        around = around or Around()
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

    def read(self, results: Sequence[Reference]) -> Read:
        """All of them.

        Arguments:
          results: of the program.
        """
        for number in {node for node, _ in results}:
            self._nodes[number] = dataclasses.replace(self._nodes[number], output=True)
        operations: dict[Mark, int] = {(node.id,): node.id for node in self._nodes if node.kind == "op"}
        origins = Origins(operations, dict(self._inputs), tuple(results))
        return Read(Snapshot(tuple(self._nodes)), origins)


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
_LETTERS = {"f": "float", "i": "int", "si": "int", "s": "int", "ui": "uint", "u": "uint"}


def aval(element: str, sizes: Sequence[str]) -> str:
    """``float32[8,4]``, of an element type as HLO or MLIR writes it."""
    written = re.fullmatch(r"([a-z]+)(\d+)(\w*)", element)
    name = _TYPES.get(element, "")
    if not name and written is not None and written[1] in _LETTERS:
        rest = f"_{written[3].lower()}" if written[3] else ""
        name = f"{_LETTERS[written[1]]}{written[2]}{rest}"
    return f"{name or element}[{','.join(sizes)}]"
