"""What lazynb says of the breaks of random programs, held against where they were written and what ``shadow``
counts.

``python -m tests.breaks.statements --programs 1000 --seed 1`` prints what is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import traceback
import types
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import jax.numpy as jnp
import numpy as np

import lazynb
from lazynb.running.break_log import break_log
from tests.breaks.random_programs import Writer
from tests.breaks.shadow import START, Pending, Shadow, namespaces

CODES = {"bool": "LNB101", "int": "LNB102", "float": "LNB103", "format": "LNB109"}
"""What tells two breaks on one line apart."""

Line = tuple[str, int]


class Written:
    """A program in files of their own."""

    def __init__(self, seed: int, folder: Path):
        writer = Writer(seed)
        self.files = {str(folder / file.name): file for file in writer.files}
        self.codes: dict[Line, tuple[str, ...]] = {}
        for path, file in self.files.items():
            Path(path).write_text(file.text)
            self.codes |= {(path, line): codes for line, codes in file.codes.items()}

    def run(self, names: dict[str, Any]) -> tuple[list[Any], str]:
        """What it puts out and prints."""
        out: list[Any] = []
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for path, file in self.files.items():
                module = types.ModuleType(file.name.removesuffix(".py"))
                module.__dict__.update(names, out=out, __file__=path)
                sys.modules[module.__name__] = module
                try:
                    exec(compile(file.text, path, "exec", dont_inherit=True), module.__dict__)
                finally:
                    if file is not next(iter(self.files.values())):
                        for each in self.files.values():
                            sys.modules.pop(each.name.removesuffix(".py"))
        return out, printed.getvalue()


class Told:
    """The breaks of one code on one line."""

    def __init__(self) -> None:
        self.times, self.ops = 0, 0
        self.callers: Counter[Line] = Counter()

    def add(self, ops: int | None, callers: Iterator[Line]) -> None:
        self.times += 1
        self.ops = None if ops is None or self.ops is None else self.ops + ops
        self.callers.update(callers)


def expected(written: Written) -> tuple[dict[tuple[Line, str], Told], list[Any], str]:
    """By line and code; what it puts out; what it prints."""
    shown = {line for line, codes in written.codes.items() if {"LNB108", "LNB109"} & {*codes}}
    pending = Pending(set(written.files), shown, together=jax.__version_info__ >= (0, 11))
    out, printed = written.run(namespaces(pending))
    told: dict[tuple[Line, str], Told] = defaultdict(Told)
    for event in pending.events:
        codes = written.codes[event.line]
        [code] = codes if len(codes) == 1 else [CODES[event.kind]]
        assert code in codes, event
        told[event.line, code].add(event.ops, iter(event.callers))
    return dict(told), out, printed


def wrong(seed: int, folder: Path) -> Iterator[str]:
    """What is said of a random program's breaks and is not so."""
    written = Written(seed, folder)
    truth, out, printed = expected(written)
    lazynb.sync()
    break_log.clear()
    x, y = (jnp.asarray(np.array(value, np.float32)) for value in START)
    with lazynb.lazy():
        found = written.run({"x": x, "y": y, "jnp": jnp, "lazynb": lazynb, "jax": jax})
    breaks, tallies = lazynb.breaks(), break_log.tallies()
    said = [((one.location.file, one.location.line), one.code) for one in breaks]
    for key in sorted({*said} | truth.keys()):
        if said.count(key) != (key in truth):
            yield f"{key}: told {said.count(key)} times, it {'is' if key in truth else 'is not'} one"
    for key, one in zip(said, breaks):
        if key in truth:
            yield from wrong_record(written, key, one, truth[key])
    for tally in tallies:
        yield from wrong_callers(written, tally, truth)
    yield from wrong_totals(breaks, truth)
    if (plain(found[0]), found[1]) != (plain(out), printed):
        yield f"put out {found}, not {(out, printed)}"


def plain(value: Any) -> Any:
    """A value without arrays in it."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, Shadow):
        return value.value.tolist()
    return value.tolist() if hasattr(value, "tolist") else value


def wrong_record(written: Written, key: tuple[Line, str], one, truth: Told) -> Iterator[str]:
    (path, line), _ = key
    file = written.files[path]
    if one.count != truth.times:
        yield f"{key}: {one.count} times, not {truth.times}"
    if truth.ops is not None and one.ops != truth.ops:
        yield f"{key}: {one.ops} operations, not {truth.ops}"
    callers = {(place.file, place.line) for place in one.callers if place.file in written.files}
    if callers != truth.callers.keys():
        yield f"{key}: called from {one.callers}, not {truth.callers}"
    if one.location.text != file.lines[line - 1].strip():
        yield f"{key}: the line is told as {one.location.text!r}"
    if (one.library is not None) != (line in file.through):
        yield f"{key}: asked by {one.library}"


def wrong_callers(written: Written, tally, truth: dict[tuple[Line, str], Told]) -> Iterator[str]:
    place, code = tally.spot.place, tally.record().code
    key = (place.file, place.line), code
    counts: Counter[Line] = Counter()
    for sums in tally.calling.values():
        if sums.spot.place.file in written.files:
            counts[sums.spot.place.file, sums.spot.place.line] += sums.count
    if key in truth and counts != truth[key].callers:
        yield f"{key}: called from {counts}, not {truth[key].callers}"


def wrong_totals(breaks, truth: dict[tuple[Line, str], Told]) -> Iterator[str]:
    if breaks.total != sum(one.times for one in truth.values()):
        yield f"{breaks.total} breaks in all"
    if breaks.lines != len({line for line, _ in truth}):
        yield f"{breaks.lines} lines in all"


def failures(seed: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return list(wrong(seed, Path(folder)))
        except Exception:
            return [traceback.format_exc()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.programs):
        found = failures(seed)
        bad += bool(found)
        for sentence in found:
            print(f"seed {seed}: {sentence}", flush=True)
        if (seed - options.seed + 1) % 200 == 0:
            print(f"{seed - options.seed + 1} programs, {bad} wrong", flush=True)
    print(f"{options.programs} programs, {bad} of them with something wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
