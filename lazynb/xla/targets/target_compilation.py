"""Compiles a program for another chip, with a disk cache; ``CrossCompiledProgram`` is the compiled object."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import tempfile
import types
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jaxlib

from lazynb.config import config
from lazynb.errors import LazynbError
from lazynb.jax_compat import SerializedLowering
from lazynb.running.compiler_dump import Dump, with_code
from lazynb.xla.targets.compiler_packages import compiler_of
from lazynb.xla.targets.compiler_process import (
    CompileFailure,
    CompileRequest,
    CompileResult,
    compiler_process,
)
from lazynb.xla.targets.target_chip import Target, UnknownTarget
from lazynb.xla.targets.target_mesh import BadMesh

# ---- Disk cache of compiler results ------------------------------------------------------------------------
# Holds each program once per chip, with the compiler's dump. An entry is a zip file of texts; nothing in it
# is ever executed.

_FORMAT_VERSION = 2  # version of the dump's contents
_MAX_ENTRIES = 200  # entries; one of 100 operations has some 200 KB


def key_of(question: CompileRequest, options: Mapping[str, Any]) -> str:
    """A hash of everything that determines the result.

    Arguments:
      options: those that change the program, without the dump directory.
    """
    lowering = question.lowering
    parts = [
        _FORMAT_VERSION,
        jaxlib.__version__,
        compiler_of(question.platform).version,
        question.topology,
        question.configuration,
        question.mesh,
        lowering.propagate_input_shardings,
        lowering.propagate_result_shardings,
        sorted(options.items()),
    ]
    return hashlib.sha256(repr(parts).encode() + lowering.module).hexdigest()


def load_result(key: str, dump: Path | None) -> CompileResult | None:
    """The result stored under ``key``; None if there is none, or none with a dump where one is requested.

    Arguments:
      dump: the directory that receives the compiler's dump.
    """
    place = _directory()
    if place is None:
        return None
    path = place / f"{key}.zip"
    try:
        with zipfile.ZipFile(path) as entry:
            about = json.loads(entry.read("answer.json"))
            if dump is not None:
                if not about.pop("has_dump"):
                    return None
                _unpack(entry, dump)
            about.pop("has_dump", None)
            answer = CompileResult(text=entry.read("module.txt").decode(), **about)
        os.utime(path)
        return answer
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None  # the program is compiled again, and the entry rewritten


def _unpack(entry: zipfile.ZipFile, dump: Path) -> None:
    for name in entry.namelist():
        folder, _, file = name.partition("/")
        if folder == "dump" and file and os.path.basename(file) == file:
            (dump / file).write_bytes(entry.read(name))


def save_result(key: str, answer: CompileResult, dump: Path | None) -> None:
    """Stores ``answer`` with the files of ``dump``. A failed write leaves no entry."""
    place = _directory()
    if place is None:
        return
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=place) as new:  # removes a partial file if the disk is full
            with open(Path(new) / "entry", "wb") as file:
                _write(file, answer, dump)
            os.replace(file.name, place / f"{key}.zip")
        _evict_oldest(place)


def _write(file: Any, answer: CompileResult, dump: Path | None) -> None:
    about = dataclasses.asdict(answer)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as entry:
        entry.writestr("module.txt", about.pop("text"))
        entry.writestr("answer.json", json.dumps({**about, "has_dump": dump is not None}))
        for each in sorted(dump.iterdir()) if dump is not None else ():
            if each.is_file():
                entry.write(each, f"dump/{each.name}")


def _evict_oldest(place: Path) -> None:
    entries = sorted(place.glob("*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in entries[_MAX_ENTRIES:]:
        old.unlink(missing_ok=True)


def _directory() -> Path | None:
    if not config.persistent_cache or config.persistent_cache_dir is None:
        return None
    return Path(config.persistent_cache_dir) / "targets"


class TargetError(LazynbError):
    """The compiler of a target refused the program; the message quotes it."""


class OutOfMemory(TargetError):
    """The program does not fit into the chip's memory.

    Attributes:
      target: the target.
      needed, available: bytes, by the compiler's message or its memory analysis; None if not known.
      dump: the compiler's dump up to the error; None if none was requested.
      executable: the program of lazynb that was to be compiled.
      compiled: the program; None if the compiler refused it.
    """

    executable: Any = None

    def __init__(
        self,
        message: str,
        target: Target,
        dump: Dump | None = None,
        compiled: CrossCompiledProgram | None = None,
    ):
        super().__init__(message)
        self.target = target
        self.dump = dump
        self.compiled = compiled
        self.needed: int | None = None
        self.available: int | None = None
        if compiled is not None:
            self.needed, self.available = compiled.device_bytes, target.chip.memory
        elif sizes := _NEEDED.search(message):
            self.needed, self.available = map(_bytes, filter(None, sizes.groups()))

    @property
    def may_fit_with_donation(self) -> bool:
        """Whether the program may fit if results take the memory of inputs, of which it donates none."""
        if self.compiled is None or self.needed is None or self.available is None:
            return False
        parts = self.compiled.memory_analysis()
        spared = min(parts.argument_size_in_bytes, parts.output_size_in_bytes) - parts.alias_size_in_bytes
        return self.needed - spared <= self.available


_NO_SLICE = re.compile(r"Topology layout .* is not divisible|[Ii]nvalid topology")
_SIZE = r"(\d+(?:\.\d+)?[KMGT]?)"
_NEEDED = re.compile(
    rf"required[^(]*\({_SIZE}\) exceeds available HBM \({_SIZE}\)|Used {_SIZE} of {_SIZE} hbm"
)


class CrossCompiledProgram:
    """A program compiled for ``target``, which cannot run here.

    It has the methods of ``jax.stages.Compiled`` that lazynb uses.

    Attributes:
      origin: ``compiled`` or ``disk``.
    """

    def __init__(self, target: Target, answer: CompileResult, origin: str):
        self.target = target
        self.origin = origin
        self._answer = answer

    @property
    def seconds(self) -> float:
        """Seconds of compiling."""
        return self._answer.seconds

    def as_text(self) -> str:
        return self._answer.text

    def memory_analysis(self) -> Any:
        """Bytes per device, by XLA's names."""
        return types.SimpleNamespace(**self._answer.memory)

    @property
    def device_bytes(self) -> int | None:
        """Bytes that a run takes on each device: arguments, results and temporaries, shared memory once. None
        if the compiler has no figures."""
        parts = self._answer.memory
        try:
            taken = [parts[f"{name}_size_in_bytes"] for name in ("argument", "output", "temp")]
            return sum(taken) - parts["alias_size_in_bytes"]
        except KeyError:
            return None

    def check_memory(self, dump: Dump | None) -> None:
        """Raises OutOfMemory if a run takes more than the chip has. XLA:GPU compiles such a program."""
        if self.device_bytes is not None and self.device_bytes > self.target.chip.memory:
            message = f"This does not fit into the memory of {self.target.title}."
            raise OutOfMemory(message, self.target, dump, self)

    def cost_analysis(self) -> dict[str, float] | None:
        """XLA's figures by name; None if the compiler gives none."""
        return self._answer.cost


