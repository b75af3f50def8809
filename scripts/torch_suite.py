"""Compares PyTorch's own samples of each operation (OpInfo) on device "jax", lazily, with the CPU.

    python scripts/torch_suite.py [ASPECT ...] [--samples N] [--only NAME ...] [--again]

ASPECT is what is compared, and the dtype: ``values-float32``, ``gradients-float32``, ``errors-float32``,
``inplace-float32``, ``out-float32``, ``values-int64``, ...; without any, those of the documentation are run.
For each aspect it prints the operations that fail, with the reason where
``tests/torchsuite/differences.toml`` has one, the operations of PyTorch's that fell back to the CPU (trace
breaks of kind ``unrecordable``), and the share of operations that pass: of all of them, and without those
that differ by nature. Results are kept in build/torch-suite; ``--again`` runs those operations anew that
failed there.

An operation that ends its process, or never ends, is one that failed; the rest is run in another process. The
exit status is 1 where an operation fails that is not in the table.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "torch-suite"
SILENCE = 240  # seconds after which an operation that says nothing is taken to hang
USUAL = (
    "values-float32",
    "gradients-float32",
    "gradients-complex64",
    "errors-float32",
    "values-int64",
    "values-complex64",
    "values-bfloat16",
    "values-bool",
    "inplace-float32",
    "out-float32",
)
Results = dict[str, dict[str, Any]]


# ---- the process that compares -----------------------------------------------------------------------------


def compare(aspect: str, names: Sequence[str], most: int, log: Path) -> None:
    """Compares the operations ``names``, and writes a line to ``log`` before and after each."""
    import torch
    from torchsuite.aspects import ASPECTS, Found, said
    from torchsuite.operations import name_of, operations
    from torchsuite.table import Table

    import lazynb.torch

    lazynb.torch.enable()
    table, (kind, _, dtype) = Table.load(), aspect.partition("-")
    wanted = set(names)
    for operation in operations():
        name = name_of(operation)
        if name not in wanted:
            continue
        began = time.monotonic()
        _write(log, {"start": name})
        try:
            found = ASPECTS[kind](operation, getattr(torch, dtype), most, table.comparison(name))
        except Exception as error:  # a sample cannot be moved
            found = Found(1, [said(error)])
        _write(log, {"operation": name, **vars(found), "seconds": round(time.monotonic() - began, 1)})


def _write(log: Path, line: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")


def all_names(dtype: str) -> list[str]:
    """The operations that the CPU has for ``dtype``."""
    import torch
    from torchsuite.operations import name_of, operations

    return [name_of(one) for one in operations() if one.supports_dtype(getattr(torch, dtype), "cpu")]


# ---- running it --------------------------------------------------------------------------------------------


def run(aspect: str, names: Sequence[str], most: int) -> Results:
    """What was found of each operation, from earlier runs where ``names`` has it no more."""
    BUILD.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{aspect}.jsonl"
    left = list(names)
    while left:
        status = _process(aspect, left, most, log)
        interrupted = read(log)[1]
        if interrupted is None:
            if status:
                raise SystemExit(
                    f"the process that compares ends with status {status}: {log.with_suffix('.txt')}"
                )
            break
        how = "runs for ever" if status == -signal.SIGKILL else f"ends the process with status {status}"
        _write(log, {"operation": interrupted, "samples": 1, "failures": [how], "strides": [], "breaks": []})
        left = left[left.index(interrupted) + 1 :]
    return read(log)[0]


def _process(aspect: str, names: Sequence[str], most: int, log: Path) -> int:
    paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "LAZYNB_PERSISTENT_CACHE": "0",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    chosen = log.with_suffix(".names")
    chosen.write_text(json.dumps(list(names)))
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(Path(__file__)),
        "--compare",
        aspect,
        "--samples",
        str(most),
    ]
    with log.with_suffix(".txt").open("a") as output:
        began = time.time()  # the log may be of a run long ago
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        while True:
            try:
                return process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                spoken = log.stat().st_mtime if log.exists() else 0
                if time.time() - max(began, spoken) > SILENCE:
                    process.kill()


def read(log: Path) -> tuple[Results, str | None]:
    """The newest results in ``log``, and the operation that was begun and not ended."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found = {line["operation"]: line for line in lines if "operation" in line}
    last = lines[-1].get("start") if lines else None
    return found, last


# ---- what came of it ---------------------------------------------------------------------------------------


def report(aspect: str, found: Results) -> tuple[str, int]:
    """The table of an aspect, and how many operations fail for no reason."""
    from torchsuite.table import Table

    table = Table.load()
    compared = {name: one for name, one in found.items() if one["samples"]}
    failing = {name: one for name, one in compared.items() if one["failures"]}
    known = {name: table.reason(name, aspect) for name in failing}
    lines = [f"== {aspect}"]
    for name, one in failing.items():
        lines.append(
            f"{name}: {len(one['failures'])} of {one['samples']}: {known[name] or one['failures'][0][:300]}"
        )
    breaks = sorted({kind for one in compared.values() for kind in one["breaks"]})
    if breaks:
        lines.append(f"on the CPU: {', '.join(breaks)}")
    unlisted = [name for name in failing if known[name] is None]
    undetermined = sum(table.undetermined_by(name) is not None for name in compared)
    lines.append(_shares(aspect, len(compared), len(failing), len(unlisted), undetermined))
    return "\n".join(lines), len(unlisted)


def _shares(aspect: str, count: int, failing: int, unlisted: int, undetermined: int) -> str:
    listed = failing - unlisted
    plain = 100 * (count - failing) / max(count, 1)
    rest = 100 * (count - failing) / max(count - listed, 1)
    return (
        f"{aspect}: {count} operations, {count - failing} pass ({plain:.2f} %); without {listed} that differ "
        f"by nature {rest:.2f} %; of {undetermined} shapes and dtypes alone are compared"
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("aspects", nargs="*", default=USUAL)
    parser.add_argument("--samples", type=int, default=10, help="of each operation (10), equally spaced")
    parser.add_argument("--only", nargs="+", help="names of operations")
    parser.add_argument("--again", action="store_true", help="the operations that failed in the kept results")
    parser.add_argument("--shown", action="store_true", help="only what is kept")
    parser.add_argument("--compare", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace, aspect: str) -> list[str]:
    log = BUILD / f"{aspect}.jsonl"
    if options.shown:
        return []
    if options.only:
        return list(options.only)
    if options.again:
        return [name for name, one in read(log)[0].items() if one["failures"]]
    log.unlink(missing_ok=True)
    return all_names(aspect.partition("-")[2])


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.compare:
        (aspect,) = options.aspects
        log = BUILD / f"{aspect}.jsonl"
        compare(aspect, json.loads(log.with_suffix(".names").read_text()), options.samples, log)
        return 0
    unlisted = 0
    for aspect in options.aspects:
        text, count = report(aspect, run(aspect, _chosen(options, aspect), options.samples))
        print(text, flush=True)
        unlisted += count
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    sys.exit(main())
