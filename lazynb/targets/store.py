"""Answers of compilers on disk, with what the compiler dumped: the same program is compiled once for a chip.

An entry is a zip file of texts. Nothing in it is ever executed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jaxlib

from lazynb.config import config
from lazynb.targets.compilers import compiler_of
from lazynb.targets.result import Answer, Question

_FORM = 2  # of what a dump has in it
_KEPT = 200  # entries; one of 100 operations has some 200 KB


def key_of(question: Question, options: Mapping[str, Any]) -> str:
    """A hash of all that decides the answer.

    Arguments:
      options: those of the question that change the program; where a dump is written is none of them.
    """
    lowering = question.lowering
    parts = [
        _FORM,
        jaxlib.__version__,
        compiler_of(question.platform).version,
        question.topology,
        question.configuration,
        question.mesh,
        lowering.spread_inputs,
        lowering.spread_results,
        sorted(options.items()),
    ]
    return hashlib.sha256(repr(parts).encode() + lowering.module).hexdigest()


def load(key: str, dump: Path | None) -> Answer | None:
    """The answer kept under ``key``; None if there is none, or none with a dump where one is wanted.

    Arguments:
      dump: the directory that gets what the compiler dumped.
    """
    if not config.persistent_cache:
        return None
    path = _place() / f"{key}.zip"
    try:
        with zipfile.ZipFile(path) as entry:
            about = json.loads(entry.read("answer.json"))
            if dump is not None:
                if not about.pop("has_dump"):
                    return None
                _unpack(entry, dump)
            about.pop("has_dump", None)
            answer = Answer(text=entry.read("module.txt").decode(), **about)
        os.utime(path)
        return answer
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None  # it is compiled again, and the entry written anew


def _unpack(entry: zipfile.ZipFile, dump: Path) -> None:
    for name in entry.namelist():
        folder, _, file = name.partition("/")
        if folder == "dump" and file and os.path.basename(file) == file:
            (dump / file).write_bytes(entry.read(name))


def save(key: str, answer: Answer, dump: Path | None) -> None:
    """Keeps ``answer`` with the files of ``dump``. What cannot be written is not kept."""
    if not config.persistent_cache:
        return
    place = _place()
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=place) as new:  # nothing stays of what the disk has no room for
            with open(Path(new) / "entry", "wb") as file:
                _write(file, answer, dump)
            os.replace(file.name, place / f"{key}.zip")
        _bound(place)


def _write(file: Any, answer: Answer, dump: Path | None) -> None:
    about = dataclasses.asdict(answer)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as entry:
        entry.writestr("module.txt", about.pop("text"))
        entry.writestr("answer.json", json.dumps({**about, "has_dump": dump is not None}))
        for each in sorted(dump.iterdir()) if dump is not None else ():
            if each.is_file():
                entry.write(each, f"dump/{each.name}")


def _bound(place: Path) -> None:
    """Removes the entries that were longest not used."""
    entries = sorted(place.glob("*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in entries[_KEPT:]:
        old.unlink(missing_ok=True)


def _place() -> Path:
    return Path(config.persistent_cache_dir) / "targets"
