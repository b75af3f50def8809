"""Writes a table of architectures in docs/pytorch.md: what each comes to on lazynb's device ``jax``.

    python scripts/pytorch_architectures.py [--print]

Needs PyTorch, torchax and Transformers in the running environment. Takes five minutes.
"""

from __future__ import annotations

import collections
import os
import sys
from pathlib import Path

os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import pytorch_page  # noqa: E402

BEGIN = "<!-- written by scripts/pytorch_architectures.py -->"
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


def made() -> str:
    """The table of all architectures."""
    from pytorch_architectures import MODELS

    import lazynb.torch

    lazynb.torch.enable()
    return pytorch_page.table(HEADINGS, (line(name) for name in MODELS))


if __name__ == "__main__":
    raise SystemExit(pytorch_page.main(sys.argv[1:], "architectures", BEGIN, made))
