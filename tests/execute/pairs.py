"""Pairs of programs: cells before and after an edit, and why the second is compiled, or that it is not.

Each is run as cells of a notebook: cell 1 makes the data, cell 2 is the program before, cell 3 the one after.
Where there is nothing before, the program loops: what is told are its misses in order.
"""

from __future__ import annotations

import dataclasses

DATA = """x = jnp.ones((4, 3))
z = jnp.ones((4, 3))
w = jnp.ones((3, 2))
"""

Told = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two programs.

    Attributes:
      name: of the case.
      before, after: their text.
      told: for each miss of the second, its causes as (kind, text). None at all: a hit.
      between: run between the two, outside lazy mode: it changes the data.
      module: text of ``helper.py`` before and after.
    """

    name: str
    before: str
    after: str
    told: tuple[tuple[Told, ...], ...] = ()
    between: str = ""
    module: tuple[str, str] | None = None


PAIRS: list[Pair] = []


def pair(
    name: str,
    before: str,
    after: str,
    *told: tuple[Told, ...] | Told,
    between: str = "",
    module: tuple[str, str] | None = None,
) -> None:
    misses = tuple((one,) if isinstance(one[0], str) else one for one in told)
    PAIRS.append(Pair(name, before, after, misses, between, module))  # type: ignore[arg-type]


NEW = ("new", "nothing like it was compiled before")

# ---- no difference, or none that matters -------------------------------------------------------------------

PLAIN = "y = jnp.sin(x) @ w\nfloat(y.sum())"
pair("the same text", PLAIN, PLAIN)
pair("a comment and an empty line", PLAIN, "# more\n\n" + PLAIN)
pair(
    "another name for a variable",
    PLAIN,
    PLAIN.replace("y", "result"),
)
pair("another number of the same type", "y = x * 2.5\nfloat(y.sum())", "y = x * 3.5\nfloat(y.sum())")
pair("a dead line", PLAIN, "unused = jnp.cos(x) * 3\ndel unused\n" + PLAIN)
pair("other values", PLAIN, PLAIN, between="x = x * 7")
pair(
    "another seed",
    "y = jax.random.normal(jax.random.key(0), (3,))\nfloat(y.sum())",
    "y = jax.random.normal(jax.random.key(1), (3,))\nfloat(y.sum())",
)
pair(
    "a second name for a value that has one",
    "h = jnp.sin(x)\ny = h * 2\nfloat(y.sum())",
    "h = jnp.sin(x)\nkeep = h\ny = h * 2\nfloat(y.sum())",
)

# ---- what flows in -----------------------------------------------------------------------------------------

pair(
    "shape",
    PLAIN,
    PLAIN,
    ("shape", "`x` is (5, 3), was (4, 3): cell 3, line 1"),
    between="x = jnp.ones((5, 3))",
)
pair(
    "shape of two",
    "y = (x + z).sum()\nfloat(y)",
    "y = (x + z).sum()\nfloat(y)",
    (
        ("shape", "`x` is (5, 3), was (4, 3): cell 3, line 1"),
        ("shape", "`z` is (5, 3), was (4, 3): cell 3, line 1"),
    ),
    between="x = z = jnp.ones((5, 3))\nz = z + 0",
)
pair(
    "shape of one of two",
    "y = x.T @ z\nfloat(y.sum())",
    "y = x.T @ z\nfloat(y.sum())",
    ("shape", "`z` is (4, 5), was (4, 3): cell 3, line 1"),
    between="z = jnp.ones((4, 5))",
)
pair(
    "everything downstream follows from a shape",
    "h = jnp.zeros(x.shape) + x\nh = h.reshape(-1)[:2]\nfloat(h.mean())",
    "h = jnp.zeros(x.shape) + x\nh = h.reshape(-1)[:2]\nfloat(h.mean())",
    ("shape", "`x` is (5, 3), was (4, 3): cell 3, line 1"),
    between="x = jnp.ones((5, 3))",
)
pair(
    "rank",
    "y = x + 1\nfloat(y.sum())",
    "y = x + 1\nfloat(y.sum())",
    ("rank", "`x` is (4, 3, 2), was (4, 3): cell 3, line 1"),
    between="x = jnp.ones((4, 3, 2))",
)
pair(
    "dtype",
    PLAIN,
    PLAIN,
    ("dtype", "`x` is bfloat16, was float32: cell 3, line 1"),
    between="x = x.astype(jnp.bfloat16)",
)
pair(
    "dtype that brings conversions",
    "y = jnp.sin(x) * 2 + z\nfloat(y.sum())",
    "y = jnp.sin(x) * 2 + z\nfloat(y.sum())",
    ("dtype", "`x` is int32, was float32: cell 3, line 1"),
    between="x = x.astype(int)",
)
pair(
    "weak type",
    "y = s * x\nfloat(y.sum())",
    "y = s * x\nfloat(y.sum())",
    ("weak_type", "`s` is weakly typed float32, was float32: cell 3, line 1"),
    module=("", ""),
    between="s = jnp.asarray(2.0)",
)
pair(
    "device",
    PLAIN,
    PLAIN,
    (
        ("sharding", "`x` is on cpu:1, was not bound to a device: cell 3, line 1"),
        ("sharding", "`w` is on cpu:1, was not bound to a device: cell 3, line 1"),
    ),
    between="x, w = jax.device_put((x, w), jax.devices()[1])",
)
pair(
    "sharding",
    "y = jnp.sin(x)\nfloat(y.sum())",
    "y = jnp.sin(x)\nfloat(y.sum())",
    ("sharding", "`x` is sharded over cpu:0, cpu:1 as ('d',), was not bound to a device: cell 3, line 1"),
    between="mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ('d',))\n"
    "x = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('d')))",
)
pair(
    "an int becomes a float",
    "y = x * 2\nfloat(y.sum())",
    "y = x * 2.5\nfloat(y.sum())",
    ("number", "the number that `multiply` takes is 2.5 (float), was 2 (int): cell 3, line 1"),
)
pair(
    "a float becomes an int",
    "y = x * 2.0\nfloat(y.sum())",
    "y = x * 3\nfloat(y.sum())",
    ("number", "the number that `multiply` takes is 3 (int), was 2.0 (float): cell 3, line 1"),
)
pair(
    "a number becomes an array",
    "y = x * 2\nfloat(y.sum())",
    "y = x * z\nfloat(y.sum())",
    ("scalar", "`z` is an array, float32[4,3], was 2 (int): cell 3, line 1"),
)
pair(
    "an array becomes a number",
    "y = x * z\nfloat(y.sum())",
    "y = x * 2.5\nfloat(y.sum())",
    (
        "scalar",
        "the number that `multiply` takes is 2.5 (float), was an array, float32[4,3] (`z`): cell 3, line 1",
    ),
)
pair(
    "a typed number of NumPy's",
    "y = x * 2.0\nfloat(y.sum())",
    "y = x * np.float32(2)\nfloat(y.sum())",
    ("number", "the number that `multiply` takes is 2.0 (float32), was 2.0 (float): cell 3, line 1"),
)
pair(
    "another input",
    "y = x * z\nfloat(y.sum())",
    "y = z * z\nfloat(y.sum())",
    ("operand", "`multiply` takes `z`, took `x`: cell 3, line 1"),
)
pair(
    "operands swapped",
    "a = jnp.sin(x)\nb = jnp.cos(x)\nfloat((a - b).sum())",
    "a = jnp.sin(x)\nb = jnp.cos(x)\nfloat((b - a).sum())",
    ("operand", "`subtract` takes `b`, took `a`: cell 3, line 3"),
)
pair(
    "one more operand",
    "y = jnp.concatenate([x, z])\nfloat(y.sum())",
    "y = jnp.concatenate([x, z, x])\nfloat(y.sum())",
    ("operand", "`concatenate` takes 3 operands, took 2: cell 3, line 1"),
)

# ---- what the program does ---------------------------------------------------------------------------------

pair(
    "a line added",
    PLAIN,
    "y = jnp.sin(x) @ w\ny = jnp.tanh(y)\nfloat(y.sum())",
    ("added", "`tanh` was added: cell 3, line 2"),
)
pair(
    "a line removed",
    "y = jnp.sin(x) @ w\ny = jnp.tanh(y)\nfloat(y.sum())",
    PLAIN,
    ("removed", "`tanh` was removed: it was at cell 2, line 2"),
)
pair(
    "a line with two operations added",
    PLAIN,
    "y = jnp.sin(x) @ w\ny = jnp.exp(y) + 1\nfloat(y.sum())",
    ("added", "`exp` and `add` were added: cell 3, line 2"),
)
pair(
    "a function of several operations added",
    PLAIN,
    "y = jnp.sin(x) @ w\ny = jax.nn.softmax(y)\nfloat(y.sum())",
    ("added", "`softmax` was added: cell 3, line 2"),
)
pair(
    "an operation replaced",
    PLAIN,
    PLAIN.replace("sin", "cos"),
    ("replaced", "`cos` in place of `sin`: cell 3, line 1"),
)
pair(
    "a function of several operations replaced",
    "y = jax.nn.softmax(x @ w)\nfloat(y.sum())",
    "y = jnp.tanh(x @ w)\nfloat(y.sum())",
    ("replaced", "`tanh` in place of `softmax`: cell 3, line 1"),
)
pair(
    "an operator replaced",
    "y = jnp.where(x > 0, x, 0.)\nfloat(y.sum())",
    "y = jnp.where(x >= 0, x, 0.)\nfloat(y.sum())",
    ("replaced", "`greater_equal` in place of `greater`: cell 3, line 1"),
)
pair(
    "lines swapped",
    "y = jnp.sin(x)\nu = jnp.cos(z)\nfloat((y + u).sum())",
    "u = jnp.cos(z)\ny = jnp.sin(x)\nfloat((y + u).sum())",
    ("moved", "`sin` was moved: it now comes after `cos`: cell 3, line 2"),
)
pair(
    "two edits",
    "a = jnp.sin(x)\nb = a.sum(axis=0)\nc = b * 2\nfloat(c.sum())",
    "a = jnp.cos(x)\nb = a.sum(axis=0)\nc = jnp.exp(b * 2)\nfloat(c.sum())",
    (("replaced", "`cos` in place of `sin`: cell 3, line 1"), ("added", "`exp` was added: cell 3, line 3")),
)
pair(
    "axis",
    "y = x.sum(axis=0)\nfloat(y[0])",
    "y = x.sum(axis=1)\nfloat(y[0])",
    ("parameter", "`axis` of `sum` was 0, now 1: cell 3, line 1"),
)
pair(
    "axis of a function of several operations",
    "y = jax.nn.softmax(x, axis=0)\nfloat(y[0, 0])",
    "y = jax.nn.softmax(x, axis=1)\nfloat(y[0, 0])",
    ("parameter", "`axis` of `softmax` was 0, now 1: cell 3, line 1"),
)
pair(
    "axis over several lines",
    "y = (x\n     .sum(axis=0)\n     .mean())\nfloat(y)",
    "y = (x\n     .sum(axis=1)\n     .mean())\nfloat(y)",
    ("parameter", "`axis` of `sum` was 0, now 1: cell 3, line 2"),
)
pair(
    "keepdims",
    "y = x.mean(axis=0)\nfloat(y.sum())",
    "y = x.mean(axis=0, keepdims=True)\nfloat(y.sum())",
    ("parameter", "`keepdims` of `mean` was False, now True: cell 3, line 1"),
)
pair(
    "new shape",
    "y = x.reshape(2, 6)\nfloat(y.sum())",
    "y = x.reshape(6, 2)\nfloat(y.sum())",
    ("parameter", "`shape` of `reshape` was (2, 6), now (6, 2): cell 3, line 1"),
)
pair(
    "shape of a new array, twice",
    "a = jnp.zeros(3)\nb = jnp.ones(3)\nfloat((a + b).sum())",
    "a = jnp.zeros(5)\nb = jnp.ones(5)\nfloat((a + b).sum())",
    ("parameter", "`shape` of `zeros` was 3, now 5: cell 3, line 1"),
)
pair(
    "index",
    "y = x[1]\nfloat(y.sum())",
    "y = x[2]\nfloat(y.sum())",
    ("parameter", "`index` of `indexing` was 1, now 2: cell 3, line 1"),
)
pair(
    "slice",
    "y = x[:2]\nfloat(y.sum())",
    "y = x[:3]\nfloat(y.sum())",
    ("parameter", "`end` of `indexing` was 2, now 3: cell 3, line 1"),
)
pair(
    "dtype asked for",
    "y = x.astype(jnp.int32)\nint(y.sum())",
    "y = x.astype(jnp.int8)\nint(y.sum())",
    ("parameter", "`dtype` of `astype` was int32, now int8: cell 3, line 1"),
)
pair(
    "exponent",
    "y = x ** 2\nfloat(y.sum())",
    "y = x ** 3\nfloat(y.sum())",
    ("parameter", "`exponent` of `power` was 2, now 3: cell 3, line 1"),
)
pair(
    "equation of einsum",
    'y = jnp.einsum("ij,ik->jk", x, z)\nfloat(y.sum())',
    'y = jnp.einsum("ij,kj->ik", x, z)\nfloat(y.sum())',
    ("parameter", "`subscripts` of `einsum` was 'ij,ik->jk', now 'ij,kj->ik': cell 3, line 1"),
)
CALLBACK = (
    "y = jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct((4, 3), np.float32), x)\nfloat(y.sum())"
)
pair(
    "a callback made anew",
    CALLBACK,
    CALLBACK,
    ("identity", "`pure_callback` holds a Python object that was made anew: cell 3, line 1"),
)

# ---- functions ---------------------------------------------------------------------------------------------

FUNCTION = "def model(a, k):\n    h = a @ w\n    return jnp.tanh(h) * k\nfloat(model(x, 2).sum())"
pair("a function, again", FUNCTION, FUNCTION)
pair(
    "in a function",
    FUNCTION,
    FUNCTION.replace("tanh", "exp"),
    ("replaced", "`exp` in place of `tanh`: cell 3, line 3"),
)
pair(
    "an argument of a function",
    FUNCTION,
    FUNCTION.replace("x, 2", "x, 2.5"),
    ("number", "the number that `multiply` takes is 2.5 (float), was 2 (int): cell 3, line 3"),
)
INNER = "def outer(a):\n    def inner(b):\n        return jnp.sin(b) + 1\n    return inner(a) * 2\nfloat(outer(x).sum())"
pair(
    "in a function within a function",
    INNER,
    INNER.replace(" + 1", " - 1"),
    ("replaced", "`subtract` in place of `add`: cell 3, line 3"),
)
COMPREHENSION = "ys = [jnp.sin(x * i) for i in range(3)]\ntotal = sum(ys)\nfloat(total.sum())"
pair(
    "a comprehension",
    COMPREHENSION,
    COMPREHENSION.replace("sin", "cos"),
    ("replaced", "`cos` in place of `sin`: cell 3, line 1"),
)
pair(
    "a longer comprehension",
    COMPREHENSION,
    COMPREHENSION.replace("3", "4"),
    ("repeats", "`multiply`, `sin` and `add` run 4 times, ran 3 times: cell 3, line 1"),
)
LOOP = "y = x\nfor i in range(3):\n    y = y * 2\n    y = jnp.sin(y)\nfloat(y.sum())"
pair(
    "a longer loop",
    LOOP,
    LOOP.replace("3", "5"),
    ("repeats", "`multiply` and `sin` run 5 times, ran 3 times: cell 3, line 3"),
)
pair(
    "a shorter loop",
    LOOP,
    LOOP.replace("3", "2"),
    ("repeats", "`multiply` and `sin` run 2 times, ran 3 times: cell 2, line 3"),
)
JITTED = "@jax.jit\ndef step(a):\n    b = jnp.sin(a)\n    return b * 2\nfloat(step(x).sum())"
pair("a jitted function, again", JITTED, JITTED)
pair(
    "a number in a jitted function",
    JITTED,
    JITTED.replace("b * 2", "b * 3"),
    ("nested", "in `step`: `multiply` has 3.0 written in it, was 2.0: cell 3, line 4"),
)
pair(
    "a line in a jitted function",
    JITTED,
    JITTED.replace("    return", "    b = jnp.tanh(b)\n    return"),
    ("nested", "in `step`: `tanh` was added: cell 3, line 4"),
)
pair(
    "a jitted function in a jitted one",
    "@jax.jit\ndef inner(a):\n    return jnp.sin(a)\n" + JITTED.replace("jnp.sin(a)", "inner(a)"),
    "@jax.jit\ndef inner(a):\n    return jnp.cos(a)\n" + JITTED.replace("jnp.sin(a)", "inner(a)"),
    ("nested", "in `step`: in `inner`: `cos` in place of `sin`: cell 3, line 3"),
)
pair(
    "a jitted function takes another shape",
    JITTED,
    JITTED,
    ("shape", "`x` is (5, 3), was (4, 3): cell 3, line 5"),
    between="x = jnp.ones((5, 3))",
)
pair(
    "a decorator removed",
    JITTED,
    JITTED.replace("@jax.jit\n", ""),
    (
        "unjitted",
        "`step` is no longer one jitted function: its operations are recorded one by one: cell 3, line 2",
    ),
)
pair(
    "a decorator added",
    JITTED.replace("@jax.jit\n", ""),
    JITTED,
    ("jitted", "`step` is one jitted function now: its operations were recorded one by one: cell 3, line 5"),
)
DECORATED = (
    "import functools\ndef scaled(f):\n    @functools.wraps(f)\n    def run(a):\n        return f(a) * 2\n   "
    " return run\n"
    "@scaled\ndef model(a):\n    return jnp.sin(a)\nfloat(model(x).sum())"
)
pair(
    "in a decorator of one's own",
    DECORATED,
    DECORATED.replace("f(a) * 2", "f(a) + 2"),
    ("replaced", "`add` in place of `multiply`: cell 3, line 5"),
)
pair(
    "in a module",
    "import helper\nfloat(helper.model(x).sum())",
    "import helper\nfloat(helper.model(x).sum())",
    ("replaced", "`cos` in place of `sin`: helper.py:3"),
    module=(
        "import jax.numpy as jnp\ndef model(a):\n    return jnp.sin(a) * 2\n",
        "import jax.numpy as jnp\ndef model(a):\n    return jnp.cos(a) * 2\n",
    ),
)
SCAN = "def body(c, t):\n    return c * 2 + t.sum(), None\nc, _ = jax.lax.scan(body, 0., x)\nfloat(c)"
pair("scan, again", SCAN, SCAN)
pair(
    "scan: a number",
    SCAN,
    SCAN.replace("c * 2", "c * 3"),
    ("nested", "in `scan`: `multiply` has 3.0 written in it, was 2.0: cell 3, line 2"),
)
pair(
    "scan: an operation",
    SCAN,
    SCAN.replace("t.sum()", "jnp.sin(t).sum()"),
    ("nested", "in `scan`: `sin` was added: cell 3, line 2"),
)
pair(
    "scan: its length",
    SCAN,
    SCAN,
    ("shape", "`x` is (7, 3), was (4, 3): cell 3, line 3"),
    between="x = jnp.ones((7, 3))",
)
COND = "y = jax.lax.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * 3, x)\nfloat(y.sum())"
pair(
    "cond: one branch",
    COND,
    COND.replace("a * 3", "a + 3"),
    ("nested", "in `cond`: `add` in place of `multiply`: cell 3, line 1"),
)
GRAD = "def loss(p):\n    return jnp.sum(jnp.tanh(x @ p) ** 2)\ng = jax.grad(loss)(w)\nfloat(g.sum())"
pair("grad, again", GRAD, GRAD)
pair(
    "grad: an operation",
    GRAD,
    GRAD.replace("tanh", "sin"),
    ("replaced", "`sin` in place of `tanh`: cell 3, line 2"),
)
pair(
    "grad: an exponent",
    GRAD,
    GRAD.replace("** 2", "** 3"),
    ("parameter", "`exponent` of `power` was 2, now 3: cell 3, line 2"),
)
pair(
    "grad: shape",
    GRAD,
    GRAD,
    ("shape", "`x` is (5, 3), was (4, 3): cell 3, line 2"),
    between="x = jnp.ones((5, 3))",
)
VMAP = "f = jax.vmap(lambda r: jnp.dot(r, r))\ny = f(x)\nfloat(y.sum())"
pair("vmap, again", VMAP, VMAP)
pair(
    "vmap: an operation",
    VMAP,
    VMAP.replace("jnp.dot(r, r)", "jnp.dot(r, r) + 1"),
    ("added", "`add` was added: cell 3, line 1"),
)
FLAX = (
    "import flax.linen as nn\nclass MLP(nn.Module):\n    @nn.compact\n    def __call__(self, a):\n        a "
    "= nn.Dense(8)(a)\n"
    "        a = nn.relu(a)\n        return nn.Dense(2)(a)\nm = MLP()\nparams = m.init(jax.random.key(0), "
    "x)\nlazynb.sync()\n"
    "y = m.apply(params, x)\nfloat(y.sum())"
)
pair("Flax, again", FLAX, FLAX)
pair(
    "Flax: the activation",
    FLAX,
    FLAX.replace("relu", "tanh"),
    ("replaced", "`tanh` in place of `relu`: cell 3, line 6"),
)
pair(
    "Flax: the width",
    FLAX,
    FLAX.replace("Dense(8)", "Dense(16)"),
    ("parameter", "`features` of `Dense` was 8, now 16: cell 3, line 5"),
    (
        ("shape", "`params['params']['Dense_0']['kernel']` is (3, 16), was (3, 8): cell 3, line 5"),
        ("shape", "`params['params']['Dense_0']['bias']` is (16,), was (8,): cell 3, line 5"),
        ("shape", "`params['params']['Dense_1']['kernel']` is (16, 2), was (8, 2): cell 3, line 7"),
    ),
)

# ---- what is asked of the trace ----------------------------------------------------------------------------

pair(
    "a variable is alive",
    "h = jnp.sin(x)\ny = h * 2\ndel h\nfloat(y.sum())",
    "h = jnp.sin(x)\ny = h * 2\nfloat(y.sum())",
    ("alive", "the variable `h` is alive now: cell 3, line 1"),
)
pair(
    "a variable is no longer alive",
    "h = jnp.sin(x)\ny = h * 2\nfloat(y.sum())",
    "h = jnp.sin(x)\ny = h * 2\ndel h\nfloat(y.sum())",
    ("not_alive", "the variable `h` is no longer alive: it was at cell 2, line 1"),
)
pair(
    "a variable that needed nothing is alive",
    "h = jnp.sin(x) * 3\ndel h\ny = jnp.cos(x)\nfloat(y.sum())",
    "h = jnp.sin(x) * 3\ny = jnp.cos(x)\nfloat(y.sum())",
    ("alive", "the variable `h` is alive now: cell 3, line 1"),
)
STATE = "state = jnp.zeros((600, 600))\nlazynb.sync()\n"
pair(
    "memory kept",
    STATE + "state = state + 1\nlazynb.sync()",
    STATE + "old = state\nstate = state + 1\nlazynb.sync()",
    (
        "not_donated",
        "the memory of `old` is no longer used for a result: something refers to it: cell 3, line 4",
    ),
)
pair(
    "a setting",
    PLAIN,
    PLAIN,
    ("configuration", "JAX's setting jax_default_matmul_precision is bfloat16, was None"),
    between="jax.config.update('jax_default_matmul_precision', 'bfloat16')",
)
pair(
    "64-bit mode",
    PLAIN,
    PLAIN,
    ("configuration", "JAX's setting jax_enable_x64 is True, was False"),
    between="jax.config.update('jax_enable_x64', True)",
)

# ---- trace breaks ------------------------------------------------------------------------------------------

WHOLE = "h = jnp.sin(x)\ny = h * 2\nfloat(y.sum())"
BROKEN = "h = jnp.sin(x)\nprint(h[0, 0])\ny = h * 2\nfloat(y.sum())"
pair(
    "a trace break more",
    WHOLE,
    BROKEN,
    ("broke", "the trace broke earlier, at cell 3, line 2 (print)"),
    (
        "begins_later",
        "the trace begins after the trace break at cell 3, line 2 (print); the cached one held what stands "
        "before it too",
    ),
)
pair(
    "a trace break less",
    BROKEN,
    WHOLE,
    (
        "begins_earlier",
        "the trace begins earlier: it no longer follows the trace break at cell 2, line 2 (print)",
    ),
)
pair(
    "an exception half-way",
    "h = jnp.sin(x)\ny = h * 2\nfloat(y.sum())",
    "try:\n    h = jnp.sin(x)\n    1 / 0\n    y = h * 2\nexcept ZeroDivisionError:\n    pass\nlazynb.sync(h)",
    (
        ("removed", "`multiply` was removed: it was at cell 2, line 2"),
        ("removed", "`sum` was removed: it was at cell 2, line 3"),
    ),
)
BLOCK = "with jax.named_scope('a'):\n    h = jnp.sin(x)\ny = h * 2\nfloat(y.sum())"
pair(
    "a with block",
    BLOCK,
    BLOCK.replace("sin", "cos"),
    ("replaced", "`cos` in place of `sin`: cell 3, line 2"),
)
pair(
    "nothing like it",
    PLAIN,
    "q = jnp.linalg.norm(z)\nfor k in range(3):\n    q = q + jnp.exp(z)\nfloat(q[0, 0])",
    NEW,
)

# ---- programs that loop ------------------------------------------------------------------------------------

pair("a loop that is the same each time", "", "for s in range(4):\n    y = x * 2\n    float(y.sum())", NEW)
pair(
    "a training loop",
    "",
    "p = jnp.zeros(3)\nfor s in range(4):\n    loss = ((p - 1) ** 2).sum()\n    p = p - 0.1 * loss\n    "
    "float(loss)",
    NEW,
    (
        "begins_later",
        "the trace begins after the trace break at cell 3, line 5 (float); the cached one held what stands "
        "before it too",
    ),
)
pair(
    "an array that grows",
    "",
    "xs = jnp.zeros((1,))\nlazynb.sync()\nfor i in range(4):\n    xs = jnp.concatenate([xs, "
    "jnp.ones((1,))])\n    lazynb.sync()",
    NEW,
    NEW,
    ("shape", "an array that `concatenate` takes is (2,), was (1,): cell 3, line 4"),
    ("grows", "an array that `concatenate` takes grows at each step: 1, 2, 3: cell 3, line 4"),
    ("grows", "an array that `concatenate` takes grows at each step: 1, 2, 3, 4: cell 3, line 4"),
)
pair(
    "two shapes in turns",
    "",
    "for i in range(6):\n    b = jnp.asarray(np.ones((4 if i % 2 else 3, 2), np.float32))\n    "
    "float(jnp.sin(b).sum())",
    NEW,
    ("alternates", "`b` alternates between (3, 2) and (4, 2): cell 3, line 3"),
)
pair(
    "many shapes",
    "",
    "for k in (4, 6, 5):\n    b = jnp.asarray(np.ones((k, 2), np.float32))\n    float(jnp.sin(b).sum())",
    NEW,
    ("shape", "`b` is (6, 2), was (4, 2): cell 3, line 3"),
    ("varies", "`b` has another shape at each step: (4, 2), (6, 2), (5, 2): cell 3, line 3"),
)
pair(
    "a counter in a slice",
    "",
    "for i in range(1, 4):\n    float(x[:i].sum())",
    NEW,
    ("parameter", "`end` of `indexing` was 1, now 2: cell 3, line 2"),
    ("counter", "`end` of `indexing` takes a new value at each step: 1, 2, 3: cell 3, line 2"),
)
pair(
    "a counter in a range",
    "",
    "for k in range(1, 4):\n    float(jnp.sin(jnp.arange(k)).sum())",
    NEW,
    ("parameter", "`length` of `arange` was 1, now 2: cell 3, line 2"),
    ("counter", "`length` of `arange` takes a new value at each step: 1, 2, 3: cell 3, line 2"),
)
pair(
    "an axis in turns",
    "",
    "for axis in (0, 1, 0, 1):\n    float(x.sum(axis=axis)[0])",
    NEW,
    ("parameter", "`axis` of `sum` was 0, now 1: cell 3, line 2"),
)
pair(
    "a trace that is longer each time",
    "",
    "for s in range(1, 4):\n    y = x\n    for k in range(s):\n        y = jnp.sin(y)\n    float(y.sum())",
    NEW,
    ("repeats", "`sin` runs 2 times, ran once: cell 3, line 4"),
    ("longer", "the trace is longer at each step: 2, 3, 4 operations: cell 3, line 4"),
)
pair(
    "a history that is summed each time",
    "",
    "hist = []\nfor s in range(3):\n    hist.append(jnp.sin(x) * s)\n    float(sum(h.sum() for h in hist))",
    NEW,
    ("repeats", "`sum` and `add` run 2 times, ran once: cell 3, line 4"),
    ("longer", "the trace is longer at each step: 4, 6, 8 operations: cell 3, line 4"),
)
