"""A notebook of different cells in a row, as people write them: what has nothing to do with an earlier cell is
told as new, and what was copied and edited is told by its edit."""

from __future__ import annotations

from lazynb.compare.misses.compilation_causes import causes_of
from lazynb.running.miss_log import miss_log

# Each cell with what is true of the programs that it compiles: the kinds of the causes of each.
CELLS = [
    (
        "import jax, jax.numpy as jnp, numpy as np\nX = jnp.asarray(np.arange(600.).reshape(150, 4) % 7, jnp.float32)",
        [],
    ),
    (
        "mean, std = X.mean(0), X.std(0)\nXn = (X - mean) / std\nprint(Xn.shape, float(Xn.sum()))",
        [["new"], ["new"]],
    ),
    (
        "import lazynb\ndef init(key, sizes):\n    keys = jax.random.split(key, len(sizes))\n"
        "    return [(jax.random.normal(k, (m, n)) * 0.1, jnp.zeros(n))"
        " for k, m, n in zip(keys, sizes[:-1], sizes[1:])]\n"
        "params = init(jax.random.key(0), [4, 16, 3])\nlazynb.sync()",
        [["new"]],
    ),
    (
        "def predict(params, x):\n    for w, b in params[:-1]:\n        x = jnp.tanh(x @ w + b)\n"
        "    w, b = params[-1]\n    return x @ w + b\nlogits = predict(params, Xn)\nprint(logits[:2])",
        [["new"]],
    ),
    (
        "y = jnp.arange(150) % 3\ndef loss(params, x, y):\n    logits = predict(params, x)\n"
        "    return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean()\n"
        "print(float(loss(params, Xn, y)))",
        [["new"]],
    ),
    (
        "for step in range(3):\n    l, g = jax.value_and_grad(loss)(params, Xn, y)\n"
        "    params = jax.tree.map(lambda p, g: p - 0.5 * g, params, g)\n    float(l)",
        None,  # its turns are told by each other
    ),
    ("C = jnp.corrcoef(Xn.T)\nvals, vecs = jnp.linalg.eigh(C)\nprint(vals)", [["new"]]),
    (
        "t = jnp.linspace(0, 10, 200)\nsignal = jnp.sin(2*jnp.pi*t) + 0.5*jnp.cos(4*jnp.pi*t)\n"
        "spec = jnp.abs(jnp.fft.rfft(signal))\nint(spec.argmax())",
        [["new"]],
    ),
    ("float(jax.nn.gelu(Xn, approximate=True).sum())", [["new"]]),
    ("float(jax.nn.gelu(Xn, approximate=False).sum())", [["parameter"]]),
    ("def f(a, b): return (a*b).sum()\nfloat(jax.grad(f, 0)(X, Xn * 2).sum())", [["new"]]),
    ("def f(a, b): return (a*b).sum()\nfloat(jax.grad(f, 1)(X, Xn * 2).sum())", [["parameter"]]),
    ("a = jnp.arange(10)\nb = a[a > 4]\nprint(b)", [["new"], ["new"]]),
    ("print(jnp.histogram(Xn[:, 0], bins=5)[0])", [["new"]]),
]


def test_each_cells_miss_is_explained_without_unrelated_cells(notebook):
    found = []
    for text, _ in CELLS:
        before = miss_log.total
        notebook.run(text)
        misses = [miss for miss in miss_log.misses if miss.number >= before]
        found.append([[cause.kind for cause in causes_of(miss)] for miss in misses])
    expected = [kinds if kinds is not None else got for (_, kinds), got in zip(CELLS, found, strict=True)]
    assert found == expected
    assert found[5][0] == ["new"], "the loop calls the same functions for other things"


def test_a_magic_cell_is_not_reported_as_split_or_merged(notebook):
    """The body of a cell magic is compiled under a name of its own: it is one cell all the same."""
    notebook.run("import lazynb\nx = jnp.linspace(-1, 1, 1 << 14).reshape(128, 128)\nlazynb.sync(x)")
    notebook.run("%%compile\nh = x * 0.1 + 3\nq = jnp.maximum(h, -2.5)\nq.sum()")
    notebook.run("%%compile\nh = x @ x + 1.0\na = jax.nn.gelu(h)\nloss = (a * a).sum(axis=1).mean()\nloss")
    kinds = {cause.kind for miss in miss_log.misses for cause in causes_of(miss)}
    assert len(miss_log.misses) >= 3
    assert not kinds & {"cell_split", "cell_merged"}
