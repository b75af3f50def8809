"""Programs for the cost of all kernels, each with its operations as worked out by hand.

Counted as XLA does: an elementwise operation one for each element, a product two for a multiply-add, a sum one
less than it has elements; ``sin``, ``tanh`` and the like apart. The expression is what a user writes; its
variables are normal float32 arrays of the shapes beside it, ``i`` is ``[0, 1, 2 ...]``.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
      shapes: of its variables.
      flops: by hand; of a program whose loops or branches nobody knows, the least and the most (None: no
        bound).
      transcendentals: the same.
      turns: of all loops together. A counter is added to and compared at each turn, and rows are looked up,
        in at most 12 operations.
    """

    expression: str
    shapes: dict[str, tuple[int, ...]]
    flops: int | tuple[int, int | None]
    transcendentals: int | tuple[int, int | None] = 0
    turns: int = 0


def case(expression, flops, transcendentals=0, turns=0, **shapes):
    return Case(expression, shapes, flops, transcendentals, turns)


PRODUCT = 2 * 32**3  # of two 32 x 32
CASES = {
    # without a loop
    "add": case("x + y", 1000, x=(1000,), y=(1000,)),
    "chain": case("x * y + x * x", 3000, x=(1000,), y=(1000,)),
    "sine": case("jnp.sin(x) * y", 1000, 1000, x=(1000,), y=(1000,)),
    "where": case("jnp.where(x > y, x, y)", 2000, x=(1000,), y=(1000,)),
    "moved": case("x.T.copy()", 0, x=(30, 50)),
    "broadcast": case("x[:, None] * y[None, :]", 1200, x=(30,), y=(40,)),
    "rows": case("x.sum(1)", 10 * 19, x=(10, 20)),
    "product": case("x @ y", 2 * 8 * 16 * 24, x=(8, 16), y=(16, 24)),
    "two products": case("x @ y @ z", 2 * 8 * 16 * 24 + 2 * 8 * 24 * 4, x=(8, 16), y=(16, 24), z=(24, 4)),
    "batched": case("jnp.einsum('bij,bjk->bik', x, y)", 3 * 2 * 4 * 5 * 6, x=(3, 4, 5), y=(3, 5, 6)),
    "layer": case("jnp.tanh(x @ w + b)", 2 * 8 * 16 * 4 + 32, 32, x=(8, 16), w=(16, 4), b=(4,)),
    "convolution": case(
        "jax.lax.conv(x, w, (1, 1), 'VALID')", 2 * 2 * 8 * 10 * 10 * 27, x=(2, 3, 12, 12), w=(8, 3, 3, 3)
    ),
    # loops: what is in them as often as they turn
    "counted": case(
        "jax.lax.fori_loop(0, 10, lambda k, c: jnp.tanh(c @ x), x)", 10 * PRODUCT, 10 * 1024, 10, x=(32, 32)
    ),
    "counted from": case("jax.lax.fori_loop(3, 10, lambda k, c: c @ x, x)", 7 * PRODUCT, turns=7, x=(32, 32)),
    "once": case("jax.lax.fori_loop(0, 1, lambda k, c: c @ x, x)", PRODUCT, turns=1, x=(32, 32)),
    "never": case("jax.lax.fori_loop(0, 0, lambda k, c: c @ x, x) + x", 1024, turns=1, x=(32, 32)),
    "scan": case(
        "jax.lax.scan(lambda c, _: (jnp.sin(c @ w), None), x, None, length=7)[0]",
        7 * PRODUCT,
        7 * 1024,
        7,
        x=(32, 32),
        w=(32, 32),
    ),
    "scan of rows": case(
        "jax.lax.scan(lambda c, row: (c * row + row, None), b, x)[0]",
        50 * 400,
        turns=50,
        b=(200,),
        x=(50, 200),
    ),
    "scan that keeps": case(
        "jax.lax.scan(lambda c, row: (c + row, c * row), b, x)", 50 * 400, turns=50, b=(200,), x=(50, 200)
    ),
    "scan back": case(
        "jax.lax.scan(lambda c, row: (c * row, None), b, x, reverse=True)[0]",
        50 * 200,
        turns=50,
        b=(200,),
        x=(50, 200),
    ),
    "map": case("jax.lax.map(lambda row: w @ row, x)", 20 * 2 * 32 * 32, turns=20, x=(20, 32), w=(32, 32)),
    "nested": case(
        "jax.lax.fori_loop(0, 10, lambda k, c: jax.lax.fori_loop(0, 5, lambda j, d: d @ x, c), x)",
        50 * PRODUCT,
        turns=60,
        x=(32, 32),
    ),
    "nested scans": case(
        "jax.lax.scan(lambda c, _: (jax.lax.scan(lambda d, _: (jnp.sin(d @ x), None), c, None, length=3)[0] + c, None),"
        " x, None, length=6)[0]",
        18 * PRODUCT + 6 * 1024,
        18 * 1024,
        24,
        x=(32, 32),
    ),
    "thrice nested": case(
        "jax.lax.fori_loop(0, 2, lambda k, c: jax.lax.fori_loop(0, 3, lambda j, d:"
        " jax.lax.fori_loop(0, 4, lambda l, e: jnp.sin(e @ x), d), c), x)",
        24 * PRODUCT,
        24 * 1024,
        32,
        x=(32, 32),
    ),
    "two loops": case(
        "jax.lax.fori_loop(0, 4, lambda k, c: c @ x, x) + jax.lax.fori_loop(0, 9, lambda k, c: jnp.sin(c @ y), y)",
        13 * PRODUCT + 1024,
        9 * 1024,
        13,
        x=(32, 32),
        y=(32, 32),
    ),
    "loop and more": case(
        "jax.lax.fori_loop(0, 4, lambda k, c: c @ x, x) @ x + x", 5 * PRODUCT + 1024, turns=4, x=(32, 32)
    ),
    "while that counts": case(  # what it counts from is an input of the program, so nobody knows
        "jax.lax.while_loop(lambda c: c[0] < 12, lambda c: (c[0] + 1, c[1] @ x), (0, x))[1]",
        (1, None),
        turns=1,
        x=(32, 32),
    ),
    "while in a jitted function": case(
        "jax.jit(lambda x: jax.lax.while_loop(lambda c: c[0] < 12, lambda c: (c[0] + 1, c[1] @ x), (0, x))[1])(x)",
        12 * PRODUCT,
        turns=12,
        x=(32, 32),
    ),
    "gradient of a scan": case(
        "jax.grad(lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=8)[0].sum())(x)",
        8 * 200,  # the products on the way back
        2 * 8 * 200,  # sines and cosines on the way there
        2 * 8,
        x=(200,),
    ),
    "vmapped loop": case(
        "jax.vmap(lambda r: jax.lax.fori_loop(0, 5, lambda k, c: c * r, r))(x)", 5 * 600, turns=5, x=(20, 30)
    ),
    # nobody knows how often, or which
    "while": case(
        "jax.lax.while_loop(lambda c: c[0, 0] < 1e6, lambda c: c @ x, x)", (1, None), turns=1, x=(32, 32)
    ),
    "while around a loop": case(
        "jax.lax.while_loop(lambda c: c[0, 0] < 1e6, lambda c: jax.lax.fori_loop(0, 9, lambda k, d: d @ x, c), x)",
        (1, None),
        turns=1,
        x=(32, 32),
    ),
    "loop around a while": case(
        "jax.lax.fori_loop(0, 9, lambda k, c: jax.lax.while_loop(lambda d: d[0, 0] < 1e6, lambda d: d @ x, c @ x), x)",
        (9 * PRODUCT + 9, None),
        turns=18,
        x=(32, 32),
    ),
    "while and a product": case(
        "jax.lax.while_loop(lambda c: c[0, 0] < 1e6, lambda c: c + 1, x) @ x",
        (PRODUCT + 1, None),
        turns=1,
        x=(32, 32),
    ),
    "branch": case(
        "jax.lax.cond(x[0, 0] > 0, jnp.sin, lambda a: a @ a, x)", (0, PRODUCT), (0, 1024), turns=1, x=(32, 32)
    ),
    "branches": case(
        "jax.lax.switch(jnp.int32(x[0, 0]), [lambda a: a @ a, lambda a: a @ a @ a, lambda a: a], x)",
        (0, 2 * PRODUCT),
        turns=1,
        x=(32, 32),
    ),
    "branch in a loop": case(
        "jax.lax.fori_loop(0, 6, lambda k, c: jax.lax.cond(c[0, 0] > 0, lambda a: a @ x, lambda a: a @ x @ x, c), x)",
        (6 * PRODUCT, 12 * PRODUCT),
        turns=6,
        x=(32, 32),
    ),
}

# Bytes that are read and written, all kernels together, of programs that look up or replace parts. Numbers of
# rows are read too, and are tested where they are negative.
PARTS = {
    # 7 rows of 64 read, and as many written
    "gather": ("x[i]", 2 * 7 * 256 + 7 * 4),
    "gather of a product": ("(x * y)[i]", 3 * 7 * 256 + 7 * 4),
    "gather and more": ("x[i] * 2 + 1", 2 * 7 * 256 + 7 * 4),
    "two gathers": ("x[i] + y[i]", 3 * 7 * 256 + 7 * 4),
    "take": ("jnp.take(x, i, axis=0, mode='clip')", 2 * 7 * 256 + 7 * 4),
    "columns": ("x[:, i]", 2 * 1000 * 7 * 4 + 7 * 4),
    "elements": ("x[i, i]", 2 * 7 * 4 + 7 * 4),
    "slice": ("x[3:10] * 2", 2 * 7 * 256),
    "strided": ("x[::100] * 2", 2 * 10 * 256),
    "slice of a product": ("(x * y)[5:7]", 3 * 2 * 256),
}
