"""Layers import downwards only, and private names of JAX stand in one module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "lazynb"
ORDER = ["base", "record", "execute", "frontends", "torch", "xla", "view", "notebook", "cli"]
FILES = sorted(PACKAGE.rglob("*.py"))


def layer(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "base"


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


def violations(text: str, own: str) -> list[str]:
    """The imports in ``text``, a module of layer ``own``, that go upwards."""
    wrong = []
    for name in imported(ast.parse(text)):
        parts = name.split(".")
        if parts[0] == "lazynb" and len(parts) > 1:
            target = parts[1] if parts[1] in ORDER else "base"
            if ORDER.index(target) > ORDER.index(own):
                wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path):
    if path in (PACKAGE / "__init__.py", PACKAGE / "__main__.py", PACKAGE / "numpy.py"):
        pytest.skip("a façade imports what it shows")
    assert violations(path.read_text(), layer(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_private_names_of_jax_stand_in_one_module(path):
    if path.name == "_jax_compat.py":
        return
    private = [name for name in imported(ast.parse(path.read_text())) if name.startswith(("jax._src", "jaxlib._"))]
    assert private == []


def test_execute_knows_no_analysis_and_xla_no_notebook():
    for path in (PACKAGE / "execute").glob("*.py"):
        assert not [name for name in imported(ast.parse(path.read_text())) if name.startswith(("lazynb.xla", "lazynb.view"))]


def test_the_test_finds_a_violation():
    assert violations("from lazynb.view.graph.graph import Graph", "record") == ["lazynb.view.graph.graph", "lazynb.view.graph.graph.Graph"] or (
        set(violations("from lazynb.view.graph.graph import Graph", "record")) == {"lazynb.view.graph.graph", "lazynb.view.graph.graph.Graph"})
    assert violations("import lazynb.record.trie", "execute") == []


def test_the_package_needs_no_notebook_packages():
    core = [path for path in FILES if layer(path) != "notebook" and path != PACKAGE / "cli" / "notebook.py"]
    for path in core:
        wrong = {"IPython", "ipywidgets", "ipykernel"} & {name.split(".")[0] for name in imported(ast.parse(path.read_text()))}
        assert not wrong, (path, wrong)
