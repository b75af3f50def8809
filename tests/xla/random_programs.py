"""Random programs: steps that each make a value of the values so far. A seed gives the same program."""

from __future__ import annotations

import dataclasses
import random

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.compilation import Compilation

SHAPES = [(4, 8), (8, 8), (16, 16), (64, 32)]

UNARY = {
    "negate": lambda a: -a,
    "sine": jnp.sin,
    "tanh": jnp.tanh,
    "exp": lambda a: jnp.exp(-jnp.abs(a)),
    "square": lambda a: a * a,
    "scaled": lambda a: a * 0.5 + 1e-5,
    "same_scale": lambda a: a / 3.0 + 1e-5,
    "power": lambda a: a**3,
    "sqrt": lambda a: jnp.sqrt(jnp.abs(a) + 1e-5),
    "transposed_twice": lambda a: a.T.T,
    "transposed": lambda a: (a.T * 2.0).T,
    "reshaped": lambda a: a.reshape(-1).reshape(a.shape),
    "turned": lambda a: a.reshape(a.shape[::-1]).T,
    "reversed": lambda a: a[::-1],
    "rows": lambda a: a - a.sum(1, keepdims=True),
    "columns": lambda a: a + a.max(0),
    "mean": lambda a: a - a.mean(),
    "normal": lambda a: a / (1 + abs(a).sum()),
    "std": lambda a: a / (a.std(-1, keepdims=True) + 1e-5),
    "layer_norm": lambda a: (a - a.mean(-1, keepdims=True)) * lax.rsqrt(a.var(-1, keepdims=True) + 1e-5),
    "softmax": lambda a: jax.nn.softmax(a, -1),
    "log_softmax": lambda a: jax.nn.log_softmax(a, 0),
    "gelu": jax.nn.gelu,
    "sigmoid": jax.nn.sigmoid,
    "rounded": lambda a: a.astype(jnp.bfloat16).astype(jnp.float32),
    "integer": lambda a: a.astype(jnp.int32).astype(a.dtype),
    "twice": jax.jit(lambda a: a * 2.0),
    "same": jax.jit(lambda a: a * 1.0 + 0.0),
    "halved": jax.jit(lambda a: a / 4.0 / 2.0),
    "chosen": jax.jit(lambda a: jnp.where(jnp.ones(a.shape, bool), a, a * 7)),
    "sine_plus": jax.jit(lambda a: jnp.sin(a) + 1.0),
    "sine_times": jax.jit(lambda a: jnp.sin(a) * 3.0),
    "ones": jax.jit(lambda a: jnp.ones(a.shape) + 1),
    "masked": lambda a: jnp.where(jnp.arange(a.shape[1]) < 3, a, 0.0),
    "counted": lambda a: a + jnp.arange(a.shape[0])[:, None],
    "triangle": jnp.tril,
    "clipped": lambda a: jnp.clip(a, -1.0, 1.0),
    "padded": lambda a: lax.pad(a, jnp.float32(0), [(1, 1, 0), (0, 0, 0)])[1:-1],
    "shifted": lambda a: jnp.roll(a, 1, 0),
    "spread": lambda a: jnp.broadcast_to(a[0], a.shape),
    "sorted": lambda a: jnp.sort(a, axis=0),
    "summed": lambda a: a.cumsum(1),
    "gathered": lambda a: a[jnp.array([1, 0] * (a.shape[0] // 2))],
    "taken": lambda a: jnp.take(a, jnp.argsort(a[:, 0]), axis=0),
    "set": lambda a: a.at[0].set(1.0),
    "scattered": lambda a: a.at[jnp.array([0, 2])].add(2.0),
    "hot": lambda a: a * jax.nn.one_hot(jnp.argmax(a, 0), a.shape[0]).T,
    "scan": lambda a: lax.scan(lambda c, row: (jnp.tanh(c + row), c * row), a[0], a)[1],
    "loop": lambda a: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, a),
    "while": lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, a))[1],
    "cond": lambda a: lax.cond(a.sum() > 0.0, lambda: jnp.sin(a), lambda: a * 2.0),
    "mapped": lambda a: lax.map(lambda row: row * row.sum(), a),
    "vmapped": lambda a: jax.vmap(lambda row: row / (1.0 + abs(row).max()))(a),
    "remat": lambda a: jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(a),
    "gradient": jax.grad(lambda a: (jnp.tanh(a) ** 2).sum()),
    "gradient_softmax": jax.grad(lambda a: (jax.nn.softmax(a) * a).sum()),
    "gradient_norm": jax.grad(lambda a: (a / (a.std(-1, keepdims=True) + 1e-5)).max()),
    "fourier": lambda a: jnp.abs(jnp.fft.fft(a)),
    "pooled": lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (3, 1), (1, 1), "SAME"),
}
BINARY = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "maximum": jnp.maximum,
    "divide": lambda a, b: a / (1.0 + b * b),
    "where": lambda a, b: jnp.where(a > b, a, b),
    "joined": lambda a, b: jnp.concatenate([a, b])[2 : 2 + a.shape[0]],
    "cut": lambda a, b: jnp.concatenate([a, b])[: a.shape[0]],
    "wide": lambda a, b: jnp.concatenate([a, b], 1).reshape(2, *a.shape).sum(0),
    "stacked": lambda a, b: jnp.stack([a, b]).max(0),
    "product": lambda a, b: (a @ b.T) @ b,
    "product_turned": lambda a, b: ((b.T @ a) @ a.T).T,
    "attention": lambda a, b: jax.nn.softmax(a @ b.T / 4.0) @ b,
    "outer": lambda a, b: jnp.einsum("ij,kj->ik", a, b) @ a,
    "weighted": lambda a, b: a * b.mean(0) + b.sum(1, keepdims=True),
    "gradient_of_product": lambda a, b: jax.grad(lambda v: (jnp.tanh(v @ b.T) ** 2).mean())(a),
    "gradient_of_layers": lambda a, b: sum(
        jax.grad(lambda v, w: (jnp.tanh(v @ w.T) @ w - v).sum(), (0, 1))(a, b)
    ),
    "branch": lambda a, b: lax.cond(b.max() > a.max(), lambda: a + b, lambda: a * b),
    "scan_both": lambda a, b: lax.scan(lambda c, rows: (c + rows[0], c * rows[1]), a[0], (a, b))[1],
}


