"""More pairs of programs: what is no edit of the line itself. The truths were written before they were run."""

from __future__ import annotations

from execute.pairs import NEW, pair
from execute.pairs_edits import added, argument, removed, replaced

# ---- what makes no difference ------------------------------------------------------------------------------

STEP = "@jax.jit\ndef step(a):\n    return jnp.sin(a) * 2\nfloat(step(x).sum())"
pair("renamed: a jitted function", STEP, STEP.replace("step", "update"))
pair(
    "renamed: a function",
    STEP.replace("@jax.jit\n", ""),
    STEP.replace("@jax.jit\n", "").replace("step", "update"),
)
pair("renamed: an argument", STEP, STEP.replace("a)", "b)"))
NORM = "def loss(p):\n    h = x @ p[0]\n    h = h / h.var()\n    return (h @ p[1]).mean()\nl, g = jax.value_and_grad(loss)((w, w.T))\nfloat(l)"
pair("again: a derivative through a variance", NORM, NORM)
pair("again: with a docstring", NORM, NORM.replace("    h = x", "    'The loss.'\n    h = x"))
pair("again: a type given", NORM, NORM.replace("def loss(p)", "def loss(p: tuple) -> jax.Array"))
pair("again: an assertion", NORM, NORM.replace("    h = x", "    assert len(p) == 2\n    h = x"))
pair(
    "again: in a function",
    "float((jnp.sin(x) * 2).sum())",
    "def f(a):\n    return jnp.sin(a) * 2\nfloat(f(x).sum())",
)
pair("again: an operator as a function", "float((x + z).sum())", "float(jnp.add(x, z).sum())")
pair("again: a sum as a method", "float(jnp.sum(jnp.sin(x)))", "float(jnp.sin(x).sum())")
pair("again: a default written", "float(jnp.roll(x, 1)[0, 0])", "float(jnp.roll(x, 1, axis=None)[0, 0])")
pair("again: read as an item", "float(jnp.sin(x).sum())", "jnp.sin(x).sum().item()")
pair(
    "again: another seed",
    "float(jax.random.normal(jax.random.key(0), (3,)).sum())",
    "float(jax.random.normal(jax.random.key(7), (3,)).sum())",
)
pair("again: other data", "y = jnp.sin(x)\nfloat(y.sum())", "y = jnp.sin(z)\nfloat(y.sum())")
pair("again: another index", "float(x.at[0].set(1.).sum())", "float(x.at[1].set(1.).sum())")
pair(
    "again: a variable of a loop",
    "for i in range(3):\n    float((x * i).sum())",
    "for j in range(5):\n    float((x * j).sum())",
)

# ---- names: what is renamed while something else is edited ------------------------------------------------

pair(
    "renamed and edited: a jitted function",
    STEP,
    STEP.replace("step", "update").replace("sin", "cos"),
    ("nested", "in `update`: `cos` in place of `sin`: cell 3, line 3"),
)
pair(
    "renamed and edited: a variable",
    "y = jnp.sin(x)\nfloat(y.sum())",
    "q = jnp.cos(x)\nfloat(q.sum())",
    replaced("cos", "sin"),
)
pair(
    "commented and edited",
    "y = jnp.sin(x)\nfloat(y.sum())",
    "# now cos\ny = jnp.cos(x)\nfloat(y.sum())",
    replaced("cos", "sin", 2),
)

# ---- variables of other cells, as plain Python values -------------------------------------------------------

pair(
    "a variable of the cell: an axis",
    "ax = 0\ny = x.sum(axis=ax)\nfloat(y[0])",
    "ax = 1\ny = x.sum(axis=ax)\nfloat(y[0])",
    argument("axis", "sum", "0", "1", 2),
)
pair(
    "a variable of the cell: a flag",
    "flag = True\ny = jnp.sin(x) if flag else jnp.cos(x)\nfloat(y.sum())",
    "flag = False\ny = jnp.sin(x) if flag else jnp.cos(x)\nfloat(y.sum())",
    ("variable", "`flag` was True, now False: cell 3, line 1"),
)
pair(
    "a variable of the cell: a test",
    "flag = True\ny = x * 2\nif flag:\n    y = jnp.sin(y)\nfloat(y.sum())",
    "flag = False\ny = x * 2\nif flag:\n    y = jnp.sin(y)\nfloat(y.sum())",
    ("variable", "`flag` was True, now False: cell 3, line 1"),
)
pair(
    "a variable of the cell: turns",
    "n = 2\ny = x\nfor i in range(n):\n    y = jnp.sin(y)\nfloat(y.sum())",
    "n = 4\ny = x\nfor i in range(n):\n    y = jnp.sin(y)\nfloat(y.sum())",
    ("variable", "`n` was 2, now 4: cell 3, line 1"),
)
pair(
    "a variable of the cell: a function",
    "act = jnp.tanh\nfloat(act(x @ w).sum())",
    "act = jnp.sin\nfloat(act(x @ w).sum())",
    ("variable", "`act` was tanh, now sin: cell 3, line 1"),
)
pair(
    "a variable of the cell: closed over",
    "k = 2\nf = jax.jit(lambda a: a * k)\nfloat(f(x).sum())",
    "k = 3\nf = jax.jit(lambda a: a * k)\nfloat(f(x).sum())",
    ("variable", "`k` was 2, now 3: cell 3, line 1"),
)
pair("a variable of the cell: data", "k = 2\nfloat((x * k).sum())", "k = 3\nfloat((x * k).sum())")
pair(
    "a default of a function",
    "def layer(a, act=jnp.tanh):\n    return act(a @ w)\nfloat(layer(x).sum())",
    "def layer(a, act=jnp.sin):\n    return act(a @ w)\nfloat(layer(x).sum())",
    replaced("sin", "tanh", 2),
)
pair(
    "an argument of one's own function",
    "def layer(a, act=jnp.tanh):\n    return act(a @ w)\nfloat(layer(x).sum())",
    "def layer(a, act=jnp.tanh):\n    return act(a @ w)\nfloat(layer(x, act=jnp.sin).sum())",
    argument("act", "layer", "tanh", "sin", 3),
)
pair(
    "an axis handed to one's own function",
    "def red(a, axis):\n    return a.sum(axis=axis)\nfloat(red(x, 0)[0])",
    "def red(a, axis):\n    return a.sum(axis=axis)\nfloat(red(x, 1)[0])",
    argument("axis", "red", "0", "1", 3),
)

