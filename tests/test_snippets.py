"""The snippets of the README and the documentation: each is one cell, and can be copied as it stands."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = [
    pytest.param(found[1], id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, found in enumerate(BLOCK.finditer(page.read_text()), 1)
]


def test_more_than_fifty_snippets_are_found():
    assert len(SNIPPETS) > 50 and "%load_ext lazynb" in BLOCK.findall((ROOT / "README.md").read_text())[0]


@pytest.mark.parametrize("text", SNIPPETS)
def test_a_snippet_is_one_cell(text):
    from IPython.core.inputtransformer2 import TransformerManager

    lines = [line for line in text.splitlines() if line.strip() and not re.match(r":\w|---$", line)]
    magics = [at for at, line in enumerate(lines) if line.startswith("%%")]
    assert magics in ([], [0]), "a cell magic in the middle is an error when it is copied into one cell"
    cell = "\n".join(lines) + "\n"
    while cell.startswith("%%"):  # its body is what the magic runs
        cell = cell.partition("\n")[2]
    ast.parse(TransformerManager().transform_cell(cell))
