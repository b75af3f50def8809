"""The two worlds in which a program runs, each in a process of its own: eager JAX without lazynb, and lazynb.

A world answers requests, one a message: ``(name of a method of World, *arguments)``.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import linecache
import textwrap
from typing import Any

import jax

from . import prelude
from .observe import Seen, seen

STYLES = ("body", "cells", "shell")
"""How a program is lazy: all statements in one ``with lazynb.lazy()``, one such body each, or cells of an
IPython shell."""


def find_nan_again() -> None:
    """Where JAX traces a jaxpr it loses the hook that a global ``jax_debug_nans`` sets in the thread, in
    either world."""
    hook = jax._src.api._post_hook_state
    if hook.get_local() is None:
        hook.set_local(jax._src.config.config_ext.unset)


class World:
    """A program's variables, and how its statements run."""

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self.loop = asyncio.new_event_loop()
        self._settings = dict(jax.config.values)
        self._helpers = {name: getattr(prelude, name) for name in prelude.__all__}

    # ---- requests ------------------------------------------------------------------------------------------

    def start(self, style: str, setup: str) -> None:
        """Forgets the last program; begins one."""
        self.variables = dict(self._helpers)
        self.execute(setup, "<setup>")

    def read(self, names: list[str]) -> dict[str, Seen]:
        """What the variables are now."""
        return {name: seen(self.variables[name]) for name in names if name in self.variables}

    def end(self) -> str:
        """The program is over. Returns what it left behind that it should not have."""
        self.variables = {}
        self.restore()
        gc.collect()
        return ""

    # ---- for both ------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """JAX's settings as they were before all programs."""
        for name, value in self._settings.items():
            if jax.config.values[name] != value:
                jax.config.update(name, value)

    def names(self) -> list[str]:
        """The program's own variables."""
        return sorted(
            name for name in self.variables if name not in self._helpers and not name.startswith("_")
        )

    def execute(self, source: str, filename: str) -> None:
        """Runs source text over the variables; it may ``await``."""
        find_nan_again()
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        code = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            self.loop.run_until_complete(eval(code, self.variables))
        else:
            exec(code, self.variables)

    def idle(self) -> None:
        """What a kernel does between two cells: tasks go on."""
        self.loop.run_until_complete(asyncio.sleep(0.001))

    def serve(self, connection: Any) -> None:
        """Answers requests until the other side is gone."""
        while self.answer(connection):
            pass

    def answer(self, connection: Any) -> str:
        """Answers one request; its name, or nothing where there is none any more."""
        try:
            name, *arguments = connection.recv()
        except EOFError:
            return ""
        if name in ("enter", "leave"):
            connection.send(None)
        else:
            connection.send(getattr(self, name)(*arguments))
        return name


class EagerWorld(World):
    """Runs programs as JAX does, and knows what the variables were before."""

    def __init__(self) -> None:
        super().__init__()
        self._trail: list[dict[str, Any]] = []
        self._read: list[dict[str, Seen]] = []

    def run(self, filename: str, source: str, repeat: int, given: bool) -> dict[str, Any]:
        """Runs a statement; says what it changed, and what the variables are.

        Arguments:
          given: it gives memory away: what a round of it leaves can only be read at once.
        """
        self._trail, self._read, error = [dict(self.variables)], [], None
        for _ in range(repeat):
            if given:
                self._read.append(self.read(self.names()))
            try:
                self.execute(source, filename)
            except Exception as one:
                error = error_of(one)
            self._trail.append(dict(self.variables))
            if error:
                break
        before, now = self._trail[0], self.variables
        changed = [name for name in self.names() if before.get(name, self) is not now[name]]
        return {"error": error, "changed": changed, "seen": self.read(self.names())}

    def trail(self) -> list[dict[str, Seen]]:
        """What the variables were before the last statement and after each of its rounds."""
        kept, current = [], self.variables
        for number, then in enumerate(self._trail):
            self.variables = then
            kept.append(self._read[number] if number < len(self._read) else self.read(self.names()))
        self.variables = current
        return kept

    def settle(self, rounds: dict[str, int]) -> None:
        """Takes variables back to what they were after a round of the last statement; 0 is before it."""
        for name, number in rounds.items():
            if name in self._trail[number]:
                self.variables[name] = self._trail[number][name]
            else:
                self.variables.pop(name, None)


def error_of(error: BaseException) -> tuple[str, str]:
    """The type of an error, and the beginning of its text. For a deleted array JAX has two errors, one for
    each way to call."""
    text = str(error)[:300]
    deleted = isinstance(error, (RuntimeError, ValueError)) and "has been deleted" in text
    return "ArrayDeleted" if deleted else type(error).__name__, text


def indented(source: str, head: str) -> str:
    """``source`` as the body of ``head``."""
    return head + "\n" + textwrap.indent(source.rstrip("\n") + "\n", "    ")
