"""The module that the package ships is what its sources give."""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "extension"
BUNDLE = ROOT / "lazynb" / "notebook" / "static" / "inspector.js"


def npm(*command: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here")
    if not (EXTENSION / "node_modules").is_dir():
        pytest.skip("extension/node_modules is absent: run npm ci in extension/")
    return subprocess.run(["npm", *command], cwd=EXTENSION, capture_output=True, text=True)


def test_committed_bundle_is_what_the_build_gives(tmp_path):
    built = tmp_path / "inspector.js"
    run = npm("run", "--silent", "build", "--", "--out", str(built))
    assert run.returncode == 0, run.stderr
    assert built.read_bytes() == BUNDLE.read_bytes(), "run npm run build in extension/"


@pytest.mark.parametrize("script", ["lint", "test"])
def test_lint_and_unit_tests_of_the_front_end_pass(script):
    run = npm("run", "--silent", script)
    assert run.returncode == 0, run.stdout + run.stderr


def test_bundle_is_small_and_can_stand_in_a_page():
    text = BUNDLE.read_text(encoding="utf-8")
    assert len(text.encode()) < 245_000
    assert "</script" not in text
    assert "innerHTML" not in text
    assert "as default" in text and "as mount" in text


LAYERS = {"model": 0, "graph": 1, "ui": 1, "views": 2, "": 3, "lab": 4}
"""The folders of the sources; a file imports from its own and from lower ones."""


def violations(sources: dict[str, str]) -> list[tuple[str, str]]:
    """Imports between the folders that go upwards or sideways: who, and what."""
    found = []
    for name, text in sources.items():
        own = name.rpartition("/")[0]
        for path in re.findall(r'(?:from |import\()"(\.[^"]+)"', text):
            imported = posixpath.normpath(f"{own}/{path}" if own else path)
            folder = imported.rpartition("/")[0]
            if folder != own and LAYERS[folder] >= LAYERS[own]:
                found.append((name, imported))
    return found


def test_folders_of_the_sources_import_downwards():
    root = EXTENSION / "src"
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.ts")}
    assert len(sources) > 40 and violations(sources) == []
    planted = {
        "model/store.ts": 'import { h } from "../ui/dom";',
        "lab/heavy.ts": 'import { h } from "../ui/dom";',
    }
    assert violations(planted) == [("model/store.ts", "ui/dom")]


def test_lock_names_no_registry():
    assert '"resolved"' not in (EXTENSION / "package-lock.json").read_text()
