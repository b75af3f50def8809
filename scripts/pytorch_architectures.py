"""Writes a table of architectures in docs/pytorch.md: what each comes to on lazynb's device ``jax``.

    python scripts/pytorch_architectures.py [--print]

Needs PyTorch, torchax and Transformers in the running environment. Takes five minutes.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from pathlib import Path

os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

PAGE = ROOT / "docs" / "pytorch.md"
BEGIN, END = "<!-- written by scripts/pytorch_architectures.py -->", "<!-- end -->"
HEADINGS = (
    "model",
    "graphs",
    "breaks",
    "executables",
    "largest difference",
    "a step: breaks",
    "a step: executables",
    "gradients differ by",
)


def _kinds(breaks: list[str]) -> str:
    counts = collections.Counter(kind for kind in breaks if kind != "sync")
    named = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in sorted(counts.items()))
    return named or "0"


def line(name: str) -> tuple[str, ...]:
    """The row of one architecture."""
    from pytorch_architectures import run

    found = run(name)
    return (
        found["model"],
        str(found["graphs"]),
        _kinds(found["breaks"]),
        str(found["executables"]),
        f"{found['differ']:.0e}",
        _kinds(found["breaks of a step"]),
        str(found["executables of a step"]),
        f"{found['gradients']:.0e}",
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Writes a table of architectures in docs/pytorch.md.")
    parser.add_argument("--print", action="store_true", help="print it instead")
    asked = parser.parse_args(arguments)
    from pytorch_architectures import MODELS

    import lazynb.torch

    lazynb.torch.enable()
    rows = [HEADINGS, ["---"] * len(HEADINGS), *(line(name) for name in MODELS)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if asked.print:
        print(table)
        return 0
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
