"""Writes docs/jax-versions.md: what two versions of JAX make of ten programs.

    python scripts/jax_versions.py --before PYTHON --now PYTHON [--for cpu,v5e,h100] [--print]

Each PYTHON is one of an environment with lazynb and its JAX: it compiles the programs and saves what XLA made
of them; the running Python compares the files. Nothing is run. Takes a minute for each chip; other chips need
their compilers (lazynb targets) for both versions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

PAGE = ROOT / "docs" / "jax-versions.md"
HEADINGS = ("program", "kernels", "through memory", "peak memory", "FLOPs", "what differs most")
INTRODUCTION = """# What changed between two versions of JAX

`lazynb.diff` compares ten programs compiled by {before} and by {now}. Nothing was run, so there are
no times. *Through memory* is the bytes that kernels read and write, counted once per loop iteration. FLOPs
are from XLA's analysis. The last column refers to lines of `scripts/jax_versions.py`.
"""
SECTION = """
## {title}

{table}

{same} of the ten programs are identical in both, kernel by kernel.
"""
CLOSING = """
## Your own

Run `lazynb run train.py --save before.json` with one JAX, `--save now.json` with another, then
`lazynb diff before.json now.json`. See [Compare](guide/compare.md). This page is written by
`python scripts/jax_versions.py --before PYTHON --now PYTHON --for {targets}`.
"""

# ---- the programs ------------------------------------------------------------------------------------------


def softmax(x):
    """Rows of a matrix."""
    return jax.nn.softmax(x, axis=-1)


def layer_norm(x, scale, shift):
    """With a learned scale and shift."""
    mean = x.mean(-1, keepdims=True)
    spread = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(spread + 1e-5) * scale + shift


def attention(q, k, v):
    """Eight heads, causal."""
    scores = jnp.einsum("qhd,khd->hqk", q, k) / 8
    mask = jnp.tril(jnp.ones((q.shape[0], k.shape[0]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    return jnp.einsum("hqk,khd->qhd", weights, v)


def training_step(w, u, x, y):
    """Of two dense layers, with plain gradient descent."""

    def loss(w, u):
        h = jax.nn.gelu(x @ w)
        return jnp.mean((h @ u - y) ** 2)

    dw, du = jax.grad(loss, argnums=(0, 1))(w, u)
    return w - 0.1 * dw, u - 0.1 * du


def batch_norm(x):
    """Over images."""
    mean, mean_of_squares = x.mean((0, 1, 2)), (x * x).mean((0, 1, 2))
    return jax.nn.relu((x - mean) / jnp.sqrt(mean_of_squares - mean**2 + 1e-5))


def convolution(x, kernel):
    """With a bias and a maximum over squares of two by two."""
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.lax.reduce_window(y + 1, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def recurrent(w, x):
    """A hidden state over 64 steps."""

    def step(h, row):
        h = jnp.tanh(h @ w + row)
        return h, h.sum()

    return jax.lax.scan(step, jnp.zeros(x.shape[1]), x)


def cross_entropy(logits, labels):
    """With its gradient."""

    def loss(logits):
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
        return -picked.mean()

    return jax.value_and_grad(loss)(logits)


def running_total(x):
    """And the largest eight of each row."""
    return jnp.cumsum(x, axis=0), jax.lax.top_k(x, 8)[0]


def rotary(x):
    """Positions as rotations, in bfloat16."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[0])[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    one, two = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([one * cos - two * sin, two * cos + one * sin], -1).astype(x.dtype)


def typed(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """The type of an argument."""
    return jax.ShapeDtypeStruct(shape, dtype)


HEADS = typed(256, 8, 64)
PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (softmax, (typed(1024, 1024),)),
    (layer_norm, (typed(1024, 512), typed(512), typed(512))),
    (attention, (HEADS, HEADS, HEADS)),
    (training_step, (typed(256, 512), typed(512, 128), typed(512, 256), typed(512, 128))),
    (batch_norm, (typed(8, 32, 32, 64),)),
    (convolution, (typed(8, 32, 32, 16), typed(3, 3, 16, 32))),
    (recurrent, (typed(128, 128), typed(64, 128))),
    (cross_entropy, (typed(512, 1000), typed(512, dtype=jnp.int32))),
    (running_total, (typed(256, 512),)),
    (rotary, (typed(256, 8, 64, dtype=jnp.bfloat16),)),
]

