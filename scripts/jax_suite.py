"""Runs JAX's own tests with the lazy trace ambient, and says which of those that pass eagerly do not pass so.

    python scripts/jax_suite.py [--sources PLACE] [--share] [--devices N] [FILE ...]

FILE is a file of JAX's ``tests`` folder (``lax_numpy_test``); without any, all that need no accelerator and
one device are run. ``--share`` takes the quick ones that continuous integration runs. A file that is about
several devices runs on 8 virtual devices of the CPU; ``--devices`` gives all files another number. JAX's
sources are no part of this repository: PLACE (or LAZYNB_JAX_SOURCES) is a checkout of them or a git directory
that has the tag of the installed JAX or an older one; without it they are fetched with git into build/, once.
Results of the eager runs are kept in build/ and used again.

A test that fails only lazily has to stand in ``tests/jaxsuite/differences.toml``, with the reason. The exit
status is 1 where one does not, and 0 where there are no sources and ``--optional`` is given.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "jax-suite"
TABLE = ROOT / "tests" / "jaxsuite" / "differences.toml"
ORIGIN = "https://github.com/jax-ml/jax"
WANTED = ("tests", "conftest.py", "pyproject.toml")  # of JAX's sources
SHOWN = 40  # unlisted failures of one file
PLUGIN = ROOT / "tests" / "jaxsuite"
SILENCE = 240  # seconds after which a test that says nothing is taken to hang


class NoSources(Exception):
    """JAX's sources cannot be had; the text says why."""


# ---- JAX's sources -----------------------------------------------------------------------------------------


def sources(place: str | None, version: str) -> Path:
    """A folder with JAX's tests at ``version``, or at the release before it that ``place`` has.

    Raises:
      NoSources: there is none.
    """
    folder = Path(place) if place else BUILD / f"sources-{version}"
    if (folder / "tests" / "lax_test.py").exists():
        return folder
    if not place:
        return _fetched(folder, version)
    tag = _newest_tag(git(folder, "tag", "--list", "jax-v*").split(), version)
    target = BUILD / f"sources-{tag}"
    if not (target / "tests" / "lax_test.py").exists():
        _unpack(folder, tag, target)
    return target


def _fetched(folder: Path, version: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    options = ("--quiet", "--depth", "1", "--filter=blob:none", "--sparse", "--branch", f"jax-v{version}")
    git(folder.parent, "clone", *options, ORIGIN, str(folder))
    git(folder, "sparse-checkout", "set", "tests")
    return folder


def _unpack(repository: Path, tag: str, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "-C", repository, "archive", tag, *WANTED], capture_output=True)
    if archive.returncode:
        raise NoSources(f"git archive {tag}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "x", "-C", target], input=archive.stdout, check=True)


def git(folder: Path, *command: str) -> str:
    """What git says in ``folder``.

    Raises:
      NoSources: it fails, or there is no git.
    """
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", folder, *command], capture_output=True, text=True, timeout=300, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSources(f"git {command[0]}: {error}") from None
    if done.returncode:
        raise NoSources(f"git {command[0]}: {done.stderr.strip()}")
    return done.stdout


def _newest_tag(tags: Iterable[str], version: str) -> str:
    """The tag of ``version``, or of the newest release before it."""
    numbers = {tag: _numbers(tag) for tag in tags if re.fullmatch(r"jax-v[\d.]+", tag)}
    older = [tag for tag in numbers if numbers[tag] <= _numbers(version)]
    if not older:
        raise NoSources(f"there is no tag jax-v{version} nor one of an older release")
    return max(older, key=lambda tag: numbers[tag])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


# ---- the table ---------------------------------------------------------------------------------------------


class Table:
    """What is known beforehand, from ``differences.toml``.

    Attributes:
      left_out: files that are not run, with the reason.
      share: files that continuous integration runs.
      several: for each file that is about several devices, how many it gets.
      reasons: for each pattern of tests' ids, why they fail.
    """

    def __init__(self, text: str):
        read = tomllib.loads(text)
        self.left_out = {name: one["reason"] for one in read["left_out"] for name in one["files"]}
        self.share: list[str] = read["share"]["files"]
        self.several: dict[str, int] = dict.fromkeys(read["several"]["files"], read["several"]["devices"])
        self.reasons = {pattern: one["reason"] for one in read["difference"] for pattern in one["tests"]}

    def reason(self, test: str) -> str | None:
        """Why ``test`` may fail, None if nothing says so. A pattern is a file, a class and a test, or the
        beginning of one and an asterisk."""
        fitting = (why for pattern, why in self.reasons.items() if fits(test, f"tests/{pattern}"))
        return next(fitting, None)


def fits(test: str, pattern: str) -> bool:
    """Whether ``pattern`` is ``test``; an asterisk in it stands for anything."""
    return fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))


