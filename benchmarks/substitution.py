"""What each substituted name saves: recording one call with and without it.

    python -m benchmarks.substitution [NAME ...]      such as jax.numpy.tanh; all names without arguments

The calls are the samples of ``tests/meaning``. A round records a call ``CALLS`` times from an empty trace, by
JAX's own function and by what stands in for it, one after the other, on arrays that were recorded too, and
runs it: a trace that never runs is forgotten. Beside each name stand the medians of the rounds (microseconds
of this thread's work a call) and how many times longer JAX's own takes. A name whose ratio stays below
``WORTH`` saves nothing: a reason to leave it as it is (``NOT_FASTER`` in ``lazynb/jax_compat/jax_names.py``).
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import lazynb
from lazynb.recording.replay.array_functions import substitutes

TESTS = Path(__file__).parent.parent / "tests"
CALLS = 5
ROUNDS = 15
WORTH = 1.2


def samples() -> dict[str, dict[str, Any]]:
    """By namespace and name, a call that works."""
    sys.path.insert(0, str(TESTS))
    from meaning.test_namespaces import TABLES  # type: ignore[import-not-found]

    found: dict[str, dict[str, Any]] = {}
    for title, (_, cases, _) in TABLES.items():
        found[title] = {}
        for name, of_name in cases.items():
            plain = [sample for sample in of_name if not sample.raises and sample.via is None]
            if plain:
                found[title][name] = plain[0]
    return found


def _recorded(operand: Any) -> Any:
    """An array as it is inside of a lazy program; any other operand unchanged."""
    if not isinstance(operand, jax.Array):
        return operand
    return (
        jax.random.clone(operand)
        if jax.dtypes.issubdtype(operand.dtype, jax.dtypes.prng_key)
        else operand.copy()
    )


def measured(own: Callable[..., Any], ours: Callable[..., Any], sample: Any) -> tuple[float, float]:
    """Microseconds a call takes to record, by JAX's own function and by what stands in for it."""
    from oracle import Call, _arguments  # type: ignore[import-not-found]

    operands = _arguments(Call(own, sample.args, sample.kwargs))
    functions = (("own", own), ("ours", ours))
    times: dict[str, list[float]] = {"own": [], "ours": []}
    with lazynb.lazy():
        args, kwargs = jax.tree.map(_recorded, operands)
        for number in range(ROUNDS + 2):
            for which, function in functions:
                start = time.thread_time_ns()
                results = [function(*args, **kwargs) for _ in range(CALLS)]
                spent = (time.thread_time_ns() - start) / CALLS / 1e3
                lazynb.sync(results)
                del results
                if number >= 2:  # the first traces and learns
                    times[which].append(spent)
    return statistics.median(times["own"]), statistics.median(times["ours"])


def rows(names: set[str]) -> Iterator[tuple[str, float, float]]:
    """Name, JAX's own time and ours."""
    calls = samples()
    for module, ours in substitutes():
        title = getattr(module, "__name__", "")
        for name, function in ours.items():
            full, sample = f"{title}.{name}", calls.get(title, {}).get(name)
            if sample is None or (names and full not in names):
                continue
            own = vars(module)[name]
            try:
                yield full, *measured(own, function, sample)
            except Exception as error:
                print(f"{full}: {type(error).__name__}: {error}", file=sys.stderr)


def main(names: list[str]) -> None:
    """Prints each name as it is measured, then those that save nothing."""
    warnings.simplefilter("ignore")
    useless = []
    ratios = []
    for name, own, ours in rows(set(names)):
        ratios.append(own / ours)
        print(f"{name:45s} {own:8.1f} {ours:8.1f} {own / ours:6.1f}", flush=True)
        if own / ours < WORTH:
            useless.append(name)
    print(f"{len(ratios)} names, median ratio {np.median(ratios):.1f}")
    print(f"below {WORTH}:", *useless)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    main(sys.argv[1:])
