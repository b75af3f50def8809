"""Random programs of which nobody knows the truth but that rounding is all that should part their values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

UNARY = {
    "tanh": jnp.tanh,
    "exp": lambda x: jnp.exp(-jnp.abs(x)),
    "sin": jnp.sin,
    "square": jnp.square,
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "logistic": jax.nn.sigmoid,
    "gelu": jax.nn.gelu,
    "rsqrt": lambda x: jax.lax.rsqrt(1 + x * x),
    "relu": jax.nn.relu,
    "center": lambda x: x - x.mean(),
    "scale": lambda x: x / (1 + jnp.abs(x).sum()),
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "cumsum": lambda x: jnp.cumsum(x, axis=0),
    "transpose": lambda x: x.T + x,
    "norm": lambda x: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
    "third": lambda x: x**3 / 3,
    "roll": lambda x: jnp.roll(x, 1, axis=1) - x,
}
BINARY = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "div": lambda x, y: x / (1 + y * y),
    "max": jnp.maximum,
    "where": lambda x, y: jnp.where(x > y, x, y * 0.5),
    "matmul": lambda x, y: x @ y,
    "axpy": lambda x, y: 0.3 * x + y,
    "outer": lambda x, y: x[:, :1] * y[:1],
    "atan2": jnp.arctan2,
}
DTYPES = ("float32", "float32", "float32", "bfloat16", "float16")
SIDE = 8  # rows and columns


class RandomProgram:
    """A function of two square matrices.

    Attributes:
      text: what it does, an operation a line.
    """

    def __init__(self, seed: int):
        random = np.random.default_rng(seed)
        self.dtype = DTYPES[seed % len(DTYPES)]
        self._steps = []
        for number in range(2, 2 + int(random.integers(4, 9))):
            if random.random() < 0.5:
                self._steps.append((random.choice(list(UNARY)), (int(random.integers(number)),)))
            else:
                operands = (int(random.integers(number)), number - 1)
                self._steps.append((random.choice(list(BINARY)), operands))
        self.arguments = [
            jnp.asarray(random.normal(size=(SIDE, SIDE)), jnp.float32).astype(self.dtype) for _ in range(2)
        ]
        self.text = "\n".join(f"v{n} = {name}{operands}" for n, (name, operands) in enumerate(self._steps, 2))

    def __call__(self, x, y):
        values = [x, y]
        for name, operands in self._steps:
            function = {**UNARY, **BINARY}[name]
            values.append(function(*(values[number] for number in operands)))
        return values[-1], values[-2].sum()
