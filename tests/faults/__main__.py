"""The command line: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.faults.planting import ROOT, Copy, Fault, copied, faults
from tests.faults.reach import Reach

sys.path.append(str(ROOT / "scripts"))
import suite

BUILD = ROOT / "build" / "faults"
RESULTS = Path(__file__).with_name("RESULTS.md")
OUTCOMES = BUILD / "outcomes.json"
UNFIT = BUILD / "fail_without_a_fault.txt"
MINUTES = ("tests/ui/", "tests/course/", "tests/notebook/test_cluster_kernel.py")
"""Left out: a browser, a whole notebook, tests that need those before them in their file."""
TESTS = {"recording": "record", "running": "execute", "report": "view"}
"""Folders of tests by the room that they test, where the names differ."""
TIERS = ("smoke", "default", "full")
"""Each has the tests of the one before it."""
FEW = 15.0  # seconds of tests that are tried before the others
UNNOTED = {
    "lazynb/recording/_fast.c": (
        "tests/record/test_accelerator",
        "tests/execute/test_hand_over",
        "tests/record/",
        "tests/execute/",
    ),
    "lazynb/frontends/torch/_short.c": (f"{suite.PYTORCH}/test_short", f"{suite.PYTORCH}/"),
    "lazynb/frontends/torch/": (f"{suite.PYTORCH}/",),
}
"""Where no line tells which tests run it (C, and a Python without `sys.monitoring`): whose tests do, the first come
first."""


def reach(asked: argparse.Namespace) -> int:
    """Runs the tests of all tiers but those in a browser, and notes the lines they run."""
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = BUILD / "reach"
    folder.mkdir(exist_ok=True)
    paths = [str(ROOT), str(Path(__file__).with_name("site"))]
    environment = {**os.environ, "LAZYNB_REACH": str(folder), "PYTHONPATH": os.pathsep.join(paths)}
    environment["LAZYNB_TIER"] = "full"
    command = [sys.executable, "-m", "pytest", "-p", "tests.faults.reach", "-n", "2", "--dist", "loadgroup"]
    return subprocess.run(
        [*command, "-q", "--tb=line", *asked.arguments], cwd=ROOT, env=environment
    ).returncode


def members(tier: str, pytorch: str | None) -> set[str]:
    """The ids of a tier's tests; those of PyTorch code as the Python ``pytorch`` collects them."""
    environment = {**os.environ, "LAZYNB_TIER": "default" if tier == "smoke" else tier}
    collected = [[sys.executable, *(suite.smoke() if tier == "smoke" else [])]]
    if pytorch and tier != "smoke":
        collected.append([pytorch, suite.PYTORCH])
    found: set[str] = set()
    for python, *arguments in collected:
        command = [python, "-m", "pytest", "--collect-only", "-q", *arguments]
        listed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        found.update(
            line for line in listed.stdout.splitlines() if line.startswith("tests/") and "::" in line
        )
    return found


