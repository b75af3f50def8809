"""Attacks on lazynb: what other programs, machines and tools do to it, beside the random programs.

Each module of ``attacks`` has a function ``attack(seconds, seed)``, which tries for so long and returns how
many tries there were and how many lost a value, were wrong or hung. What it finds it prints, with what
reproduces it.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Mapping, Sequence

from . import attacks

COLUMNS = ("tries", "lost", "wrong", "hung")


def names() -> list[str]:
    """The names of the attacks."""
    return sorted(module.name for module in pkgutil.iter_modules(attacks.__path__))


def run(seconds: float, seed: int, chosen: Sequence[str] = ()) -> dict[str, Mapping[str, int]]:
    """Runs each attack, or the chosen ones, for an equal part of ``seconds``; prints a row of each."""
    chosen = chosen or names()
    results = {}
    print(f"{'attack':<20}" + "".join(f"{name:>9}" for name in (*COLUMNS, "seconds")))
    for name in chosen:
        began = time.monotonic()
        module = importlib.import_module(f"{attacks.__name__}.{name}")
        results[name] = figures = module.attack(seconds / len(chosen), seed)
        row = [figures[column] for column in COLUMNS] + [round(time.monotonic() - began)]
        print(f"{name:<20}" + "".join(f"{figure:>9,}" for figure in row), flush=True)
    return results


def failures(results: Mapping[str, Mapping[str, int]]) -> int:
    """How many tries lost a value, were wrong or hung."""
    return sum(figures[name] for figures in results.values() for name in COLUMNS[1:])
