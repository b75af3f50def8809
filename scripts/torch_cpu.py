"""Puts the CPU build of PyTorch, and what the tests of PyTorch code need with it, into an environment.

    python3 scripts/torch_cpu.py PYTHON

Standard library only. Exit status 1, and one line that says why, where it cannot be had: those tests are
skipped then. On Linux, pip's default build brings gigabytes of CUDA, which nobody needs here, so only the CPU
build is taken.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

TORCH = "torch==2.13.0+cpu" if sys.platform == "linux" else "torch==2.13.0"
# One call after the other: PyTorch first, so that nothing brings another build of it.
INSTALLS = ((TORCH,), ("torchax==0.0.13", "transformers>=5", "accelerate>=1.10"))
OPTIONS = ("-q", "--no-compile", "--disable-pip-version-check", "--only-binary", ":all:")
CHECK = (
    "import importlib.util as u; "
    "assert all(u.find_spec(name) for name in ('torch', 'torchax', 'transformers', 'accelerate'))"
)


def is_offered(python: Path) -> bool:
    """Whether pip finds PyTorch's CPU build for this Python; nothing is installed."""
    return _run(python, "-m", "pip", "install", "--dry-run", "--no-deps", *OPTIONS, TORCH).returncode == 0


def put_into(python: Path) -> str:
    """Installs it into the environment of `python`; why not, in a line, or nothing when it is there."""
    if _run(python, "-c", CHECK).returncode == 0:
        return ""
    for packages in INSTALLS:
        done = _run(python, "-m", "pip", "install", *OPTIONS, *packages)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR:")]
            return (errors or lines or ["pip failed"])[-1].removeprefix("ERROR: ")[:200]
    return ""


def _run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, *arguments], capture_output=True, text=True)


def main(arguments: list[str]) -> int:
    began = time.monotonic()
    why = put_into(Path(arguments[0]))
    if why:
        print(f"PyTorch's CPU build is not to be had here ({why}); the tests that need it are skipped")
        return 1
    print(f"PyTorch's CPU build is there, after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
