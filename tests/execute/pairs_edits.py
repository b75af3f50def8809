"""More pairs of programs: one edit of the user's, told as that edit. The truths were written before they were run."""

from __future__ import annotations

from execute.pairs import NEW, PLAIN, pair

CELL = "cell 3, line 1"


def replaced(now: str, before: str, line: int = 1) -> tuple[str, str]:
    return "replaced", f"`{now}` in place of `{before}`: cell 3, line {line}"


def argument(name: str, function: str, before: str, now: str, line: int = 1) -> tuple[str, str]:
    return "parameter", f"`{name}` of `{function}` was {before}, now {now}: cell 3, line {line}"


def added(names: str, line: int = 1) -> tuple[str, str]:
    return "added", f"{names} {'were' if ' and ' in names else 'was'} added: cell 3, line {line}"


def removed(names: str, line: int = 1) -> tuple[str, str]:
    several = " and " in names
    was, it = ("were", "they were") if several else ("was", "it was")
    return "removed", f"{names} {was} removed: {it} at cell 2, line {line}"


# ---- one expression ----------------------------------------------------------------------------------------

ONE = "float((jnp.tanh(jnp.sin(x) @ w) * 2 + 1).sum())"
pair("one: sin to cos", ONE, ONE.replace("sin", "cos"), replaced("cos", "sin"))
pair("one: tanh to exp", ONE, ONE.replace("tanh", "exp"), replaced("exp", "tanh"))
pair("one: sum to mean", ONE, ONE.replace(".sum", ".mean"), replaced("mean", "sum"))
pair("one: sum to max", ONE, ONE.replace(".sum", ".max"), replaced("max", "sum"))
pair("one: plus to minus", ONE, ONE.replace("+ 1", "- 1"), replaced("subtract", "add"))
pair("one: times to divided by", ONE, ONE.replace("* 2", "/ 2"), replaced("divide", "multiply"))
pair("one: exp around", ONE, ONE.replace("jnp.sin(x)", "jnp.exp(jnp.sin(x))"), added("`exp`"))
pair(
    "one: exp around all",
    ONE,
    ONE.replace("float((", "float(jnp.exp((").replace("1).sum", "1)).sum"),
    added("`exp`"),
)
pair("one: an activation off", ONE, ONE.replace("jnp.sin(x)", "x"), removed("`sin`"))
pair("one: tanh off", ONE, ONE.replace("jnp.tanh(jnp.sin(x) @ w)", "(jnp.sin(x) @ w)"), removed("`tanh`"))
pair("one: an addition more", ONE, ONE.replace("+ 1)", "+ 1 + 3)"), added("`add`"))
pair(
    "one: an axis",
    ONE.replace("sum()", "sum(axis=0)[0]"),
    ONE.replace("sum()", "sum(axis=1)[0]"),
    argument("axis", "sum", "0", "1"),
)
pair(
    "one: two functions around",
    ONE,
    ONE.replace("jnp.sin(x)", "jnp.sqrt(jnp.abs(jnp.sin(x)))"),
    added("`abs` and `sqrt`"),
)
pair("one: add to multiply", "float((x + z).sum())", "float((x * z).sum())", replaced("multiply", "add"))
pair(
    "one: multiply to matmul",
    "float((x.T * z.T).sum())",
    "float((x.T / z.T).sum())",
    replaced("divide", "multiply"),
)
pair("one: sum to prod", "float(jnp.sin(x).sum())", "float(jnp.sin(x).prod())", replaced("prod", "sum"))
pair("one: exp appended", "float(jnp.sin(x).sum())", "float(jnp.exp(jnp.sin(x)).sum())", added("`exp`"))
pair("one: exp taken off", "float(jnp.exp(jnp.sin(x)).sum())", "float(jnp.sin(x).sum())", removed("`exp`"))
pair("one: negative", "float(jnp.sin(x).sum())", "float((-jnp.sin(x)).sum())", added("`negative`"))
pair("one: comparison", "float((x > z).sum())", "float((x < z).sum())", replaced("less", "greater"))
pair("one: equality", "float((x == z).sum())", "float((x != z).sum())", replaced("not_equal", "equal"))
pair(
    "one: a method of the same sum",
    "float(jnp.cos(x).max())",
    "float(jnp.cos(x).min())",
    replaced("min", "max"),
)
pair(
    "one: transposed",
    "float((x * 2).sum(axis=0)[0])",
    "float((x * 2).T.sum(axis=0)[0])",
    added("`transpose`"),
)
pair("one: square to abs", "float(jnp.square(x).sum())", "float(jnp.abs(x).sum())", replaced("abs", "square"))
pair("one: print", "print(jnp.sin(x).sum())", "print(jnp.cos(x).sum())", replaced("cos", "sin"))
pair("one: bool", "bool(jnp.sin(x).any())", "bool(jnp.sin(x).all())", replaced("all", "any"))
pair("one: another comment", ONE, "# what it is\n" + ONE)
pair("one: spaces and brackets", ONE, ONE.replace("* 2 + 1", "*2+(1)"))
pair("one: over two lines", ONE, "float(\n    (jnp.tanh(jnp.sin(x) @ w) * 2 + 1).sum()\n)")
pair("one: another number", ONE, ONE.replace("* 2", "* 3"))

