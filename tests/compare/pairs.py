"""Reads ``pairs.txt``: functions as they stood before and as they are now, and what differs, by hand."""

from __future__ import annotations

import ast
import dataclasses
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from lazynb.compare.differences.compilation_match import CompilationChange

VERSIONS = {"<": "0.10", ">": "0.12"}
OWN = next((sign for sign, version in VERSIONS.items() if jax.__version__.startswith(version)), "=")
TEXT = Path(__file__).with_name("pairs.txt")
ARGUMENTS = tuple(
    jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((256, 512), (256, 512), (512, 512), (512,))
)


@dataclasses.dataclass
class Pair:
    """
    Attributes:
      name: what the pair is about.
      before, now: lines of the two functions.
      truth: what differs, a line for each change.
    """

    name: str
    before: list[str] = dataclasses.field(default_factory=list)
    now: list[str] = dataclasses.field(default_factory=list)
    truth: list[str] = dataclasses.field(default_factory=list)

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Both as functions of x, y, w and v."""
        return _function(f"before: {self.name}", self.before), _function(f"now: {self.name}", self.now)


def pairs() -> list[Pair]:
    """All of the file."""
    found: list[Pair] = []
    for line in TEXT.read_text().splitlines():
        mark, text = line[:2], line[2:]
        if mark == "# ":
            found.append(Pair(text))
        elif found and mark.strip() in ("=", OWN):
            found[-1].truth.append(text)
        elif mark.strip() in VERSIONS:
            pass
        elif found and line:
            for sign, lines in (("-", found[-1].before), ("+", found[-1].now)):
                if mark.strip() in ("", sign):
                    lines.append(text)
    return found


def _function(name: str, lines: list[str]) -> Callable[..., Any]:
    """The function of a body; its lines count from 1."""
    file = f"/pairs/{name}"
    source = "\n".join(lines) + "\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    head = "def f(x, y, w, v):\n" + "\n".join(f"    {line}" for line in lines)
    tree = ast.parse(head)
    ast.increment_lineno(tree, -1)
    tree.body[0].lineno = 1
    namespace: dict[str, Any] = {"jax": jax, "jnp": jnp}
    exec(compile(tree, file, "exec"), namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def said(change: CompilationChange) -> str:
    """A change as the file writes it."""
    lines = ", ".join(map(str, sorted(pair.shown.number for pair in change.lines)))
    text = change.text
    if change.reasons:
        text += f", because {change.reasons[0].text}"
    return f"{lines}: {text}" if lines else text
