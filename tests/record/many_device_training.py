"""Training of Flax models with Optax over eight devices: eagerly, lazily and under ``nnx.jit``.

    python tests/record/many_device_training.py [--steps 20] [--size 1] [--batch 1] [WAY ...]

Prints a table: how far the losses lie apart, the trace breaks, the bytes of all arrays after the last step, and
the time of a step beside that of the same step under ``nnx.jit``. Ends with 1 if the losses differ, if a line
but the loop's own breaks the trace, or if a second copy of the state is held.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

import lazynb

DEVICES = np.array(jax.devices())
AUTO = Mesh(DEVICES.reshape(4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = Mesh(DEVICES.reshape(4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
STAGES = Mesh(DEVICES, ("stage",), axis_types=(AxisType.Auto,))


class Block(nnx.Module):
    """Two convolutions with a way around them (He et al. 2015)."""

    def __init__(self, width: int, rngs: nnx.Rngs):
        self.first = nnx.Conv(width, width, (3, 3), use_bias=False, rngs=rngs)
        self.second = nnx.Conv(width, width, (3, 3), use_bias=False, rngs=rngs)
        self.norms = nnx.List([nnx.BatchNorm(width, rngs=rngs) for _ in range(2)])

    def __call__(self, x):
        y = nnx.relu(self.norms[0](self.first(x)))
        return nnx.relu(x + self.norms[1](self.second(y)))


class ResNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, size: int):
        width = 16 * size
        self.stem = nnx.Conv(3, width, (3, 3), use_bias=False, rngs=rngs)
        self.blocks = nnx.List([Block(width, rngs) for _ in range(2)])
        self.head = nnx.Linear(width, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


class Layer(nnx.Module):
    """Attention and two matrices, with norms before them (Vaswani et al. 2017)."""

    def __init__(self, width: int, rngs: nnx.Rngs, heads: int = 4):
        self.heads = heads
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
        self.qkv = nnx.Linear(width, 3 * width, rngs=rngs)
        self.out = nnx.Linear(width, width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // self.heads)
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        seen = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)
        x = x + self.out(seen)
        return x + self.down(nnx.gelu(self.up(self.norms[1](x))))


class Transformer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, size: int, words: int = 64):
        width = 64 * size
        self.words = nnx.Embed(words, width, rngs=rngs)
        self.layers = nnx.List([Layer(width, rngs) for _ in range(2)])
        self.head = nnx.Linear(width, words, rngs=rngs)

    def __call__(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Mixer(nnx.Module):
    """Two matrices with a norm between them: Explicit axes ask for an answer wherever Flax has none
    (convolutions, embeddings)."""

    def __init__(self, rngs: nnx.Rngs, size: int):
        width = 64 * size
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, 10, rngs=rngs)
        self.norm = nnx.LayerNorm(4 * width, rngs=rngs)

    def __call__(self, x):
        return self.down(nnx.gelu(self.norm(self.up(x))))


# ---- ways to spread them -----------------------------------------------------------------------------------


def whole(path: str, shape: tuple[int, ...]) -> P:
    """Data parallel: each device has all of it."""
    return P()


def in_shards(path: str, shape: tuple[int, ...]) -> P:
    """Fully sharded (Rajbhandari et al. 2020): the first dimension that divides among the devices."""
    found = next((number for number, size in enumerate(shape) if size % 4 == 0), None)
    return P() if found is None else P(*[None] * found, "data")


def by_columns_and_rows(path: str, shape: tuple[int, ...]) -> P:
    """Tensor parallel (Shoeybi et al. 2019): the first matrix of a pair by columns, the second by rows."""
    if path.endswith(("qkv/kernel", "up/kernel")):
        return P(None, "model")
    return P("model", None) if path.endswith(("out/kernel", "down/kernel")) else P()


@dataclasses.dataclass(frozen=True)
class Way:
    """A model of a size, and how it is spread."""

    model: Callable[[nnx.Rngs, int], nnx.Module]
    mesh: Mesh
    spec: Callable[[str, tuple[int, ...]], P]
    data: Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]


def images(source: np.random.Generator, batch: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    count = 32 * batch
    return source.normal(size=(count, 16, 16, 3)).astype(np.float32), source.integers(0, 10, size=count)


def rows(source: np.random.Generator, batch: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    count = 256 * batch
    return source.normal(size=(count, 64 * size)).astype(np.float32), source.integers(0, 10, size=count)


def sentences(source: np.random.Generator, batch: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    words = source.integers(0, 64, size=(32 * batch, 33))
    return words[:, :-1], words[:, 1:]


WAYS = {
    "ResNet, data parallel": Way(ResNet, AUTO, whole, images),
    "ResNet, fully sharded": Way(ResNet, AUTO, in_shards, images),
    "Transformer, data parallel": Way(Transformer, AUTO, whole, sentences),
    "Transformer, fully sharded": Way(Transformer, AUTO, in_shards, sentences),
    "Transformer, tensor parallel": Way(Transformer, AUTO, by_columns_and_rows, sentences),
    "two matrices, explicit axes": Way(Mixer, EXPLICIT, whole, rows),
}


def made(way: Way, size: int = 1) -> tuple[nnx.Module, nnx.Optimizer]:
    """A model and its optimizer, with their state on the mesh."""
    model = way.model(nnx.Rngs(0), size)
    state = nnx.state(model)
    for path, leaf in nnx.to_flat_state(state):
        spec = way.spec("/".join(map(str, path)), leaf.get_value().shape)
        leaf.set_value(jax.device_put(leaf.get_value(), NamedSharding(way.mesh, spec)))
    nnx.update(model, state)
    return model, nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)


def batches(way: Way, steps: int, batch: int = 1, size: int = 1) -> Iterator[tuple[jax.Array, jax.Array]]:
    source = np.random.default_rng(0)
    for _ in range(steps):
        yield tuple(
            jax.device_put(part, NamedSharding(way.mesh, P("data"))) for part in way.data(source, batch, size)
        )


def loss_of(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


def step(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(loss_of)(model, x, y)
    optimizer.update(model, grads)
    return loss


# ---- a pipeline --------------------------------------------------------------------------------------------


def pipelined(weights, x):
    """Eight stages, a device each, that hand their values on with ``ppermute`` (GPipe, Huang et al. 2019).

    Arguments:
      weights: of all stages, ``[8, width, width]``.
      x: micro-batches, ``[8, rows, width]``.
    """

    def stage(weight, batches):
        number, count = jax.lax.axis_index("stage"), len(batches)
        following = [(at, (at + 1) % count) for at in range(count)]

        def turn(carried, at):
            mine = jnp.where(number == 0, batches[at % count], carried)
            out = jnp.tanh(mine @ weight[0])
            return jax.lax.ppermute(out, "stage", following), out

        begin = jax.lax.pcast(jnp.zeros_like(batches[0]), ("stage",), to="varying")
        _, outs = jax.lax.scan(turn, begin, jnp.arange(2 * count - 1))
        last = jnp.where(number == count - 1, outs[count - 1 :], 0.0)
        return jax.lax.psum(last, "stage")

    run = jax.shard_map(stage, mesh=STAGES, in_specs=(P("stage"), P()), out_specs=P())
    return run(weights, x)


def pipeline_step(weights, state, x, y):
    loss, grads = jax.value_and_grad(lambda w: ((pipelined(w, x) - y) ** 2).mean())(weights)
    updates, state = ADAM.update(grads, state, weights)
    return loss, optax.apply_updates(weights, updates), state


ADAM = optax.adam(1e-2)


def pipeline_losses(steps: int, size: int, batch: int, step: Callable[..., Any]) -> Iterator[Any]:
    source = np.random.default_rng(0)

    def put(shape, *spec):
        value = source.normal(size=shape).astype(np.float32) / 4
        return jax.device_put(value, NamedSharding(STAGES, P(*spec)))

    width = 32 * size
    weights, x, y = put((8, width, width), "stage"), put((8, 64 * batch, width)), put((8, 64 * batch, width))
    state = ADAM.init(weights)
    for _ in range(steps):
        loss, weights, state = step(weights, state, x, y)
        yield loss


# ---- the table ---------------------------------------------------------------------------------------------


def model_losses(way: Way, steps: int, size: int, batch: int, step: Callable[..., Any]) -> Iterator[Any]:
    model, optimizer = made(way, size)
    for x, y in batches(way, steps, batch, size):
        yield step(model, optimizer, x, y)


PAIRS = 10
"""Steps that are timed, after those that are compared."""


@dataclasses.dataclass
class Trained:
    """What a training came to."""

    losses: list[float]
    held: int


def held() -> int:
    """Bytes that all live arrays take on all devices; parts of one share its memory.

    Told apart by device too: on CPU all copies of a NumPy array are its own memory where that happens to lie at a
    multiple of 64 bytes.
    """
    parts = [shard for array in jax.live_arrays() for shard in array.addressable_shards]
    sizes = {(part.device, part.data.unsafe_buffer_pointer()): part.data.nbytes for part in parts}
    return sum(sizes.values())


def trained(losses: Iterator[Any]) -> Trained:
    """Trains. The bytes held are those beside what was there before, at the last step."""
    before = held()
    done = Trained([], 0)
    for loss in losses:
        done.losses.append(float(loss))
        done.held = held() - before
    return done


def paired(jitted: Iterator[Any], plain: Iterator[Any]) -> tuple[float, float]:
    """Seconds of a step under jit, and how many times as long a lazy step takes: medians of turns about."""
    under, ratios = [], []
    for _ in range(PAIRS):
        start = time.perf_counter()
        float(next(jitted))
        under.append(time.perf_counter() - start)
        start = time.perf_counter()
        with lazynb.lazy():
            float(next(plain))
        ratios.append((time.perf_counter() - start) / under[-1])
    return statistics.median(under), statistics.median(ratios)


def compared(name: str, steps: int, size: int, batch: int) -> tuple[str, list[str]]:
    """A row of the table, and what is wrong with it."""
    way, count = WAYS.get(name), steps + PAIRS
    if way is None:
        plain, jitted = (
            pipeline_losses(count, size, batch, call) for call in (pipeline_step, jax.jit(pipeline_step))
        )
    else:
        plain, jitted = (model_losses(way, count, size, batch, call) for call in (step, nnx.jit(step)))
    explicit = (
        jax.set_mesh(way.mesh) if way is not None and way.mesh is EXPLICIT else contextlib.nullcontext()
    )
    with explicit:
        under = trained(itertools.islice(jitted, steps))
        lazynb.clear_cache()
        with lazynb.lazy():
            lazy = trained(itertools.islice(plain, steps))
            breaks = {(one.kind, one.location.text) for one in lazynb.breaks()}
        seconds, ratio = paired(jitted, plain)
    apart = max(abs(a - b) / abs(a) for a, b in zip(under.losses, lazy.losses, strict=True))
    problems = []
    if apart > 1e-6:
        problems.append(f"losses lie {apart:.1e} apart")
    if breaks != {("float", "done.losses.append(float(loss))")}:
        problems.append(f"breaks {breaks}")
    if lazy.held > 1.5 * under.held:
        problems.append(f"{lazy.held} bytes are held, under jit {under.held}")
    memory = lazy.held / under.held
    row = f"{name:32} {apart:8.1e} {len(breaks):6} {memory:6.2f} {1e3 * seconds:8.0f} {ratio:6.2f}"
    return row, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join([*WAYS, PIPELINE]))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--size", type=int, default=1, help="how wide the models are; 1 is as small as it goes"
    )
    parser.add_argument("--batch", type=int, default=1, help="how many times as many rows of data a step has")
    given = parser.parse_args()
    print(
        f"{'':32} {'apart':>8} {'breaks':>6} {'held':>6} {'jit (ms)':>8} {'time':>6}"
        "   (held and time: lazily / under jit)"
    )
    wrong = 0
    for name in given.ways or [*WAYS, PIPELINE]:
        row, problems = compared(name, given.steps, given.size, given.batch)
        print("\n".join([row, *(f"  {problem}" for problem in problems)]), flush=True)
        wrong += bool(problems)
    return min(wrong, 1)


PIPELINE = "pipeline with ppermute"

if __name__ == "__main__":
    sys.exit(main())