# ---- arguments of library functions ------------------------------------------------------------------------

for name, function, text, before, now in (
    ("roll", "roll", "y = jnp.roll(x, {})", "1", "2"),
    ("roll by name", "roll", "y = jnp.roll(x, shift={})", "1", "3"),
    ("flip", "flip", "y = jnp.flip(x, {}) * z", "0", "1"),
    ("softmax", "softmax", "y = jax.nn.softmax(x, {}) * z", "0", "1"),
    ("log_softmax", "log_softmax", "y = jax.nn.log_softmax(x, axis={}) * z", "0", "-1"),
    ("gelu", "gelu", "y = jax.nn.gelu(x, approximate={})", "True", "False"),
    ("cumsum", "cumsum", "y = jnp.cumsum(x, axis={}) * z", "0", "1"),
    ("sort", "sort", "y = jnp.sort(x, axis={}) * z", "0", "1"),
    ("argsort", "argsort", "y = jnp.argsort(x, axis={}) * z", "0", "1"),
    ("stack", "stack", "y = jnp.stack([x, z], axis={})", "0", "1"),
    ("concatenate", "concatenate", "y = jnp.concatenate([x, z], axis={})", "0", "1"),
    ("repeat", "repeat", "y = jnp.repeat(x, {}, axis=0)", "2", "3"),
    ("tile", "tile", "y = jnp.tile(x, {})", "2", "3"),
    ("pad", "pad", "y = jnp.pad(x, {})", "1", "2"),
    ("var", "var", "y = jnp.var(x, ddof={}) + z", "0", "1"),
    ("mean", "mean", "y = x.mean({}).sum()", "0", "1"),
    ("mean keepdims", "mean", "y = x.mean(0, keepdims={}) + z", "True", "False"),
    ("sum dtype", "sum", "y = jnp.sum(x, dtype={})", "jnp.float32", "jnp.float16"),
    ("expand_dims", "expand_dims", "y = jnp.expand_dims(x, {}) * 2", "0", "1"),
    ("swapaxes", "moveaxis", "y = jnp.moveaxis(jnp.stack([x, x]), 0, {}) * 2", "1", "2"),
    ("tensordot", "tensordot", "y = jnp.tensordot(x, z, axes={})", "2", "((0, 1), (0, 1))"),
    ("einsum", "einsum", "y = jnp.einsum({}, x, z)", "'ij,ij->i'", "'ij,ij->j'"),
    ("one_hot", "one_hot", "y = jax.nn.one_hot(jnp.arange(3), {})", "3", "5"),
    ("linspace", "linspace", "y = jnp.linspace(0., 1., {})", "4", "6"),
    ("eye", "eye", "y = jnp.eye({}) * 2", "3", "4"),
    ("matmul", "matmul", "y = jnp.matmul(x, w, precision={})", "None", "'highest'"),
    ("leaky_relu", "elu", "y = jax.nn.celu(x, z) + jax.nn.{}(x)", "elu", "selu"),
    ("top_k", "top_k", "y = jax.lax.top_k(x, {})[0]", "1", "2"),
    ("norm", "norm", "y = jnp.linalg.norm(x, axis={})", "0", "1"),
    ("norm order", "norm", "y = jnp.linalg.norm(x, ord={}, axis=0)", "1", "2"),
    ("diff", "diff", "y = jnp.diff(x, {}, axis=0)", "1", "2"),
    ("tril", "tril", "y = jnp.tril(x, {})", "0", "1"),
    ("split", "split", "y = jnp.split(x, {})[0]", "2", "4"),
    ("squeeze", "squeeze", "y = jnp.squeeze(x[None, :, :, None], {}) + 1", "0", "3"),
    ("argmax", "argmax", "y = jnp.argmax(x, axis={})", "0", "1"),
    ("quantile", "quantile", "y = jnp.quantile(x, 0.5, method={})", "'linear'", "'nearest'"),
    ("logsumexp", "logsumexp", "y = jax.nn.logsumexp(x, axis={}).sum()", "0", "1"),
    ("standardize", "standardize", "y = jax.nn.standardize(x, axis={}) * z", "0", "1"),
):
    parameter = {
        "roll": "shift", "roll by name": "shift", "gelu": "approximate", "repeat": "repeats", "tile": "reps",
        "pad": "pad_width", "var": "ddof", "mean keepdims": "keepdims", "sum dtype": "dtype",
        "swapaxes": "destination", "tensordot": "axes", "einsum": "subscripts", "one_hot": "num_classes",
        "linspace": "num", "eye": "N", "matmul": "precision", "top_k": "k", "norm order": "ord", "diff": "n",
        "tril": "k", "split": "indices_or_sections", "quantile": "method",
    }.get(name, "axis")  # fmt: skip
    cause = argument(parameter, function, before.removeprefix("jnp."), now.removeprefix("jnp."))
    if name == "leaky_relu":
        cause = replaced("selu", "elu")
    same = name in ("var", "tensordot")  # a number that is data; the same axes in other words
    told = () if same else (cause,)
    pair(
        f"argument: {name}",
        text.format(before) + "\nfloat(y.sum())",
        text.format(now) + "\nfloat(y.sum())",
        *told,
    )

