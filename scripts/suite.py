"""Runs the tests.

    python3 scripts/suite.py COMMAND [pytest's arguments]

    smoke           a fixed list, tests/smoke.toml: a minute
    test            the default tier on the newest Python
    test-all        the default tier on the newest and on the oldest Python
    browser         what drives a browser, runs a whole notebook or builds the documentation
    full            every sample, on the newest and on the oldest Python
    --environment   makes the environment of the newest Python and prints its Python
    --pytorch       the same for the newest Python that can have PyTorch's CPU build

Standard library only. The oldest supported Python has an older JAX than the newest. Each Python has an
environment of its own in .venvs/. A Python that is not here is skipped, and the last lines say so.

Which tests a tier has is the same on every machine: tests/tiers.py. The oldest Python records without the
accelerator (LAZYNB_PURE=1 or LAZYNB_PURE=0 in the environment says so for all). The tests of PyTorch code run
on the newest Python for which pip finds PyTorch's CPU build; where it finds none they are skipped.

Environment variables: LAZYNB_PYTHONS="3.11 3.12" replaces the list of Pythons, LAZYNB_WORKERS the number of
processes (2).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chip_compilers
import torch_cpu
from environment import ROOT, EnvironmentFailed, is_too_old, make

SUPPORTED = ("3.11", "3.12", "3.13")
PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.version.split()[0])"
KINDS = "passed|failed|skipped|errors?|deselected|xfailed|xpassed|warnings?"
CLOSING = re.compile(rf"(\d+ ({KINDS})\b|no tests ran).* in [\d.]+s")
COMMANDS = ("smoke", "test", "test-all", "browser", "full")
BOTH = ("test-all", "full")  # these run on the newest and on the oldest Python
NO_TESTS = 5  # pytest's exit status
PYTORCH = "tests/pytorch"
VALUES_ONLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Where values matter and machine code does not: LLVM takes a third of the time of large models. Passes
over HLO stay what they are."""
SMOKE = ROOT / "tests" / "smoke.toml"


@dataclass
class Run:
    """One run of pytest: on which Python, with which arguments and environment variables."""

    version: str
    title: str
    arguments: list[str]
    variables: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What a run came to: its exit status, pytest's closing line, and how long each part took."""

    title: str
    status: int
    closing: str
    made: float
    seconds: float

    def line(self) -> str:
        verdict = "passed" if self.status == 0 else f"FAILED (exit status {self.status})"
        environment = f", {self.made:.0f} s for its environment" if self.made >= 1 else ""
        return f"{self.title}: {verdict}: {self.closing} [{self.seconds:.0f} s{environment}]"


# ---- Pythons -----------------------------------------------------------------------------------------------


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
    """The versions to look for, the newest first."""
    asked = os.environ.get("LAZYNB_PYTHONS", "").replace(",", " ").split()
    return sorted(asked or SUPPORTED, key=_numbers, reverse=True)


class Pythons:
    """The supported Pythons of this machine, the newest first. Their environments are made when asked for."""

    def __init__(self) -> None:
        found = {version: find(version) for version in wanted()}
        self.there = {version: path for version, (path, _) in found.items() if path is not None}
        self.missing = {version: why for version, (path, why) in found.items() if path is None}
        self.seconds: dict[str, float] = {}
        if not self.there:
            raise EnvironmentFailed("; ".join(f"Python {one}: {why}" for one, why in self.missing.items()))

    @property
    def newest(self) -> str:
        return next(iter(self.there))

    @property
    def oldest(self) -> str:
        return list(self.there)[-1]

    def environment(self, version: str) -> Path:
        """The Python of the environment of ``version``."""
        began = time.monotonic()
        inside = make(ROOT / ".venvs" / version, "dev", str(self.there[version]))
        if version not in self.seconds:
            with contextlib.redirect_stdout(sys.stderr):
                chip_compilers.main([str(inside)])
            self.seconds[version] = time.monotonic() - began
        return inside

    def with_pytorch(self) -> tuple[str | None, str]:
        """The newest version whose environment can have PyTorch's CPU build, or None, and why not."""
        why = ""
        for version in self.there:
            if not torch_cpu.is_offered(self.there[version]):
                why = why or f"pip finds no CPU build of it for Python {version}"
            elif not (why := torch_cpu.put_into(self.environment(version))):
                return version, ""
        return None, why


# ---- runs --------------------------------------------------------------------------------------------------


