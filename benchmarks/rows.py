"""The rows: what is timed, in which size, for which peers. Data only; :mod:`benchmarks.programs` has the
code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

JAX = ("lazynb", "eager", "jit")
ALL = (*JAX, "torch", "torchscript", "torch-compile", "torch-xla", "mlx")

# PyTorch code: lazynb's device ``jax`` first.
PYTORCH = ("lazynb-torch", "torch", "torchscript", "torch-compile", "torchax", "torch-xla")

GIGA = 10**9


@dataclass(frozen=True)
class Row:
    """One thing to time.

    Attributes:
      name: what ``--rows`` and the tables call it.
      group: the table it stands in, a key of :data:`GROUPS`.
      program: the module of :mod:`benchmarks.programs`.
      size: what that module's functions are called with.
      peers: who runs it; lazynb first, with JAX code or with PyTorch's.
      measure: ``time`` of a run in a process that has run it before; ``first``: of the first ``steps`` of a
        fresh process, compilation included; ``programs``: how many XLA compiles in these; ``memory``: peak
        memory of a fresh process, in bytes.
      steps: how many of a fresh process's steps are measured.
      made: how a user's arrays are made: by ``jnp.array`` once lazynb is imported; ``before``: they, and the
        program's module, before that, in a process begun for the row; ``put``: by ``jax.device_put`` in lazy
        mode, NumPy's arrays being kept.
      per: what one of a run's steps is, where a run has several.
      static: the first of a step's arguments is a Python value that shapes the program.
      jitted: the user's own ``jax.jit`` is around the step, also under lazynb.
      nnx: the step changes modules of Flax NNX in place, so ``nnx.jit`` compiles it.
      barrier: lazynb's user calls ``lazynb.sync`` after each step.
      hand_over: the clock stops when the run is handed to the device, not when it is done.
      donate: the compiled step may write into what it was given.
      tolerance: how far the peers' results may be apart, relative.
      needs: bytes of memory to hold it; only one process at a time has such a row's arrays.
      rounds: no more rounds than this, where one takes long.
      seconds: a peer's turn is at least so long, where a run takes long.
      quick: also timed by ``--quick`` and ``--check``.
    """

    name: str
    group: str
    program: str
    size: Mapping[str, Any] = field(default_factory=dict)
    peers: tuple[str, ...] = JAX
    measure: str = "time"
    steps: int = 1
    made: str = ""
    per: str = ""
    static: bool = False
    jitted: bool = False
    nnx: bool = False
    barrier: bool = False
    hand_over: bool = False
    donate: bool = False
    tolerance: float = 1e-4
    needs: int = 0
    rounds: int = 1000
    seconds: float = 0.0
    quick: bool = False


GROUPS = {
    "dispatch": (
        "Small arrays: 50 dependent adds on 8x8 float32; on 8x8, ten calls of functions held from before "
        "lazynb was imported; ten reads and updates of elements of 64x64"
    ),
    "torchy": "Torchy's microbenchmark: `((a+b)*c/d+e-f)*g/h+i`, 8 to 32 operations",
    "older": (
        "Torchy's microbenchmark with arrays made before lazynb was imported (`before`), or by "
        "`jax.device_put` in lazy mode"
    ),
    "control": (
        "Torchy's microbenchmark with control flow: a Python branch picks the middle 16 of 32 operations"
    ),
    "pytorch": (
        "PyTorch code, unmodified: Torchy's microbenchmark, inference with models of Transformers', and a "
        "training step of BERT's base size"
    ),
    "real": "Training and simulation, unmodified JAX code",
    "recording": "Recording and look-up of 10,000 operations, until they are handed over",
    "memory": "Peak memory of a training loop, in a fresh process; `jax.jit` donates",
    "first": (
        "First step in a fresh process (`first-50`: a CNN's first 50 steps), compilation included, nothing "
        "cached on disk; and how many programs are compiled in it"
    ),
}


def _torchy(operations: int, side: int) -> Row:
    return Row(
        name=f"torchy-{operations}-{side}",
        group="torchy",
        program="torchy",
        size={"operations": operations, "side": side},
        peers=ALL,
        quick=operations == 32 and side <= 1000,
        **(_LARGE if side >= 10_000 else {}),
    )


def _older(made: str, operations: int, side: int) -> Row:
    """Torchy's microbenchmark with arrays that lazynb did not see being made, or only being put."""
    name = {"before": "before", "put": "device-put"}[made]
    size = {"operations": operations, "side": side}
    quick = operations == 32 and side == 1000
    return Row(f"{name}-{operations}-{side}", "older", "torchy", size, made=made, quick=quick)


