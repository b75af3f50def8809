"""The persistent compilation cache: JAX's disk cache with checksums, a load journal and a trust check.

XLA loads any bytes. An entry of another program, or with a changed byte, fails an assertion or ends the
process, at each restart. So each entry has a checksum over its key and its content, and an entry that does
not match its checksum is set aside.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import jax

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.jax_compat import fork_locks
from lazynb.jax_compat.jax_names import CACHE_HIT_EVENT

# ---- Load journal ---------------------------------------------------------------------------------------
# If an entry ends the process that loads it, the next process detects that. Each process locks a file of its
# own in the directory, and the lock ends with the process in every case. So an unlocked file was left by a
# process that has ended, and it names the entry that this process was loading.

try:
    import fcntl
except ImportError:  # Windows, without a journal
    fcntl = None  # type: ignore[assignment]

_LOADING, _WRITING = ".loading", ".writing"


def interrupted_loads(directory: Path) -> Iterator[str]:
    """The keys that processes were loading when they ended; each is returned once. Files that such processes
    were writing are removed."""
    if fcntl is None:
        return
    for file in [*directory.glob(f"*{_LOADING}"), *directory.glob(f"*{_WRITING}")]:
        with contextlib.suppress(OSError), file.open("r+b") as stream:  # NFS locks no file opened for reading
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its process lives
            key = stream.read().decode(errors="replace") if file.suffix == _LOADING else ""
            file.unlink()
            if key and key.isprintable() and "/" not in key:
                yield key


def _private(path: str, flags: int) -> int:
    """Opens a file that others cannot read or write, whatever the umask is."""
    return os.open(path, flags, 0o600)


class Journal:
    """A file with the key of the entry that this process is loading; optional, as it may not be writable."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._stream: IO[bytes] | None = None
        self._owner = 0

    def begin(self, key: str) -> None:
        """Notes that the load of ``key`` begins."""
        with contextlib.suppress(OSError):
            self._write(key.encode())

    def end(self) -> None:
        """Notes that the load has ended."""
        if self._stream is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                self._write(b"")

    def _write(self, text: bytes) -> None:
        if fcntl is None:
            return
        if self._stream is None or self._owner != os.getpid():  # a forked process needs a file of its own
            file = self._directory / f"{uuid.uuid4().hex}{_LOADING}"
            stream = open(file, "wb", buffering=0, opener=_private)  # noqa: SIM115 - for the whole process
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # no process could tell that this one had ended, and remove the file
                stream.close()
                file.unlink()
                raise
            self._stream, self._owner = stream, os.getpid()
        self._stream.seek(0)
        self._stream.truncate()
        self._stream.write(text)


# ---- Trust in a directory -------------------------------------------------------------------------------
# A compiled program is machine code, and loading it executes it. So no other user may write to the directory
# of the programs, and no directory above it may let another user replace it. These are ssh's rules for keys.

_NOBODY = 65534  # the owner that a container shows for files of users who exist only outside of it


def untrusted_reason(directory: Path) -> str:
    """The reason not to trust the existing ``directory``, with its remedy; empty if it can be trusted.

    A symbolic link is resolved first. Where files have no owners and modes (Windows), each directory is
    trusted.

    Raises:
      OSError: the directory, or one above it, cannot be inspected.
    """
    if os.name != "posix":
        return ""
    real = Path(os.path.realpath(directory))
    status = os.stat(real)
    if status.st_uid not in (0, os.geteuid()):
        return f"{real} belongs to another user (number {status.st_uid}), whose programs would run as yours"
    if others := _others(status.st_mode):
        return (
            f"{others} can write to {real}, and so run programs as you; remove that permission with: chmod "
            f"go-w {real}"
        )
    for parent in real.parents:
        status = os.stat(parent)
        if status.st_uid not in (0, os.geteuid(), _NOBODY):
            return f"{parent}, above {real}, belongs to another user (number {status.st_uid})"
        if others := _replacers(status):
            return (
                f"{others} can write to {parent}, and so replace its contents; remove that "
                f"permission with: chmod go-w {parent}"
            )
    return ""


def is_own_file(file: Path) -> bool:
    """Whether nobody but this user can have written the content of ``file``. It can be from a time when
    others could write to its directory, or be a link to a file that they can write.

    Raises:
      OSError: there is no such file.
    """
    status = os.lstat(file)
    if os.name != "posix" or not stat.S_ISREG(status.st_mode):
        return stat.S_ISREG(status.st_mode)
    written_by_others = _others(status.st_mode) and not _is_private_group(status)
    return status.st_uid in (0, os.geteuid()) and not written_by_others