pair(
    "argument: left out",
    "float(jax.nn.gelu(x).sum())",
    "float(jax.nn.gelu(x, approximate=False).sum())",
    argument("approximate", "gelu", "True", "False"),
)
pair(
    "argument: given as it was",
    "float(jax.nn.gelu(x).sum())",
    "float(jax.nn.gelu(x, approximate=True).sum())",
)
pair("argument: by name, as it was", "float(jnp.sum(x, 0)[0])", "float(jnp.sum(x, axis=0)[0])")
pair(
    "argument: axis of roll",
    "float(jnp.roll(x, 1)[0, 0])",
    "float(jnp.roll(x, 1, 0)[0, 0])",
    argument("axis", "roll", "None", "0"),
)
pair(
    "argument: a method's axis", "float(x.sum(0)[0])", "float(x.sum(1)[0])", argument("axis", "sum", "0", "1")
)
pair(
    "argument: a negative axis",
    "float(x.sum(0)[0])",
    "float(x.sum(-1)[0])",
    argument("axis", "sum", "0", "-1"),
)
pair(
    "argument: a tuple",
    "float(jnp.stack([x, z]).sum((0, 1))[0])",
    "float(jnp.stack([x, z]).sum((0, 2))[0])",
    argument("axis", "sum", "(0, 1)", "(0, 2)"),
)
pair(
    "argument: reshape",
    "float(x.reshape(2, 6)[0, 0] + 1)",
    "float(x.reshape((3, 4))[0, 0] + 1)",
    argument("shape", "reshape", "(2, 6)", "(3, 4)"),
)
pair(
    "argument: astype",
    "float(x.astype(jnp.int32).sum())",
    "float(x.astype(jnp.bfloat16).sum())",
    argument("dtype", "astype", "int32", "bfloat16"),
)

