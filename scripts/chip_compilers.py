"""Puts the compilers of other chips where the tests look for them.

    python3 scripts/chip_compilers.py PYTHON

PYTHON is that of an environment with lazynb. One line for each compiler; one that cannot be had is no
failure, because the tests that need it are skipped then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from environment import ROOT

PLACE = ROOT / ".venvs" / "compilers"
NAMES = ("tpu", "gpu")
ASK = (
    "from lazynb.xla.targets.compiler_packages import COMPILERS; "
    f"print(*(COMPILERS[name].version or '' for name in {NAMES}), sep='\\n')"
)


def variables() -> dict[str, str]:
    """Environment variables that name the place."""
    return {"LAZYNB_COMPILERS": os.environ.get("LAZYNB_COMPILERS") or str(PLACE)}


def put(python: Path, name: str) -> str:
    """Installs a compiler; what came of it, in a line."""
    done = _run(python, "-m", "lazynb", "targets", "install", name)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"the compiler for {name.upper()}s cannot be had ({why}); its tests are skipped"
    return done.stdout.strip().splitlines()[-1]


def _run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables()}
    return subprocess.run([python, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)


def main(arguments: list[str]) -> int:
    python = Path(arguments[0])
    there = _run(python, "-c", ASK).stdout.split("\n")
    for name, version in zip(NAMES, [*there, "", ""], strict=False):
        print(f"{version} is there" if version else put(python, name), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
