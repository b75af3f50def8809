"""Runs NumPy's own tests with arrays that begin as lazy ones, and says which that pass eagerly are lost.

    python scripts/numpy_suite.py [--share] [--most N] [FILE ...]

FILE is one of NumPy's files of tests (``_core/test_umath``); without any, all of ``_core``, ``lib``,
``linalg`` and ``fft`` are run that ``tests/numpysuite/differences.toml`` does not leave out. They are
installed with NumPy, and copied into build/: there they are the user's code. Each array that a test makes
(``np.array``, ``np.zeros``, ...) is an array that can be written to, pending at first, where JAX has its
type. Results of the eager runs are kept in build/ and used again.

A test that fails only lazily has to stand in the table, with the reason. The exit status is 1 where one
does not.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import jax_suite
import numpy as np
from jax_suite import Settings, Table

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "numpy-suite"
PLUGIN = ROOT / "tests" / "numpysuite"
FOLDERS = ("_core", "lib", "linalg", "fft")
MOST = 400


class NumPyTable(Table):
    """The table, whose patterns begin with the folder of NumPy's."""

    def reason(self, test: str) -> str | None:
        return next((why for pattern, why in self.reasons.items() if jax_suite.fits(test, pattern)), None)


def sources() -> Path:
    """The folder with a copy of the installed NumPy's tests."""
    target = BUILD / f"sources-{np.__version__}"
    if target.exists():
        return target
    installed = Path(np.__file__).parent
    for folder in FOLDERS:
        shutil.copytree(
            installed / folder / "tests", target / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(installed / "conftest.py", target)
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--share", action="store_true", help="the files of the default tier")
    parser.add_argument("--most", type=int, default=MOST, help=f"tests of a file, equally spaced ({MOST})")
    options = parser.parse_args(arguments)
    folder, table = sources(), NumPyTable((PLUGIN / "differences.toml").read_text())
    results = BUILD / "results" / f"{np.__version__}-{sys.version_info.minor}-{options.most}"
    results.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        folder.resolve(),
        results,
        1,
        options.most,
        path="{}.py",
        options=("-c", "/dev/null", "-p", "numpy_plugin"),
        plugins=(jax_suite.PLUGIN, PLUGIN),
    )
    files = _files(options.files, folder, table, options.share)
    outcomes = [jax_suite.compared(settings, table, file) for file in files]
    print(f"\nNumPy {np.__version__}: {jax_suite.summary(outcomes, 'tests/numpysuite/differences.toml')}")
    return int(any(one.unlisted for one in outcomes))


def _files(given: Sequence[str], folder: Path, table: Table, share: bool) -> list[str]:
    if given:
        return list(given)
    found = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/test_*.py"))
    return [name for name in found if (name in table.share if share else name not in table.left_out)]


if __name__ == "__main__":
    sys.exit(main())
