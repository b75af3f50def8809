"""For each cure that a hint offers, a program in which it is applied as the hint says.

By kind and by the words of the hint: the program without the break, and how often the kind breaks in it still
(once, where one conversion after a loop stands for one in each turn). ``EXAMPLE`` is the kind's own example in
``lazynb/recording/break_reasons.py``, which ``tests/test_reasons.py`` runs. All compute the ``out`` of the example, unless
they bring a broken program of their own.
"""

from __future__ import annotations

from typing import NamedTuple


class Cure(NamedTuple):
    """A program that does as a hint says.

    Attributes:
      program: without the break; "" for the kind's own example.
      left: how often it breaks still.
      broken: the program with the break; "" for the kind's own example.
    """

    program: str = ""
    left: int = 0
    broken: str = ""


EXAMPLE = Cure()

CURES: dict[str, dict[str, Cure]] = {
    "bool": {
        "jnp.where": EXAMPLE,
        "jax.lax.cond": Cure(
            "x = jnp.arange(5.0)\nout = jax.lax.cond(x.sum() > 3, lambda: x * 2, lambda: x)"
        ),
        "test less often": Cure(
            "out = jnp.ones(4)\nfor step in range(6):\n    out = out / 2\n    if step % 3 == 2 and out.sum() < 0:\n"
            "        break",
            2,
            "out = jnp.ones(4)\nfor step in range(6):\n    out = out / 2\n    if out.sum() < 0:\n        break",
        ),
    },
    "int": {
        "stay in JAX": EXAMPLE,
        "keep the value as an array until the end": Cure(
            "x = jnp.arange(6.0)\nhalf = (x.sum() / 2).astype(int)\nout = x * half"
        ),
    },
    "float": {
        "collect the tensors and convert them after the loop": Cure(
            "x = jnp.ones(4)\nout = []\nfor step in range(3):\n    x = x * 0.5\n    out.append(x.sum())\n"
            "out = [float(value) for value in out]",
            1,
        )
    },
    "complex": {
        "stay in JAX": EXAMPLE,
        "keep the value as an array until the end": Cure(
            "x = jnp.arange(3.0)\nturn = x.sum().astype(complex) * 1j\nout = x * turn"
        ),
    },
    "index": {
        "take the number from .shape": Cure(
            "x = jnp.arange(6.0)\nout = 0\nfor row in range(x.shape[0]):\n    out += row",
            0,
            "x = jnp.arange(6.0)\nout = 0\nfor row in range((x >= 0).sum()):\n    out += row",
        ),
        "from len()": Cure(
            "x = jnp.arange(6.0)\nout = len('ab' * len(x))",
            0,
            "x = jnp.arange(6.0)\nout = len('ab' * (x >= 0).sum())",
        ),
        "from the code": Cure(
            "x = jnp.arange(6.0)\nout = len(bytes(6))",
            0,
            "x = jnp.arange(6.0)\nout = len(bytes((x >= 0).sum()))",
        ),
        "index a JAX array with the tensor itself": EXAMPLE,
    },
    "item": {
        "collect the tensors and convert them after the loop": Cure(
            "x = jnp.ones(4)\nout = []\nfor step in range(3):\n    x = x * 0.5\n    out.append(x.sum())\n"
            "out = [value.item() for value in out]",
            1,
        )
    },
    "tolist": {
        "stay in JAX": EXAMPLE,
        "keep the value as an array until the end": Cure(
            "x = jnp.arange(4.0)\nout = [value + 1 for value in x * 2]"
        ),
    },
    "print": {
        "collect the tensors, and print them after the loop": Cure(
            "out = jnp.ones(4)\nsums = []\nfor step in range(3):\n    out = out * 0.5\n    sums.append(out.sum())\n"
            "for total in sums:\n    print(total)",
            1,
        ),
        "repr() needs no value": Cure(
            "out = jnp.ones(4)\nfor step in range(3):\n    out = out * 0.5\n    print(repr(out.sum()))"
        ),
    },
    "format": {
        "collect the tensors, and format them after the loop": Cure(
            "out = jnp.ones(4)\nsums = []\nfor step in range(3):\n    out = out * 0.5\n    sums.append(out.sum())\n"
            'text = [f"{total:.3f}" for total in sums]',
            1,
        )
    },
    "asarray": {
        "use jax.numpy": EXAMPLE,
        "convert once at the end": Cure(
            "x = jnp.ones(3)\nout = []\nfor step in range(3):\n    x = x * 2\n    out.append(x)\n"
            "out = np.asarray(jnp.stack(out))",
            1,
            "x = jnp.ones(3)\nout = []\nfor step in range(3):\n    x = x * 2\n    out.append(np.asarray(x))",
        ),
    },
    "dlpack": {
        "hand values over once at the end": Cure(
            "x = jnp.ones(3)\nout = []\nfor step in range(3):\n    x = x * 2\n    out.append(x)\n"
            "out = np.from_dlpack(jnp.stack(out))",
            1,
            "x = jnp.ones(3)\nout = []\nfor step in range(3):\n    x = x * 2\n    out.append(np.from_dlpack(x))",
        )
    },
    "pickle": {"save after the loop": EXAMPLE},
    "bytes": {
        "stay in JAX": EXAMPLE,
        "keep the value as an array until the end": Cure(
            "x = jnp.arange(4.0)\ny = x * 2\nout = y.size * y.dtype.itemsize"
        ),
    },
    "attribute": {
        "read .shape, .dtype and .sharding instead": EXAMPLE,
        "the attribute of an input": Cure(
            "x = jnp.arange(4.0)\nlazynb.sync(x)\nout = [shard.device.id for shard in x.addressable_shards]"
        ),
    },
    "buffer": {
        "stay in JAX": EXAMPLE,
        "keep the value as an array until the end": Cure("x = jnp.arange(4.0)\nout = (x * 2).size * 4"),
    },
    "contains": {
        "use (array == value).any() with jnp.where": EXAMPLE,
        "jnp.isin": Cure("x = jnp.arange(4.0)\nout = jnp.where(jnp.isin(jnp.float32(3.0), x), x * 2, x)"),
    },
    "save": {"collect the tensors, and do it when the loop is done": EXAMPLE},
    "plot": {"collect the tensors, and do it when the loop is done": EXAMPLE},
    "static": {
        "take the number from .shape": Cure(
            "x = jnp.arange(6.0)\nout = jnp.zeros(x.shape[0])",
            0,
            "x = jnp.arange(6.0)\nout = jnp.zeros((x >= 0).sum())",
        ),
        "from len()": Cure(
            "x = jnp.arange(6.0)\nout = jnp.tile(x, len(x))",
            0,
            "x = jnp.arange(6.0)\nout = jnp.tile(x, (x >= 0).sum())",
        ),
        "from the code": Cure(
            "x = jnp.arange(6.0)\nout = x.sum(axis=0)",
            0,
            "x = jnp.arange(6.0)\nout = x.sum(axis=(x < 0).sum())",
        ),
    },
    "sync": {
        "none needed where a step ends": EXAMPLE,
        "a step needs no second one": EXAMPLE,
    },
    "block": {"wait once at the end": EXAMPLE},
    "compile": {"none needed": EXAMPLE, "you asked for it": EXAMPLE},
    "limit": {"place lazynb.sync() where a step ends": EXAMPLE},
    "effect": {
        "take the effect out of the loop": Cure(
            "out = jnp.ones(4)\nfor step in range(3):\n    out = out * 0.5\njax.debug.print('{}', out.sum())",
            1,
        ),
        "collect the tensors and show them when the loop is done": EXAMPLE,
    },
    "unrecordable": {
        "run it once, before the loop": Cure(
            "x = jnp.arange(4.0)\nwith jax.debug_nans(True):\n    y = x + 1\nout = jnp.zeros(4)\n"
            "for step in range(3):\n    out = out + y",
            1,
            "x = jnp.arange(4.0)\nout = jnp.zeros(4)\nfor step in range(3):\n    z = out * 0 + x\n"
            "    with jax.debug_nans(True):\n        y = z + 1\n    out = out + y",
        )
    },
    "eager": {
        "keep that code lazy": EXAMPLE,
        "leave lazy mode when the loop is done": Cure(
            "out = jnp.ones(4)\nfor step in range(3):\n    out = out * 2\nwith lazynb.eager():\n    out = out + 3",
            1,
            "out = jnp.ones(4)\nfor step in range(3):\n    out = out * 2\n    with lazynb.eager():\n        half = out + 1\n"
            "out = out + 3",
        ),
    },
    "thread": {"call lazynb.sync() before handing it over": EXAMPLE},
    "device_put": {"move the inputs before computing with them": EXAMPLE},
    "devices": {"move the inputs to one device first": EXAMPLE},
    "compiled": {"call the jax.jit-ed function itself": EXAMPLE},
    "sharding": {"give the value its sharding with jax.device_put before the call": EXAMPLE},
    "numpy_function": {
        "use jax.numpy": EXAMPLE,
        "call it once, before or after the loop": Cure(
            "x = jnp.arange(8.0) * 7\nout = x * 0\ncomplete = np.sin(x, where=x >= 0)\n"
            "for step in range(3):\n    out = out + complete",
            1,
            "x = jnp.arange(8.0) * 7\nout = x * 0\nfor step in range(3):\n"
            "    out = out + np.sin(x + step * 0, where=x >= 0)",
        ),
    },
    "numpy_dtype": {
        "give a dtype of numbers: objects, texts, dates and structures are NumPy's alone": EXAMPLE,
    },
    "numpy_library": {
        "use jax.numpy": EXAMPLE,
        "call the library once, before or after the loop": Cure(
            "import scipy.linalg\nx = jnp.arange(4.0)\nout = jnp.zeros((4, 4))\n"
            "matrix = scipy.linalg.toeplitz(np.sqrt(x * 2))\n"
            "for step in range(3):\n    out = out + matrix",
            1,
            "import scipy.linalg\nx = jnp.arange(4.0)\nout = jnp.zeros((4, 4))\nfor step in range(3):\n"
            "    out = out + scipy.linalg.toeplitz(np.sqrt(x * 2))",
        ),
    },
    "numpy_values": {
        "use the jax.numpy function, which has a fixed shape (size=, where)": Cure(
            "x = jnp.arange(4.0)\nout = jnp.nonzero(x > 1, size=2)[0]",
            0,
            "x = jnp.arange(4.0)\nout = np.flatnonzero(np.greater(x, 1))",
        ),
        "gives nan for an error": Cure(
            "x = jnp.arange(4.0)\nout = jnp.quantile(x, (x / 4)[1])",
            0,
            "x = jnp.arange(4.0)\nout = np.quantile(x, (x / 4)[1])",
        ),
    },
    "numpy_out": {
        "take the result instead of out=": EXAMPLE,
        "collect the tensors": Cure(
            "x = jnp.ones(3)\nrows = []\nfor step in range(3):\n    rows.append(np.multiply(x, step))\n"
            "out = jnp.stack(rows)",
            0,
            "x = jnp.ones(3)\nout = np.empty((3, 3), np.float32)\nfor step in range(3):\n"
            "    np.multiply(x + 0, step, out=out[step])",
        ),
    },
    "callback": {"pass what it reads as an operand": EXAMPLE},
    "delete": {"delete inputs after lazynb.sync()": EXAMPLE},
    "hosts_differ": {
        "let every host run the same lines": EXAMPLE,
        "call lazynb.sync() on all before a line that reads a value on one host alone": EXAMPLE,
    },
}

