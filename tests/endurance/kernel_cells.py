"""``python -m tests.endurance.kernel_cells COUNT``: how a real kernel's memory and time per cell grow.

The kernel is started as JupyterLab starts one. Each cell has source of its own.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import psutil

_FUNCTIONS = ("sin", "cos", "tanh", "exp2", "abs", "square", "negative", "floor")

SETUP = """
import jax, jax.numpy as jnp, numpy as np
x = jnp.arange(8.0)
def eager(text):
    import lazynb
    with lazynb.eager():
        return eval(text)
"""


def cell(number: int) -> tuple[str, str]:
    """The source of cell ``number``, and the expression whose value it prints."""
    chain = [_FUNCTIONS[number // 8**place % 8] for place in range(3)]
    text = "x"
    for name in chain:
        text = f"jnp.{name}({text})"
    return f"y_{number % 50} = {text}\nprint(float((y_{number % 50} + {number}).sum()))\n", text


class Kernel:
    """A kernel with lazynb loaded."""

    def __init__(self, lazy: bool = True) -> None:
        from jupyter_client.manager import start_new_kernel

        options = ["--IPKernelApp.log_level=ERROR", "--HistoryManager.enabled=False"]
        self.manager, self.client = start_new_kernel(extra_arguments=options)
        self.process = psutil.Process(self.manager.provisioner.process.pid)
        if lazy:
            self.run("%load_ext lazynb")
        self.run(SETUP)

    def run(self, source: str, seconds: float = 60) -> str:
        """Runs a cell; what it printed."""
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            printed.append(message["content"].get("text", "") if message["msg_type"] == "stream" else "")

        reply = self.client.execute_interactive(source, timeout=seconds, output_hook=take)
        if reply["content"]["status"] != "ok":
            raise AssertionError(f"{source!r}: {reply['content']}")
        return "".join(printed)

    def megabytes(self) -> float:
        """The kernel's resident memory."""
        return float(self.process.memory_info().rss) / 1e6

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def run_cells(kernel: Kernel, first: int, count: int) -> tuple[list[float], list[int]]:
    """Runs ``count`` cells; the seconds of each, and the numbers of those with another result than in eager
    JAX."""
    seconds, wrong = [], []
    for number in range(first, first + count):
        source, text = cell(number)
        began = time.perf_counter()
        printed = kernel.run(source)
        seconds.append(time.perf_counter() - began)
        if number % 25 == 0:
            expected = float(kernel.run(f"print(float((eager({text!r}) + {number}).sum()))"))
            if abs(float(printed) - expected) > 1e-4 * abs(expected) + 1e-4:
                wrong.append(number)
    return seconds, wrong


def main(count: int, block: int = 500) -> None:
    for lazy in (True, False):
        kernel = Kernel(lazy)
        try:
            for first in range(0, count, block):
                seconds, wrong = run_cells(kernel, first, min(block, count - first))
                kernel.run("import gc; gc.collect()\nimport ctypes; ctypes.CDLL(None).malloc_trim(0)")
                print(
                    f"{'lazynb' if lazy else 'eager'} {first + block:6,} cells: {kernel.megabytes():7.1f} MB, "
                    f"median {1000 * statistics.median(seconds):6.2f} ms, threads {kernel.process.num_threads()}, "
                    f"files {kernel.process.num_fds()}, wrong {wrong}",
                    flush=True,
                )
        finally:
            kernel.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
