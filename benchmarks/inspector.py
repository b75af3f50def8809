"""What the inspector adds to a cell: ``%%compile`` against the same cell compiled and run plainly, in a real
kernel.

    python -m benchmarks.inspector [OPERATIONS] [PAIRS]

Every cell is a program of its own that was never compiled before. ``widget``: asked for as JupyterLab asks,
where the value comes first and the inspector is worked out when the cell is done. ``static``: as nbclient
asks, where all of it is part of the cell.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

from jupyter_client.manager import start_new_kernel

ASKING = {"widget": {"cellId": "one", "trusted": True}, "static": {}}
START = """%load_ext lazynb
import jax, jax.numpy as jnp, lazynb
x, w, b = jnp.ones((256, 128)), jnp.ones((128, 128)), jnp.ones(128)"""
BETWEEN = 0.8  # seconds, in which what a cell left for later is done


class Kernel:
    """A kernel without a persistent cache, which counts the programs that it is given."""

    def __init__(self) -> None:
        environment = {**os.environ, "LAZYNB_PERSISTENT_CACHE": "0"}
        self.manager, self.client = start_new_kernel(kernel_name="python3", env=environment)
        self._programs = 0

    def seconds(self, code: str, metadata: dict[str, Any]) -> float:
        """Runs a cell; the time until the kernel is idle again."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
        }
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        began = time.perf_counter()
        self.client.shell_channel.send(message)
        while True:
            reply = self.client.get_iopub_msg(timeout=300)
            if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if reply["msg_type"] == "error":
                raise RuntimeError("\n".join(reply["content"]["traceback"]))
            if reply["msg_type"] == "status" and reply["content"]["execution_state"] == "idle":
                return time.perf_counter() - began

    def body(self, operations: int) -> str:
        """Lines with about so many operations, of which no program was compiled yet."""
        self._programs += 1
        lines = [f"h = x * 1.5; s = jnp.zeros({self._programs}).sum()"]
        for number in range(max(1, operations // 6)):
            lines += [
                "h = jnp.sin(h @ w + b) * 1.5",
                "h = jnp.maximum(h, 0.1)",
                f"h = h - h.mean(axis={(self._programs + number) % 2}, keepdims=True)",
            ]
        return "\n".join([*lines, "z = (h + s)[:2, :4]"])


def measure(operations: int, pairs: int, kind: str) -> str:
    """Pairs of cells, each first in turn; a line with medians and the ratio of the pairs."""
    kernel, metadata = Kernel(), ASKING[kind]
    try:
        kernel.seconds(START, metadata)
        plain, inspected = [], []
        for number in range(pairs + 2):
            for inspect in (number % 2 == 0, number % 2 == 1):
                body = kernel.body(operations)
                code = (
                    f"%%compile\n{body}\nz" if inspect else f"{body}\nlazynb.sync()\nz.block_until_ready()\nz"
                )
                (inspected if inspect else plain).append(kernel.seconds(code, metadata))
            time.sleep(BETWEEN)
    finally:
        kernel.client.stop_channels()
        kernel.manager.shutdown_kernel(now=True)
    plain, inspected = plain[2:], inspected[2:]
    ratios = [with_it / without for with_it, without in zip(inspected, plain)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return (
        f"{operations:4} operations, {kind:6}: plain {statistics.median(plain) * 1e3:6.0f} ms, with the "
        "inspector "
        f"{statistics.median(inspected) * 1e3:6.0f} ms, ratio of pairs {middle:.2f} ({low:.2f} to {high:.2f})"
    )


def main(arguments: list[str]) -> None:
    operations, pairs = [*map(int, arguments), *(30, 20)[len(arguments) :]]
    for kind in ASKING:
        print(measure(operations, pairs, kind), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
