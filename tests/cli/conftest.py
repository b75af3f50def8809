"""Programs to run, and the command line as another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def environment():
    """Environment variables of the processes that are started."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "LAZYNB_PERSISTENT_CACHE": "0", "PYTHONUTF8": "1"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a program of that name into the folder that the test runs in."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def notebook(write):
    """Writes a notebook whose code cells are these; a pair is a cell and its tag."""

    def notebook(name, *cells, **metadata):
        made = []
        for cell in cells:
            text, tags = (cell, []) if isinstance(cell, str) else (cell[0], [cell[1]])
            made.append(
                {
                    "cell_type": "code",
                    "metadata": {"tags": tags},
                    "execution_count": None,
                    "outputs": [],
                    "source": textwrap.dedent(text).strip().splitlines(True),
                }
            )
        made.insert(0, {"cell_type": "markdown", "metadata": {}, "source": "# Title"})
        return write(
            name, json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made})
        )

    return notebook


@pytest.fixture
def lazynb_run(tmp_path, environment):
    """Runs ``lazynb run`` with these arguments in a process of its own."""

    def run(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "lazynb", "run", *map(str, arguments)],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            env=environment,
            timeout=120,
            **options,
        )

    return run


@pytest.fixture
def python(tmp_path, environment):
    """Runs Python itself with these arguments."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            env=environment,
            timeout=120,
        )

    return run
