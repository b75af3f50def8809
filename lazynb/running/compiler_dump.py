"""Compiler dumps and profiles: the files that XLA writes during a compilation, and the times of its passes.

A dump holds the module after each pass, the buffers and, on request, each fusion decision. The compiler
options of one compilation request it, because XLA ignores its process-wide flags once its backend exists. JAX
leaves these options out of the key of its persistent cache, so a program with a dump has the same entry as
one without. A program loaded from that cache was not compiled and has no dump.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError

# ---- Compile profile ------------------------------------------------------------------------------------
# XLA's profiler notes the begin and end of each pass and each stage. It slows the compilation by less than
# can be measured, and takes 2 ms at the end.


class CompileProfile:
    """The profile of one compilation.

    Attributes:
      data: the serialised profile; None if there is none.
      why_not: the reason that there is none.
      again: whether it belongs to a second compilation of the program, made for inspection.
    """

    def __init__(self, again: bool = False) -> None:
        self.data: bytes | None = None
        self.why_not = "the compilation did not end"
        self.again = again

    def forget(self) -> None:
        """Frees the profile, which is as large as the dump."""
        if self.data is not None:
            self.data, self.why_not = None, "the profile was dropped after newer dumps"

    @contextlib.contextmanager
    def taken(self, platform: str | None) -> Iterator[None]:
        """Profiles the body, which compiles one program. A profile in progress is not disturbed.

        Arguments:
          platform: the platform of the program, as JAX names it; None if another process compiles it. Only
            XLA:CPU's profile is read.
        """
        if platform != "cpu":
            self.why_not = "another process compiled it, for a chip that this machine does not have"
            if platform is not None:
                self.why_not = f"lazynb reads XLA's timing for CPUs alone, not for {platform}"
            yield
            return
        session = jc.new_profile()
        data: bytes | None = None
        try:
            yield
        finally:
            try:
                data = session.stop()
            except RuntimeError:
                self.why_not = "JAX's profiler was in use meanwhile, and it takes one profile at a time"
        if data is not None:
            self.data, self.why_not = data, ""


_PASSES = {"xla_dump_hlo_pass_re": ".*", "xla_dump_hlo_as_text": True}
_DECISIONS = {"xla_dump_fusion_visualization": True}
_CODE = {"xla_dump_emitter_re": "^(llvm|ptx)$"}
"""Options for XLA:GPU's code of each kernel. In JAX 0.12 they must name its emitters."""

_KEPT = 16  # dumps on disk: a program of 1,000 operations writes 4 MB


class DumpUnavailable(LazynbError):
    """XLA could not write its dump; the message says why and what to do."""


class Dump:
    """The files that one compilation wrote. They are removed with the object, or after 16 newer dumps.

    Attributes:
      directory: the folder of the files.
      elsewhere: whether another process compiles, for another chip.
      reading: the object that reads them, see :func:`record_dumps`.
      profile: the profile of the compilation.
    """

    def __init__(self, elsewhere: bool = False) -> None:
        self.elsewhere = elsewhere
        self.reading: Any = None
        self.profile = CompileProfile()
        try:
            self.directory = Path(tempfile.mkdtemp(prefix="lazynb-", dir=quickest_folder()))
        except OSError as error:
            raise DumpUnavailable(
                f"XLA cannot write a dump of its passes: {error}. Set TMPDIR to a writable directory, "
                "then compile again (%cache clear)."
            ) from error
        self._remove = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        _recent.append(self)
        while len(_recent) > _KEPT:
            oldest = _recent.popleft()
            oldest._remove()
            oldest.reading = None
            oldest.profile.forget()

    def __repr__(self) -> str:
        return f"Dump({str(self.directory)!r})"

    @property
    def exists(self) -> bool:
        """Whether the files still exist."""
        return self._remove.alive

    def options(self, decisions: bool = False) -> dict[str, Any]:
        """Compiler options that make XLA write the dump.

        Arguments:
          decisions: also dump each decision of the fusion passes, which is slow.
        """
        options = {"xla_dump_to": str(self.directory), **_PASSES}
        if decisions:
            options |= _DECISIONS
        return options

    def files(self, pattern: str) -> list[Path]:
        """The files whose names match ``pattern``, sorted by name."""
        return sorted(self.directory.glob(pattern))

    def text(self, pattern: str) -> str:
        """The text of the first file that matches ``pattern``; empty if none does."""
        files = self.files(pattern)
        return files[0].read_text(encoding="utf-8", errors="replace") if files else ""


def with_code(options: Mapping[str, Any], platform: str) -> dict[str, Any]:
    """``options``, extended by the code of each kernel if they request a dump."""
    writes = "xla_dump_to" in options and platform in ("cuda", "gpu")
    return {**options, **(_CODE if writes else {})}


_recent: collections.deque[Dump] = collections.deque()
_MEMORY = Path("/dev/shm")  # a file system in memory on Linux: XLA waits for its files
_ROOM = 256 << 20  # bytes that must be free in it


def quickest_folder() -> str | None:
    """The folder in which to create a dump's directory; None for the default of ``tempfile``."""
    if "TMPDIR" in os.environ:
        return None
    try:
        free = shutil.disk_usage(_MEMORY).free
    except OSError:
        return None
    if free > _ROOM and os.access(_MEMORY, os.W_OK):
        return str(_MEMORY)
    return None


_watch: contextvars.ContextVar[Callable[[Dump], Any] | None] = contextvars.ContextVar(
    "lazynb_dumping", default=None
)


@contextlib.contextmanager
def record_dumps(watch: Callable[[Dump], Any] = lambda dump: None) -> Iterator[None]:
    """Requests a dump of each program that the body compiles.

    Arguments:
      watch: called with each dump as its compilation starts; its result becomes the dump's ``reading``.
    """
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def new_dump(elsewhere: bool = False) -> Dump | None:
    """A dump for the compilation that starts; None outside of :func:`record_dumps`, or if it cannot be
    written."""
    watch = _watch.get()
    if watch is None:
        return None
    with contextlib.suppress(DumpUnavailable):
        dump = Dump(elsewhere)
        dump.reading = watch(dump)
        return dump
    return None
