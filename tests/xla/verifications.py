"""Programs with experiments on their boundaries, and what they must show.

Down to the part *of other types* it was written down before the first run, but for the four programs of
which the answer was seen while the experiments were made (the sine, the ``where``, the two readers, the
softmax). Where the names of ends or the boundaries that exist were mistaken, they were corrected after it.
The outcomes of that part and of *functions with several operations* were noted from a run, and hold what
was found, not what was foretold; so were those of the softmax, the scatter and what is like them, of which
the kernels changed when numbers in the code became constants.

A boundary is named by what computes the array and what reads it: the primitives of the two kernels' last
instructions. ``gone``: without the supposed cause the reader computes the array itself, and the label is
*verified by recompiling*. ``next``: without the first supposed cause the array is still written and read, and
without another one that applies it is gone. ``stays``: nothing that can be taken away makes it go, so nothing is verified. ``-``:
there is no experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

NEWER = jax.__version_info__ >= (0, 11)


class Case(NamedTuple):
    make: Callable[[], Any]
    truth: dict[str, str]


CASES: dict[str, Case] = {}


def normal(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def case(truth: str, newer: str | None = None):
    """The truth: ``producer>reader what``, separated by commas; of a release after JAX 0.10, if it is another."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        said = newer if NEWER and newer is not None else truth
        pairs = [part.split() for part in said.split(",") if part.strip()]
        CASES[make.__name__] = Case(make, {pair: what for pair, what in pairs})
        return make

    return add


X, Y, W, V = normal(256, 256), normal(256, 256, seed=1), normal(256, 256, seed=2), normal(256, seed=3)
SMALL = normal(16, 16, seed=4)
INTEGERS = jnp.arange(256 * 256, dtype=jnp.int32).reshape(256, 256) % 17
BRAIN = X.astype(jnp.bfloat16)
COMPLEX = X + 1j * Y


# ---- a library reads the array: XLA's own sum has a first step that reads it from memory too ----------------


@case("sin>reduce_sum stays", newer="")
def sine_summed():
    return jnp.sin(X).sum()


@case("cos>reduce_sum stays, reduce_sum>div gone", newer="reduce_sum>div gone")
def cosine_mean_of_rows():
    return jnp.cos(X).mean(1)


@case("select_n>reduce_sum stays")
def where_summed():
    return jnp.where(X > 0, jnp.exp(X), 0.0).sum()


@case("")
def few_summed():
    """So few elements are no work for the library: one kernel."""
    return jnp.sin(SMALL).sum(1)


@case("select_n>reduce_max stays")
def largest_where():
    return jnp.where(Y > 0, X, Y).max(0)


@case("reduce_sum>tanh gone")
def sum_then_tanh():
    """The last of two steps of the sum can be computed where its few results are read."""
    return jnp.tanh(X.sum(1))


@case("")
def rows_less_their_largest():
    """YNNPACK does the whole."""
    return X - X.max(1, keepdims=True)


# ---- several readers ---------------------------------------------------------------------------------------


@case("tanh>reduce_sum gone, tanh>dot_general stays")
def two_readers_of_tanh():
    t = jnp.tanh(X)
    return t.sum(0), t @ W


@case("exp>reduce_sum gone, exp>mul gone")
def exp_summed_and_scaled():
    e = jnp.exp(X)
    return e.sum(1), e * 2


@case("exp>mul gone, exp>sort -")
def exp_scaled_and_sorted():
    e = jnp.exp(X)
    return e * 2, jnp.sort(e)


@case("exp>add gone, exp>reduce-window -, reduce-window>bitcast -, bitcast>reduce-window -")
def exp_accumulated():
    e = jnp.exp(X)
    return jnp.cumsum(e, 1), e + 1


@case("tanh>slice gone, tanh>mul gone")
def tanh_in_two_shapes():
    t = jnp.tanh(X)
    return (t + 1)[:100], t * Y


@case(
    "log>sub gone, log>copy -",
    newer="log>sub gone, log>transpose gone, transpose>copy -",
)
def logarithm_and_its_transpose():
    g = jnp.log(jnp.abs(X) + 1)
    return g - 1, g.T


