"""Building lazynb as ``pip`` does, for tests of what is in a package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def hatch(call: str, folder: Path, out: Path, **environment: str) -> tuple[Path, str]:
    """Builds from ``folder`` into ``out``; gives the file, and what was said."""
    code = f"import hatchling.build as b; print(b.{call}({str(out)!r}))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return out / run.stdout.split()[-1], run.stdout + run.stderr


def checkout_without_extension(folder: Path) -> Path:
    """A copy of what a wheel needs, in ``folder``: the package alone, with nothing built in it."""
    for name in (
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "pytest_lazynb.py",
        ".gitignore",
    ):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
    shutil.copytree(ROOT / "lazynb", folder / "lazynb", ignore=ignored)
    return folder
