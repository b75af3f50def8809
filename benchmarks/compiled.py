"""What a compiled model (``torch.compile(model, backend="lazynb")``) saves on device ``jax``.

    python -m benchmarks.compiled

Milliseconds of a warm forward pass and of a warm training step (AdamW, the loss is read) of the models of
the rows ``pytorch-bert`` and ``pytorch-gpt2``: recorded operation by operation, compiled, and PyTorch eager
on the CPU. In brackets, what of it passes until the last operation is recorded. Each the least of 40.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import lazynb
import lazynb.torch
from benchmarks.programs.models import each, new_model

ROUNDS = 40

Step = Callable[[Any], Any]
"""Takes the words. Returns a tensor whose values are read then."""


def forward(model: Any) -> Step:
    """A forward pass."""
    model.eval()

    def step(words: Any) -> Any:
        with torch.no_grad():
            return model(words).logits

    return step


def training(model: Any) -> Step:
    """A training step."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(words: Any) -> Any:
        optimizer.zero_grad()
        loss = model(words).logits.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _times(step: Step, words: Any) -> tuple[float, float]:
    """Milliseconds until the values are there, and until all was recorded."""
    start = time.perf_counter()
    result = step(words)
    recorded = time.perf_counter()
    result.cpu()
    return 1e3 * (time.perf_counter() - start), 1e3 * (recorded - start)


def measured(name: str, kind: Callable[[Any], Step]) -> dict[str, tuple[float, float]]:
    """The figures of the model ``name``: by the way it runs, the least of each of :func:`_times`."""
    plain, words = new_model(name), torch.from_numpy(np.asarray(each(name)[0][0]))
    ours = copy.deepcopy(plain).to("jax")
    compiled = torch.compile(copy.deepcopy(ours), backend="lazynb")
    ways = {
        "recorded": (kind(ours), words.to("jax"), lazynb.lazy),
        "compiled": (kind(compiled), words.to("jax"), lazynb.lazy),
        "PyTorch eager": (kind(plain), words, contextlib.nullcontext),
    }
    found: dict[str, tuple[float, float]] = {}
    for way, (step, given, around) in ways.items():
        times = []
        for _ in range(ROUNDS):
            with around():
                times.append(_times(step, given))
        whole, recorded = zip(*times, strict=True)
        found[way] = min(whole), min(recorded)
    return found


def main() -> None:
    """Prints the table."""
    lazynb.torch.enable()
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| model, step | recorded | compiled | PyTorch eager |\n|---|---|---|---|")
    for name in ("bert", "gpt2"):
        for kind in (forward, training):
            found = measured(name, kind)
            cells = [f"{whole:.2f} ({recorded:.2f}) ms" for whole, recorded in found.values()]
            cells[-1] = f"{found['PyTorch eager'][0]:.2f} ms"
            print(f"| {name}, {kind.__name__} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
