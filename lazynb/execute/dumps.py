"""What XLA writes down while it compiles: the module after each pass, buffers, and, when asked, its fusion
decisions.

Compiler options of one compilation say so; XLA's process-wide flags are ignored once its backend exists. JAX
leaves these options out of the key of its persistent cache, so they make no other entry; what comes from that
cache was not compiled and has no dump.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lazynb.errors import LazynbError

_PASSES = {"xla_dump_hlo_pass_re": ".*", "xla_dump_hlo_as_text": True}
_DECISIONS = {"xla_dump_fusion_visualization": True}
_KEPT = 16  # dumps on disk: a program of 1,000 operations writes 4 MB


class DumpUnavailable(LazynbError):
    """XLA could not write down what it did; the message says why and what to do."""


class Dump:
    """The files that one compilation wrote. They are removed with the object, or when 16 newer ones were
    made.

    Attributes:
      directory: where they lie.
      reading: whatever reads them, see :func:`dumping`.
    """

    def __init__(self) -> None:
        self.reading: Any = None
        try:
            self.directory = Path(tempfile.mkdtemp(prefix="lazynb-", dir=_quickest()))
        except OSError as error:
            raise DumpUnavailable(
                f"XLA's passes cannot be written down: {error}. Set TMPDIR to a directory that can be "
                "written, then compile again (%cache clear)."
            ) from error
        self._remove = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        _recent.append(self)
        while len(_recent) > _KEPT:
            oldest = _recent.popleft()
            oldest._remove()
            oldest.reading = None

    @property
    def there(self) -> bool:
        """Whether the files are still to be had."""
        return self._remove.alive

    def options(self, decisions: bool = False) -> dict[str, Any]:
        """Compiler options that make XLA write; with ``decisions``, each decision of its fusion passes too
        (slow)."""
        return {"xla_dump_to": str(self.directory), **_PASSES, **(_DECISIONS if decisions else {})}

    def files(self, pattern: str) -> list[Path]:
        """The files whose names fit ``pattern``, in order of their names."""
        return sorted(self.directory.glob(pattern))

    def text(self, pattern: str) -> str:
        """The first file that fits; empty if there is none."""
        return next((file.read_text(encoding="utf-8", errors="replace") for file in self.files(pattern)), "")


_recent: collections.deque[Dump] = collections.deque()
_MEMORY = Path("/dev/shm")  # a file system in memory, where Linux has one: XLA waits for its files
_ROOM = 256 << 20  # bytes that have to be free there


def _quickest() -> str | None:
    """Where to make the directory; None: where ``tempfile`` makes them."""
    try:
        free = shutil.disk_usage(_MEMORY).free
        return (
            str(_MEMORY)
            if free > _ROOM and os.access(_MEMORY, os.W_OK) and "TMPDIR" not in os.environ
            else None
        )
    except OSError:
        return None


_watch: contextvars.ContextVar[Callable[[Dump], Any] | None] = contextvars.ContextVar(
    "lazynb_dumping", default=None
)


@contextlib.contextmanager
def dumping(watch: Callable[[Dump], Any] = lambda dump: None) -> Iterator[None]:
    """What is compiled within it has a dump; ``watch`` is called with each as the compilation starts, and
    what it returns is kept as the dump's ``reading``."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def new_dump() -> Dump | None:
    """A dump for what is compiled now, where one is wanted and can be had."""
    watch = _watch.get()
    if watch is None:
        return None
    with contextlib.suppress(DumpUnavailable):
        dump = Dump()
        dump.reading = watch(dump)
        return dump
    return None
