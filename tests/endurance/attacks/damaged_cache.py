"""Damage to the cache on disk: a process killed as it writes, a full disk, changed files, a directory that
goes away.

A server imports lazynb once and forks a process for each try. Each process compiles programs, or loads them
from a directory that was damaged before or while it runs, and compares their values with NumPy's.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE = 60
"""Seconds after which a try counts as hung."""

PROGRAMS = 3
"""How many programs a try compiles."""

# ---- Damage to files, before a process starts --------------------------------------------------------------


def _some_entry(rng: random.Random, folder: Path) -> Path:
    return rng.choice(sorted(folder.glob("*-cache")))


def bit(rng: random.Random, folder: Path) -> None:
    file = _some_entry(rng, folder)
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def truncated(rng: random.Random, folder: Path) -> None:
    file = _some_entry(rng, folder)
    file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])


def longer(rng: random.Random, folder: Path) -> None:
    with _some_entry(rng, folder).open("ab") as stream:
        stream.write(rng.randbytes(rng.randrange(1, 100)))


def noise(rng: random.Random, folder: Path) -> None:
    _some_entry(rng, folder).write_bytes(rng.randbytes(rng.randrange(5000)))


def renamed(rng: random.Random, folder: Path) -> None:
    """The entry of one program under the name of another."""
    one, other = rng.sample(sorted(folder.glob("*-cache")), 2)
    one.replace(other)


def swapped(rng: random.Random, folder: Path) -> None:
    one, other = rng.sample(sorted(folder.glob("*-cache")), 2)
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])


def link_out(rng: random.Random, folder: Path) -> None:
    file = _some_entry(rng, folder)
    outside = folder.parent / f"outside-{file.name}"
    file.replace(outside)
    file.symlink_to(outside)


def link_in_circle(rng: random.Random, folder: Path) -> None:
    file = _some_entry(rng, folder)
    file.unlink()
    file.symlink_to(file)


def written_by_all(rng: random.Random, folder: Path) -> None:
    _some_entry(rng, folder).chmod(0o666)


def directory_for_entry(rng: random.Random, folder: Path) -> None:
    file = _some_entry(rng, folder)
    file.unlink()
    file.mkdir()


def journal(rng: random.Random, folder: Path) -> None:
    """A journal of a process that ended, with a key, half of one, or noise."""
    key = _some_entry(rng, folder).name.removesuffix("-1-cache").encode()
    text = rng.choice([key, key[:9], b"../../x", b"\0", b"\xff\xfe", rng.randbytes(50), "é".encode()])
    (folder / "0123.loading").write_bytes(text)


def clock(rng: random.Random, folder: Path) -> None:
    """The clock was wrong when the files were written."""
    for file in folder.iterdir():
        when = rng.choice([0, 1, 4_000_000_000])
        os.utime(file, (when, when))


def link_aside(rng: random.Random, folder: Path) -> None:
    """The place for entries that cannot be read is a link to another one."""
    bit(rng, folder)
    outside = folder.parent / "documents"
    outside.mkdir()
    for number in range(20):
        (outside / f"{number}.txt").write_text("mine")
    shutil.rmtree(folder / "unreadable", ignore_errors=True)
    (folder / "unreadable").symlink_to(outside)


def file_for_directory(rng: random.Random, folder: Path) -> None:
    replaced(folder)


BEFORE: dict[str, Callable[[random.Random, Path], None]] = {
    damage.__name__: damage
    for damage in (
        bit, truncated, longer, noise, renamed, swapped, link_out, link_in_circle, written_by_all,
        directory_for_entry, journal, clock, link_aside, file_for_directory,
    )
}  # fmt: skip

MISSES = {"bit", "truncated", "longer", "noise", "renamed", "swapped", "link_out", "written_by_all"}
"""Damage after which at least one program is compiled again."""

# ---- Faults of the system, in the process ------------------------------------------------------------------


def _failing(error: OSError) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def no_locks(_: Path) -> None:
    import fcntl

    fcntl.flock = _failing(OSError(95, "Operation not supported"))  # type: ignore[assignment]


def no_rename(_: Path) -> None:
    os.replace = os.rename = _failing(OSError(5, "Input/output error"))


def full_disk(_: Path) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))


def deleted(folder: Path) -> None:
    if folder.is_dir():  # not replaced before
        shutil.rmtree(folder)


def replaced(folder: Path) -> None:
    deleted(folder)
    folder.write_text("a file")


def no_reads(folder: Path) -> None:
    from jax._src import path

    path.Path.read_bytes = _failing(OSError(5, "Input/output error"))  # type: ignore[method-assign]


WITHIN = {fault.__name__: fault for fault in (no_locks, no_rename, full_disk, deleted, replaced, no_reads)}

# ---- The process that compiles -----------------------------------------------------------------------------


def compile_programs(folder: Path, programs: list[list[str]], fault: str) -> dict[str, Any]:
    """Runs the programs; ``fault`` happens after the first. Returns their origins, and what was said."""
    import warnings

    import jax.numpy as jnp
    import numpy as np

    import lazynb

    lazynb.config.persistent_cache, lazynb.config.persistent_cache_dir = True, folder
    origins, right = [], True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for names in programs:
            lazynb.clear_cache()
            given = np.arange(4.0, dtype=np.float32)
            with lazynb.lazy():
                value = jnp.asarray(given)
                for name in names:
                    value = getattr(jnp, name)(value) + 0.5
            expected = given
            for name in names:
                expected = getattr(np, name)(expected) + np.float32(0.5)
            right &= bool(np.allclose(np.asarray(value), expected, rtol=1e-4))
            origins.append(lazynb.cache_info()[0].origin)
            if fault in WITHIN:
                WITHIN[fault](folder)
                fault = ""
    return {"origins": origins, "right": right, "said": [str(each.message) for each in caught]}


def serve() -> None:
    """Forks a process for each line of the input; it answers into a file."""
    import lazynb  # noqa: F401 - imported once for all of them

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        answer, *arguments = json.loads(line)
        if pid := os.fork():
            print(pid, flush=True)
            continue
        try:
            result = compile_programs(Path(arguments[0]), *arguments[1:])
        except BaseException:
            result = {"error": traceback.format_exc()}
        text = Path(f"{answer}.new")
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        text.write_text(json.dumps(result))
        os.link(text, answer)
        os._exit(0)


class Server:
    """A process that forks the processes that compile."""

    def __init__(self, place: Path, python: str = sys.executable) -> None:
        self._place = place
        self._number = 0
        command = [python, "-m", "tests.endurance.attacks.damaged_cache"]
        root = Path(__file__).parents[3]
        environment = {**os.environ, "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=environment
        )

    def run(
        self, folder: Path, programs: list[list[str]], fault: str = "", kill_after: float | None = None
    ) -> dict[str, Any] | None:
        """What a process answers; None if it hung, or was killed."""
        self._number += 1
        answer = self._place / f"answer-{self._number}"
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([str(answer), str(folder), programs, fault]) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with status {self._process.wait()}")
        pid = int(line)
        end = time.monotonic() + (PATIENCE if kill_after is None else kill_after)
        while time.monotonic() < end:
            if answer.exists():
                return json.loads(answer.read_text())  # type: ignore[no-any-return]
            if not _lives(pid) and not answer.exists():
                return {"error": "the process ended"}
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while _lives(pid):
            time.sleep(0.002)
        return None

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def server() -> Iterator[tuple[Server, Path]]:
    """A server, and a folder that is removed after it."""
    with tempfile.TemporaryDirectory(prefix="lazynb-damage-") as place:
        started = Server(Path(place))
        try:
            yield started, Path(place)
        finally:
            started.end()


# ---- Tries -------------------------------------------------------------------------------------------------


def random_programs(rng: random.Random) -> list[list[str]]:
    """Different programs: names of functions."""
    names = ["sin", "cos", "tanh", "arctan", "square"]
    return [[names[number], *rng.choices(names, k=rng.randrange(6))] for number in range(PROGRAMS)]


def problems(answer: dict[str, Any] | None, most_said: int = 1) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if answer is None:
        return "hung"
    if "error" in answer:
        return f"wrong: {answer['error']}"
    if not answer["right"]:
        return "wrong: other values than NumPy's"
    if len(answer["said"]) > most_said or not all("lazynb" in text for text in answer["said"]):
        return f"wrong: it said {answer['said']}"
    return ""


def try_damage(server: Server, place: Path, rng: random.Random, kind: str) -> str:
    """Damages a filled directory, or lets a fault happen in the process; what was wrong."""
    folder, programs = place / f"cache-{rng.getrandbits(60)}", random_programs(rng)
    first = server.run(folder, programs, kind if kind in WITHIN and rng.random() < 0.5 else "")
    if first is None or "error" in first or not first["right"]:
        return problems(first)
    with contextlib.suppress(OSError):
        if len(list(folder.glob("*-cache"))) == PROGRAMS and kind in BEFORE:
            BEFORE[kind](rng, folder)
    second = server.run(folder, programs, kind if kind in WITHIN else "")
    if found := problems(second, most_said=2):
        return found
    assert second is not None
    if kind in MISSES and ("compiled" not in second["origins"] or len(second["said"]) != 1):
        return f"wrong: it loaded {second['origins']} and said {second['said']}"
    if kind == "link_aside" and len(list((place / "documents").iterdir())) != 20:
        return "lost: files of another directory"
    third = server.run(folder, programs)
    if not (found := problems(third)) and kind in BEFORE and kind != "file_for_directory":
        assert third is not None
        if third["origins"] != ["disk"] * PROGRAMS or third["said"]:
            found = f"lost: it did not write anew: {third}"
    if kind == "link_aside":
        shutil.rmtree(place / "documents")
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    return found


def try_kill(server: Server, place: Path, rng: random.Random, took: float) -> str:
    """Kills a process while it compiles and writes; the next ones are whole and leave no files."""
    folder, programs = place / "killed", random_programs(rng)
    server.run(folder, programs, kill_after=rng.uniform(0, took))
    answer = server.run(folder, programs)
    if found := problems(answer):
        return found
    again = server.run(folder, programs)
    if found := problems(again, most_said=0):
        return found
    assert again is not None
    if again["origins"] != ["disk"] * PROGRAMS:
        return f"lost: executables that were written: {again['origins']}"
    left = [file.name for file in folder.iterdir() if not file.name.endswith("-cache")]
    others = [name for name in left if name != "unreadable"]
    return f"wrong: it left {left}" if len(others) > 1 else ""


def attack(seconds: float, seed: int, kinds: tuple[str, ...] = ("kill", *BEFORE, *WITHIN)) -> dict[str, int]:
    """Tries kinds of damage one after the other for so long, each at least once if ``seconds`` allow it."""
    rng = random.Random(seed)
    figures = {"tries": 0, "lost": 0, "wrong": 0, "hung": 0}
    end = time.monotonic() + seconds
    with server() as (running, place):
        running.run(place / "warm", random_programs(rng))
        began = time.monotonic()
        running.run(place / "timed", random_programs(rng))
        took = time.monotonic() - began
        while time.monotonic() < end or not figures["tries"]:
            kind = kinds[figures["tries"] % len(kinds)]
            state = rng.getrandbits(60)
            own = random.Random(state)
            found = (
                try_kill(running, place, own, took)
                if kind == "kill"
                else try_damage(running, place, own, kind)
            )
            figures["tries"] += 1
            if found:
                figures[found.partition(":")[0]] += 1
                print(f"damaged_cache: {kind}, state {state}: {found}", flush=True)
    return figures


if __name__ == "__main__":
    serve()
