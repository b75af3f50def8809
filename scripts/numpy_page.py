"""Writes docs/numpy.md: what becomes of each of NumPy's functions, as the calls of
``tests/frontends/calls.py`` come out.

python scripts/numpy_page.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    code = (
        "import jax, sys; jax.config.update('jax_enable_x64', sys.argv[1] == '64'); "
        "from tests.frontends.listing import write_rows; write_rows(sys.argv[1])"
    )
    environment = {**os.environ, "LAZYNB_PERSISTENT_CACHE": "0", "PYTHONPATH": str(ROOT)}
    for mode in ("32", "64"):
        subprocess.run([sys.executable, "-c", code, mode], check=True, cwd=ROOT, env=environment)
    sys.path.insert(0, str(ROOT))
    from tests.frontends.listing import write_page

    write_page()


if __name__ == "__main__":
    main()