def runs(command: str, pythons: Pythons, arguments: Sequence[str]) -> tuple[list[Run], list[str]]:
    """What ``command`` runs, and what it skips, with the reason, a line each."""
    missing = pythons.missing if command in BOTH else {}
    skipped = [f"Python {version}: skipped, {why}" for version, why in missing.items()]
    if command == "smoke":
        return [Run(pythons.newest, "smoke", [*smoke(), *arguments])], skipped
    tier = {"LAZYNB_TIER": command if command in ("browser", "full") else "default"}
    paths = [one for one in arguments if Path(ROOT, one.partition("::")[0]).exists() and one[0] != "-"]
    about_pytorch = [one for one in paths if one.startswith(PYTORCH)]
    found: list[Run] = []
    if not paths or about_pytorch != paths:
        versions = [pythons.newest, pythons.oldest] if command in BOTH else [pythons.newest]
        for version in dict.fromkeys(versions):
            pure = pure_variables(version != pythons.newest)
            found.append(Run(version, command, [f"--ignore={PYTORCH}", *arguments], {**tier, **pure}))
    if command != "browser" and (not paths or about_pytorch):
        version, why = pythons.with_pytorch()
        if version is None:
            skipped.append(f"PyTorch code: skipped, {why}")
        else:
            others = [one for one in arguments if one not in paths]
            there = [*(about_pytorch or [PYTORCH]), *others]
            variables = {**tier, **pure_variables(False), "XLA_FLAGS": VALUES_ONLY}
            found.append(Run(version, f"{command}, PyTorch code", there, variables))
    return found, skipped


def pure_variables(without: bool) -> dict[str, str]:
    """LAZYNB_PURE for a run with the accelerator or without it. What the environment says comes first."""
    asked = os.environ.get("LAZYNB_PURE", "1" if without else "0")
    return {"LAZYNB_PURE": "" if asked == "0" else asked}


def smoke() -> list[str]:
    """The tests of the fixed list."""
    promises = tomllib.loads(SMOKE.read_text())["promise"]
    return [test for promise in promises for test in promise["tests"]]


def perform(run: Run, pythons: Pythons) -> Outcome:
    """Makes the environment of a run and runs pytest in it, its output passed through."""
    inside = pythons.environment(run.version)
    jax = _output(inside, "from importlib.metadata import version; print(version('jax'))")
    pure = ", without the accelerator" if run.variables.get("LAZYNB_PURE") else ""
    title = f"{run.title}: Python {run.version}, JAX {jax}{pure}"
    print(f"== {title}", flush=True)
    workers = ["-n", os.environ.get("LAZYNB_WORKERS", "2"), "--dist", "loadgroup"]
    command = [str(inside), "-m", "pytest", *workers, "-q", "--durations=20", "--durations-min=5"]
    began = time.monotonic()
    status, closing = _pass_through(
        [*command, *run.arguments], {**run.variables, **chip_compilers.variables()}
    )
    made, pythons.seconds[run.version] = pythons.seconds[run.version], 0.0
    return Outcome(title, status, closing, made, time.monotonic() - began)


def perform_all(command: str, arguments: Sequence[str]) -> int:
    """Carries out a command: a line for each run, and one for all. Returns the exit status."""
    began = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        pythons = Pythons()
        todo, skipped = runs(command, pythons, arguments)
        outcomes += [perform(run, pythons) for run in todo]
    except EnvironmentFailed as error:
        print(f"no environment: {error}", file=sys.stderr)
        return 1
    if len(outcomes) > 1 and arguments:  # `-k name` may name tests of one run
        for one in outcomes:
            one.status = 0 if one.status == NO_TESTS else one.status
    print()
    for line in [*(one.line() for one in outcomes), *skipped]:
        print(line)
    failed = sum(one.status != 0 for one in outcomes)
    print(
        f"{command}: {len(outcomes) - failed} of {len(outcomes)} runs passed, {failed} failed, "
        f"{len(skipped)} skipped, in {time.monotonic() - began:.0f} s"
    )
    return 1 if failed or not outcomes else 0


def print_environment(pytorch: bool) -> int:
    """Prints the Python of an environment, which is made when it is not there. Returns the exit status."""
    try:
        pythons = Pythons()
        version, why = pythons.with_pytorch() if pytorch else (pythons.newest, "")
        if version is None:
            raise EnvironmentFailed(f"PyTorch code: skipped, {why}")
        print(pythons.environment(version))
    except EnvironmentFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


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
    if arguments in (["--environment"], ["--pytorch"]):
        return print_environment(arguments[0] == "--pytorch")
    if not arguments or arguments[0] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    return perform_all(arguments[0], arguments[1:])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
