"""Layers import downwards only, no modules import each other in a circle, and private names of JAX stand in
one folder."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import lazynb

PACKAGE = Path(__file__).parent.parent / "lazynb"
ORDER = [
    "jax_compat",
    "user_code",
    "base",
    "recording",
    "running",
    "frontends",
    "xla",
    "compare",
    "report",
    "notebook",
    "cli",
]
"""The folders of the package, the lowest first; ``base`` stands for the modules that lie in none."""

FACADES = {"lazynb", "lazynb.__main__", "lazynb.numpy", "lazynb.torch"}
"""Modules that only show what others hold."""

PROCESSES = {"lazynb.xla.targets.compiler_worker", "lazynb.report.inspection.program_worker"}
"""Modules that run as processes of their own."""


def name_of(path: Path) -> str:
    """``lazynb.recording.trie``"""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted({path.parent for path in FILES} - {PACKAGE})
TEXTS = {name_of(path): path.read_text() for path in FILES}


def layer(module: str) -> str:
    """The folder that a module lies in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else "base"


@functools.cache
def imported(text: str) -> frozenset[str]:
    """What a module imports, at its top or later: names with the modules they come from. What only a type
    checker reads is never imported."""
    found = set()
    for node in _nodes(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return frozenset(found)


def _nodes(tree: ast.AST):
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            waiting.extend(ast.iter_child_nodes(node))


def violations(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """The imports that go upwards: who, and what."""
    return sorted(
        (module, name)
        for module, text in texts.items()
        if module not in FACADES
        for name in imported(text)
        if name.startswith("lazynb.") and ORDER.index(layer(name)) > ORDER.index(layer(module))
    )


def modules_imported(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """By module, those of the package's that it imports."""
    return {
        module: {_module(name, texts) for name in imported(text)} - {"", module}
        for module, text in texts.items()
    }


def _module(name: str, texts: Mapping[str, str]) -> str:
    """The module of the package's that ``name`` is, or comes from."""
    return name if name in texts else next(iter({name.rpartition(".")[0]} & set(texts)), "")


def circle(needs: Mapping[str, set[str]]) -> list[str]:
    """A circle, if there is one."""
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def folders_imported(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """By folder, those that its modules import. What lies in a folder beside smaller folders may import these
    and be imported by them, so only folders that hold no others count."""
    folders = {
        name_of(path) for path in PACKAGE.rglob("*") if path.is_dir() and (path / "__init__.py").exists()
    }
    smallest = {folder for folder in folders if not any(other.startswith(f"{folder}.") for other in folders)}
    found: dict[str, set[str]] = {folder: set() for folder in smallest}
    for module, others in modules_imported(texts).items():
        own = _folder(module, smallest)
        found.setdefault(own, set()).update({_folder(other, smallest) for other in others} - {own})
    found.pop("", None)
    return {folder: others - {""} for folder, others in found.items()}


def _folder(module: str, folders: set[str]) -> str:
    return module if module in folders else next(iter({module.rpartition(".")[0]} & folders), "")


def test_imports_go_downwards():
    assert violations(TEXTS) == []


def test_no_modules_import_each_other_in_a_circle():
    assert circle(modules_imported(TEXTS)) == []


def test_no_folders_import_each_other_in_a_circle():
    needs = folders_imported(TEXTS)
    assert {"lazynb.user_code", "lazynb.xla.hlo", "lazynb.report.graph"} <= set(
        needs
    ) and "lazynb.xla" not in needs
    assert circle(needs) == []


def alone(texts: Mapping[str, str]) -> list[str]:
    """The modules that no other one imports. What such a module registers is never registered."""
    used = set().union(*modules_imported(texts).values())
    packages = {name_of(path) for path in FILES if path.stem == "__init__"}
    return sorted(set(texts) - used - packages - FACADES - PROCESSES)


def test_each_module_is_imported_by_another():
    assert alone(TEXTS) == []
    kept = [
        line
        for line in TEXTS["lazynb.frontends.torch.device_switch"].splitlines()
        if line.strip() != "recurrent_ops,"
    ]
    assert alone({**TEXTS, "lazynb.frontends.torch.device_switch": "\n".join(kept)}) == [
        "lazynb.frontends.torch.ops.recurrent_ops"
    ]


def test_planted_violations_are_found():
    """Planted: each of the tests above would fail."""
    up = {
        **TEXTS,
        "lazynb.recording.trie": TEXTS["lazynb.recording.trie"]
        + "\ndef late():\n    from lazynb.report.graph import graph_view\n",
    }
    assert ("lazynb.recording.trie", "lazynb.report.graph.graph_view") in violations(up)
    deferred = {
        **TEXTS,
        "lazynb.running.miss_log": TEXTS["lazynb.running.miss_log"]
        + "\ndef late():\n    import lazynb.running.flush\n",
    }
    assert {"lazynb.running.miss_log", "lazynb.running.flush"} <= set(circle(modules_imported(deferred)))
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import lazynb.running.flush\n"
    assert circle(modules_imported({**TEXTS, "lazynb.running.miss_log": for_types})) == []
    folders = {
        **TEXTS,
        "lazynb.xla.hlo.module": "import lazynb.xla.fates.fate_assignment",
    }
    assert {"lazynb.xla.hlo", "lazynb.xla.fates"} <= set(circle(folders_imported(folders)))


def test_the_table_of_rooms_is_the_order_of_imports():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    rooms = re.findall(r"^\| `lazynb/([a-z_]*)/?` \|", text, re.MULTILINE)
    assert [room or "base" for room in rooms] == ORDER


@pytest.mark.parametrize("folder", ROOMS, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_the_docstring_of_a_room_names_each_module_in_it(folder):
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    folders = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert modules | folders <= set(re.findall(r"``(\w+)``", text))


def test_files_that_the_table_and_its_sections_name_exist():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`(?:python (?:-s )?)?([\w./-]+\.(?:py|ts))", text))
    root = PACKAGE.parent
    folders = [root / name for name in ("lazynb", "extension/src", "scripts", "tests")]
    tree = [path.as_posix() for folder in folders for path in folder.rglob("*")]
    tree.append((root / "pytest_lazynb.py").as_posix())
    assert len(named) > 30
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in tree)] == []


def private_names(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """The private names of JAX that are imported outside of their folder: by whom, and what."""
    return sorted(
        (module, name)
        for module, text in texts.items()
        if layer(module) != "jax_compat"
        for name in imported(text)
        if name.startswith(("jax._src", "jaxlib._"))
    )


def test_private_names_of_jax_stand_in_one_folder():
    assert private_names(TEXTS) == []
    planted = {**TEXTS, "lazynb.user_code.call_stack": "def late():\n    from jax._src import core\n"}
    assert private_names(planted) == [("lazynb.user_code.call_stack", "jax._src.core")]
    assert layer("lazynb.jax_compat.tracers") == layer("lazynb.jax_compat") == "jax_compat"


def test_the_package_needs_no_notebook_packages():
    core = [
        path
        for path in FILES
        if layer(name_of(path)) != "notebook" and path != PACKAGE / "cli" / "program_run.py"
    ]
    for path in core:
        wrong = {"IPython", "ipywidgets", "ipykernel"} & {
            name.split(".")[0] for name in imported(path.read_text())
        }
        assert not wrong, (path, wrong)


def test_importing_lazynb_imports_recording_and_running_only():
    """What a user may never ask for comes when it is used."""
    program = "import sys, lazynb; print(*[name for name in sys.modules if name.startswith('lazynb')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert len(found) <= 150
    assert {layer(name) for name in found} <= {
        "base",
        "jax_compat",
        "user_code",
        "recording",
        "running",
        "frontends",
    }


def test_names_that_are_imported_when_used_are_those_that_type_checkers_see():
    tree = ast.parse(TEXTS["lazynb"])
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {node.module: tuple(alias.asname for alias in node.names) for node in block.body}
    assert seen == lazynb._IMPORTED_WHEN_USED
    for module, names in seen.items():
        for name in names:
            assert getattr(lazynb, name) is getattr(importlib.import_module(module), name)
    assert set(lazynb._MODULE_OF) <= set(dir(lazynb))
    with pytest.raises(AttributeError, match="'lazynb' has no attribute 'absent'"):
        lazynb.absent  # noqa: B018