@dataclasses.dataclass(frozen=True)
class Step:
    """One value: what is done, and to which values, counted from the last."""

    kind: str
    first: int
    second: int = 0


@dataclasses.dataclass(frozen=True)
class RandomProgram:
    """Steps, and which values are asked for."""

    shape: tuple[int, int]
    steps: tuple[Step, ...]
    wanted: tuple[int, ...]


def random_program(seed: int) -> RandomProgram:
    """Up to a dozen steps; some repeat an earlier one, some are asked for by nobody."""
    chance = random.Random(seed)
    steps: list[tuple[str, int, int]] = []  # of values by number
    for _ in range(chance.randint(2, 10)):
        count = 2 + len(steps)
        if steps and chance.random() < 0.2:
            steps.append(chance.choice(steps))
            continue
        name = chance.choice(sorted(UNARY) if chance.random() < 0.7 else sorted(BINARY))
        near = [max(0, count - 1 - chance.randrange(4)) for _ in range(2)]
        steps.append((name, near[0], near[1]))
    count = 2 + len(steps)
    wanted = {count - 1} | {chance.randrange(2, count) for _ in range(chance.randint(0, 3))}
    made = tuple(Step(*step) for step in steps)
    return RandomProgram(chance.choice(SHAPES), made, tuple(sorted(wanted)))


def inputs_of(shape: tuple[int, int]) -> list[np.ndarray]:
    return [np.random.default_rng(number).normal(size=shape).astype(np.float32) for number in range(2)]


def values(program: RandomProgram, x, y) -> list:
    """The values that are asked for."""
    found = [x, y]
    for step in program.steps:
        if step.kind in UNARY:
            found.append(UNARY[step.kind](found[step.first]))
        else:
            found.append(BINARY[step.kind](found[step.first], found[step.second]))
    return [found[number] for number in program.wanted]


def compiled(program: RandomProgram) -> Compilation:
    """The compilation of a program, as a user makes it who then looks at it."""
    lazynb.clear_cache()
    x, y = map(jnp.asarray, inputs_of(program.shape))
    with lazynb.lazy(), record_dumps():
        wanted = values(program, x, y)
        return lazynb.compile(*wanted)
