"""Programs for the peak of memory, each with the bytes of its arguments and results as worked out by hand.

The expression is what a user writes; its variables are normal float32 arrays of the shapes beside it, or of
the dtype that is named. Bytes of results are those that the caller gets, without the table of pointers that
makes a tuple of several.
"""

from __future__ import annotations

import dataclasses

KIB = 1024


@dataclasses.dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
      shapes: of its variables.
      arguments: bytes of the variables' arrays.
      results: bytes of what it computes.
    """

    expression: str
    shapes: dict[str, tuple[int, ...]]
    arguments: int
    results: int


def case(expression: str, arguments: int, results: int, **shapes: tuple[int, ...]) -> Case:
    return Case(expression, shapes, arguments, results)


SQUARE = (64, 64)  # 16 KiB of float32
CASES = {
    # elementwise: one result, nothing between
    "add": case("x + y", 8000, 4000, x=(1000,), y=(1000,)),
    "number": case("x * 2.5", 4000, 4000, x=(1000,)),
    "numbers": case("(x * 2.5 + 1.5) / 3.5", 4000, 4000, x=(1000,)),
    "chain": case("jnp.tanh(jnp.sin(x) * y)", 8000, 4000, x=(1000,), y=(1000,)),
    "broadcast": case("x[:, None] * y[None, :]", 400 + 800, 80000, x=(100,), y=(200,)),
    "comparison": case("x > y", 8000, 1000, x=(1000,), y=(1000,)),
    "where": case("jnp.where(x > 0, x, y)", 8000, 4000, x=(1000,), y=(1000,)),
    "complex": case("jnp.exp(1j * x)", 4000, 8000, x=(1000,)),
    "narrow": case("(x * y).astype(jnp.bfloat16)", 8000, 2000, x=(1000,), y=(1000,)),
    "two results": case("(x + y, x - y)", 8000, 8000, x=(1000,), y=(1000,)),
    # reductions
    "sum": case("x.sum()", 4000, 4, x=(1000,)),
    "sum of rows": case("x.sum(1)", 40000, 400, x=(100, 100)),
    "sum of columns": case("x.sum(0)", 40000, 400, x=(100, 100)),
    "mean and variance": case("(x.mean(), x.var())", 40000, 8, x=(100, 100)),
    "norm": case("x / jnp.sqrt((x * x).sum(1, keepdims=True))", 40000, 40000, x=(100, 100)),
    "maximum": case("jnp.argmax(x, axis=1)", 40000, 400, x=(100, 100)),
    "softmax": case("jax.nn.softmax(x, -1)", 256 * KIB, 256 * KIB, x=(256, 256)),
    "log softmax": case("jax.nn.log_softmax(x, -1)", 256 * KIB, 256 * KIB, x=(256, 256)),
    "logsumexp": case("jax.scipy.special.logsumexp(x, axis=1)", 256 * KIB, KIB, x=(256, 256)),
    "layer norm": case(
        "(x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)",
        40000,
        40000,
        x=(100, 100),
    ),
    "cumulative": case("jnp.cumsum(x, axis=1)", 40000, 40000, x=(100, 100)),
    # products
    "product": case("x @ y", 32 * KIB, 16 * KIB, x=SQUARE, y=SQUARE),
    "three products": case("x @ y @ x @ y", 32 * KIB, 16 * KIB, x=SQUARE, y=SQUARE),
    "product of a transpose": case("x.T @ y", 32 * KIB, 16 * KIB, x=SQUARE, y=SQUARE),
    "batched product": case("jnp.einsum('bij,bjk->bik', x, y)", 3200, 1600, x=(4, 10, 10), y=(4, 10, 10)),
    "layer": case(
        "jax.nn.relu(x @ w + b)", 4 * (32 * 64 + 64 * 16 + 16), 4 * 32 * 16, x=(32, 64), w=(64, 16), b=(16,)
    ),
    "perceptron": case(
        "jax.nn.softmax(jnp.tanh(x @ w) @ v)",
        4 * (32 * 64 + 64 * 64 + 64 * 10),
        4 * 32 * 10,
        x=(32, 64),
        w=(64, 64),
        v=(64, 10),
    ),
    "attention": case(
        "jax.nn.softmax(q @ k.T / 8.0) @ v", 3 * 16 * KIB, 16 * KIB, q=SQUARE, k=SQUARE, v=SQUARE
    ),
    "gradient": case(
        "jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(w)",
        4 * (64 * 32 + 32 * 16 + 64 * 16),
        4 * 32 * 16,
        x=(64, 32),
        w=(32, 16),
        y=(64, 16),
    ),
    "step": case(
        "w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).sum())(w)",
        4 * (64 * 32 + 32 * 16),
        4 * 32 * 16,
        x=(64, 32),
        w=(32, 16),
    ),
    "convolution": case(
        "jax.lax.conv(x, w, (1, 1), 'VALID')",
        4 * (2 * 3 * 12 * 12 + 8 * 3 * 3 * 3),
        4 * 2 * 8 * 10 * 10,
        x=(2, 3, 12, 12),
        w=(8, 3, 3, 3),
    ),
    # moving data
    "transpose": case("x.T.copy()", 40000, 40000, x=(100, 100)),
    "reversed": case("x[::-1]", 4000, 4000, x=(1000,)),
    "concatenation": case("jnp.concatenate([x, y])", 8000, 8000, x=(1000,), y=(1000,)),
    "padded": case("jnp.pad(x, 8)", 4000, 4064, x=(1000,)),
    "slice": case("x[100:300] * y", 4800, 800, x=(1000,), y=(200,)),
    "gather": case("x[jnp.arange(7) * 3]", 4 * 100 * 16, 4 * 7 * 16, x=(100, 16)),
    "scatter": case("x.at[3].set(y)", 4 * 100 * 16 + 64, 4 * 100 * 16, x=(100, 16), y=(16,)),
    "scatter add": case(
        "x.at[jnp.array([1, 5, 1])].add(y)", 4 * (100 * 16 + 3 * 16), 4 * 100 * 16, x=(100, 16), y=(3, 16)
    ),
    "update": case("jax.lax.dynamic_update_slice(x, y, (5,))", 4080, 4000, x=(1000,), y=(20,)),
    "sorted": case("jnp.sort(x)", 4000, 4000, x=(1000,)),
    "top": case("jax.lax.top_k(x, 5)", 4000, 400, x=(10, 100)),
    # loops and branches: what they carry lies in one place
    "scan": case(
        "jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, length=7)",
        2048,
        1024 + 28,
        x=(16, 16),
        w=(16, 16),
    ),
    "rows": case("jax.lax.scan(lambda c, row: (c + row, c * row), x[0], x)", 4000, 4040, x=(100, 10)),
    "counted": case(
        "jax.lax.fori_loop(0, 9, lambda i, c: jnp.sin(c) + y, x)", 8000, 4000, x=(1000,), y=(1000,)
    ),
    "while": case(
        "jax.lax.while_loop(lambda c: c.sum() < 1e6, lambda c: jnp.abs(c) * 1.5 + 1, x)", 400, 400, x=(100,)
    ),
    "filled": case(
        "jax.lax.fori_loop(0, 50, lambda i, c: c.at[i].set(c[i - 1] + y[i]), x)",
        8000,
        4000,
        x=(1000,),
        y=(1000,),
    ),
    "nested": case(
        "jax.lax.fori_loop(0, 3, lambda i, c: jax.lax.fori_loop(0, 5, lambda j, d: d @ x, c), x)",
        1024,
        1024,
        x=(16, 16),
    ),
    "branch": case("jax.lax.cond(x[0, 0] > 0, jnp.sin, lambda a: a @ a, x)", 3600, 3600, x=(30, 30)),
    "switch": case(
        "jax.lax.switch(jnp.int32(x[0]), [jnp.sin, jnp.cos, lambda a: a + 1], x)", 4000, 4000, x=(1000,)
    ),
    "mapped": case("jax.lax.map(lambda row: jnp.sort(row) * 2, x)", 4000, 4000, x=(10, 100)),
    # libraries, which overwrite what they are given
    "cholesky": case("jnp.linalg.cholesky(x @ x.T + 100 * jnp.eye(20))", 1600, 1600, x=(20, 20)),
    "solve": case("jnp.linalg.solve(x, y)", 1600 + 80, 80, x=(20, 20), y=(20,)),
    "inverse": case("jnp.linalg.inv(x)", 1600, 1600, x=(20, 20)),
    "eigenvalues": case("jnp.linalg.eigvalsh(x)", 1600, 80, x=(20, 20)),
    "fourier": case("jnp.fft.fft(x)", 4000, 8000, x=(1000,)),
}