class Campaign:
    """Plants faults and remembers what notices them."""

    def __init__(self, asked: argparse.Namespace):
        self._asked = asked
        self._reach = Reach.read(BUILD / "reach")
        pythons = suite.Pythons()
        version, _ = pythons.with_pytorch()
        self._pytorch = str(pythons.environment(version)) if version else None
        with ThreadPoolExecutor(2) as pool:
            collected = list(pool.map(lambda tier: members(tier, self._pytorch), (*TIERS, "browser")))
        left_out = collected.pop() | {test for test in collected[-1] if test.startswith(MINUTES)}
        self._tiers = {tier: tests - left_out for tier, tests in zip(TIERS, collected, strict=True)}
        self._outcomes: dict[str, Any] = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
        self._unfit = set(UNFIT.read_text().splitlines()) if UNFIT.exists() else set[str]()
        self._lock = threading.Lock()

    def run(self) -> None:
        todo = [(number, fault) for number, fault in enumerate(faults(), 1) if self._is_asked(number, fault)]
        with copied() as first, copied() as second:
            free = [first, second]

            def one(number: int, fault: Fault) -> None:
                copy = free.pop()
                try:
                    began = time.monotonic()
                    outcome = self._outcome(fault, copy, self._outcomes.get(str(number), {}))
                    outcome["seconds"] = round(time.monotonic() - began + outcome.get("seconds", 0))
                    self._keep(number, outcome)
                finally:
                    free.append(copy)

            with ThreadPoolExecutor(2) as pool:
                for future in [pool.submit(one, *each) for each in todo]:
                    future.result()
            self._control(first)

    def _control(self, copy: Copy) -> None:
        """Runs the tests that noticed without a fault. Of one that fails then the outcomes are forgotten."""
        by_number = {number: set(map(_test, one.values())) for number, one in self._outcomes.items()}
        noticed = {test for tests in by_number.values() for test in tests if "::" in test}
        about_pytorch = {test for test in noticed if test.startswith(suite.PYTORCH)}
        for python, tests in (
            (sys.executable, noticed - about_pytorch),
            (self._pytorch or "", about_pytorch),
        ):
            while tests and (failed := copy.run(python, sorted(tests), 3600, "full").test):
                print(f"{failed} fails without a fault: what it noticed is forgotten", flush=True)
                tests.remove(failed)
                self._unfit.add(failed)
                UNFIT.write_text("\n".join(sorted(self._unfit)))
                for number in [number for number, tests_of in by_number.items() if failed in tests_of]:
                    self._outcomes.pop(number, None)
        OUTCOMES.write_text(json.dumps(self._outcomes, indent=1))

    def _is_asked(self, number: int, fault: Fault) -> bool:
        if self._asked.only:
            return number in self._asked.only
        if self._asked.folders and fault.folder not in self._asked.folders:
            return False
        kept = self._outcomes.get(str(number), {})
        return self._asked.again or not ("gone" in kept or self._asked.tier in kept)

    def _outcome(self, fault: Fault, copy: Copy, kept: dict[str, Any]) -> dict[str, Any]:
        """By tier the test that noticed the fault, with a reason, or None. ``kept``: of the tiers before."""
        place = fault.lines((copy.root / fault.file).read_text())
        python = self._pytorch if fault.is_of_pytorch else sys.executable
        if place is None or python is None:
            return {"gone": True}
        tests = [test for test in self._tests(fault, place) if test not in self._unfit]
        outcome: dict[str, Any] = {} if self._asked.again else kept
        outcome["reached"] = len(tests)
        with copy.with_fault(fault, python) as can_be:
            if not can_be:
                return {"gone": True}
            had: set[str] = set()
            for tier in TIERS[: TIERS.index(self._asked.tier) + 1]:
                mine = [test for test in tests if test in self._tiers[tier] and test not in had]
                had.update(mine)
                if tier in outcome:
                    continue
                if found := self._noticed(mine, fault, copy, "full" if tier == "full" else "default"):
                    for each in TIERS[TIERS.index(tier) :]:
                        outcome[each] = found
                    break
                outcome[tier] = None
        return outcome

    def _tests(self, fault: Fault, place: range) -> list[str]:
        """The tests that run the fault's lines. Where none is known to, those of a folder."""
        reaching = self._reach.of(fault.file.removeprefix("lazynb/"), place)
        starts = _starts(fault)
        return reaching or [test for test in self._tiers["full"] if test.startswith(starts)]

    def _noticed(self, tests: list[str], fault: Fault, copy: Copy, tier: str) -> str | None:
        """The test that notices. Those of the module's own file come first, then its folder's, and each group
        the quickest first, as many as take ``--patience`` seconds together; a few are tried before the many."""
        own = f"/test_{Path(fault.file).stem}.py::"
        starts = _starts(fault)
        seconds = {test: self._reach.seconds.get(test, 1.0) for test in tests}

        def rank(test: str) -> int:
            return (
                -1 if own in test else next((n for n, one in enumerate(starts) if test.startswith(one)), 99)
            )

        ordered = sorted(tests, key=lambda test: (rank(test), seconds[test], test))
        for patience in (FEW, self._asked.patience):
            chosen: list[str] = []
            expected = 0.0
            while ordered and (not chosen or expected + seconds[ordered[0]] <= patience):
                expected += seconds[ordered[0]]
                chosen.append(ordered.pop(0))
            if not chosen:
                break
            python = self._pytorch if starts[-1].startswith(suite.PYTORCH) else sys.executable
            verdict = copy.run(python or "", chosen, 4 * expected + 120, tier)
            if verdict.test:
                return "\t".join(filter(None, (verdict.test, verdict.why)))
        return None

    def _keep(self, number: int, outcome: dict[str, Any]) -> None:
        with self._lock:
            self._outcomes[str(number)] = outcome
            OUTCOMES.write_text(json.dumps(self._outcomes, indent=1))
            print(number, json.dumps(outcome), flush=True)


