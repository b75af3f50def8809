"""What notebook 05 measures with: ways to run a loop, taken in turns; kernels a step; tables; figures kept
for other machines."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import jax

import lazynb
from lazynb.xla.hlo.module import parse

COPIES = frozenset({"copy", "copy-start", "copy-done"})


@dataclasses.dataclass
class Row:
    """A way to run the loop.

    Attributes:
      name: as the table says.
      run: runs ``steps`` steps and gives the state after the last.
      steps: how many.
      paper: the paper's speed relative to its baseline; empty where it has none.
      kernels, copies: launched a step, and how many of those only copy; None where nobody says.
      seconds: of each run.
    """

    name: str
    run: Callable[[], Any]
    steps: int
    paper: str = ""
    kernels: float | None = None
    copies: float | None = None
    seconds: list[float] = dataclasses.field(default_factory=list)

    @property
    def micros(self) -> list[float]:
        """Microseconds a step, of each run."""
        return [one / self.steps * 1e6 for one in self.seconds]


def lazily(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
    """Calls it recorded, and hands over what it recorded: what runs is the executable that ``lazynb.compile``
    shows."""

    @lazynb.lazy()
    def run() -> Any:
        state = function(*arguments, **options)
        lazynb.sync(*jax.tree.leaves(state))
        return state

    return run


def race(rows: Sequence[Row], rounds: int = 7) -> list[Any]:
    """Runs each row once unmeasured, then all in turns, so that what disturbs the machine falls on all alike.

    Returns: the states after the first runs.
    """
    with lazynb.eager():
        states = [jax.block_until_ready(row.run()) for row in rows]
        for _ in range(rounds):
            for row in rows:
                began = time.perf_counter()
                jax.block_until_ready(row.run())
                row.seconds.append(time.perf_counter() - began)
    return states


def speeds(row: Row, baseline: Row) -> list[float]:
    """How much faster than the baseline it was in each round."""
    return [theirs / mine for mine, theirs in zip(row.micros, baseline.micros)]


@dataclasses.dataclass(frozen=True)
class Work:
    """What one run of a program does, by XLA's own account of it.

    Attributes:
      kernels, copies: launches, those in a loop as often as it turns, and how many of them only copy.
      transcendentals: sines, cosines and the like that it computes, counted by element.
    """

    kernels: float
    copies: float
    transcendentals: float


def work(compilation: lazynb.Compilation) -> Work | None:
    """What one run does; None where XLA does not say how often a loop turns, or how a branch is taken."""
    module = parse(compilation.hlo.after)
    turns: dict[str, float] = {"": 1}
    kernels = copies = transcendentals = 0.0
    for cluster, cost in zip(compilation.clusters, compilation.cost):
        often = turns[cluster.inside]
        if cluster.kind == "control":
            once = _turns(cluster.opcode, module.by_name[cluster.name].text)
            if once is None:
                return None
            turns[cluster.name] = often * once
            continue
        kernels += often
        copies += often * (cluster.opcode in COPIES)
        transcendentals += often * ((cost.transcendentals if cost else 0) or 0)
    return Work(kernels, copies, transcendentals)


def _turns(opcode: str, text: str) -> int | None:
    if opcode == "call":
        return 1
    found = re.search(r'"known_trip_count":\{"n":"(\d+)"', text) if opcode == "while" else None
    return int(found[1]) if found else None


class Text(str):
    """A text that a cell shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def described(compilation: lazynb.Compilation) -> Text:
    """The clusters of a program, loop by loop, and the reasons why they are not one."""
    lines = []
    for inside, title in _places(compilation):
        here = [one for one in compilation.clusters if one.inside == inside]
        kinds = Counter("copy" if one.opcode in COPIES else one.library or one.kind for one in here)
        lines.append(f"{title}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
        large = [
            one
            for one in here
            if one.kind != "control" and one.opcode not in COPIES and one.output_bytes > 64
        ]
        lines += [f"    {one.name:28} writes {one.output_bytes:,} B" for one in large]
    lines.append("why they are not one:")
    reasons = Counter((one.code, one.text, one.label) for one in compilation.boundaries if one.consumer)
    lines += [
        f"    {count:3} x {code}: {text} ({label})" for (code, text, label), count in reasons.most_common()
    ]
    return Text("\n".join(lines))


def _places(compilation: lazynb.Compilation) -> list[tuple[str, str]]:
    """The program itself and each of its loops and calls, with a title for each."""
    found = [("", "outside loops")]
    for one in compilation.clusters:
        if one.kind == "control":
            found.append(
                (
                    one.name,
                    f"in {one.opcode} {one.name}" + (f", which is in {one.inside}" if one.inside else ""),
                )
            )
    return found


class Table:
    """Rows under a head, in Markdown and as text."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]]):
        self.head, self.rows = list(head), [list(row) for row in rows]

    def _repr_markdown_(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)

    def __repr__(self) -> str:
        wide = [max(map(len, column)) for column in zip(self.head, *self.rows)]
        return "\n".join(
            "  ".join(cell.ljust(size) for cell, size in zip(row, wide)).rstrip()
            for row in (self.head, *self.rows)
        )


def table(rows: Sequence[Row]) -> Table:
    """Time, speed and kernels of each row; the first is the baseline."""
    head = [
        "",
        "µs a step (fastest to slowest)",
        "runs",
        "speed here (quartiles)",
        "paper",
        "kernels a step",
        "of them copies",
    ]
    return Table(head, [_cells(row, rows[0]) for row in rows])


def _cells(row: Row, baseline: Row) -> list[str]:
    mine = row.micros
    low, middle, high = quantiles(speeds(row, baseline), n=4)
    return [
        row.name,
        f"{median(mine):.1f} ({min(mine):.1f} to {max(mine):.1f})",
        str(len(mine)),
        f"{middle:.2f}x ({low:.2f} to {high:.2f})",
        row.paper or "-",
        _count(row.kernels),
        _count(row.copies),
    ]


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"


def machine() -> dict[str, str]:
    """What the figures depend on."""
    device = jax.devices()[0]
    return {
        "backend": jax.default_backend(),
        "device": device.device_kind,
        "cores": str(os.cpu_count()),
        "processor": platform.machine(),
        "JAX": jax.__version__,
        "Python": platform.python_version(),
    }


def record(rows: Sequence[Row], folder: str | Path = ".") -> Path:
    """Writes the figures and what they depend on to ``cartpole-BACKEND.json``, for others to see."""
    file = Path(folder) / f"cartpole-{jax.default_backend()}.json"
    kept = [
        {field.name: getattr(row, field.name) for field in dataclasses.fields(row) if field.name != "run"}
        for row in rows
    ]
    file.write_text(json.dumps({"machine": machine(), "rows": kept}, indent=1) + "\n")
    return file


def recorded(folder: str | Path = ".") -> dict[str, tuple[Mapping[str, str], list[Row]]]:
    """What :func:`record` wrote there: the machine and the rows, by backend."""
    found = {}
    for file in sorted(Path(folder).glob("cartpole-*.json")):
        content = json.loads(file.read_text())
        found[content["machine"]["backend"]] = (
            content["machine"],
            [Row(run=_gone, **row) for row in content["rows"]],
        )
    return found


def _gone() -> None:
    raise RuntimeError("this row was measured on another machine")