@case("exp>reduce_sum gone, exp>div next, reduce_sum>div gone, div>div -")
def softmax():
    return jax.nn.softmax(X, -1)


# ---- a variable holds the value ----------------------------------------------------------------------------


@case("mul>add gone")
def product_kept():
    h = X * Y
    return h, jnp.tanh(h) + 1


@case("exp>sub gone")
def exp_kept():
    e = jnp.exp(X)
    return e, e - 1


@case("tanh>reduce_sum gone")
def kept_from_the_library():
    t = jnp.tanh(X)
    return t, t.sum(1)


@case("dot_general>tanh stays")
def product_of_matrices_kept():
    h = X @ W
    return h, jnp.tanh(h)


@case("sin>sort -")
def kept_and_sorted():
    h = jnp.sin(X)
    return h, jnp.sort(h)


# ---- products ----------------------------------------------------------------------------------------------


@case("dot_general>dot_general stays")
def product_of_products():
    return (X @ W) @ Y


@case("dot_general>max stays")
def layer():
    return jax.nn.relu(X @ W + V)


@case("exp>dot_general stays")
def product_of_exp():
    return jnp.exp(X) @ W


@case("tanh>dot_general -")
def product_of_a_transpose():
    return jnp.tanh(X).T @ W


@case("")
def product_summed():
    """YNNPACK does both."""
    return (X @ W).sum()


@case("dot_general>add stays, dot_general>tanh stays")
def product_read_twice():
    h = X @ W
    return h + 1, jnp.tanh(h)


# ---- what XLA:CPU runs on its own --------------------------------------------------------------------------


@case("mul>sort -, sort>add -")
def sorted_product():
    return jnp.sort(X * Y) + 1


@case(
    "iota>scatter-add -, broadcast_in_dim>scatter-add -, copy>scatter-add -, scatter-add>mul -",
)
def scattered():
    return X.at[jnp.arange(20)].add(1.0) * 2


@case("copy>convolution -, convolution>tanh -")
def convolution():
    image = (X * Y).reshape(1, 1, 256, 256)
    kernel = SMALL[:3, :3].reshape(1, 1, 3, 3)
    return jnp.tanh(jax.lax.conv(image, kernel, (1, 1), "SAME"))


@case(
    "mul>while -, copy>while -, broadcast_in_dim>while -, while>add -, "
    "closed_call>dynamic_update_slice -, closed_call>add -, copy>dynamic_update_slice -, "
    "copy>add -",
    newer="mul>while -, copy>while -, broadcast_in_dim>while -, while>add -, while>dynamic_update_slice -",
)
def scanned():
    """What a loop takes and gives is in memory, and its own copies are."""

    def body(carry, row):
        return carry * 0.5 + row, carry

    return jax.lax.scan(body, V, X * Y)[1] + 1


# ---- of other types ----------------------------------------------------------------------------------------


@case("mul>reduce-window -, reduce-window>reduce_sum -")
def integers_summed():
    return (INTEGERS * 3).sum()


@case("expm1>mul -, expm1>add -")
def complex_numbers():
    z = jnp.sin(COMPLEX)
    return z[:9] + 1, z * 2


@case("convert>convert -")
def brain_floats():
    t = jnp.tanh(BRAIN)
    return t[:99] + 1, t[1:] * 2


@case("reduce_sum>convert_element_type gone")
def brain_floats_summed():
    return jnp.exp(BRAIN).sum(1)


@case("")
def integers_kept():
    h = INTEGERS * INTEGERS
    return h, (h + 1) % 7


# ---- functions with several operations ---------------------------------------------------------------------


@case(
    "reduce_sum>sub stays, reduce_sum>div stays, sub>reduce_sum gone, reduce_sum>sqrt gone, sqrt>div -",
)
def normalized():
    h = X - X.mean(-1, keepdims=True)
    return h / jnp.sqrt((h * h).mean(-1, keepdims=True) + 1e-5)


