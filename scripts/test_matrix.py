"""Runs the tests on each supported Python that this machine has.

    python3 scripts/test_matrix.py [pytest's arguments]
    python3 scripts/test_matrix.py --environment    makes the first one's environment and prints its Python

Standard library only. LAZYNB_PYTHONS="3.11 3.13" restricts the versions. Each has its own environment in
.venvs/. Where the Pythons have two JAXs (3.11 has another than the newer ones), a fourteenth of the tests
runs on one and another on the other, those marked once on the first; another Python with a JAX that was
seen takes half as many of what is quick. Tests marked long are left out (tests/parts.py). LAZYNB_REST=1 runs
instead a third of what this leaves out, which one by the commit (LAZYNB_TURN=0/3, 1/3 and 2/3 name them),
and LAZYNB_REST=1 LAZYNB_TURN=0/1 all of it, so that each test has had one JAX at least.
Of the Pythons every other one records without the accelerator (LAZYNB_PURE=1), which ones by the commit and
the other way round for the rest; LAZYNB_PURE=1 or LAZYNB_PURE=0 says so for all.
LAZYNB_FULL=1 runs everything everywhere, and every sample of each of JAX's functions (else one of each).
LAZYNB_TORCH=1 puts the CPU build of PyTorch into the first environment of each JAX, where it can be had;
without it, the tests of PyTorch code are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chip_compilers
import torch_cpu
from environment import ROOT, EnvironmentFailed, is_too_old, make

SUPPORTED = ("3.11", "3.12", "3.13")
OLDER = "3.11"  # gets JAX 0.10, the last to support it
PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.version.split()[0])"
KINDS = "passed|failed|skipped|errors?|deselected|xfailed|xpassed|warnings?"
CLOSING = re.compile(rf"(\d+ ({KINDS})\b|no tests ran).* in [\d.]+s")


@dataclass
class Outcome:
    """What a run of pytest came to: its exit status and closing line."""

    name: str
    status: int
    closing: str
    seconds: float


def candidates(version: str) -> Iterator[Path]:
    """Where a Python of this version may be: the running one, each PATH folder, pyenv's versions."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        yield Path(base)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in (f"python{version}", "python3"):
            if (path := Path(folder) / name).exists():
                yield path
    for root in _pyenv_roots():
        found = [path for path in root.glob(f"versions/{version}.*/bin/python") if path.exists()]
        yield from sorted(found, key=lambda path: _numbers(path.parent.parent.name), reverse=True)


def find(version: str) -> tuple[Path | None, str]:
    """A Python of this version that runs and can make environments, and its full version; or None, and why
    not."""
    why = f"no python{version} on the PATH or under pyenv"
    tried: set[Path] = set()
    for path in candidates(version):
        if path in tried:
            continue
        tried.add(path)
        try:
            probe = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            probe = subprocess.CompletedProcess([], 1, "", str(error))
        if probe.returncode == 0:
            short, full = probe.stdout.split()
            if short == version:
                return path, full
        elif path.name == f"python{version}":
            last = probe.stderr.strip().splitlines() or ["no message"]
            why = f"{path} is there but does not work: {last[0] if 'pyenv:' in last[0] else last[-1]}"
    return None, why


def wanted() -> list[str]:
    """The versions to try, in order; LAZYNB_PYTHONS may name some."""
    asked = os.environ.get("LAZYNB_PYTHONS", "").replace(",", " ").split()
    return asked or list(SUPPORTED)


def share(version: str, seen: bool) -> dict[str, str]:
    """Says which part of the tests `version` runs, see tests/parts.py; ``seen``: another Python has had its
    JAX."""
    if os.environ.get("LAZYNB_FULL"):
        return {}
    two = OLDER in (there := [one for one in wanted() if find(one)[0]]) and len(there) > 1
    number = 0 if version == OLDER else 1
    return {"LAZYNB_SHARE": "1/28" if seen else f"{number}/14" if two else "0/1", "LAZYNB_TURN": turn()}


def turn() -> str:
    """Which third of what `make test` leaves out is tested now: the commits take turns."""
    if asked := os.environ.get("LAZYNB_TURN"):
        return asked
    return f"{_commit() % 3}/3"


def pure(version: str) -> str:
    """LAZYNB_PURE for the tests on `version`: not empty if they are to record without the accelerator."""
    if asked := os.environ.get("LAZYNB_PURE"):
        return "" if asked == "0" else asked
    number = SUPPORTED.index(version) if version in SUPPORTED else 0
    return "1" if (_commit() + number + bool(os.environ.get("LAZYNB_REST"))) % 2 else ""


