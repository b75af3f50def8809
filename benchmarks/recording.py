"""What it takes to record a call that was recorded before, with the accelerator and without.

    python -m benchmarks.recording

Nanoseconds of this thread's work for one call in a chain of 200, and for a trace of one operation that is run
and waited for. Each figure is the least of many rounds. Where PyTorch is installed, its operations on device
``jax`` are among the calls, and what PyTorch takes for a class that does nothing but make its result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp

import lazynb
from lazynb.recording.replay.native_replay import describe

LENGTH = 200
ROUNDS = 40

X = jnp.ones((8, 8))

CALLS: dict[str, Callable[[Any], Any]] = {
    "y + x, an array": lambda y: y + X,
    "y + y, of the trace": lambda y: y + y,
    "y * 0.5": lambda y: y * 0.5,
    "-y": lambda y: -y,
    "jnp.sin(y)": lambda y: jnp.sin(y),
    "jnp.where(y, x, y)": lambda y: jnp.where(y, X, y),
    "y.sum(0, keepdims=True)": lambda y: y.sum(0, keepdims=True),
    "y[:, None][:, 0], two": lambda y: y[:, None][:, 0],
}


def chain(call: Callable[[Any], Any], length: int, first: Any) -> tuple[Any, float]:
    """The end of a chain of calls from ``first`` on, and the nanoseconds that one of them took."""
    y = first
    start = time.thread_time_ns()
    for _ in range(length):
        y = call(y)
    return y, (time.thread_time_ns() - start) / length


def nanoseconds(call: Callable[[Any], Any], first: Any = X) -> float:
    """Work of this thread in one call, the least of many rounds."""
    times = []
    with lazynb.lazy():
        for _ in range(ROUNDS):
            y, took = chain(call, LENGTH, first)
            times.append(took)
            lazynb.sync(y)
    return min(times)


def of_pytorch() -> dict[str, float]:
    """The figures of PyTorch's operations; none where it is not installed."""
    if not all(map(find_spec, ("torch", "torchax"))):
        return {}
    import torch

    import lazynb.torch

    lazynb.torch.enable()
    x = torch.ones(8, 8).to("jax")
    calls: dict[str, Callable[[Any], Any]] = {
        "PyTorch: y + x": lambda y: y + x,
        "PyTorch: y * 0.5": lambda y: y * 0.5,
        "PyTorch: x.t()": lambda y: x.t(),
        "PyTorch: layer_norm(y)": lambda y: torch.nn.functional.layer_norm(y, (8,)),
    }
    return {
        **{name: nanoseconds(call, x) for name, call in calls.items()},
        "PyTorch alone: y + y": nanoseconds(lambda y: y + y, _nothing_but_made(torch)),
    }


def _nothing_but_made(torch: Any) -> Any:
    """A tensor of a class whose operations do nothing but make their result."""

    class Made(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, (8, 8), dtype=torch.float32)

    return torch.Tensor._make_wrapper_subclass(Made, (8, 8), dtype=torch.float32)


def whole() -> float:
    """Microseconds of a trace of one operation, from its beginning until its value is there."""
    times = []
    with lazynb.lazy():
        for _ in range(30 * ROUNDS):
            start = time.thread_time_ns()
            (X + X).block_until_ready()
            times.append((time.thread_time_ns() - start) / 1e3)
    return min(times)


def measured() -> dict[str, float]:
    """The figures of this process."""
    of_jax = {name: nanoseconds(call) for name, call in CALLS.items()}
    return {**of_jax, "one operation, run": 1e3 * whole(), **of_pytorch()}


def main() -> None:
    """Prints the table, with the figures of a second process that has no accelerator."""
    environment = {**os.environ, "LAZYNB_PURE": "1"}
    command = [sys.executable, "-m", "benchmarks.recording", "--json"]
    other = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    pure, here = json.loads(other), measured()
    print(f"JAX {jax.__version__}, Python {sys.version.split()[0]}, {describe()}\n")
    print(f"| call                    | {describe():>11} | in Python |\n|---|---|---|")
    for name, took in here.items():
        print(f"| {name:23} | {took:8,.0f} ns | {pure[name]:6,.0f} ns |")


if __name__ == "__main__":
    print(json.dumps(measured())) if "--json" in sys.argv else main()