def _make(directory: Path) -> None:
    """Creates a directory, with those above it, that only this user can write to, whatever the umask is."""
    if not directory.is_dir():
        _make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def _others(mode: int) -> str:
    """The other users that can write; empty if only the owner can."""
    if mode & stat.S_IWOTH:
        return "everybody"
    if mode & stat.S_IWGRP:
        return "its group"
    return ""


def _replacers(status: os.stat_result) -> str:
    """The other users that can replace a file in the directory; empty if only the owner can."""
    if status.st_mode & stat.S_ISVTX:  # sticky bit: only the owner of a file can replace it
        return ""
    others = _others(status.st_mode)
    if others and _is_private_group(status):
        return ""
    return others


def _is_private_group(status: os.stat_result) -> bool:
    """Whether this user is the only member of the group that can write, as on systems with a group per
    user."""
    import grp
    import pwd

    if status.st_mode & stat.S_IWOTH or status.st_uid != os.geteuid():
        return False
    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    is_own = group.gr_gid == user.pw_gid and group.gr_name == user.pw_name
    return is_own and set(group.gr_mem) <= {user.pw_name}


_MAGIC = b"lazynb executable 1\n"
_KEPT = 16  # entries that are set aside for diagnosis


def seal(key: str, entry: bytes) -> bytes:
    """``entry`` with the checksum that :func:`unseal` checks."""
    return _MAGIC + _sum(key, entry) + entry


def unseal(key: str, sealed: bytes) -> bytes | None:
    """The entry that was sealed under ``key``; None if ``sealed`` is anything else."""
    head = len(_MAGIC) + hashlib.sha256().digest_size
    entry = sealed[head:]
    if sealed[:head] != _MAGIC + _sum(key, entry):
        return None
    return entry


def _sum(key: str, entry: bytes) -> bytes:
    return hashlib.sha256(b"%d %s\n" % (len(key), key.encode()) + entry).digest()


