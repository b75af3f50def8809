"""One row in one library: its arrays, its program, and how it is timed. Runs in the peer's process."""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.peers import Peer
from benchmarks.rows import Row

WARM_RUNS = 3
COMPILING = "/jax/core/compile/backend_compile_duration"  # the event of JAX's whose length is XLA's time
MOST_RUNS = 2000
# Of each array, about so many elements stand for all of it.
SAMPLE = 100_000


def way(peer: Peer) -> Any:
    """How this peer runs a program."""
    module, _, name = peer.way.partition(":")
    return getattr(importlib.import_module(f"benchmarks.ways.{module}"), name)()


class Case:
    """A row's program and what it is called with."""

    def __init__(self, row: Row, how: Any) -> None:
        if row.made != "before":
            how.ambient()  # imports lazynb
        module = importlib.import_module(f"benchmarks.programs.{row.program}")
        step = getattr(module, f"in_{how.library}")(**row.size)
        self.row = row
        self.how = how
        self.kept: list[Any] = []
        arrays = self._put if row.made == "put" else how.arrays
        self.start = arrays(module.start(**row.size))
        self.each = arrays(module.each(**row.size))
        self.program = how.program(step, row, (self.start, *self.each[0]))
        self._look = getattr(module, "look", None)

    def _put(self, tree: Any) -> Any:
        """The NumPy arrays in ``tree``, which are kept, put where the peer computes."""
        self.kept.append(tree)
        with self.how.ambient():
            return self.how.put(tree)

    def take(self) -> Any:
        """What the first step is called with, kept by nobody else: the run may write into it."""
        state, self.start = self.start, None
        return state

    def run(self, state: Any) -> tuple[float, Any]:
        """Seconds of one run from ``state``, and the state that it ends in."""
        program, look, size = self.program, self._look, self.row.size
        barrier = self.how.barrier if self.row.barrier else None
        began = time.perf_counter()
        for arguments in self.each:
            state = program(state, *arguments)
            if look:
                look(state, **size)
            if barrier:
                barrier(state)
        if self.row.hand_over:
            seconds = time.perf_counter() - began
            self.how.wait(state)
            return seconds, state
        self.how.wait(state)
        return time.perf_counter() - began, state

    def warm(self) -> list[float]:
        """Runs until all is compiled; what it computes."""
        for _ in range(1 if self.row.needs else WARM_RUNS):
            with self.how.ambient():
                _, state = self.run(self.start)
        return values(self.how.leaves(state))

    def time(self, budget: float) -> float:
        """Median seconds a step. The collector stays on, as users have it, but begins with nothing to
        collect."""
        gc.collect()
        found: list[float] = []
        with self.how.ambient():
            if not self.row.needs:
                self.run(
                    self.start
                )  # others' turns may have taken the processor's caches; one with much has just run
            until = time.perf_counter() + max(budget, self.row.seconds)
            while not found or (time.perf_counter() < until and len(found) < MOST_RUNS):
                found.append(self.run(self.start)[0])
        return statistics.median(found) / len(self.each)

    def first(self) -> tuple[float, list[float]]:
        """Seconds of the first steps, and what they compute."""
        self.each = self.each[: self.row.steps]
        gc.collect()
        with self.how.ambient():
            seconds, state = self.run(self.start)
        return seconds, values(self.how.leaves(state))


def values(leaves: list[np.ndarray]) -> list[float]:
    """Mean, and mean magnitude, of elements all over each array."""
    found: list[float] = []
    for leaf in leaves:
        sample = leaf.ravel()[:: max(1, leaf.size // SAMPLE)].astype(np.float64)
        found += [float(sample.mean()), float(np.abs(sample).mean())]
    return found
