"""The worker process that reads program files: serves requests until its standard input closes.

python -m lazynb.report.inspection.program_worker      a request is one line of JSON
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from lazynb.errors import LazynbError
from lazynb.report.inspection.inspection_file import entry_to_json, inspection_entry
from lazynb.user_code.source_files import SourceFolder, only_from
from lazynb.user_code.text_format import escape_invisible
from lazynb.xla.external.external_programs import read_text

_IDLE_SECONDS = 60
_MORE_SECONDS = 30  # after the limit: ends the process if the one that asked is gone
_MORE_MEMORY = 1 << 30  # bytes that are reserved and not used, such as the stacks of threads


def main() -> None:
    """Serves requests."""
    while True:
        _end_after(_IDLE_SECONDS)
        line = sys.stdin.readline()
        if not line:
            os._exit(0)  # without XLA's shutdown
        serve(json.loads(line))


def serve(request: dict[str, Any]) -> None:
    """Reads one file, and writes the result into the folder of the request."""
    folder = Path(request["folder"])
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)  # for XLA's dump
    _end_after(int(request["seconds"]) + _MORE_SECONDS)
    _limit_memory(request["memory"] + _MORE_MEMORY)
    (folder / "begun").touch()
    name = os.path.basename(request["path"])
    try:
        result: dict[str, Any] = {"entry": _entry(request)}
    except LazynbError as error:
        result = {"error": str(error)}
    except OSError as error:
        result = {"error": f"{error.filename or name} cannot be read or written: {error.strerror}"}
    except RecursionError:
        result = {"error": f"{name} cannot be read: it is nested too deeply"}
    except MemoryError:
        print("MemoryError", file=sys.stderr, flush=True)
        os._exit(1)
    except Exception as error:  # a text that is not valid may raise any
        first = " ".join(str(error).split())[:200]
        result = {"error": f"{name} cannot be read: {type(error).__name__}: {first}"}
    (folder / "written").write_text(json.dumps(result), encoding="utf-8")
    os.replace(folder / "written", folder / "result")


def _entry(request: dict[str, Any]) -> dict[str, Any]:
    path = request["path"]
    content = Path(path).read_bytes()
    sources = SourceFolder(request["source"], {path: content.decode("utf-8-sig", "replace")})
    with only_from(sources):
        compilation = read_text(content, path)
        entry = inspection_entry(compilation, title=os.path.basename(path))
        if request["reproducer"] is not None:
            compilation.reproducer(request["reproducer"], request["question"])
    if sources.note:
        entry.data["notes"].append(escape_invisible(sources.note))
    return entry_to_json(entry)


def _end_after(seconds: int) -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _limit_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # on Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(OSError, ValueError):  # a system without this limit
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


if __name__ == "__main__":
    main()