class SealedCache:
    """JAX's cache of one directory, with checksums.

    An entry that cannot be read counts as a miss: it is set aside, the user is warned once, and the entry is
    written again. JAX alone warns for each such entry, compiles each time, and never replaces it.
    """

    def __init__(self, cache: Any, path: str):
        self._cache = cache
        self._directory = Path(path)
        self._given = threading.local()
        self._warned: set[str] = set()
        self._journal = Journal(self._directory)
        for key in interrupted_loads(self._directory):
            self._put_aside(key, "load (the process ended while it did)")

    def get(self, key: str) -> bytes | None:
        """The entry ``key``; None if it is absent or cannot be read. The journal holds the key as being
        loaded until :meth:`loaded`."""
        entry = self._read(key)
        self._given.key = key if entry is not None else None
        if entry is not None:
            self._journal.begin(key)
        return entry

    def loaded(self) -> None:
        """Notes that the last entry from :meth:`get` has been loaded."""
        self._journal.end()

    def last(self) -> Callable[[], bytes | None]:
        """A function that reads the last entry of this thread again. The entry is not kept, as it may be
        large."""
        key = self._given.key
        return lambda: self._read(key)

    def put(self, key: str, entry: bytes) -> None:
        """Writes an entry; replaces one that cannot be used."""
        try:
            if getattr(self._given, "key", None) == key:  # it was read, but could not be loaded
                self._put_aside(key)
            self._write(key, seal(key, entry))
        except (OSError, ValueError, NotImplementedError) as error:  # the last: a file system without locks
            message = (
                f"lazynb could not keep an executable in {self._directory}: {error}. The next process "
                "compiles it again."
            )
            self._warn_once("write", message)

    def _write(self, key: str, sealed: bytes) -> None:
        """Writes an entry, which other processes see only as a whole."""
        file = jc.entry_file(self._cache, _name(key))
        if jc.has_size_limit(self._cache):  # JAX's lock makes it whole, except where the process is killed
            self._cache.put(_name(key), sealed)
            with contextlib.suppress(OSError):  # larger than the limit
                file.chmod(0o600)
            return
        new = self._directory / f"{uuid.uuid4().hex}{_WRITING}"
        with open(new, "xb", opener=_private) as stream:
            try:
                if fcntl is not None:
                    with contextlib.suppress(OSError):  # without locks, the file of a killed process stays
                        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                stream.write(sealed)
                stream.flush()
                if fcntl is None:  # Windows renames no open file
                    stream.close()
                new.replace(file)
            except BaseException:
                with contextlib.suppress(OSError):
                    new.unlink()
                raise

    def _read(self, key: str) -> bytes | None:
        try:
            own = is_own_file(jc.entry_file(self._cache, _name(key)))
            sealed = self._cache.get(_name(key)) if own else b""
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, NotImplementedError):
            sealed = b""
        if sealed is None:
            return None
        entry = unseal(key, sealed)
        if entry is None or not jc.is_readable_entry(entry):
            self._put_aside(key)
            return None
        return entry

    def _put_aside(self, key: str, why: str = "read") -> None:
        aside = self._directory / "unreadable"
        file = jc.entry_file(self._cache, _name(key))
        place = f"were moved to {aside}"
        try:
            aside.mkdir(mode=0o700, exist_ok=True)
            if aside.is_symlink():  # files of another place would be removed below
                raise NotADirectoryError(f"{aside} is a symbolic link")
            with contextlib.suppress(FileNotFoundError):
                file.replace(aside / file.name)
            for old in sorted(aside.iterdir(), key=lambda file: file.lstat().st_mtime)[:-_KEPT]:
                with contextlib.suppress(OSError):  # a directory, or another process removed it
                    old.unlink()
        except OSError as error:
            place = f"could not be moved to {aside}: {error}"
            with contextlib.suppress(OSError):
                file.unlink()
        message = (
            f"lazynb could not {why} an executable that was kept in {self._directory}; it is compiled again, "
            f"and so are other such executables. They {place}."
        )
        self._warn_once("read", message)

    def _warn_once(self, topic: str, message: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            warnings.warn(message, stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def _name(key: str) -> str:
    """The file name of the entry; its suffix is the version of the entry format."""
    return f"{key}-1"


# ---- Persistent cache -----------------------------------------------------------------------------------
# JAX's own cache does the work, in the user's cache directory, or in a directory of JAX if the user has set
# one. lazynb makes the name scopes of recorded operations a part of the key (see
# ``jax_compat.compiling_settings``), seals the entries, and keeps short compilations too. JAX's own settings
# do not change, so programs that the user compiles outside lazynb are not affected.


class _Hits(threading.local):
    count = 0


class PersistentCache:
    """JAX's cache, opened at the first compilation, and the number of its hits."""

    def __init__(self) -> None:
        self._caches: dict[str, Any] = {}
        self._hits = _Hits()
        self._lock = fork_locks.lock()
        self._listening = False

    def _open(self) -> Any | None:
        """The cache of the current directory; None if it is off or the directory cannot be used."""
        with self._lock:
            if not self._listening:
                jax.monitoring.register_event_listener(self._on_event)
                self._listening = True
            if not config.persistent_cache:
                return None
            path = _directory()
            if path not in self._caches:
                self._caches[path] = None  # also if the warnings are errors
                self._caches[path] = self._create(path)
            return self._caches[path]

    @staticmethod
    def _create(path: str) -> Any | None:
        try:
            if not path:
                raise FileNotFoundError("this user has no home directory")
            path = os.path.abspath(path)  # the working directory may change
            _make(Path(path))
            if why := untrusted_reason(Path(path)):
                warnings.warn(f"lazynb keeps no executables on disk, and loads none: {why}.", stacklevel=2)
                return None
            with tempfile.TemporaryFile(dir=path):  # it can be written
                pass
            cache = jc.file_cache(path)
            return SealedCache(cache, path) if cache is not None else None
        except OSError as error:
            warnings.warn(
                f"lazynb keeps no executables on disk: {error}. Set lazynb.config.persistent_cache_dir to a "
                "directory that can be written, or lazynb.config.persistent_cache = False.",
                stacklevel=2,
            )
            return None

    def _on_event(self, event: str, **_: object) -> None:
        if event == CACHE_HIT_EVENT:
            self._hits.count += 1

    @contextmanager
    def settings(self) -> Iterator[list[Any]]:
        """Makes the body, a compilation in this thread, use the cache. Yields a list. After the body it holds
        the origin of the program and, for ``disk``, a function that reads the entry."""
        origin: list[Any] = []
        before = self._hits.count
        entries = self._open()
        try:
            with jc.compiling_settings(entries):
                yield origin
        finally:
            if entries is not None:
                entries.loaded()
        if entries is not None and self._hits.count > before:
            origin += ["disk", entries.last()]
        else:
            origin += ["compiled", None]


def _directory() -> str:
    """The directory of lazynb's entries: within JAX's cache directory if the user has set a local one. Empty
    without a directory."""
    of_jax = jc.user_cache_dir()
    if not of_jax or "://" in of_jax:
        return str(config.persistent_cache_dir or "")
    return os.path.join(of_jax, "lazynb")


disk_cache = PersistentCache()