# ---- transformations ---------------------------------------------------------------------------------------

GRAD = "def f(a, b):\n    return (jnp.sin(a) * b).sum()\ng = jax.grad(f, 0)(x, z)\nfloat(g.sum())"
pair("grad: argnums", GRAD, GRAD.replace("f, 0", "f, 1"), argument("argnums", "grad", "0", "1", 3))
pair(
    "grad: argnums by name",
    GRAD,
    GRAD.replace("f, 0", "f, argnums=1"),
    argument("argnums", "grad", "0", "1", 3),
)
LATER = "def f(a, b):\n    return (jnp.sin(a) * b).sum()\ng = jax.grad(f, argnums=0)\nfloat(g(x, z).sum())"
pair(
    "grad: argnums in a line of its own",
    LATER,
    LATER.replace("=0", "=1"),
    argument("argnums", "grad", "0", "1", 3),
)
pair("grad: in the function", LATER, LATER.replace("sin", "cos"), replaced("cos", "sin", 2))
pair("grad: an operator in the function", LATER, LATER.replace("* b", "+ b"), replaced("add", "multiply", 2))
for name, text, before, now, cause in (
    ("vmap: in_axes", "y = jax.vmap(lambda a, b: jnp.dot(a, b), in_axes={})(x, z)", "(0, 0)", "(1, 1)", argument("in_axes", "vmap", "(0, 0)", "(1, 1)")),
    ("vmap: out_axes", "y = jax.vmap(jnp.sin, out_axes={})(x) + 1", "0", "1", argument("out_axes", "vmap", "0", "1")),
    ("vmap: the function", "y = jax.vmap({})(x)", "jnp.sin", "jnp.cos", argument("fun", "vmap", "sin", "cos")),
    ("vmap: in the function", "y = jax.vmap(lambda r: jnp.{}(r) * 2)(x)", "sin", "cos", replaced("cos", "sin")),
    ("scan: reverse", "y, _ = jax.lax.scan(lambda c, t: (c * t.sum(), None), 1., x, reverse={})", "False", "True", argument("reverse", "scan", "False", "True")),
    ("scan: unroll", "y, _ = jax.lax.scan(lambda c, t: (c * t.sum(), None), 1., x, unroll={})", "1", "2", argument("unroll", "scan", "1", "2")),
    ("fori_loop: upper", "y = jax.lax.fori_loop(0, {}, lambda i, c: c * 2, x)", "3", "5", argument("upper", "fori_loop", "3", "5")),
    ("fori_loop: the body", "y = jax.lax.fori_loop(0, 3, lambda i, c: c {} 2, x)", "*", "+", ("nested", "in `scan`: `add` in place of `multiply`: cell 3, line 1")),
    ("while_loop: the body", "y = jax.lax.while_loop(lambda c: c.sum() < 50, lambda c: c {} 2, x)", "*", "+", ("nested", "in `while`: `add` in place of `multiply`: cell 3, line 1")),
    ("cond: a named branch", "y = jax.lax.cond(x.sum() > 0, jnp.sin, {}, x)", "jnp.cos", "jnp.exp", argument("false_fun", "cond", "cos", "exp")),
    ("cond: the other branch", "y = jax.lax.cond(x.sum() > 0, {}, jnp.sin, x)", "jnp.cos", "jnp.exp", argument("true_fun", "cond", "cos", "exp")),
    ("jit: donate_argnums", "y = jax.jit(lambda a: a * 2, donate_argnums={})(jnp.ones((300, 300)))", "()", "0", argument("donate_argnums", "jit", "()", "0")),
    ("jit: in a lambda", "y = jax.jit(lambda a: jnp.{}(a) * 2)(x)", "sin", "cos", ("nested", "in `lambda`: `cos` in place of `sin`: cell 3, line 1")),
    ("jvp: the function", "y = jax.jvp({}, (x,), (z,))[1]", "jnp.sin", "jnp.cos", argument("fun", "jvp", "sin", "cos")),
    ("checkpoint: in the function", "y = jax.grad(jax.checkpoint(lambda a: jnp.{}(a).sum()))(x)", "sin", "tanh", ("nested", "in `checkpoint`: `tanh` in place of `sin`: cell 3, line 1")),
):  # fmt: skip
    pair(name, text.format(before) + "\nfloat(y.sum())", text.format(now) + "\nfloat(y.sum())", cause)

