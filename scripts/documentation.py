"""Builds the documentation: guide, course, reference and how it works, as a folder of HTML.

    python scripts/documentation.py [FOLDER]

FOLDER is build/docs. The pages are those of docs/, the notebooks with what they stored, and the reference,
which is written from lazynb's own tables and docstrings. Cells of the guide run while it is built. Nothing is
fetched; a warning is an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from docs_sources import ROOT, gather
from progress import Progress


def build(target: Path) -> int:
    """Writes the site to ``target``; Sphinx's exit status."""
    from sphinx.cmd.build import main as sphinx

    sources = target.parent / f"{target.name}-sources"
    for folder in (sources, target):
        shutil.rmtree(folder, ignore_errors=True)
    # On the standard output, so that nothing but warnings comes on the other.
    with Progress("writing the reference", sys.stdout) as progress, contextlib.redirect_stdout(progress):
        return _built(sources, target, sphinx)


def _built(sources: Path, target: Path, sphinx: Callable[[list[str]], int]) -> int:
    gather(sources)
    os.environ["JUPYTER_PATH"] = str(kernels(sources / ".jupyter"))
    options = ["-b", "html", "-W", "--keep-going", "-j", "auto", "-d", str(sources / ".doctrees")]
    return int(sphinx([*options, str(sources), str(target)]))


def kernels(folder: Path) -> Path:
    """Describes the kernel of the guide's cells in ``folder``: this Python, without what an earlier kernel
    left on disk, and with the data of inspectors in what is shown."""
    command = [
        sys.executable,
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
        "--IPKernelApp.log_level=40",
    ]
    spec = {
        "argv": command,
        "display_name": "Python 3",
        "language": "python",
        "env": {"LAZYNB_PERSISTENT_CACHE": "0", "LAZYNB_STORED_DATA": "1"},
    }
    file = folder / "kernels" / "python3" / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(spec))
    return folder


def main(arguments: list[str]) -> int:
    # Settings show their defaults, whatever this process was started with.
    for name in ("LAZYNB_PERSISTENT_CACHE", "LAZYNB_CACHE_DIR"):
        os.environ.pop(name, None)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    target = Path(arguments[0] if arguments else ROOT / "build" / "docs").resolve()
    if target.exists() and not (target / "objects.inv").exists() and any(target.iterdir()):
        print(f"{target} holds something else than a site; name another folder", file=sys.stderr)
        return 2
    began = time.monotonic()
    status = build(target)
    if status == 0:
        pages = len(list(target.rglob("*.html")))
        shown = target.relative_to(ROOT) if target.is_relative_to(ROOT) else target
        print(f"the documentation, {pages} pages: {shown / 'index.html'} [{time.monotonic() - began:.0f} s]")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