def _control(side: int) -> Row:
    return Row(
        name=f"control-32-{side}",
        group="control",
        program="control",
        size={"side": side},
        peers=ALL,
        static=True,
        barrier=True,  # else the two ways would be one program
        quick=side == 1000,
        **(_LARGE if side >= 10_000 else {}),
    )


def _pytorch(operations: int, side: int) -> Row:
    size = {"operations": operations, "side": side}
    return Row(f"pytorch-{operations}-{side}", "pytorch", "torchy", size, PYTORCH, barrier=True, rounds=5)


def _model(name: str) -> Row:
    return Row(
        f"pytorch-{name}",
        "pytorch",
        "models",
        {"model": name},
        PYTORCH,
        barrier=True,
        tolerance=1e-3,
        rounds=5,
    )


def _mlp(name: str, **other: Any) -> Row:
    return Row(name=name, group="real", program="mlp", per="step", tolerance=1e-2, **other)


def _fifty(name: str, **other: Any) -> Row:
    """The first 50 steps of a CNN. Included are all of tracing, recording and compiling, and the wait for the
    last step; not included are imports, the making of the model and the data, and entering lazy mode."""
    return Row(name, "first", "cnn", nnx=True, steps=50, tolerance=1e-2, **other)


def _first(row: Row) -> Row:
    """The row whose first step is timed, in fresh processes."""
    peers = tuple(peer for peer in row.peers if peer in JAX)
    quick = row.name in ("adds", "mlp")
    return replace(
        row, name=f"first-{row.name}", group="first", measure="first", peers=peers, rounds=5, quick=quick
    )


# Nine arrays of 400 MB, for a moment also as NumPy's, and what eager libraries make on the way. One round:
# they take up to half a minute a run.
_LARGE: dict[str, Any] = {"needs": 10 * GIGA, "rounds": 1, "seconds": 1.0}

_WARM = (
    Row("adds", "dispatch", "adds", peers=ALL, quick=True),
    Row("held", "dispatch", "held", made="before", quick=True),
    Row("at-set", "dispatch", "at_set", quick=True),
    *(_torchy(operations, side) for side in (100, 1000, 10_000) for operations in (8, 16, 32)),
    *(_older("before", operations, side) for side in (100, 1000) for operations in (8, 32)),
    *(_older("put", operations, 1000) for operations in (8, 32)),
    *(_control(side) for side in (100, 1000, 10_000)),
    *(_pytorch(operations, side) for side in (100, 1000) for operations in (8, 32)),
    *(_model(name) for name in ("bert", "gpt2", "resnet")),
    Row(
        "pytorch-bert-base",
        "pytorch",
        "bert_training",
        {"batch": 8, "length": 64, "width": 768, "layers": 12},
        ("lazynb-torch", "torch"),
        barrier=True,
        tolerance=1e-2,
        rounds=3,
        seconds=1.0,
    ),
    _mlp("mlp", size={"hidden": (128, 64), "read": True}, quick=True),
    _mlp("mlp-unread", size={"hidden": (128, 64), "read": False}, barrier=True),
    _mlp(
        "mlp-jit", size={"hidden": (128, 64), "read": True}, peers=("lazynb", "jit"), jitted=True, quick=True
    ),
    _mlp("mlp-jit-large", size={"hidden": (1024, 1024), "read": True}, peers=("lazynb", "jit"), jitted=True),
    Row(
        "transformer",
        "real",
        "transformer",
        peers=(*JAX, "torch"),
        per="step",
        barrier=True,
        tolerance=1e-3,
        quick=True,
    ),
    # A step that rounds differently ends one pole's episode a step sooner: a few of 2,048 go another way.
    Row(
        "cartpole",
        "real",
        "cartpole",
        peers=(*JAX, "torch"),
        per="10 steps",
        barrier=True,
        tolerance=5e-2,
        quick=True,
    ),
    Row(
        "cartpole-wait",
        "real",
        "cartpole",
        {"steps": 20, "block": 20},
        per="20 steps",
        tolerance=5e-2,
        quick=True,
    ),
    Row(
        "graph10k",
        "recording",
        "graph10k",
        peers=("lazynb", "eager"),
        barrier=True,
        hand_over=True,
        quick=True,
    ),
)

_FIRST = ("adds", "torchy-32-1000", "control-32-1000", "mlp", "mlp-jit", "transformer", "cartpole")

_MEMORY = Row(
    "memory",
    "memory",
    "memory",
    peers=("lazynb", "jit"),
    measure="memory",
    donate=True,
    barrier=True,
    rounds=3,
    quick=True,
)

ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        *_WARM,
        _MEMORY,
        *(_first(row) for row in _WARM if row.name in _FIRST),
        _fifty("first-50", measure="first", rounds=5),
        _fifty("first-50-programs", measure="programs", peers=("lazynb", "jit"), rounds=1, quick=True),
    )
}
