"""Small programs with the trace breaks that they have, written beside the lines.

A file under ``programs`` has programs under ``## name``. A comment at the end of a line says what breaks
there::

    # break: LNB103 ops=10 times=5      five breaks of this code, which forced ten operations together (times:
    1 without) # break: LNB304 ops=1; LNB103 ops=2 two kinds on one line
    # break: LNB108 ops=2 through=/x/   by a library, in whose path that is
    # calls: LNB103 times=3             the line calls a function in which such breaks lie
    # raises: TypeError                 the program ends here

``ops`` are left out where JAX's releases differ. ``### file`` starts a module that the program imports,
``### main`` the program itself. A program ``NAME_cured`` does the same as ``NAME`` without its breaks, as their
hints say. ``x`` is a float32 array of 1, 2, 3, ``w`` one of nine ones, both computed;
what a program computes is ``out``.
"""

from __future__ import annotations

import dataclasses
import linecache
import re
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

NEEDED = ("matplotlib", "sklearn", "flax", "optax", "scipy", "joblib", "equinox")
"""Packages without which a program that imports them is skipped."""
FOLDER = Path(__file__).parent / "programs"
PRELUDE = """\
import jax
import jax.numpy as jnp
import numpy as np
import lazynb
x = jnp.array([1.0, 2.0, 3.0])
w = jnp.ones((3, 3))
key = jax.random.key(0)
"""


@dataclasses.dataclass(frozen=True)
class Expected:
    """Breaks of one code on one line."""

    file: str
    line: int
    code: str
    times: int
    ops: int | None
    through: str | None


@dataclasses.dataclass(frozen=True)
class Program:
    """One program: the file that it stands in, its files (the last one is what runs), the breaks in them, the lines that call the functions
    in which they lie, and the line that ends it."""

    name: str
    group: str
    files: dict[str, str]
    breaks: tuple[Expected, ...]
    calls: tuple[Expected, ...]
    raises: tuple[int, str] | None

    @property
    def main(self) -> str:
        return self.files["main"]


def prepare(program: Program, place: Path) -> None:
    """Writes the modules of a program into ``place``; skips the test where a package is missing."""
    for package in NEEDED:
        if f"import {package}" in program.main or f"from {package}" in program.main:
            pytest.importorskip(package)
    for file, text in program.files.items():
        if file != "main":
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_text(text)


def compiled(program: Program, name: str) -> tuple[CodeType, dict[str, Any]]:
    """A program's code as if it stood in the file ``name``, and the variables that it begins with."""
    linecache.cache[name] = (len(program.main), None, program.main.splitlines(keepends=True), name)
    variables: dict[str, Any] = {"__name__": "program"}
    exec(compile(PRELUDE, "<prelude>", "exec", dont_inherit=True), variables)
    return compile(program.main, name, "exec", dont_inherit=True), variables


def load() -> list[Program]:
    """All programs."""
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        for section in re.split(r"^## ", path.read_text(), flags=re.M)[1:]:
            name, _, text = section.partition("\n")
            found.append(_program(name.strip(), path.stem, text.strip("\n") + "\n"))
    return found


def _program(name: str, group: str, text: str) -> Program:
    files = {}
    for part in re.split(r"^### ", text, flags=re.M):
        if not part.strip():
            continue
        file, _, body = part.partition("\n") if text.startswith("### ") else ("main", "", part)
        files[file.strip()] = body
    marks: dict[str, list[Expected]] = {"break": [], "calls": []}
    raises = None
    for file, body in files.items():
        for number, line in enumerate(body.splitlines(), 1):
            for kind, found in marks.items():
                for text in re.findall(rf"# {kind}: ([^#]*)", line):
                    found += [_expected(file, number, one) for one in text.split(";")]
            if "# raises: " in line:
                raises = number, line.partition("# raises: ")[2].strip()
    return Program(name, group, files, tuple(marks["break"]), tuple(marks["calls"]), raises)


def _expected(file: str, line: int, text: str) -> Expected:
    code, *rest = text.split()
    values = dict(pair.split("=") for pair in rest)
    assert re.fullmatch(r"LNB\d{3}", code) and values.keys() <= {"ops", "times", "through"}, text
    return Expected(
        file,
        line,
        code,
        int(values.get("times", 1)),
        int(values["ops"]) if "ops" in values else None,
        values.get("through"),
    )
