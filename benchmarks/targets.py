"""What ought to come out. Data only: every target is judged by the same few lines in
:mod:`benchmarks.verdicts`."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.rows import ALL, ROWS


@dataclass(frozen=True)
class Target:
    """A limit for one figure of a row.

    Attributes:
      row: a name of :data:`benchmarks.rows.ROWS`.
      peer: which lazynb is compared with; ``lazynb`` itself for a limit of its own.
      limit: the most it may be: a ratio, seconds, or a number of programs.
      figure: ``ratio`` (lazynb / peer), ``over`` (lazynb - peer) or ``own`` (lazynb's alone), the last two in
        what the row measures.
    """

    row: str
    peer: str
    limit: float
    figure: str = "ratio"


def _ahead(row: str, peers: tuple[str, ...]) -> tuple[Target, ...]:
    return tuple(Target(row, peer, 1.0) for peer in peers)


_OTHERS = tuple(peer for peer in ALL if peer not in ("lazynb", "jit"))
_CHAINS = tuple(row for row in ROWS.values() if row.group in ("torchy", "control"))
_LARGE = tuple(row.name for row in _CHAINS if row.size["side"] >= 1000)
_SMALL = tuple(row.name for row in _CHAINS if row.size["side"] < 1000)
_OLDER = tuple(row for row in ROWS.values() if row.group == "older")
_FIRST = tuple(row for row in ROWS.values() if row.measure == "first")
_FIRST_LIMITS = {"first-cartpole": 1.15, "first-50": 1.3}

TARGETS = (
    Target("adds", "torch", 0.9),
    Target("adds", "mlx", 0.55),
    Target("adds", "torch-xla", 0.2),
    Target("adds", "eager", 0.12),
    Target("held", "eager", 0.15),
    Target("at-set", "eager", 0.05),
    Target("torchy-8-100", "torch", 1.5),
    Target("torchy-32-100", "torch", 0.8),
    Target("control-32-100", "torch", 1.0),
    *(Target(row, "jit", 1.05) for row in _LARGE),
    *(Target(row.name, "jit", 1.05 if row.size["side"] >= 1000 else 1.5) for row in _OLDER),
    *(target for row in _LARGE for target in _ahead(row, _OTHERS)),
    *(target for row in _SMALL for target in _ahead(row, ("eager", "torch-xla", "mlx"))),
    *(Target(f"pytorch-{name}", "torch-xla", 1.0) for name in ("bert", "gpt2", "resnet", "32-100")),
    Target("pytorch-32-1000", "torch", 0.15),
    Target("pytorch-bert-base", "torch", 1.1),
    Target("mlp", "eager", 0.25),
    Target("mlp-jit", "jit", 60e-6, "over"),
    Target("mlp-jit-large", "jit", 1.1),
    Target("transformer", "jit", 1.1),
    Target("cartpole", "jit", 1.1),
    Target("cartpole-wait", "jit", 1.15),
    Target("graph10k", "lazynb", 4e-3, "own"),
    Target("memory", "jit", 1.05),
    *(Target(row.name, "jit", _FIRST_LIMITS.get(row.name, 1.2)) for row in _FIRST),
    *(Target(row.name, "eager", 1.0) for row in _FIRST if "eager" in row.peers),
    Target("first-50-programs", "lazynb", 2, "own"),
)

# Torchy's own headline: so many times as fast, at best, in its microbenchmark.
HEADLINE = {"torch": 12.0, "torchscript": 5.0}
