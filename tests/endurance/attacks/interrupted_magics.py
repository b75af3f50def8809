"""Interrupts at random instructions of lazynb while a cell runs one of its magics, or none."""

from __future__ import annotations

import random
import time
import traceback

import lazynb

from ..interrupts import Aim, Interrupter
from ..shell_state import Session, differences, shell_state

CELLS = (
    "q = p * 2 + 1\nr = float(q.sum())",
    "p",
    "f'{p}', repr(p), p.shape",
    "%lazy",
    "%lazy strict\n%lazy on",
    "%lazy off\n%lazy on",
    "%graph",
    "%graph p",
    "%breaks",
    "%breaks float",
    "%cache",
    "%cache 1",
    "%cache clear",
    "%whos",
    "p?",
    "%diff 3 4",
    "%inspect",
    "%inspect p",
    "%%eager\nq = p * 3\nfloat(q.sum())",
    "%%explain\nq = jnp.tanh(p) + 1\nfloat(q.sum())",
    "%%numerics\nq = jnp.tanh(p) + 1",
    "%%compile\nq = jnp.tanh(p) + 1",
    "%%predict\nq = jnp.tanh(p) + 1\nfloat(q.sum())",
    "%%time\nq = p + 4\nfloat(q.sum())",
    "%%capture\nq = p + 4\nprint(q)",
    "%timeit -n 2 -r 1 (p + 1)",
    "%prun -q (p + 1).sum()",
    "get_ipython().run_cell('q = p + 5')\nfloat(q.sum())",
    "import asyncio\nawait asyncio.sleep(0)\nq = p + 6\nawait asyncio.sleep(0)\nfloat(q.sum())",
    "%unload_ext lazynb\n%load_ext lazynb",
    "%reload_ext lazynb",
    "p.reshape(3, 99)",
)
PENDING = "p = jnp.arange(8.0) * 2 + {number}\nkept = [jnp.sin(p), p[2:5]]"
EXPECTED = (
    "[p.tolist(), float(kept[1].sum())] == [[2.0 * i + {number} for i in range(8)], 18.0 + 3 * {number}]"
)


class Notebook:
    """A session whose cells are interrupted, one at a time."""

    def __init__(self) -> None:
        self.session = Session()
        self.session.run("%load_ext lazynb")
        self.interrupter = Interrupter(lazynb.__file__)
        for cell in CELLS:  # what is imported and started with first use
            self.session.run(PENDING.format(number=0))
            self._run(cell, None)
            self.check(0, "")
        self.before = self.state()

    def state(self) -> dict[str, object]:
        state = shell_state(self.session.shell)
        return {name: held for name, held in state.items() if name not in self._of_this_load(state)}

    @staticmethod
    def _of_this_load(state: dict[str, object]) -> set[str]:
        """What another load of the extension has objects of its own for."""
        return {name for name in state if name.startswith(("%", "event ")) or name == "syntax trees"}

    def _run(self, cell: str, aim: Aim | None) -> str:
        """Runs a cell with a signal; where it was handled, or an empty text."""
        shell = self.session.shell
        with self.interrupter.armed(aim) as shot:
            try:
                self._quietly(shell, cell)
            except KeyboardInterrupt:  # outside the part of a cell in which IPython catches it
                pass
        return shot.handled if shot is not None else ""

    @staticmethod
    def _quietly(shell: object, cell: str) -> None:
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            shell.run_cell(cell, store_history=True)  # type: ignore[attr-defined]

    def attempt(self, cell: str, count: int, number: int, file: str = "") -> str:
        """Interrupts ``cell`` and checks the notebook. Where the signal was handled; empty if it never was."""
        self.session.run(PENDING.format(number=number))
        handled = self._run(cell, Aim(file, count=count))
        self.check(number, handled)
        return handled

    def check(self, number: int, handled: str) -> None:
        """Raises AssertionError if a value is lost or wrong, or the notebook is not as it was."""
        session = self.session
        if "lazynb" not in session.shell.extension_manager.loaded:
            session.run("%load_ext lazynb")
        session.run("%lazy on")
        assert "True" in session.run(EXPECTED.format(number=number)), "a value is lost or wrong"
        session.run("u = p + 1")
        lazy = session["u"]
        assert type(lazy) is lazynb.LazyTensor and lazy.is_pending, "cells are no longer lazy"
        assert "True" in session.run("float(u.sum()) == float(p.sum()) + 8.0"), "a new cell is wrong"
        if handled and hasattr(self, "before"):
            changed = self.changed()
            assert not changed, changed

    def changed(self) -> dict[str, object]:
        deadline = time.monotonic() + 5
        while True:  # a thread may be about to end
            changed = differences(self.before, self.state())
            threads = changed.get("threads")
            if threads is not None and not threads[1] - threads[0]:
                changed.pop("threads")
            if not changed or time.monotonic() > deadline:
                return changed
            time.sleep(0.05)

    def close(self) -> None:
        self.session.close()


def attack(seconds: float, seed: int) -> dict[str, int]:
    """Interrupts random cells for so many seconds."""
    draw = random.Random(seed)
    figures = dict.fromkeys(("tries", "lost", "wrong", "hung"), 0)
    notebook = Notebook()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            cell, count = draw.choice(CELLS), int(10 ** draw.uniform(0, 4.3))
            figures["tries"] += 1
            began = time.monotonic()
            handled = "?"
            try:
                handled = notebook.attempt(cell, count, figures["tries"] % 50)
            except (AssertionError, Exception) as error:
                figures["lost" if "lost" in str(error) else "wrong"] += 1
                print(f"{cell!r} interrupted at instruction {count} ({handled}): {error}")
                traceback.print_exc(limit=-3)
                notebook.close()
                notebook = Notebook()
            if time.monotonic() - began > 60:
                figures["hung"] += 1
                print(f"{cell!r} interrupted at instruction {count} took {time.monotonic() - began:.0f} s")
    finally:
        notebook.close()
    return figures
