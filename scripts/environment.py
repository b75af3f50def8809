"""Makes a virtual environment with lazynb in it (editable), or brings it up to date.

    python3 scripts/environment.py FOLDER EXTRA

Standard library only. Does nothing, quickly, when neither pyproject.toml nor the JupyterLab extension nor the
accelerator's source has changed since the last time: an editable install has a copy of the extension, and
builds the accelerator.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from progress import Progress

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
LABEXTENSION = Path("extension/labextension/package.json")  # names the built files by their content
# Not compiling every module beforehand saves a third of the time; Python compiles those that are imported.
OPTIONS = ("--no-compile", "--disable-pip-version-check", "--progress-bar", "off")


class EnvironmentFailed(Exception):
    """Making the environment failed; the text says what to do."""


def make(folder: Path, extra: str, python: str = sys.executable) -> Path:
    """The path of the Python in the environment `folder`, which has lazynb with `extra` installed."""
    inside = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = folder / "lazynb.stamp"
    wanted = _fingerprint(extra, folder)
    if stamp.exists() and stamp.read_text() == wanted and _runs(inside):
        return inside
    began = time.monotonic()
    print(
        f"making {_short(folder)} with lazynb[{extra}] (once; two to four minutes) ...",
        file=sys.stderr,
        flush=True,
    )
    if not _runs(inside):
        _call(
            [python, "-m", "venv", "--clear", str(folder)],
            f"{python} cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv",
        )
    _install([str(inside), "-m", "pip", "install", *OPTIONS, "-e", f"{ROOT}[{extra}]"])
    stamp.write_text(wanted)
    print(f"made {_short(folder)} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return inside


def is_too_old() -> bool:
    """Whether the running Python is older than lazynb supports; says so when it is."""
    if sys.version_info >= OLDEST:
        return False
    print(
        f"lazynb needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.12 "
        "..."
    )
    return True


def _fingerprint(extra: str, folder: Path) -> str:
    """Changes when the environment has to be made again: other dependencies, another extension, accelerator,
    extra or place."""
    in_c = sorted((ROOT / "lazynb").rglob("_*.[ch]"))
    files = [ROOT / "pyproject.toml", ROOT / LABEXTENSION, *in_c]
    read = b"".join(file.read_bytes() for file in files if file.is_file())
    return f"{extra} {folder.resolve()} {hashlib.sha256(read).hexdigest()}\n"


def _runs(python: Path) -> bool:
    try:
        return subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0
    except OSError:
        return False


def _call(command: list[str], advice: str) -> None:
    try:
        subprocess.run(command, check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentFailed(f"{advice} ({error})") from error


def _install(command: list[str]) -> None:
    """Runs pip, and says every ten seconds what it does; its last lines where it fails."""
    last, packages = deque[str](maxlen=15), 0
    with (
        Progress("starting pip") as progress,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            last.append(line.rstrip())
            verb, _, what = line.strip().partition(" ")
            packages += verb == "Collecting"
            if verb == "Installing":
                progress.step = f"installing {packages} packages" if packages else line.strip()
            elif verb in ("Collecting", "Downloading", "Building"):
                progress.step = f"{verb.lower()} {what.split(' ')[0]} ({packages} packages so far)"
    if process.returncode:
        print(*last, sep="\n", file=sys.stderr)
        raise EnvironmentFailed("pip could not install what lazynb needs; its last lines are above")


def _short(folder: Path) -> str:
    return str(folder.resolve().relative_to(ROOT)) if folder.resolve().is_relative_to(ROOT) else str(folder)


def main(arguments: list[str]) -> int:
    if is_too_old():
        return 1
    folder, extra = arguments
    try:
        make(ROOT / folder, extra)
    except EnvironmentFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
