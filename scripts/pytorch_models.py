"""Writes a table of models in docs/pytorch.md: what five models of Transformers' come to on lazynb's device
``jax``.

    python scripts/pytorch_models.py [--print]

Needs PyTorch, torchax and Transformers in the running environment; the page has a table for each JAX. Takes a
minute.
"""

from __future__ import annotations

import copy
import os
import sys
from importlib import metadata
from pathlib import Path

os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import pytorch_page  # noqa: E402

BEGIN = "<!-- written by scripts/pytorch_models.py with JAX {} -->"
HEADINGS = (
    "model",
    "operations",
    "graphs",
    "breaks",
    "executables",
    "largest difference",
    "again: compiled",
    "20 steps: compiled",
    "20 steps: breaks",
    "loss differs by",
)
STEPS = 20


def line(name: str) -> tuple[str, ...]:
    """One model: forward, forward again, and training with AdamW."""
    import torch
    from pytorch_models import make

    import lazynb

    plain, inputs, labels = make(name)
    lazy = copy.deepcopy(plain).to("jax")
    there = {key: value.to("jax") for key, value in inputs.items()}
    lazynb.clear_cache()
    with torch.no_grad(), lazynb.lazy():
        output = lazy(**there)
        operations, breaks = len(lazynb.graph(output)), len(lazynb.breaks())
        lazynb.sync(output)
        graphs, compiled = len(lazynb.events()), lazynb.cache_info().misses
    with torch.no_grad(), lazynb.lazy():
        lazynb.sync(lazy(**there))
        again = lazynb.cache_info().misses - compiled
    with torch.no_grad():
        wanted = plain(**inputs).logits
    apart = float((output.logits.cpu() - wanted).abs().max() / wanted.abs().max())

    lazynb.clear_cache()
    moved = there | {key: value.to("jax") for key, value in labels.items()}
    losses = []
    for model, given in ((plain, inputs | labels), (lazy, moved)):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with lazynb.lazy():
            for _ in range(STEPS):
                optimizer.zero_grad()
                loss = model(**given).loss
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    differ = max(
        abs(one - other) / abs(one) for one, other in zip(losses[:STEPS], losses[STEPS:], strict=True)
    )
    steps = sum(found.count for found in lazynb.breaks())
    kinds = ", ".join(sorted({found.kind for found in lazynb.breaks()}))
    return (
        type(plain).__name__,
        str(operations),
        str(graphs),
        str(breaks),
        str(compiled),
        f"{apart:.0e}",
        str(again),
        str(lazynb.cache_info().misses),
        f"{steps} ({kinds})",
        f"{differ:.0e}",
    )


def versions() -> str:
    """What the table was made with."""
    named = {"PyTorch": "torch", "torchax": "torchax", "Transformers": "transformers", "JAX": "jax"}
    found = [f"{name} {metadata.version(package).split('+')[0]}" for name, package in named.items()]
    return ", ".join([*found, "Python {}.{}".format(*sys.version_info)])


def made() -> str:
    """The versions and the table of all models."""
    from pytorch_models import MODELS

    import lazynb.torch

    lazynb.torch.enable()
    return f"{versions()}:\n\n" + pytorch_page.table(HEADINGS, (line(name) for name in MODELS))


if __name__ == "__main__":
    jax_version = ".".join(metadata.version("jax").split(".")[:2])
    raise SystemExit(pytorch_page.main(sys.argv[1:], "models", BEGIN.format(jax_version), made))
