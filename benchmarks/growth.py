"""``python -m benchmarks.growth``: by how much the memory of a long session grows, beside plain JAX.

Each figure comes from a process of its own. A session runs 300 different programs in turn, or new cells in
an IPython shell. After each block of 500 the process collects garbage, returns free memory to the system and
notes its resident memory. The first blocks compile what they need; the growth is the slope of the later ones.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.memory import resident

BLOCK = 500
PROGRAMS = 300
_NAMES = ("sin", "cos", "tanh", "exp2", "abs", "square", "sqrt", "negative")


def chains() -> Sequence[tuple[str, ...]]:
    """Different lists of functions of ``jax.numpy``."""
    return list(itertools.product(_NAMES, repeat=4))


def settled() -> int:
    """The bytes of memory of this process, without garbage and free memory."""
    for _ in range(3):
        gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return resident()


def _apply(jnp: Any, chain: Sequence[str], x: Any) -> Any:
    for name in chain:
        x = getattr(jnp, name)(x)
    return x.sum()


def lazy_programs() -> Callable[[int], None]:
    """Runs program ``number`` with lazynb."""
    import jax.numpy as jnp

    import lazynb

    x, all_chains = jnp.arange(8.0), chains()

    def run(number: int) -> None:
        with lazynb.lazy():
            float(_apply(jnp, all_chains[number % PROGRAMS], x))

    return run


def jit_programs() -> Callable[[int], None]:
    """Runs program ``number`` with ``jax.jit``."""
    import jax
    import jax.numpy as jnp

    x = jnp.arange(8.0)
    functions = [jax.jit(lambda x, chain=chain: _apply(jnp, chain, x)) for chain in chains()[:PROGRAMS]]

    def run(number: int) -> None:
        float(functions[number % PROGRAMS](x))

    return run


def _shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell.instance(config=settings)
    shell.run_cell("import jax, jax.numpy as jnp; x = jnp.arange(8.0)", store_history=True)
    return shell


def _cell(number: int) -> str:
    all_chains = chains()
    text = "x"
    for name in all_chains[number % len(all_chains)]:
        text = f"jnp.{name}({text})"
    return f"y = {text}\nfloat(y.sum()) + {number}\n"


def _run_cell(shell: Any, text: str) -> None:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        shell.run_cell(text, store_history=True).raise_error()


def lazy_cells() -> Callable[[int], None]:
    """Runs the new cell ``number`` with lazynb."""
    shell = _shell()
    shell.run_line_magic("load_ext", "lazynb")
    return lambda number: _run_cell(shell, _cell(number))


def eager_cells() -> Callable[[int], None]:
    """Runs the new cell ``number`` without lazynb."""
    shell = _shell()
    return lambda number: _run_cell(shell, _cell(number))


def jit_cells() -> Callable[[int], None]:
    """Runs the new cell ``number`` without lazynb, as a function of its own under ``jax.jit``."""
    shell = _shell()

    def run(number: int) -> None:
        first = _cell(number).splitlines()[0]
        text = f"def f(x):\n    {first}\n    return y.sum()\nfloat(jax.jit(f)(x)) + {number}\n"
        _run_cell(shell, text)

    return run


SESSIONS: dict[str, tuple[str, Callable[[], Callable[[int], None]]]] = {
    "lazynb": ("flushes", lazy_programs),
    "jax.jit": ("flushes", jit_programs),
    "lazynb in IPython": ("cells", lazy_cells),
    "eager JAX in IPython": ("cells", eager_cells),
    "jax.jit in IPython": ("cells", jit_cells),
}


def measure(session: str, count: int, limit: int | None) -> list[int]:
    """The resident memory after each block of the session, in bytes."""
    run = SESSIONS[session][1]()
    if limit is not None and session.startswith("lazynb"):
        import lazynb

        lazynb.config.max_executables = limit
    sizes = []
    for number in range(count):
        run(number)
        if (number + 1) % BLOCK == 0:
            sizes.append(settled())
    return sizes


def slope(sizes: Sequence[int]) -> float:
    """Bytes for each 1,000 runs, over the later half of the blocks: the median of the slopes of all pairs,
    which leaves out a block in which a table or the heap grows at once."""
    later = list(enumerate(sizes[len(sizes) // 2 - 1 :]))
    pairs = itertools.combinations(later, 2)
    slopes = [(high - low) / (right - left) for (left, low), (right, high) in pairs]
    return statistics.median(slopes) * 1000 / BLOCK


def main(arguments: Sequence[str]) -> None:
    """Prints a row for each session."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--flushes", type=int, default=5000, help=f"at least {2 * BLOCK}")
    parser.add_argument("--cells", type=int, default=1500, help=f"at least {2 * BLOCK}")
    parser.add_argument("--limit", type=int, help="lazynb.config.max_executables")
    parser.add_argument("--only", nargs="+", choices=list(SESSIONS), default=list(SESSIONS))
    parser.add_argument("--session", choices=list(SESSIONS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if min(options.flushes, options.cells) < 2 * BLOCK:
        parser.error(f"a slope needs {2 * BLOCK} runs")
    if options.session:
        count = getattr(options, SESSIONS[options.session][0])
        print(json.dumps(measure(options.session, count, options.limit)))
        return
    caches = {"LAZYNB_PERSISTENT_CACHE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    for session in options.only:
        command = [sys.executable, "-m", "benchmarks.growth", *arguments, "--session", session]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **caches}, stdout=subprocess.PIPE, text=True, check=True
        )
        sizes = json.loads(done.stdout.splitlines()[-1])
        megabytes = " ".join(f"{size / 1e6:.1f}" for size in sizes)
        growth = f"{slope(sizes) / 1e6:+6.2f} MB for 1,000 {SESSIONS[session][0]:8}"
        print(f"{session:22} {growth} ({megabytes})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