# ---- running a file ----------------------------------------------------------------------------------------


@dataclass
class Settings:
    """How tests are run: where they are, how many cases of each, how many of a file, where results are kept,
    on how many virtual devices of the CPU (JAX's own choice where it is None), the path of a file, pytest's
    options, and the folders of its plugins."""

    folder: Path
    results: Path
    cases: int
    most: int
    devices: int | None = None
    path: str = "tests/{}.py"
    options: Sequence[str] = ("-c", "pyproject.toml")
    plugins: Sequence[Path] = (PLUGIN,)

    def kept(self, file: str, ending: str) -> Path:
        """The file with what is known of the tests of ``file``."""
        return self.results / f"{file.replace('/', '.')}.{ending}"


Results = dict[str, dict[str, Any]]


def run(settings: Settings, file: str, lazily: bool, only: Sequence[str] | None) -> Results:
    """What became of each test of ``file``; those of ``only`` where that is given. A test that ends its
    process, or never ends, is one that failed, and the rest are run in a process of their own."""
    log = settings.kept(file, f"{'lazy' if lazily else 'eager'}.jsonl")
    log.unlink(missing_ok=True)
    left = None if only is None else list(only)
    while left is None or left:
        status = _process(settings, file, lazily, left, log)
        found, interrupted = _read(log)
        if interrupted is None:
            if not found and status not in (0, 5):
                found[file] = {
                    "outcome": "failed",
                    "error": f"pytest ends with status {status}; nothing is collected",
                }
            return found
        with log.open("a") as lines:
            how = "runs for ever" if status == -signal.SIGKILL else f"ends the process with status {status}"
            lines.write(json.dumps({"test": interrupted, "outcome": "failed", "error": how}) + "\n")
        if left is None:
            return _read(log)[0]  # eagerly, what comes after is not compared
        done = {*found, interrupted}
        left = [test for test in left if test not in done]
    return _read(log)[0]