pair(
    "a variable that was computed: closed over",
    "f = jax.jit(lambda a: a * s_)\nfloat(f(x).sum())",
    "f = jax.jit(lambda a: a * s_)\nfloat(f(x).sum())",
    (
        "nested",
        "in `lambda`: `multiply` takes 3.0, which the function closes over or has as a static argument; it was 2.0: cell 3, line 1",
    ),
    between="s_ = 3",
)

# ---- lines -------------------------------------------------------------------------------------------------

LINES = "a = jnp.sin(x)\nb = jnp.cos(z)\nc = a * b\nfloat(c.sum())"
pair("lines: the first", LINES, LINES.replace("sin", "exp"), replaced("exp", "sin"))
pair("lines: the second", LINES, LINES.replace("cos", "exp"), replaced("exp", "cos", 2))
pair("lines: the third", LINES, LINES.replace("a * b", "a - b"), replaced("subtract", "multiply", 3))
pair("lines: the last", LINES, LINES.replace("sum", "mean"), replaced("mean", "sum", 4))
pair("lines: one more", LINES, LINES.replace("c = ", "b = jnp.tanh(b)\nc = "), added("`tanh`", 3))
pair(
    "lines: two more",
    LINES,
    LINES.replace("c = ", "b = jnp.tanh(b)\nb = b + 1\nc = "),
    added("`tanh`", 3) and (added("`tanh`", 3), added("`add`", 4)),
)
pair("lines: one less", LINES.replace("c = ", "b = jnp.tanh(b)\nc = "), LINES, removed("`tanh`", 3))
pair(
    "lines: augmented",
    "y = jnp.sin(x)\ny += z\nfloat(y.sum())",
    "y = jnp.sin(x)\ny *= z\nfloat(y.sum())",
    replaced("multiply", "add", 2),
)
pair(
    "lines: in a with block",
    "with jax.named_scope('a'):\n    y = jnp.sin(x) @ w\nfloat(y.sum())",
    "with jax.named_scope('a'):\n    y = jnp.cos(x) @ w\nfloat(y.sum())",
    replaced("cos", "sin", 2),
)
pair(
    "lines: in a loop",
    "y = x\nfor i in range(3):\n    y = jnp.sin(y)\nfloat(y.sum())",
    "y = x\nfor i in range(3):\n    y = jnp.cos(y)\nfloat(y.sum())",
    replaced("cos", "sin", 3),
)
pair(
    "lines: in a test",
    "if True:\n    y = jnp.sin(x) * z\nfloat(y.sum())",
    "if True:\n    y = jnp.cos(x) * z\nfloat(y.sum())",
    replaced("cos", "sin", 2),
)
pair(
    "lines: in a method",
    "class M:\n    def run(self, a):\n        return jnp.sin(a) @ w\nfloat(M().run(x).sum())",
    "class M:\n    def run(self, a):\n        return jnp.cos(a) @ w\nfloat(M().run(x).sum())",
    replaced("cos", "sin", 3),
)
pair(
    "lines: in a lambda",
    "f = lambda a: jnp.sin(a) * 2\nfloat(f(x).sum())",
    "f = lambda a: jnp.cos(a) * 2\nfloat(f(x).sum())",
    replaced("cos", "sin"),
)
pair(
    "lines: in a dictionary",
    "d = {'a': jnp.sin(x), 'b': z}\nfloat((d['a'] * d['b']).sum())",
    "d = {'a': jnp.cos(x), 'b': z}\nfloat((d['a'] * d['b']).sum())",
    replaced("cos", "sin"),
)
pair(
    "lines: in a tree",
    "t = jax.tree.map(lambda a: jnp.sin(a), [x, z])\nfloat((t[0] * t[1]).sum())",
    "t = jax.tree.map(lambda a: jnp.cos(a), [x, z])\nfloat((t[0] * t[1]).sum())",
    replaced("cos", "sin"),
)

# ---- loops -------------------------------------------------------------------------------------------------

pair(
    "loop: a check of each turn",
    "",
    "p = w\nbest = jnp.inf\nfor i in range(5):\n    l, g = jax.value_and_grad(lambda p: ((x @ p) ** 2).mean())(p)\n    if jnp.isnan(l):\n        break\n    p = p - 0.1 * g",
    NEW,
    (
        "turn",
        "the trace begins after the trace break at cell 3, line 5 (bool), with `multiply` and `subtract`; the cached one began elsewhere",
    ),
)
pair("loop: the same each turn", "", "for i in range(4):\n    print(jnp.sin(x).sum())", NEW)
pair("loop: a number that counts", "", "for i in range(4):\n    print((x * i).sum())", NEW)
pair(
    "loop: edited",
    "for i in range(3):\n    print(jnp.sin(x).sum())",
    "for i in range(3):\n    print(jnp.cos(x).sum())",
    replaced("cos", "sin", 2),
)
pair(
    "loop: a state",
    "",
    "s = x\nlazynb.sync()\nfor i in range(4):\n    s = jnp.tanh(s) + 1\n    lazynb.sync()",
    NEW,
)
