"""``python -m benchmarks``: times the rows, writes the report, or checks against the limits."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, store
from benchmarks.driver import Driver, say
from benchmarks.peers import PEERS
from benchmarks.report import describe, report
from benchmarks.results import Result
from benchmarks.rows import GROUPS, ROWS, Row
from benchmarks.verdicts import CHECKED, FIRST, MARGINS, STORED, regressions, stored, to_store

RESULTS = Path(__file__).parent / "RESULTS.md"
# Rounds, and seconds a peer is timed in each.
COMPLETE = (9, 0.3)
QUICK = (5, 0.15)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=...", description="Times lazynb against its peers."
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds; printed, not written")
    parser.add_argument(
        "--check", action="store_true", help="quick, against JAX alone; exit status 1 where a limit is passed"
    )
    parser.add_argument(
        "--rows", nargs="+", metavar="ROW", help="names, groups, or patterns such as 'torchy-*-1000'"
    )
    parser.add_argument(
        "--peers", nargs="+", metavar="PEER", choices=list(PEERS), help=f"of {', '.join(PEERS)}"
    )
    parser.add_argument("--rounds", type=int, help=f"instead of {COMPLETE[0]} ({QUICK[0]} when quick)")
    parser.add_argument(
        "--out", type=Path, help="where the report is written; a complete run writes benchmarks/RESULTS.md"
    )
    parser.add_argument(
        "--merge", action="store_true", help="puts these rows into benchmarks/RESULTS.md, the others stay"
    )
    parser.add_argument("--list", action="store_true", help="lists the rows")
    options = parser.parse_args(arguments)
    options.rows = selected(options.rows, options.quick or options.check, parser)
    if options.rounds is not None and options.rounds < 1:
        parser.error("at least one round")
    if options.merge and (options.quick or options.check or options.peers or options.out):
        parser.error("--merge is for complete rows: without --quick, --check, --peers and --out")
    return options


def selected(wanted: Sequence[str] | None, quick: bool, parser: argparse.ArgumentParser) -> list[Row]:
    """The rows asked for; else the quick ones or all."""
    if not wanted:
        return [row for row in ROWS.values() if row.quick or not quick]
    chosen = {}
    for one in wanted:
        found = [row for row in ROWS.values() if row.group == one or fnmatch.fnmatchcase(row.name, one)]
        if not found:
            parser.error(
                f"no row is called {one!r}; groups are {', '.join(GROUPS)}, and --list lists the rows"
            )
        chosen.update({row.name: row for row in found})
    return list(chosen.values())


def measure(driver: Driver, rows: Sequence[Row], rounds: int | None = None) -> list[Result]:
    """The results of all rows, in order."""
    results = []
    for number, row in enumerate(rows, 1):
        say(f"[{number}/{len(rows)}] {row.name}")
        results.append(driver.measure(row, rounds))
    return results


def check(driver: Driver, results: list[Result], rounds: int) -> int:
    """The exit status: 1 where a figure passes its limit twice, the second time with twice the rounds."""
    if driver.skipped:
        say(f"benchmarks: FAILED, nothing to compare: {driver.skipped}")
        return 1
    known = stored()
    suspects = {verdict.target.row: ROWS[verdict.target.row] for verdict in regressions(results, known)}
    if suspects:
        say(f"over its limit, so measured again: {', '.join(suspects)}")
    failed = regressions(measure(driver, list(suspects.values()), 2 * rounds), known)
    for verdict in failed:
        print(
            f"REGRESSION {describe(verdict)}, a margin of {MARGINS[ROWS[verdict.target.row].measure]:.0%} in "
            "it"
        )
    print(
        f"benchmarks: {len(results) - len({verdict.target.row for verdict in failed})} of {len(results)} "
        "rows within limits"
    )
    return 1 if failed else 0


def write(
    options: argparse.Namespace, complete: bool, driver: Driver, results: list[Result], facts: dict[str, str]
) -> None:
    """Writes the report where it belongs, or prints it."""
    publish = (complete or options.merge) and not options.out
    before = store.load() if publish and not complete else ([], [])
    runs, results = store.merged(*before, store.Run(facts, driver.versions, driver.skipped), results)
    text = report(results, runs)
    place = options.out or (RESULTS if publish else None)
    if place is None:
        print(text)
        return
    place.write_text(text)
    say(f"wrote {place}")
    if publish:
        store.save(runs, results)
        STORED.write_text(json.dumps(to_store(results), indent=1) + "\n")
        say(f"wrote {store.PUBLISHED} and {STORED}")


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    options = parse(arguments)
    if options.list:
        print(*(f"{row.name:24}{row.group:12}{', '.join(row.peers)}" for row in options.rows), sep="\n")
        return 0
    quick = options.quick or options.check
    rounds, budget = QUICK if quick else COMPLETE
    rounds = options.rounds or rounds
    complete = not (quick or options.peers or len(options.rows) < len(ROWS))
    facts = machine.facts()
    if machine.load() > machine.cores() / 2:
        say(
            f"the machine is busy (load average {machine.load():.1f}): what uses several cores looks slower "
            "than it is"
        )
    with Driver(involved(options), rounds, budget) as driver:
        results = measure(driver, options.rows)
        write(options, complete, driver, results, facts)
        return check(driver, results, rounds) if options.check else int(FIRST in driver.skipped)


def involved(options: argparse.Namespace) -> list[str]:
    """The peers asked for that the rows have; always lazynb, as the rows have it."""
    wanted = CHECKED if options.check else options.peers or PEERS
    needed = {peer for row in options.rows for peer in row.peers}
    always = dict.fromkeys(row.peers[0] for row in options.rows)
    return [*always, *(peer for peer in wanted if peer in needed and peer not in always)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
