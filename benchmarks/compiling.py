"""What ``%%compile`` takes beside ``jax.jit(f).lower(*args).compile()`` of the same program, each run once.

    python -m benchmarks.compiling [SIZES] [PAIRS] [--way widget] [--kind elementwise] [--profile N]

One process with IPython's own shell and no browser. In each pair a ``%%compile`` cell and JAX alone compile
new programs of SIZE operations, each first in turn; a third cell runs such a program without the magic. The
inspector is a widget as in JupyterLab, whose messages are written as a kernel writes them, or the static form
for a program that has no page.

``first``: lazynb knows no earlier program, so a miss needs no comparison. ``edited``: similar programs were
compiled before, each an edit of the one before it, and are in the list of misses.

``elementwise``: a chain that XLA makes one kernel of, and compiles quickest. ``layers``: a product or a mean
after every few lines.

``value``: until the cell is done, which shows its value. ``view``: until the inspector has the data of its
first view. ``all``: until nothing of it is left to be done. In the static form all are one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import gc
import io
import itertools
import os
import pstats
import statistics
import time
import types
from typing import Any, NamedTuple

os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import comm
import jax
import jax.numpy as jnp
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.session import Session

import lazynb
from lazynb.notebook import inspector_widget
from lazynb.notebook.inspector_widget import Inspector

SIZES = (15, 300, 3_000)
KINDS = ("elementwise", "layers")
LINES = (
    "h = jnp.sin(h) * {}",
    "h = jnp.maximum(h, {})",
    "h = h + x * {}",
    "h = jnp.tanh(h) - {}",
    "h = jnp.where(h > {}, h, x)",
)
WAYS = ("widget", "static")
CASES = ("first", "edited")
TARGETS = {15: 1.2, 300: 1.5, 3_000: 1.5}
ROWS = 64
BETWEEN = 0.01  # seconds between two looks at an inspector
PATIENCE = 120  # seconds in which an inspector must be complete
START = "%load_ext lazynb\nimport jax, jax.numpy as jnp, lazynb\nx, w, b = _arguments"


class Written(comm.base_comm.BaseComm):  # type: ignore[misc]
    """A widget's channel to the page; each message becomes bytes, as in a kernel."""

    session = Session(key=b"benchmark")

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
    ) -> None:
        content = {"data": data or {}, "comm_id": self.comm_id, **keys}
        message = self.session.msg(msg_type, content=content, metadata=metadata or {})
        self.session.serialize(message)


class Publisher(DisplayPublisher):
    """Displays outputs on no page; each message becomes bytes, as in a kernel."""

    def publish(self, data: Any, metadata: Any = None, *, update: bool = False, **keys: Any) -> None:
        content = {"data": data, "metadata": metadata or {}, "transient": keys.get("transient") or {}}
        Written.session.serialize(Written.session.msg("display_data", content=content))


class Programs:
    """Bodies of cells; no two are the same program."""

    def __init__(self, kind: str):
        self._kind = kind
        self._number = 0

    def body(self, operations: int) -> str:
        """Lines with about so many operations, an edit of the lines before: a line is added, at another place
        each time, and an array has another shape."""
        self._number += 1
        lines = [f"s = jnp.zeros({self._number}).sum()", "h = x + s"]
        made = 3
        while made < operations:
            turn = len(lines)
            if self._kind == "layers" and turn % 25 == 0:
                lines.append("h = h @ w + b")
            elif self._kind == "layers" and turn % 10 == 0:
                lines.append("h = h - h.mean(axis=1, keepdims=True)")
                made += 2
            else:
                lines.append(LINES[turn % len(LINES)].format(turn / 10_000))
            made += 2
        lines.insert(2 + self._number % (len(lines) - 1), "h = jnp.tanh(h)")
        return "\n".join([*lines, "z = h + s", "del h, s  # jax.jit returns z alone"])


class Seconds(NamedTuple):
    """Of one cell, from its start."""

    value: float
    view: float
    all: float


class Notebook:
    """IPython's shell, in which a cell is run as a page or as a program asks."""

    def __init__(self, way: str):
        InteractiveShell.clear_instance()
        self.shell = InteractiveShell.instance()
        self.shell.history_manager.enabled = False
        self.shell.display_pub = Publisher()
        self.arguments = (jax.random.normal(jax.random.key(0), (ROWS, 32)), jnp.eye(32), jnp.ones(32))
        self.shell.user_ns["_arguments"] = jax.block_until_ready(self.arguments)
        self._cells = itertools.count()
        self._request: dict[str, Any] = {}
        if way == "widget":
            comm.create_comm = Written
            self.shell.kernel = types.SimpleNamespace(get_parent=lambda channel: self._request)
        self._inspectors = Inspectors()
        self.seconds(START)

    def seconds(self, code: str) -> Seconds:
        """Runs a cell, and what it leaves to be done after it."""
        return asyncio.run(self._run(code))

    async def _run(self, code: str) -> Seconds:
        number = next(self._cells)
        self._request = {
            "header": {"msg_id": f"run {number}"},
            "metadata": {"cellId": f"cell {number}", "trusted": True},
            "content": {"allow_stdin": True},
        }
        self._inspectors.forget()
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            self.shell.run_cell(code, store_history=True).raise_error()
        value = time.perf_counter() - began
        await self._inspectors.complete()
        if not self._inspectors.viewed:
            return Seconds(value, value, value)
        view = max(value, self._inspectors.viewed - began)
        pause = inspector_widget._DELAY_OF_FULL_DATA
        return Seconds(value, view, max(view, self._inspectors.completed - began - pause))


