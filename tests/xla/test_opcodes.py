"""The table of opcodes: nobody else has a list of its own, and each column is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lazynb
from lazynb.xla.hlo.opcodes import OPCODES, OpcodeKind, Trait, opcodes_of

PACKAGE = Path(lazynb.__file__).parent
TABLE = PACKAGE / "xla" / "hlo" / "opcodes.py"
FOLDERS = ("xla", "compare/costs", "compare/misses", "report", "notebook")
FILES = sorted(path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py") if path != TABLE)
COLLECTIONS = (ast.Set, ast.Tuple, ast.List, ast.Dict)


def opcode_lists(text: str) -> list[tuple[int, list[str]]]:
    """The collections of three or more opcodes in a module: line and opcodes. Unions of smaller ones, and texts
    that are split into words, are collections too."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (*COLLECTIONS, ast.BinOp, ast.Call)):
            known = [word for word in words_of(node) if word in OPCODES]
            if len(known) >= 3:
                found.append((node.lineno, known))
    return found


def words_of(node: ast.AST) -> Iterator[str]:
    """The texts that a collection holds."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.BinOp):
        yield from words_of(node.left)
        yield from words_of(node.right)
    elif isinstance(node, ast.Dict):
        yield from (word for key in node.keys if key for word in words_of(key))
    elif isinstance(node, COLLECTIONS):
        yield from (word for element in node.elts for word in words_of(element))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        yield from (word for text in words_of(node.func.value) for word in text.split())
    elif isinstance(node, ast.Call):
        yield from (word for argument in node.args for word in words_of(argument))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_other_module_has_a_list_of_opcodes(path):
    assert opcode_lists(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        'NO_WORK = frozenset({"parameter", "constant", "tuple"})',
        'if one.opcode in ("while", "conditional", "call"):\n    pass',
        '_CHEAP = frozenset("add and bitcast".split())',
        '_RUNNING = {"while", "call"} | frozenset(["fusion"])',
        'COSTS = {"dot": 2, "add": 1, "convolution": 2}',
    ],
)
def test_a_list_of_opcodes_is_found(planted):
    """Planted: the test above would fail."""
    assert opcode_lists((PACKAGE / "xla" / "hlo" / "clusters.py").read_text() + "\n" + planted)


def test_each_folder_has_modules():
    """A folder that moved would leave its modules unread."""
    assert all(any((PACKAGE / folder).glob("*.py")) for folder in FOLDERS)


def test_each_trait_is_used():
    text = "\n".join(path.read_text() for path in FILES)
    assert {name for name in Trait.__members__ if not re.search(rf"\bTrait\.{name}\b", text)} == set()
    assert "opcodes_of(OpcodeKind." in text


def test_each_kind_and_trait_has_an_opcode():
    assert all(opcodes_of(group) for group in (*OpcodeKind, *Trait))


def test_the_table_is_sorted_and_has_all_opcodes_of_xla():
    """XLA's list had 136 opcodes when it was copied; a new one is a row, in the order of names."""
    assert list(OPCODES) == sorted(OPCODES) and len(OPCODES) >= 136
    assert {"add", "all-reduce", "custom-call", "fusion", "mulhi", "scaled-dot", "while"} <= OPCODES.keys()


def test_traits_that_imply_each_other_agree():
    """One fact follows from another."""
    control, free = opcodes_of(OpcodeKind.CONTROL), opcodes_of(OpcodeKind.FREE)
    assert control < opcodes_of(Trait.RUNS) and control < opcodes_of(Trait.UNFUSIBLE)
    assert opcodes_of(Trait.RENAMES) < free
    assert opcodes_of(Trait.COMMUTES) < opcodes_of(OpcodeKind.ELEMENTWISE)
    assert opcodes_of(Trait.DISTINCT) <= opcodes_of(Trait.SEPARATE)
    assert not opcodes_of(Trait.CHEAP) & opcodes_of(Trait.CHEAP_IF_REAL)
    assert not opcodes_of(Trait.CPU_LOOP) & opcodes_of(OpcodeKind.ELEMENTWISE)
