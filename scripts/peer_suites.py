"""Runs the tests of libraries on JAX with the lazy trace ambient, and says which that pass eagerly are lost.

    python scripts/peer_suites.py [--sources PLACE] [--share] [--most N] [--optional] [LIBRARY ...]

LIBRARY is one of ``tests/peersuites/libraries.toml``; without any, all that are installed. Their sources are
no part of this repository: PLACE (or LAZYNB_PEER_SOURCES) is a folder with a checkout or a git directory of
each, named after the library or ``OWNER+NAME/repo``; without it they are fetched with git into build/, once,
at the tag of the installed version. Results of the eager runs are kept in build/ and used again.

A test that fails only lazily has to stand in the table, with the reason. The exit status is 1 where one does
not, and 0 where there are no sources and ``--optional`` is given.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax_suite
from jax_suite import NoSources, Outcome, Settings

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "peer-suites"
TABLE = ROOT / "tests" / "peersuites" / "libraries.toml"
MOST = 400


@dataclass
class Library:
    """A library of the table.

    Attributes:
      name: under which it is installed.
      version: that is installed.
      read: its entry.
    """

    name: str
    version: str
    read: dict[str, Any]

    def reason(self, test: str) -> str | None:
        """Why ``test`` may be lost; None if nothing says so."""
        for one in self.read.get("difference", ()):
            if any(jax_suite.fits(test, pattern) for pattern in one["tests"]):
                return str(one["reason"])
        return None

    def files(self, folder: Path, share: bool) -> list[str]:
        """Its files of tests, as paths without the ending."""
        if share:
            return list(self.read.get("share", ()))
        found = {path for pattern in self.read["tests"] for path in folder.glob(pattern)}
        names = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in found)
        return [name for name in names if name not in self.read.get("left_out", ())]


def installed(names: Sequence[str]) -> Iterator[Library]:
    """The libraries of the table that are installed, or those of ``names``."""
    table = tomllib.loads(TABLE.read_text())
    for name in names or table:
        try:
            yield Library(name, importlib.metadata.version(table[name].get("package", name)), table[name])
        except importlib.metadata.PackageNotFoundError:
            print(f"{name}: not installed")


# ---- sources -----------------------------------------------------------------------------------------------


def sources(place: str | None, library: Library) -> Path:
    """A folder with the library's tests.

    Raises:
      NoSources: they cannot be had.
    """
    target = BUILD / f"{library.name}-{library.version}"
    if target.exists():
        return target
    if place is None:
        return _fetched(target, library)
    owner_and_name = library.read["repository"].replace("/", "+")
    for folder in (Path(place) / library.name, Path(place) / owner_and_name / "repo"):
        if folder.exists():
            _unpack(folder, library, target)
            return target
    raise NoSources(f"{library.name} is not in {place}")


def _fetched(target: Path, library: Library) -> Path:
    BUILD.mkdir(parents=True, exist_ok=True)
    for tag in (f"v{library.version}", library.version, f"{library.name}-v{library.version}"):
        try:
            address = f"https://github.com/{library.read['repository']}"
            jax_suite.git(BUILD, "clone", "--quiet", "--depth", "1", "--branch", tag, address, str(target))
            return target
        except NoSources as error:
            shutil.rmtree(target, ignore_errors=True)
            failed = error
    raise failed


def _unpack(folder: Path, library: Library, target: Path) -> None:
    """Takes what is needed out of a checkout or git directory: at the tag of the version, or the newest."""
    if (folder / library.read["needs"][0]).exists():
        shutil.copytree(folder, target, symlinks=True)
        return
    tags = jax_suite.git(folder, "tag", "--list", f"*{library.version}").split()
    commit = next(
        (tag for tag in tags if tag.endswith(f"v{library.version}") or tag == library.version), "HEAD"
    )
    command = ["git", "-C", str(folder), "archive", commit, *library.read["needs"]]
    archive = subprocess.run(command, capture_output=True)
    if archive.returncode:
        raise NoSources(f"git archive {commit}: {archive.stderr.decode().strip()}")
    target.mkdir(parents=True)
    subprocess.run(["tar", "x", "-C", target], input=archive.stdout, check=True)
    print(f"{library.name} {library.version}: tests at {commit}")


# ---- running -----------------------------------------------------------------------------------------------


def run(library: Library, folder: Path, share: bool, most: int) -> list[Outcome]:
    """What came of each file, printed as it comes.

    Arguments:
      most: so many tests of a file are run, equally spaced.
    """
    results = BUILD / "results" / f"{library.name}-{library.version}-{sys.version_info.minor}-{most}"
    results.mkdir(parents=True, exist_ok=True)
    settings = Settings(folder.resolve(), results, 1, most, path="{}.py", options=("-o", "addopts="))
    return [jax_suite.compared(settings, library, file) for file in library.files(folder, share)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--sources", default=os.environ.get("LAZYNB_PEER_SOURCES"), help="a folder")
    parser.add_argument("--share", action="store_true", help="the files that continuous integration runs")
    parser.add_argument("--most", type=int, default=MOST, help="tests of a file, equally spaced (400)")
    parser.add_argument("--optional", action="store_true", help="no sources are no error")
    options = parser.parse_args(arguments)
    unlisted, lines = 0, []
    for library in installed(options.libraries):
        if options.share and "share" not in library.read:
            continue
        try:
            folder = sources(options.sources, library)
        except NoSources as why:
            lines.append(f"{library.name}: not run, for its sources cannot be had: {why}")
            unlisted += not options.optional
            continue
        outcomes = run(library, folder, options.share, options.most)
        lines.append(f"{library.name} {library.version}: {jax_suite.summary(outcomes, TABLE.name)}")
        unlisted += sum(len(one.unlisted) for one in outcomes)
    print("", *lines, sep="\n")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