def recheck(only: Sequence[int]) -> int:
    """Plants each fault that RESULTS.md says is noticed, and runs the test that noticed it first. Prints those that it
    does not notice now."""
    row = re.compile(r"^\| (\d+) \| .* \| `(tests/.*)` \|$", re.MULTILINE)
    noticed = {
        int(number): test
        for number, test in row.findall(RESULTS.read_text())
        if not only or int(number) in only
    }
    every = dict(enumerate(faults(), 1))
    pythons = suite.Pythons()
    version, _ = pythons.with_pytorch()
    pytorch = str(pythons.environment(version)) if version else ""
    lost = []
    with copied() as copy:
        for number, test in noticed.items():
            fault = every[number]
            python = pytorch if fault.is_of_pytorch else sys.executable
            if fault.lines((copy.root / fault.file).read_text()) is None:
                verdict = "gone"
            else:
                with copy.with_fault(fault, python) as can_be:
                    try:
                        found = copy.run(python, [test], 900, "full").test if can_be else ""
                        verdict = "noticed" if found else "NOT NOTICED"
                    except RuntimeError:
                        verdict = "its test is gone"
            lost += [number] * (verdict != "noticed")
            print(number, fault.file, verdict, test, flush=True)
    print(f"{len(noticed) - len(lost)} of {len(noticed)} noticed; not: {lost}")
    return bool(lost)


def _starts(fault: Fault) -> tuple[str, ...]:
    """How the names of the tests begin that a fault's tests are sought among first."""
    return next(
        (starts for file, starts in UNNOTED.items() if fault.file.startswith(file)),
        (f"tests/{TESTS.get(fault.folder, fault.folder)}/",),
    )


def _test(found: Any) -> str:
    """The test of a tier's outcome, without the reason."""
    return str(found).partition("\t")[0]


HEAD = """# Which tests notice a planted fault

Each fault of `faults.toml` was planted alone. Of the tests that run its lines the quickest ran until one failed: first
those of `make smoke`, then the others of `make test`, then those that only `make full` has, each group as long as
`--patience` says. For C, and for PyTorch code, whose Python does not tell which lines a test runs, these are all tests of
a folder. So "nothing" means that none of the tests that were tried failed; the fault may also change nothing that
can be observed. A test that fails without a fault notices none.

`make faults ARGS=reach`, `make faults ARGS=run`, then `make faults ARGS=table` print what follows.

"""


def table() -> str:
    """The faults by folder, and each fault with the first test that noticed it."""
    outcomes = json.loads(OUTCOMES.read_text())
    every = faults()
    planted, noticed = Counter[str](), {tier: Counter[str]() for tier in TIERS}
    rows = ["| | fault | place | smoke | test | first noticed by |", "|---|---|---|---|---|---|"]
    for number, fault in enumerate(every, 1):
        outcome = outcomes.get(str(number), {"gone": True})
        if outcome.get("gone"):
            continue
        planted[fault.folder] += 1
        for tier in TIERS:
            noticed[tier][fault.folder] += bool(outcome.get(tier))
        marks = ["yes" if outcome.get(tier) else "" for tier in ("smoke", "default")]
        by = _test(outcome.get("full") or "")
        cells = [number, fault.kind, f"{fault.file.removeprefix('lazynb/')}:{fault.line}", *marks]
        rows.append(
            f"| {' | '.join(map(str, cells))} | {f'`{by}`' if by else 'nothing'} |".replace("||", "| |")
        )
    head = ["| folder | faults | `make smoke` | `make test` | every test |", "|---|---|---|---|---|"]
    for folder, count in planted.items():
        head.append(f"| {folder} | {count} | {' | '.join(str(noticed[tier][folder]) for tier in TIERS)} |")
    sums = " | ".join(str(noticed[tier].total()) for tier in TIERS)
    head.append(f"| all | {planted.total()} | {sums} |")
    return HEAD + "\n".join([*head, "", *rows])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    noting = commands.add_parser(
        "reach", help="notes which lines each test runs; other arguments are pytest's"
    )
    noting.add_argument("arguments", nargs=argparse.REMAINDER)
    running = commands.add_parser("run", help="plants the faults, and runs the tests that run their lines")
    running.add_argument("--tier", choices=TIERS, default="full", help="up to which tests are run")
    running.add_argument("--only", type=int, nargs="+", help="numbers of faults, from 1")
    running.add_argument("--folders", nargs="+", help="only the faults of these folders of the package")
    running.add_argument("--again", action="store_true", help="those too whose outcome is kept")
    running.add_argument("--patience", type=float, default=240, help="seconds of tests for a fault and tier")
    commands.add_parser("table", help="prints what came of it")
    checking = commands.add_parser("recheck", help="runs for each fault the test that RESULTS.md names")
    checking.add_argument("only", type=int, nargs="*", help="numbers of faults")
    asked = parser.parse_args(arguments)
    if asked.command == "reach":
        return reach(asked)
    if asked.command == "recheck":
        return recheck(asked.only)
    if asked.command == "run":
        Campaign(asked).run()
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