TOO_LONG = {
    "call lazynb.sync() before, once every few hundred operations": Cure(
        "out = jnp.ones(4)\nfor step in range(2400):\n    out = jnp.cos(out)\n    if step % 400 == 399:\n        lazynb.sync()\n"
        "out = float(out.sum())",
    )
}
"""The same for the hint of a break that ran very many operations (``lazynb.running.break_log``)."""

X, N = "x = jnp.arange(6.0)\n", "x = jnp.arange(6.0)\nn = (x > 2).sum()\n"
BY_EXPRESSION = [  # the kind, the words of the hint, the program that has it, and the program that does it
    ("static", "write x ** n", N + "out = jax.lax.integer_pow(x, n)", N + "out = x ** n"),
    (
        "static",
        "jax.lax.dynamic_slice",
        N + "out = x[n : n + 2]",
        N + "out = jax.lax.dynamic_slice(x, (n,), (2,))",
    ),
    (
        "static",
        "mask with jnp.where",
        N + "out = x[:n].sum()",
        N + "out = jnp.where(jnp.arange(6) < n, x, 0).sum()",
    ),
    ("static", "or take the number from .shape", N + "out = x[: n + 3]", X + "out = x[: x.shape[0]]"),
    (
        "static",
        "jnp.where with the mask",
        X + "out = x[x > 2].sum()",
        X + "out = jnp.where(x > 2, x, 0).sum()",
    ),
    ("static", "jnp.nonzero with size=", X + "out = x[x > 2]", X + "out = x[jnp.nonzero(x > 2, size=3)[0]]"),
    (
        "static",
        "jax.numpy function with size=",
        X + "out = jnp.nonzero(x > 2)[0]",
        X + "out = jnp.nonzero(x > 2, size=3)[0]",
    ),
    ("static", "jax.numpy function with size=", X + "out = jnp.unique(x)", X + "out = jnp.unique(x, size=6)"),
    (
        "static",
        "jax.numpy function with size=",
        X + "out = jnp.flatnonzero(x)",
        X + "out = jnp.flatnonzero(x, size=5)",
    ),
    (
        "static",
        "jax.numpy function with size=",
        X + "out = jnp.argwhere(x > 2)",
        X + "out = jnp.argwhere(x > 2, size=3)",
    ),
    (
        "static",
        "jnp.where with three arguments",
        X + "out = x[jnp.where(x > 2)[0]].sum()",
        X + "out = jnp.where(x > 2, x, 0).sum()",
    ),
    (
        "static",
        "with total_repeat_length=",
        X + "out = jnp.repeat(x, x.astype(int))",
        X + "out = jnp.repeat(x, x.astype(int), total_repeat_length=15)",
    ),
    (
        "static",
        "use jax.lax.while_loop",
        N + "out = jax.lax.fori_loop(0, n, lambda i, v: v * 2, x)",
        N + "out = jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]",
    ),
    (
        "static",
        "mask it with jnp.where",
        N + "out = jnp.ones(n).sum()",
        N + "out = jnp.where(jnp.arange(6) < n, 1.0, 0.0).sum()",
    ),
    (
        "static",
        "take the number from .shape",
        N + "out = jnp.expand_dims(x, n - 3)",
        X + "out = jnp.expand_dims(x, 0)",
    ),
    ("static", "take the number from .shape", N + "out = x.reshape(n, -1)", X + "out = x.reshape(3, -1)"),
    ("index", "index a JAX array", N + "out = [1, 2, 3, 4][n]", N + "out = jnp.array([1, 2, 3, 4])[n]"),
    ("index", "index a JAX array", N + "out = np.arange(9)[n]", N + "out = jnp.arange(9)[n]"),
    (
        "index",
        "use jax.lax.while_loop",
        N + "out = x\nfor i in range(n):\n    out = out * 2",
        N + "out = jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]",
    ),
    ("index", "take the number from .shape", N + "out = len('a' * n)", X + "out = len('a' * 3)"),
    ("bool", "jnp.maximum", X + "out = max(x[1], x[2])", X + "out = jnp.maximum(x[1], x[2])"),
    ("bool", "jnp.sort", X + "out = sorted([x[2], x[1]])", X + "out = jnp.sort(jnp.stack([x[2], x[1]]))"),
    (
        "bool",
        "jnp.any",
        X + "out = any([x[0] > 3, x[5] > 3])",
        X + "out = jnp.any(jnp.stack([x[0] > 3, x[5] > 3]))",
    ),
    (
        "bool",
        "use jax.lax.while_loop",
        X + "out = x.sum()\nwhile out > 3:\n    out = out / 2",
        X + "out = jax.lax.while_loop(lambda v: v > 3, lambda v: v / 2, x.sum())",
    ),
    (
        "bool",
        "test them once at the end",
        X + "for i in range(3):\n    x = x + 1\n    assert x[0] > 0\nout = x",
        X
        + "seen = []\nfor i in range(3):\n    x = x + 1\n    seen.append(x[0] > 0)\nout = x\nassert jnp.stack(seen).all()",
    ),
    (
        "bool",
        "use jnp.where",
        X + "out = x if x.sum() > 3 else x * 2",
        X + "out = jnp.where(x.sum() > 3, x, x * 2)",
    ),
]
"""Hints that are given for some expressions (``lazynb/running/break_hints.py``)."""