@case("reduce_sum>div gone/stays, div>reduce_sum gone")
def variance():
    return X.var(0)


@case(
    "exp>reduce_sum next, exp>div next, reduce_sum>div gone, div>div -, div>dot_general stays",
)
def attention():
    scores = jax.nn.softmax(X @ W.T / 16.0, -1)
    return scores @ Y


@case(
    "reduce_max>select_n stays, select_n>reduce_sum stays, select_n>add -, reduce_sum>add gone",
)
def logsumexp_of_rows():
    return jax.nn.logsumexp(X, 1)


@case("dot_general>mul stays, mul>dot_general stays")
def gelu_layer():
    return jax.nn.gelu(X @ W + V) @ Y


@case(
    "dot_general>add_any stays, add_any>transpose -",
    newer="dot_general>mul stays, mul>transpose -",
)
def gradient_of_a_loss():
    return jax.grad(lambda w: jnp.tanh(X @ w).sum())(W)


@case(
    "dot_general>max stays, dot_general>select_n stays, max>dot_general stays, max>transpose -, "
    "dot_general>broadcast_in_dim stays, broadcast_in_dim>transpose -, "
    "broadcast_in_dim>dot_general stays, select_n>transpose -",
)
def gradient_of_two_layers():
    def loss(w, v):
        return ((jax.nn.relu(X @ w) @ v - Y) ** 2).mean()

    return jax.grad(loss, (0, 1))(W, W)


@case(
    "exp>reduce_sum -, reduce_sum>div stays, div>reduce_sum next, reduce_sum>sqrt gone",
)
def standard_deviation_and_mean():
    h = jnp.exp(X)
    return h.std(), h.mean()


@case("tanh>dot_general stays, dot_general>tanh stays")
def in_one_function():
    @jax.jit
    def several(x):
        for _ in range(3):
            x = jnp.tanh(x) @ W
        return x

    return several(X)


@case("exp>exp -, exp>add -/gone")
def kept_in_one_function():
    @jax.jit
    def several(x):
        a = jnp.exp(x)
        b = jnp.exp(a * 0.5)
        return a, b, b + a

    return several(X)


@case("exp>reduce gone, exp>mul gone")
def largest_places():
    e = jnp.exp(X)
    return jnp.argmax(e, 1), e * 2


@case(
    "convert_element_type>while -, xor>while -, add>while -, copy>while -, while>erf_inv -, "
    "copy>copy -, copy>add -, erf_inv>reduce_sum gone",
    newer="convert_element_type>while -, xor>while -, add>while -, copy>while -, while>erf_inv -, "
    "while>while -, while>add -, erf_inv>reduce_sum gone",
)
def random_numbers():
    return jax.random.normal(jax.random.key(0), (256, 256)).sum()


@case("exp>mul gone, exp>reduce_sum gone, mul>concatenate -")
def many_parts():
    e = jnp.exp(X)
    return jnp.concatenate([e[k : k + 9] * k for k in range(12)]), e.sum()


@case("exp>gather gone, exp>add gone")
def gathered():
    e = jnp.exp(X)
    return e[jnp.array([3, 5, 7])], e + 1


@case("exp>mul gone, mul>tanh gone, tanh>add gone")
def chain_of_kept():
    a = jnp.exp(X)
    b = a * Y
    c = jnp.tanh(b)
    return a, b, c, c + 1


@case("exp>reduce_sum gone, exp>mul gone")
def three_readers():
    e = jnp.exp(X)
    return e.sum(0), e.sum(1), e * Y


@case("exp>reduce_sum gone, exp>div gone, reduce_sum>div gone, div>div -")
def divided_by_its_sum():
    e = jnp.exp(X)
    return e / e.sum()


@case("add>reduce_sum gone, add>reduce_max gone, add>mul gone")
def products_shared():
    h = X * Y + W
    return h.sum(1), h.max(0), h[:5] * 2


@case("reduce_sum>sqrt gone")
def norms():
    return jnp.sqrt((X * X).sum(1)), jnp.abs(X).max(1)
