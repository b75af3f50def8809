"""The world in which programs run lazily, and what must hold there besides the values."""

from __future__ import annotations

import dataclasses
import io
import os
import sys
import tempfile
import types
from collections.abc import Iterator
from typing import Any

import jax

import lazynb
from lazynb.recording.lazy_blocks import blocks, patches

from . import prelude
from .interrupts import Aim, Interrupter
from .world import World, error_of, find_nan_again, indented

_ABSENT = object()


class LazyWorld(World):
    """Runs programs lazily in one of the styles."""

    def __init__(self) -> None:
        super().__init__()
        self.style = "cells"
        self._interrupter = Interrupter(lazynb.__file__)
        self._config = dataclasses.replace(lazynb.config)
        self._patched = list(patched_names())
        self._shell: Any = None
        self._plain: set[str] = set()

    def start(self, style: str, setup: str) -> None:
        self.style = style
        if style == "shell":
            self._start_shell()
            self.variables.update(self._helpers)
            self.execute(setup, "<setup>")
            self._shell.run_line_magic("load_ext", "lazynb")
        else:
            super().start(style, setup)

    def _start_shell(self) -> None:
        if self._shell is None:
            os.environ["IPYTHONDIR"] = tempfile.mkdtemp()
            from IPython.core.async_helpers import get_asyncio_loop
            from IPython.core.interactiveshell import InteractiveShell

            self._shell = InteractiveShell.instance()
            self._shell.history_manager.enabled = False
            self._shell.colors = "NoColor"
            self.shell_loop = get_asyncio_loop()
            self._plain = set(self._shell.user_ns)
        self.loop = self.shell_loop
        self.variables = self._shell.user_ns

    def names(self) -> list[str]:
        return [name for name in super().names() if name not in self._plain]

    def run(self, filename: str, source: str, repeat: int, aim: Aim | None) -> dict[str, Any]:
        """Runs a statement, with a signal on its way; says which variables it bound anew."""
        text = source if repeat == 1 else indented(source, f"for _ in range({repeat}):")
        before = {name: id(self.variables[name]) for name in self.names()}
        error, shot = None, None
        try:
            with self._interrupter.armed(aim) as shot:
                try:
                    self._run(text, filename)
                except BaseException as one:
                    error = error_of(one)
        except KeyboardInterrupt as one:
            error = (type(one).__name__, "")
        rebound = [name for name in self.names() if before.get(name) != id(self.variables[name])]
        return {
            "error": error,
            "rebound": rebound,
            "fired": shot and shot.fired,
            "handled": shot.handled if shot else "",
        }

    def _run(self, text: str, filename: str) -> None:
        find_nan_again()
        if self.style == "shell":
            sys.stdout, sys.stderr, before = io.StringIO(), io.StringIO(), (sys.stdout, sys.stderr)
            try:
                result = self._shell.run_cell(text, store_history=True)
            finally:
                sys.stdout, sys.stderr = before
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                raise error
        else:
            self.execute(indented(text, "with lazynb.lazy():") if self.style == "cells" else text, filename)

    def answer(self, connection: Any) -> str:
        name = super().answer(connection)
        if name == "enter":
            with lazynb.lazy():
                while name and name != "leave":
                    name = super().answer(connection)
        return name

    def mode(self, inside: bool) -> str:
        """What is wrong with the mode that the thread is in, inside or outside of a body; empty where nothing
        is."""
        if inside:
            self.restore()  # some say that nothing is recorded
            return "" if prelude.recording() else "the body records no more"
        problem = self._outside()
        if problem:  # what repairs itself in the next body or cell is not lost
            try:
                self._run("pass", "<repair>") if self.style == "shell" else self._enter_once()
                again = self._outside()
            except BaseException as error:
                again = f"the next body or cell raises {type(error).__name__}"
            return again or "repaired: " + problem
        return ""

    @staticmethod
    def _enter_once() -> None:
        with lazynb.lazy():
            pass

    def _outside(self) -> str:
        """As :meth:`mode`. Where substitutes rest, it looks at what a program finds in public modules."""
        resting, uses = patches.rest.on, patches.rest.left
        patches.rest.left = 10**9  # a look is no use
        left = [
            f"{getattr(owner, '__name__', owner)}.{name}"
            for owner, name, plain in self._patched
            if not resting or (isinstance(owner, types.ModuleType) and "._" not in owner.__name__)
            if (getattr(owner, name, _ABSENT) if resting else vars(owner).get(name, _ABSENT)) is not plain
        ]
        patches.rest.left = uses
        if prelude.recording():
            return "the thread still records" + (f", {len(left)} names are not JAX's own" if left else "")
        return f"{len(left)} names are not JAX's own: {', '.join(left[:3])}" if left else ""

    def end(self) -> str:
        if self.style == "shell":
            self._shell.run_line_magic("unload_ext", "lazynb")
        blocks.put_back()
        problem = self.mode(False)
        if self.style == "shell":
            for name in [one for one in self.variables if one not in self._plain]:
                del self.variables[name]
        super().end()
        for field in dataclasses.fields(self._config):
            setattr(lazynb.config, field.name, getattr(self._config, field.name))
        return problem

    def figures(self) -> dict[str, int]:
        """What lazynb itself counted."""
        info = lazynb.cache_info()
        return {"runs": info.hits + info.misses}


def patched_names() -> Iterator[tuple[Any, str, Any]]:
    """Each name of JAX's that is another's while a thread is lazy, with what it is else. Found by looking:
    all of JAX's modules and classes are compared inside and outside a body."""
    before = _all_names()
    with lazynb.lazy():
        inside = _all_names()
    for key, (owner, names) in inside.items():
        plain = before[key][1] if key in before else {}
        for name, value in names.items():
            if plain.get(name, _ABSENT) is not value:
                yield owner, name, plain.get(name, _ABSENT)


def _all_names() -> dict[int, tuple[Any, dict[str, Any]]]:
    owners = {
        id(module): module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] in ("jax", "jaxlib", "operator", "numpy")
    }
    for module in list(owners.values()):
        owners.update({id(one): one for one in vars(module).values() if isinstance(one, type)})
    owners[id(jax.Array)] = jax.Array
    return {key: (owner, dict(vars(owner))) for key, owner in owners.items()}
