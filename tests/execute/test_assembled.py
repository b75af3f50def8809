"""Arrays over 8 devices that are put together of lazy ones, gathered and saved: as eagerly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lazynb

EACH = {"": 20, "Orbax": 3}


@pytest.mark.parametrize("names", ["", pytest.param("Orbax", marks=pytest.mark.full)])
def test_arrays_assembled_from_lazy_tensors_equal_eager_ones(names):
    if names:
        pytest.importorskip("orbax.checkpoint")
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "assembled_programs.py", *names.split()],
        env={**os.environ, "PYTHONPATH": str(Path(lazynb.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["name"]: line["differs"] for line in lines if line["differs"]} == {}
    assert len(lines) == EACH[names]