STATIC = "import functools\n@functools.partial(jax.jit, static_argnums=1)\ndef power(a, n):\n    return a ** n\nfloat(power(x, 2).sum())"
pair("static argument", STATIC, STATIC.replace("x, 2", "x, 3"), argument("n", "power", "2", "3", 5))
NAMED = STATIC.replace("argnums=1", "argnames='n'").replace("x, 2", "x, n=2")
pair("static argument by name", NAMED, NAMED.replace("x, n=2", "x, n=4"), argument("n", "power", "2", "4", 5))
pair(
    "static argument: the body",
    STATIC,
    STATIC.replace("a ** n", "jnp.sin(a) ** n"),
    ("nested", "in `power`: `sin` was added: cell 3, line 4"),
)

# ---- libraries ---------------------------------------------------------------------------------------------

DROPOUT = "import flax.linen as nn\ny = nn.Dropout(0.5, deterministic=False).apply({}, x, rngs={'dropout': jax.random.key(0)})\nfloat(y.sum())"
pair(
    "flax: Dropout",
    DROPOUT,
    DROPOUT.replace("False", "True"),
    argument("deterministic", "Dropout", "False", "True", 2),
)
OPTAX = "import optax\ntx = optax.adam(1e-2)\nst = tx.init(w)\nu, st = tx.update(w, st)\nfloat(u.sum())"
pair("optax: sgd for adam", OPTAX, OPTAX.replace("adam", "sgd"), replaced("sgd", "adam", 2))
pair(
    "optax: adamw for adam",
    OPTAX.replace("(w, st)", "(w, st, w)"),
    OPTAX.replace("(w, st)", "(w, st, w)").replace("adam", "adamw"),
    replaced("adamw", "adam", 2),
)
pair(
    "optax: nesterov",
    OPTAX,
    OPTAX.replace("(1e-2)", "(1e-2, nesterov=True)"),
    argument("nesterov", "adam", "False", "True", 2),
)
RANDOM = "k = jax.random.key(0)\ny = jax.random.normal(k, (3,))\nfloat(y.sum())"
pair(
    "random: uniform for normal",
    RANDOM,
    RANDOM.replace("normal", "uniform"),
    replaced("uniform", "normal", 2),
)
pair("random: shape", RANDOM, RANDOM.replace("(3,)", "(5,)"), argument("shape", "normal", "(3,)", "(5,)", 2))
pair(
    "random: dtype",
    RANDOM,
    RANDOM.replace("(3,)", "(3,), jnp.bfloat16"),
    argument("dtype", "normal", "None", "bfloat16", 2),
)
pair(
    "random: impl",
    RANDOM,
    RANDOM.replace("key(0)", "key(0, impl='rbg')"),
    argument("impl", "key", "None", "'rbg'"),
)
pair(
    "random: the generator set for all",
    RANDOM,
    RANDOM,
    ("configuration", "JAX's setting jax_default_prng_impl is rbg, was threefry2x32"),
    between="jax.config.update('jax_default_prng_impl', 'rbg')",
)
pair(
    "the rest of the program",
    PLAIN,
    "q = jnp.linalg.svd(z)[1]\nfor k in range(2):\n    q = q * jnp.exp(q)\nprint(q)",
    NEW,
)
