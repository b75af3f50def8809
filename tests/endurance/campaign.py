"""The campaign: programs from a seed until the time is over, what was found, and figures."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import time
import zlib
from collections.abc import Callable, Set
from pathlib import Path

from . import attack_runs
from .comparison import Finding, Outcome, compare
from .minimise import minimise
from .processes import Worlds
from .programs import Program, generate
from .reproducer import script

RENEWED = 25
"""Programs in one pair of processes: what they leave in caches is part of what is tried."""


@dataclasses.dataclass
class Found:
    """A difference, the program that shows it, as short as it could be made, and how often one like it came
    up."""

    seed: str
    finding: Finding
    program: Program
    outcome: Outcome
    times: int = 1

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it takes: how it differs, and the kinds of the statements that are left."""
        steps = self.outcome.steps
        return (
            self.finding.what,
            *sorted({step.statement.kind + " interrupted" * (step.aim is not None) for step in steps}),
        )


@dataclasses.dataclass
class Report:
    """What a campaign came to."""

    found: list[Found] = dataclasses.field(default_factory=list)
    figures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    seconds: float = 0.0

    def text(self) -> str:
        """The figures, one a line."""
        kept = dict(self.figures)
        places = sorted((count, name) for name, count in kept.items() if name.startswith("interrupts in "))
        lines = [
            f"{count:>10,}  {name}"
            for name, count in sorted(kept.items())
            if not name.startswith("interrupts in ")
        ]
        lines += [f"{count:>10,}  {name}" for count, name in reversed(places)][:25]
        differences = sum(one.times for one in self.found)
        lines.append(f"{differences:>10,}  differences, {len(self.found)} kinds")
        return "\n".join([*lines, f"{self.seconds:>10,.0f}  seconds"])


def campaign(
    seconds: float,
    seed: str,
    *,
    first: int = 0,
    patience: float = 60.0,
    kinds: int = 30,
    least: int = 0,
    until: Set[str] = frozenset(),
    only: tuple[str, ...] = (),
    signals: bool = True,
    environment: dict[str, str] | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Runs programs until ``seconds`` are over or so many ``kinds`` of differences are known.

    Arguments:
      first: the number of the first program.
      patience: seconds for making a program shorter.
      least: so many programs are run though the time be over.
      until: what is looked for: the first difference of one of these ends it.
      only, signals: see :func:`generate`.
      environment: variables for the lazy world's process.
      say: takes what is found when it is found.
    """
    report, known, number = Report(), dict[tuple[str, ...], Found](), first
    with Worlds(environment) as worlds:
        start = time.monotonic()
        while (time.monotonic() - start < seconds or number - first < least) and len(report.found) < kinds:
            if until & {one.finding.what for one in report.found}:
                break
            program = generate(f"{seed}:{number}", only, signals)
            outcome = compare(program, worlds)
            report.figures.update(outcome.figures)
            report.figures["programs"] += 1
            if outcome.finding is not None:
                _enter(report, known, program, outcome, worlds, patience, say)
            number += 1
            if number % RENEWED == 0:
                worlds.renew()
        report.seconds = time.monotonic() - start
    return report


def _enter(
    report: Report,
    known: dict[tuple[str, ...], Found],
    program: Program,
    outcome: Outcome,
    worlds: Worlds,
    patience: float,
    say: Callable[[str], None],
) -> None:
    """Notes a difference; the first of its kind is made shorter."""
    finding = outcome.finding
    assert finding is not None
    if (there := known.get(("", *finding.signature))) is not None:
        there.times += 1
        return
    short, found = minimise(program, outcome, worlds, patience)
    assert found.finding is not None
    one = Found(program.seed, found.finding, short, found)
    if (there := known.get(one.kinds)) is not None:
        there.times += 1
        known["", *finding.signature] = there
        return
    known[one.kinds] = known["", *finding.signature] = one
    report.found.append(one)
    steps = "\n".join(
        f"    {step.statement.source!r} x{step.statement.repeat}" + (f"  <- {step.aim}" if step.aim else "")
        for step in found.steps
    )
    say(
        f"seed {program.seed} step {finding.number}, {short.style}: {found.finding.what}: "
        f"{found.finding.text}\n{steps}"
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 where something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.endurance", description="Random programs, lazily and eagerly."
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default="1", help="the same seed, the same programs")
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument(
        "--kinds", type=int, default=30, help="stop when so many kinds of differences are known"
    )
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for making a program shorter")
    parser.add_argument(
        "--out", type=Path, default=Path("build/endurance"), help="where reproducers are written"
    )
    parser.add_argument("--only", default="", help="kinds of statements, with commas between; see kinds.py")
    parser.add_argument("--no-signals", action="store_true")
    parser.add_argument(
        "--attacks",
        default=None,
        metavar="NAMES",
        help=f"only these attacks, with commas between, or 'all': {', '.join(attack_runs.names())}; without "
        "the option and without --only a third of the time is for all attacks",
    )
    options = parser.parse_args(arguments)
    if options.attacks is not None:
        chosen = () if options.attacks == "all" else options.attacks.split(",")
        return int(
            bool(attack_runs.failures(attack_runs.run(options.minutes * 60, _number(options.seed), chosen)))
        )
    share = 0.0 if options.only else 1 / 3
    only = tuple(filter(None, options.only.split(",")))
    report = campaign(
        options.minutes * 60 * (1 - share),
        options.seed,
        first=options.first,
        patience=options.patience,
        kinds=options.kinds,
        only=only,
        signals=not options.no_signals,
        say=lambda text: print(text, flush=True),
    )
    print(report.text())
    for number, one in enumerate(report.found, 1):
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / f"{number:02}-{one.finding.what.replace(' ', '-')}.py"
        path.write_text(
            script(
                one.program,
                one.outcome,
                f"python -m tests.endurance --seed {options.seed}, program {one.seed}",
            )
        )
        print(f"{path}: {one.times} times, {one.finding.what} ({', '.join(one.kinds[1:])})")
    attacked = attack_runs.run(options.minutes * 60 * share, _number(options.seed)) if share else {}
    return int(bool(report.found or attack_runs.failures(attacked)))


def _number(seed: str) -> int:
    """A number for the text of a seed."""
    return int(seed) if seed.isdecimal() else zlib.crc32(seed.encode())