def _commit() -> int:
    """The commit as a number; 0 where there is none."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return int(head.stdout, 16) if head.returncode == 0 else 0


def run_tests(version: str, python: Path, seen: dict[str, str], arguments: list[str]) -> Outcome:
    """Makes the environment of `version` and runs pytest there, its output passed through."""
    began = time.monotonic()
    inside = make(ROOT / ".venvs" / version, "dev", str(python))
    jax = _output(inside, "import jax; print(jax.__version__)")
    if jax not in seen and os.environ.get("LAZYNB_TORCH"):
        torch_cpu.main([str(inside)])
    if jax not in seen:
        chip_compilers.main([str(inside)])
    options = [
        "-n",
        os.environ.get("LAZYNB_WORKERS", "2"),
        "--dist",
        "loadgroup",
        "-q",
        "--durations=20",
        "--durations-min=5",
    ]
    part = share(version, jax in seen)
    left_out, scope = leave_out(jax, seen)
    if left_out:
        options += ["-m", " and ".join(f"not {mark}" for mark in left_out)]
    seen.setdefault(jax, version)
    without = pure(version)
    scope += ", without the accelerator" if without else ""
    print(f"== Python {version}, JAX {jax}: {scope}", flush=True)
    command = [str(inside), "-m", "pytest", *options, *arguments]
    variables = {**part, "LAZYNB_PURE": without, **chip_compilers.variables()}
    status, closing = _pass_through(command, variables)
    return Outcome(f"Python {version}, JAX {jax}", status, closing, time.monotonic() - began)


def leave_out(jax: str, seen: dict[str, str]) -> tuple[list[str], str]:
    """The marks of the tests that the next Python leaves out, and what is left in words; ``seen``: which
    Python had which JAX."""
    if jax in seen and not os.environ.get("LAZYNB_FULL"):
        return ["slow", "once"], f"some of the quick tests (Python {seen[jax]} has this JAX too)"
    what = f"part {turn()} of what `make test` leaves out" if os.environ.get("LAZYNB_REST") else "tests"
    if seen:
        return (
            ["once"],
            f"{what}, but for those that need one Python only (Python {next(iter(seen.values()))} has had "
            "them)",
        )
    return [], what


def environment() -> Path:
    """The Python of the first environment that can be made; makes it when it is not there."""
    for version in wanted():
        python, _ = find(version)
        if python:
            return make(ROOT / ".venvs" / version, "dev", str(python))
    raise EnvironmentFailed(f"none of Python {', '.join(wanted())} found")


def matrix(arguments: list[str]) -> int:
    """Tests on every version found, then one line for each and one for all. Returns the exit status."""
    began = time.monotonic()
    outcomes: list[Outcome] = []
    skipped: list[str] = []
    seen: dict[str, str] = {}
    for version in wanted():
        python, full_or_why = find(version)
        if python is None:
            skipped.append(f"Python {version}: skipped, {full_or_why}")
            print(f"== {skipped[-1]}", flush=True)
            continue
        try:
            outcomes.append(run_tests(version, python, seen, arguments))
        except EnvironmentFailed as error:
            outcomes.append(Outcome(f"Python {version}", 1, f"no environment: {error}", 0.0))
    print()
    for outcome in outcomes:
        verdict = "passed" if outcome.status == 0 else f"FAILED (exit status {outcome.status})"
        print(f"{outcome.name}: {verdict}: {outcome.closing} [{outcome.seconds:.0f} s with its environment]")
    for line in skipped:
        print(line)
    failed = sum(outcome.status != 0 for outcome in outcomes)
    print(
        f"tests: {len(outcomes) - failed} of {len(outcomes)} Pythons passed, {failed} failed, {len(skipped)} "
        "skipped, "
        f"in {time.monotonic() - began:.0f} s"
    )
    return 1 if failed or not outcomes else 0


def _pass_through(command: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """Runs the command with these environment variables too, shows what it prints as it comes; its exit
    status and pytest's closing line.

    Bytecode is written even where the machine's environment says not to, as containers' often does: without
    it each of some thousand processes compiles JAX's 300 modules again, in three to four seconds.
    """
    closing = "no closing line"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **variables}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if CLOSING.search(line):
                closing = line.strip(" =\n")
    return process.returncode, closing


def _output(python: Path, code: str) -> str:
    result = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        raise EnvironmentFailed(result.stderr.strip())
    return result.stdout.strip()


def _pyenv_roots() -> list[Path]:
    roots = [os.environ.get("PYENV_ROOT", ""), str(Path.home() / ".pyenv")]
    return [Path(root) for root in dict.fromkeys(roots) if root]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def main(arguments: list[str]) -> int:
    if is_too_old():
        return 1
    if arguments == ["--environment"]:
        try:
            print(environment())
        except EnvironmentFailed as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    return matrix(arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