class Inspectors:
    """Watches the inspectors of one cell.

    Attributes:
      viewed: when the first view had its data; 0 without an inspector.
      completed: when what the first view did not need was done, after a pause.
    """

    def __init__(self) -> None:
        self.forget()
        init, full = Inspector.__init__, Inspector.send_full_data

        def watched_init(inspector: Inspector, *given: Any, **named: Any) -> None:
            init(inspector, *given, **named)
            self._expected += 1
            inspector.observe(self._see, "data")

        def watched_full(inspector: Inspector) -> None:
            full(inspector)
            self.completed = time.perf_counter()
            self._expected -= 1

        Inspector.__init__ = watched_init  # type: ignore[method-assign]
        Inspector.send_full_data = watched_full  # type: ignore[method-assign]

    def forget(self) -> None:
        self.viewed = self.completed = 0.0
        self._expected = 0

    def _see(self, _change: Any) -> None:
        self.viewed = self.viewed or time.perf_counter()

    async def complete(self) -> None:
        """Waits until no inspector is left with work to do."""
        until = time.perf_counter() + PATIENCE
        while self._expected:
            await asyncio.sleep(BETWEEN)
            if time.perf_counter() > until:
                raise TimeoutError("an inspector was never complete")


def seconds_of_jit(source: str, arguments: tuple[Any, ...]) -> float:
    """Lowers, compiles and runs the function with this body by JAX alone."""
    names: dict[str, Any] = {"jnp": jnp}
    indented = source.replace("\n", "\n    ")
    exec(f"def f(x, w, b):\n    {indented}\n    return z", names)
    began = time.perf_counter()
    with lazynb.eager():
        compiled = jax.jit(names["f"]).lower(*arguments).compile()
        jax.block_until_ready(compiled(*arguments))
    return time.perf_counter() - began


class Pair(NamedTuple):
    """One program by lazynb and one by JAX, and one that is run lazily without the magic."""

    ours: Seconds
    jit: float
    plain: float


def pairs(notebook: Notebook, programs: Programs, size: int, case: str, count: int) -> list[Pair]:
    """So many pairs after a first one that is not counted."""
    found = []
    for number in range(count + 1):
        gc.collect()
        ours, jit = Seconds(0.0, 0.0, 0.0), 0.0
        for is_ours in (number % 2 == 0, number % 2 == 1):
            body = programs.body(size)
            if not is_ours:
                jit = seconds_of_jit(body, notebook.arguments)
                continue
            if case == "first":
                lazynb.clear_cache()
            ours = notebook.seconds(f"%%compile\n{body}\nz")
        plain = notebook.seconds(f"{programs.body(size)}\nlazynb.sync()\nz.block_until_ready()\nz")
        found.append(Pair(ours, jit, plain.value))
    return found[1:]


def line(size: int, case: str, way: str, found: list[Pair]) -> str:
    """The medians, and the medians of the pairs' ratios."""

    def ratio(seconds: list[float]) -> str:
        return f"{statistics.median(one / pair.jit for one, pair in zip(seconds, found, strict=True)):5.2f}"

    jit = statistics.median(pair.jit for pair in found)
    parts = [f"{name} {ratio([getattr(pair.ours, name) for pair in found])}" for name in Seconds._fields]
    return (
        f"{size:5} operations, {way}, {case:6}: jit {jit * 1e3:6.0f} ms; times jit: {', '.join(parts)} "
        f"(target {TARGETS.get(size, 1.5)}), without the magic {ratio([pair.plain for pair in found])}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="?", default=",".join(map(str, SIZES)), help="by commas")
    parser.add_argument("pairs", nargs="?", type=int, default=5)
    parser.add_argument("--way", choices=WAYS, default="widget")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0])
    parser.add_argument("--case", choices=CASES, action="append", help="default: both")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="profile a last cell, N lines")
    options = parser.parse_args()
    notebook, programs = Notebook(options.way), Programs(options.kind)
    for size in map(int, options.sizes.split(",")):
        for case in options.case or CASES:
            lazynb.clear_cache()
            print(
                line(size, case, options.way, pairs(notebook, programs, size, case, options.pairs)),
                flush=True,
            )
        if options.profile:
            profiler = cProfile.Profile()
            profiler.enable()
            notebook.seconds(f"%%compile\n{programs.body(size)}\nz")
            profiler.disable()
            pstats.Stats(profiler).sort_stats("cumulative").print_stats(options.profile)


if __name__ == "__main__":
    main()
