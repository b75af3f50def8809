"""A cell that runs again is a hit: what it is called, in which order its results wait and what an earlier run left
alive make no other program."""

from __future__ import annotations

import pytest

import lazynb
from lazynb.running.miss_log import miss_log

DATA = """
x = jax.random.normal(jax.random.key(0), (4, 3))
w, v = jnp.ones((3, 5)), jnp.ones((5, 2))
big = jnp.ones((600, 600)) / 600
lazynb.sync()
"""

CELLS = {
    "a derivative through a variance": """
def loss(p):
    h = x @ p[0]
    h = h / h.var()
    return (h @ p[1]).mean()
l, g = jax.value_and_grad(loss)((w, v))
float(l)
""",
    "a derivative through a standard deviation": """
def loss(p):
    h = x @ p["w"]
    h = (h - h.mean(0)) / (h.std(0) + 1e-3)
    return (h @ p["v"]).sum()
l, g = jax.value_and_grad(loss)({"v": v, "w": w})
print(l)
""",
    "three gradients": """
f = lambda a, b, c: (jax.nn.softmax(a @ b, -1) @ c).var()
g = jax.grad(f, (2, 0, 1))(x, w, v)
float(g[0].sum())
""",
    "a jitted loss": """
@jax.jit
def loss(p):
    h = x @ p[0]
    return ((h / h.var()) @ p[1]).mean()
l, g = jax.value_and_grad(loss)((w, v))
float(l)
""",
    "large results": """
def loss(p):
    h = big @ p[0]
    return ((h / h.var()) @ p[1]).mean()
l, g = jax.value_and_grad(loss)((big + 0, big * 2))
float(l)
""",
    "a forward derivative": """
y, t = jax.jvp(lambda a: a / a.var(), (x,), (x,))
float(t.sum())
""",
    "a vector of derivatives": """
j = jax.vmap(jax.grad(lambda r: r.var() * jnp.tanh(r).mean()))(x)
float(j.sum())
""",
    "what an earlier run left": """
h = jnp.sin(x)
q = h.var() * 3
k = jnp.cos(h)
float(q)
""",
    "work that waits from run to run": """
h = jnp.sin(x)
q = h.var()
""",
    "a dictionary of results": """
out = {}
for name, f in (("a", jnp.sin), ("b", jnp.tanh), ("c", jnp.exp)):
    out[name] = jax.grad(lambda t: f(t).var())(x)
lazynb.sync()
""",
    "state that is updated": """
state = state_0
for _ in range(3):
    state = state - 0.1 * jax.grad(lambda s: (s / s.var()).mean())(state)
    lazynb.sync()
""",
    "a break in the middle": """
l, g = jax.value_and_grad(lambda p: (p / p.var()).sum())(w)
if l > 0:
    w2 = w - g
w3 = w + g
float(w3.sum())
""",
}


@pytest.mark.parametrize("name", CELLS)
def test_an_unchanged_cell_compiles_once(name, notebook):
    notebook.run("import lazynb" + DATA + "state_0 = big * 1\nlazynb.sync()")
    notebook.run(CELLS[name])
    for _ in range(3):
        notebook.run("lazynb.sync()")
        before = miss_log.total
        notebook.run(CELLS[name])
        assert miss_log.total == before


def test_a_run_after_another_cell_compiles_nothing(notebook):
    notebook.run("import lazynb" + DATA)
    cell = CELLS["a derivative through a variance"]
    notebook.run(cell)
    notebook.run("w = w - 0.1 * g[0]\nlazynb.sync()")
    before = miss_log.total
    notebook.run(cell)
    notebook.run("del l, g")
    notebook.run(cell)
    assert miss_log.total == before


FLAX = """
import flax.linen as nn
import optax
class Net(nn.Module):
    @nn.compact
    def __call__(self, a):
        a = nn.LayerNorm()(nn.Dense(8)(a))
        return nn.Dense(2)(nn.gelu(a))
net = Net()
params = net.init(jax.random.key(0), x)
tx = optax.adam(1e-2)
opt = tx.init(params)
lazynb.sync()
for _ in range(4):
    l, g = jax.value_and_grad(lambda p: (net.apply(p, x) ** 2).mean())(params)
    u, opt = tx.update(g, opt)
    params = optax.apply_updates(params, u)
    float(l)
"""


def test_a_loop_with_layer_norm_compiles_once(notebook):
    pytest.importorskip("flax")
    pytest.importorskip("optax")
    notebook.run("import lazynb" + DATA)
    notebook.run(FLAX)
    before = miss_log.total
    notebook.run(FLAX)
    notebook.run(FLAX.replace("Net", "Model"))
    assert miss_log.total == before


STEP = "@jax.jit\ndef step(a):\n    return jnp.sin(a) * 2\n"
RENAMED = {
    "a jitted function": STEP + "y = step(x)\nfloat(y.sum())",
    "a jitted function in another": STEP
    + "@jax.jit\ndef outer(a):\n    return step(a) + 1\nfloat(outer(x).sum())",
    "a derivative": STEP + "g = jax.grad(lambda a: step(a).sum())(x)\nfloat(g.sum())",
    "a batch": STEP + "y = jax.vmap(step)(x)\nfloat(y.sum())",
    "a loop": "c, _ = jax.lax.scan(jax.jit(lambda c, t: (c + t.sum(), None)), 0., x)\n"
    + STEP
    + "float(step(c))",
    "a branch": STEP + "y = jax.lax.cond(x.sum() > 0, step, lambda a: a, x)\nfloat(y.sum())",
}


@pytest.mark.parametrize("name", RENAMED)
def test_renaming_a_function_is_a_hit(name, notebook):
    notebook.run("import lazynb" + DATA)
    notebook.run(RENAMED[name])
    before = miss_log.total
    notebook.run(RENAMED[name].replace("step", "update"))
    assert miss_log.total == before


def test_a_renamed_function_is_shown_under_its_name(notebook):
    notebook.run("import lazynb" + DATA)
    notebook.run(STEP + "y = step(x)\nfloat(y.sum())")
    notebook.run(STEP.replace("step", "update") + "y = update(x)")
    assert {node.call for node in lazynb.graph(notebook["y"]).nodes if node.kind == "op"} == {"update"}
    notebook.run("float(y.sum())")
    notebook.run(STEP + "y = step(x)")
    assert {node.call for node in lazynb.graph(notebook["y"]).nodes if node.kind == "op"} == {"step"}
    notebook.run("lazynb.sync()")