# ---- the page ----------------------------------------------------------------------------------------------


def save(path: str, target: str) -> None:
    """Compiles the programs with this JAX, and writes what XLA made of them."""
    import lazynb
    from lazynb.report.inspection.inspection_file import SavedInspections, inspection_entry

    entries = []
    for function, types in PROGRAMS:
        made = lazynb.compile(function, *types, target=target)
        entries.append(inspection_entry(made, title=function.__name__))
    SavedInspections(entries).save(path)


def section(before: str, now: str) -> tuple[str, str, str]:
    """The comparison of two such files, and what they were made by."""
    from lazynb.compare.differences.compilation_side import CompilationSide
    from lazynb.report.comparison_report import Diff
    from lazynb.report.inspection.inspection_file import read_inspections

    old, new = read_inspections(before), read_inspections(now)
    rows, same = [HEADINGS, ["---"] * len(HEADINGS)], 0
    for first, second in zip(old.inspections, new.inspections, strict=True):
        diff = Diff(
            CompilationSide(first, old.made_by, old.made_by),
            CompilationSide(second, new.made_by, new.made_by),
        )
        rows.append(row(first["title"], diff))
        same += not diff.changes
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    title = new.inspections[0]["target"] or "CPU"
    return SECTION.format(title=title, table=table, same=same or "None"), old.made_by, new.made_by


def row(name: str, diff: Any) -> tuple[str, ...]:
    """The row of one program."""
    from lazynb.compare.differences.memory_changes import peak
    from lazynb.user_code.text_format import number, size

    def both(of: Callable[[Any], str]) -> str:
        old, new = of(diff.before), of(diff.now)
        return old if old == new else f"{old} → {new}"

    def held(side: Any) -> str:
        memory = peak(side)
        return size(memory["peak_bytes"]) if memory is not None else "?"

    most = diff.headline[0] if diff.headline else "nothing"
    return (
        f"`{name}`",
        both(lambda side: str(side.figures.kernels)),
        both(lambda side: size(side.figures.moved)),
        both(held),
        both(lambda side: number(side.figures.flops) or "?"),
        most.replace("|", r"\|"),
    )


def page(asked: argparse.Namespace) -> str:
    """Compiles the programs in both environments, for each target, and compares them."""
    sections = ""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("before.json", "now.json")]
        for target in asked.targets.split(","):
            for python, file in zip((asked.before, asked.now), files, strict=True):
                command = [python, __file__, "--save", file, "--for", target]
                subprocess.run(command, check=True, cwd=ROOT)
            text, before, now = section(*files)
            sections += text
    return INTRODUCTION.format(before=before, now=now) + sections + CLOSING.format(targets=asked.targets)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Writes docs/jax-versions.md.")
    parser.add_argument("--before", metavar="PYTHON", help="of the environment with the older JAX")
    parser.add_argument("--now", metavar="PYTHON", help="of the environment with the newer JAX")
    parser.add_argument("--for", dest="targets", default="cpu", help="chips, by commas: cpu,v5e,h100")
    parser.add_argument("--save", metavar="FILE", help="compile the programs here and write FILE; no page")
    parser.add_argument("--print", action="store_true", help="print the page instead of writing it")
    asked = parser.parse_args(arguments)
    if asked.save:
        save(asked.save, asked.targets)
        return 0
    if not (asked.before and asked.now):
        parser.error("name both environments: --before PYTHON --now PYTHON")
    text = page(asked)
    if asked.print:
        print(text)
    else:
        PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