def _bytes(text: str) -> int:
    """Converts ``15.75G``, as in the compiler's message, to bytes."""
    unit = "KMGT".find(text[-1]) + 1
    return round(float(text.rstrip("KMGT")) * 1024**unit)


def compile_for(
    target: Target,
    lowering: SerializedLowering,
    mesh: tuple[int, ...] = (),
    options: Mapping[str, Any] | None = None,
    dump: Dump | None = None,
) -> CrossCompiledProgram:
    """Compiles ``lowering`` for ``target`` in the compiler process, or loads the result from disk.

    Arguments:
      mesh: sizes of the axes of the mesh, which covers the whole target; empty for one device.
      options: of the compiler.
      dump: receives the compiler's dump.

    Raises:
      CompilerMissing: the compiler is not installed.
      CompilerCrashed: its process ended.
      UnknownTarget: the slice does not exist.
      BadMesh: the mesh does not fit on the slice.
      OutOfMemory, TargetError: it refused the program, or the chip's description.
    """
    compiler_of(target.chip.platform).require()
    asked = {**(options or {}), **(dump.options() if dump is not None else {})}
    question = CompileRequest(
        topology=_topology(target),
        platform=target.chip.platform,
        configuration=target.chip.configuration,
        is_single=target.devices == 1,
        mesh=mesh,
        lowering=lowering,
        options=with_code(asked, target.chip.platform),
    )
    key, place = key_of(question, options or {}), dump.directory if dump is not None else None
    kept = load_result(key, place)
    if kept is not None:
        return CrossCompiledProgram(target, kept, "disk")
    answer = compiler_process(target.chip.platform).ask(question)
    if isinstance(answer, CompileFailure):
        raise _compile_error(target, answer, dump)
    save_result(key, answer, place)
    return CrossCompiledProgram(target, answer, "compiled")


def _topology(target: Target) -> str:
    written = "x".join(map(str, target.shape))
    if target.chip.platform == "tpu":
        return f"{target.chip.name}:{written}"
    return f"1x{written}"  # slices, hosts, devices per host


def _compile_error(target: Target, refused: CompileFailure, dump: Dump | None) -> LazynbError:
    words = refused.message.strip()
    if refused.at == "topology" and _NO_SLICE.search(words):
        return UnknownTarget(f"{target.name} is no slice that exists: {words}")
    if refused.at == "mesh":
        return BadMesh(f"The mesh {target.layout} cannot be laid on {target.name}: {words}")
    if "No space left on device" in words:
        return TargetError(
            f"The disk is full: the compiler for {target.title} cannot write its files: {words}"
        )
    if refused.at == "topology":
        return TargetError(f"The compiler for {target.title} rejected the description of the chip: {words}")
    if "RESOURCE_EXHAUSTED" in words or "Oom" in words:
        return OutOfMemory(f"This does not fit into the memory of {target.title}: {words}", target, dump)
    return TargetError(f"The compiler for {target.title} refused the program: {words}")