def _process(settings: Settings, file: str, lazily: bool, only: Sequence[str] | None, log: Path) -> int:
    chosen = settings.kept(file, "only")
    paths = [str(ROOT), *map(str, settings.plugins), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "JAX_NUM_GENERATED_CASES": str(settings.cases),
        "JAX_PLATFORMS": "cpu",
        "LAZYNB_PERSISTENT_CACHE": "0",
        "LAZYNB_SUITE_LOG": str(log),
        "LAZYNB_SUITE_LAZY": "1" if lazily else "",
        "LAZYNB_SUITE_MOST": str(settings.most),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    if settings.devices is not None:
        flag = f"--xla_force_host_platform_device_count={settings.devices}"
        environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    if only is not None:
        chosen.write_text(json.dumps(list(only)))
        environment["LAZYNB_SUITE_ONLY"] = str(chosen)
    command = [
        sys.executable,
        "-m",
        "pytest",
        *settings.options,
        "--rootdir",
        ".",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-p",
        "suite_plugin",
        settings.path.format(file),
    ]
    with log.with_suffix(".txt").open("a") as output:
        process = subprocess.Popen(
            command,
            cwd=settings.folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        while True:
            try:
                return process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                if log.exists() and time.time() - log.stat().st_mtime > SILENCE:
                    os.killpg(process.pid, signal.SIGKILL)


def _read(log: Path) -> tuple[Results, str | None]:
    """The results in ``log``, and the test that was begun and not ended."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found = {line["test"]: line for line in lines if "test" in line}
    begun = [line["start"] for line in lines if "start" in line]
    return found, begun[-1] if begun and begun[-1] not in found else None


def eagerly(settings: Settings, file: str) -> list[str]:
    """The tests of ``file`` that pass eagerly, from an earlier run where there was one."""
    kept = settings.kept(file, "passing.json")
    if kept.exists():
        return json.loads(kept.read_text())
    found = run(settings, file, False, None)
    passing = [test for test, one in found.items() if one["outcome"] == "passed"]
    kept.write_text(json.dumps(passing))
    return passing


# ---- what came of it ---------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """One file: how many tests pass eagerly, and which of those fail lazily, with JAX's message."""

    file: str
    eager: int
    failing: dict[str, str] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        unlisted = f", {len(self.unlisted)} of them unlisted" if self.unlisted else ""
        lazily = f"{len(self.failing)} of these fail lazily{unlisted}"
        return f"{self.file}: {self.eager} pass eagerly, {lazily} ({self.seconds:.0f} s)"


def judge(table: Any, file: str, passing: Sequence[str], lazily: Results, seconds: float) -> Outcome:
    """What the lazy run of ``file`` says, given what passes eagerly, and what has a reason in ``table``. A
    test that is skipped lazily, or missing, fails."""
    missing = {"outcome": "missing", "error": "is not run lazily"}
    failing = {
        test: found.get("error") or found["outcome"]
        for test in passing
        if (found := lazily.get(test, missing))["outcome"] != "passed"
    }
    return Outcome(
        file, len(passing), failing, [test for test in failing if table.reason(test) is None], seconds
    )


def compared(settings: Settings, table: Any, file: str) -> Outcome:
    """What came of ``file``, eagerly and lazily; printed, with what is not in ``table``."""
    began = time.monotonic()
    passing = eagerly(settings, file)
    outcome = judge(table, file, passing, run(settings, file, True, passing), time.monotonic() - began)
    print(outcome, flush=True)
    folder = settings.path.partition("{")[0]
    for test in outcome.unlisted[:SHOWN]:
        said = outcome.failing[test].strip().partition("\n")[0][:200]
        print(f"  {test.removeprefix(folder)}\n    {said}")
    return outcome


def summary(outcomes: Sequence[Outcome], table: str = TABLE.name) -> str:
    """All files in a line; reasons stand in ``table``."""
    eager, failing = sum(one.eager for one in outcomes), sum(len(one.failing) for one in outcomes)
    share = 100 * (1 - failing / eager) if eager else 0.0
    return (
        f"{len(outcomes)} files: {eager} tests pass eagerly, {eager - failing} of them lazily ({share:.2f} "
        "%); "
        f"{sum(len(one.unlisted) for one in outcomes)} failures are not in {table}"
    )


def _names(table: Table, given: Sequence[str], folder: Path, share: bool) -> list[str]:
    if given:
        return [Path(name).stem for name in given]
    there = sorted(path.stem for path in (folder / "tests").glob("*_test.py"))
    return [name for name in there if (name in table.share if share else name not in table.left_out)]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument(
        "--sources",
        default=os.environ.get("LAZYNB_JAX_SOURCES"),
        help="a checkout of JAX, or a git directory",
    )
    parser.add_argument("--share", action="store_true", help="the files that continuous integration runs")
    parser.add_argument("--optional", action="store_true", help="no sources are no error")
    parser.add_argument("--cases", type=int, default=1, help="generated cases of a test (1)")
    parser.add_argument("--most", type=int, default=1100, help="tests of a file (1100), equally spaced")
    parser.add_argument("--devices", type=int, help="virtual devices of the CPU")
    return parser.parse_args(arguments)


def _settings(table: Table, options: argparse.Namespace, folder: Path, version: str, file: str) -> Settings:
    """How ``file`` is run. Results on several devices are kept apart."""
    devices = options.devices or table.several.get(file)
    place = f"{version}-{folder.name}-{options.cases}-{options.most}" + (f"-on{devices}" if devices else "")
    (BUILD / place).mkdir(parents=True, exist_ok=True)
    return Settings(folder.resolve(), BUILD / place, options.cases, options.most, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    import jax

    options = _options(arguments)
    table = Table(TABLE.read_text())
    try:
        folder = sources(options.sources, jax.__version__)
    except NoSources as why:
        print(f"JAX's tests are not run, for its sources cannot be had: {why}")
        return 0 if options.optional else 2
    outcomes = []
    for file in _names(table, options.files, folder, options.share):
        outcomes.append(compared(_settings(table, options, folder, jax.__version__, file), table, file))
    print(summary(outcomes))
    return 1 if any(one.unlisted for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
