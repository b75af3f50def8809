"""ipyparallel's own magics, ``%%px`` and its like, for the engines of a cluster."""

from __future__ import annotations

import re
from typing import Any

_NAMES = ("px", "autopx", "pxconfig", "pxresult")

_OWN = re.compile(
    r"%%?(?:(?:px|autopx|pxconfig|pxresult)\w*|lazy[ \t]+cluster|(?:un|re)load_ext[ \t]+lazynb)(?:\s|$)"
)


def is_the_notebooks(cell: str) -> bool:
    """Whether a cell runs in the notebook's own process: one that begins with ``%lazy cluster``, with a magic
    of ipyparallel's or by taking lazynb out."""
    return any(_OWN.match(line) is not None for line in code_lines(cell)[:1])


def code_lines(cell: str) -> list[str]:
    """The lines of a cell, without the empty ones and those that hold a comment alone."""
    lines = [line.strip() for line in cell.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


class ParallelMagics:
    """The magics of a client's engines in a shell, in place of others of these names."""

    def __init__(self, shell: Any, client: Any):
        self._tables = [shell.magics_manager.magics[kind] for kind in ("line", "cell")]
        self._client = client
        self._before: list[dict[str, Any]] = []

    def start(self) -> None:
        """Registers them."""
        self._before = [{name: table.get(name) for name in _NAMES} for table in self._tables]
        self._client.activate()

    def stop(self) -> None:
        """What was there before is back."""
        for table, before in zip(self._tables, self._before, strict=True):
            for name, magic in before.items():
                table.pop(name, None)
                if magic is not None:
                    table[name] = magic
