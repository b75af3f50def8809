"""Idioms of public NumPy code, each a function of a vector of twelve float32 numbers."""

# ruff: noqa

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

IDIOMS: dict[str, Callable[[Any], Any]] = {}


def idiom(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    IDIOMS[function.__name__] = function
    return function


@idiom
def heat(x):
    u = np.copy(x)
    for _ in range(5):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


@idiom
def kmeans(x):
    p = np.abs(x).reshape(-1, 2)
    c = p[:3].copy()
    for _ in range(4):
        d = ((p[:, None] - c[None]) ** 2).sum(-1)
        l = d.argmin(1)
        for k in range(3):
            if (l == k).any():
                c[k] = p[l == k].mean(axis=0)
    return c, l


@idiom
def life(x):
    b = (np.abs(x).reshape(3, 4) > 0.5).astype(int)
    for _ in range(3):
        n = sum(np.roll(np.roll(b, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        b = ((n == 3) | ((b == 1) & (n == 2))).astype(int)
    return b


@idiom
def life_convolve(x):
    b = np.where(np.abs(x).reshape(3, 4) > 0.5, 1, 0)
    n = np.zeros_like(b)
    n[1:-1, 1:-1] = b[:-2, :-2] + b[:-2, 1:-1] + b[1:-1, 2:]
    birth = (n == 3) & (b == 0)
    b[...] = 0
    b[birth] = 1
    return b, n


@idiom
def rk4(x):
    f = lambda t, y: np.sin(t) * y
    y = np.cos(x)
    h = 0.1
    for i in range(3):
        k1 = f(i * h, y)
        k2 = f(i * h + h / 2, y + h / 2 * k1)
        k3 = f(i * h + h / 2, y + h / 2 * k2)
        k4 = f(i * h + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@idiom
def sorting(x):
    i = np.argsort(-np.abs(x))
    s = np.sort(x)
    s[::2] = 0
    return np.abs(x)[i], s, np.searchsorted(np.sort(x), 0.0)


@idiom
def masked_stats(x):
    y = np.copy(x)
    m = y > 0
    return (
        y[m].mean(),
        y[~m].std(),
        np.where(m, y, np.nan),
        np.nanmean(np.where(m, y, np.nan)),
        m.sum(),
        np.count_nonzero(m),
    )


@idiom
def image_filter(x):
    im = np.abs(x).reshape(3, 4)
    pad = np.pad(im, 1)
    out = np.zeros_like(im)
    for i in range(3):
        for j in range(3):
            out += pad[i : i + 3, j : j + 4] / 9
    return out, np.gradient(im)[0]


@idiom
def monte_carlo(x):
    u = np.abs(np.concatenate([x, x]))
    inside = (u[::2] ** 2 + u[1::2] ** 2) < 1
    return 4 * inside.mean(), inside.sum() / inside.size


@idiom
def windows(x):
    w = np.lib.stride_tricks.sliding_window_view(np.copy(x), 3)
    return w.mean(-1), w.max(axis=1), np.convolve(x, np.ones(3) / 3, "valid")


@idiom
def standardize(x):
    y = np.copy(x).reshape(4, 3)
    y -= y.mean(0)
    y /= y.std(0) + 1e-8
    return y


@idiom
def softmax(x):
    e = np.exp(x - np.max(x))
    e /= e.sum()
    return e, e.sum()


@idiom
def one_hot(x):
    l = np.argmax(np.abs(x).reshape(4, 3), 1)
    o = np.zeros((4, 3))
    o[np.arange(4), l] = 1
    return o, l, np.eye(3)[l]


@idiom
def cumulative(x):
    c = np.cumsum(np.abs(x))
    c /= c[-1]
    return c, np.diff(c), np.searchsorted(c, [0.25, 0.5])


@idiom
def gram(x):
    a = np.abs(x).reshape(4, 3)
    q = a.copy()
    for i in range(3):
        for j in range(i):
            q[:, i] -= (q[:, j] @ a[:, i]) * q[:, j]
        q[:, i] /= np.linalg.norm(q[:, i])
    return q, np.round(q.T @ q, 4)


@idiom
def power_iteration(x):
    a = np.outer(x[:3], x[:3]) + np.eye(3)
    v = np.ones(3)
    for _ in range(5):
        v = a @ v
        v = v / np.linalg.norm(v)
    return v, v @ a @ v


@idiom
def rows(x):
    s = np.stack([x, x * 2])
    for row in s:
        row -= row.mean()
    for i, row in enumerate(s):
        s[i] = row * 2
    return s


@idiom
def enumerate_zip(x):
    y = np.copy(x)
    t = 0
    for i, v in enumerate(y):
        t = t + v * i
    for a, b in zip(y[:-1], y[1:]):
        t += a * b
    return t, [float(v) for v in y[:2]], sum(y), max(y), min(y), len(y), list(y)[0]


@idiom
def in_place(x):
    y = np.exp(x)
    z = y
    y *= 2
    y **= 0.5
    y //= 1
    y %= 3
    return y, z is y


@idiom
def ints(x):
    k = (np.abs(x) * 10).astype(int)
    k += 1
    k //= 2
    k %= 5
    k <<= 1
    k |= 1
    return k, k / 2, k.dtype.name, np.bincount(k), np.unique(k)


@idiom
def clip_round(x):
    y = np.copy(x)
    np.clip(y, -1, 1, out=y)
    r = y.round(2)
    return y, r, np.rint(y), np.floor(y).astype(np.int16)


@idiom
def bools(x):
    y = np.copy(x)
    return (
        y.any(),
        y.all(),
        (y > 0).all(),
        bool((y > 9).any()),
        not (y > 9).any(),
        (y > 0) & (y < 1),
        ~(y > 0),
        np.logical_or(y > 1, y < 0),
    )


@idiom
def scalars(x):
    s = np.exp(x).sum()
    t = s
    s += 1
    return (
        s,
        t,
        f"{s:.3f}",
        round(s, 2),
        int(s),
        float(t),
        s > 3,
        s.dtype,
        s * 2.0,
        2.0 * s,
        s**2,
        -s,
        abs(s),
        s.item(),
    )


@idiom
def fft(x):
    f = np.fft.rfft(np.copy(x))
    f[3:] = 0
    return f, np.fft.irfft(f), np.abs(f) ** 2, np.angle(f[:2]), np.fft.fftfreq(4)


@idiom
def complexes(x):
    z = np.copy(x) + 1j * np.copy(x)[::-1]
    z.real[0] = 3
    z.imag *= 2
    return z, z.conj(), np.abs(z), z.T, z.real


@idiom
def meshgrid(x):
    a, b = np.meshgrid(np.copy(x)[:3], np.arange(2))
    r = np.hypot(a, b)
    r[r > 1] = 0
    return a, b, r


@idiom
def broadcasting(x):
    y = np.copy(x)
    return y[:, None] - y[None, :], np.subtract.outer(y[:3], y[:2]), y[:, np.newaxis].shape


@idiom
def einsum(x):
    a = np.abs(x).reshape(3, 4)
    return (
        np.einsum("ij,kj->ik", a, a),
        np.tensordot(a, a, axes=([1], [1])),
        np.einsum("ij->j", a),
        np.dot(a, a.T),
        np.inner(a, a),
        np.trace(a @ a.T),
    )


@idiom
def histogram(x):
    h, e = np.histogram(np.copy(x), bins=4)
    return h, e, np.digitize(np.copy(x), e), np.percentile(x, [10, 50]), np.quantile(x, 0.3), np.median(x)


@idiom
def solve(x):
    a = np.outer(x[:3], x[:3]) + np.eye(3)
    b = np.copy(x[:3])
    return (
        np.linalg.solve(a, b),
        np.linalg.inv(a),
        np.linalg.det(a),
        np.linalg.eigvalsh(a),
        np.linalg.lstsq(a, b, rcond=None)[0],
    )


@idiom
def polynomial(x):
    return (
        np.polyfit(np.arange(12.0), x, 2),
        np.polyval([1, 2, 3], x),
        np.poly1d([1, 2])(np.copy(x)),
        np.vander(x[:3], 3),
        np.roots(np.abs(x[:3]) + 1),
    )


@idiom
def interp(x):
    s = np.sort(x)
    return np.interp([0.0, 0.5], s, np.arange(12.0)), np.trapezoid(np.abs(x), dx=0.5)


@idiom
def splitting(x):
    a, b, c = np.split(np.copy(x), 3)
    a[:] = 1
    return (
        a,
        b,
        np.hstack([a, b]),
        np.vstack([a, c]),
        np.column_stack([a, b]),
        np.append(a, 3),
        np.insert(b, 1, 9.0),
        np.delete(c, 0),
        np.repeat(a, 2),
        np.tile(a, 2),
    )


@idiom
def views(x):
    y = np.exp(x)
    v = y[1:]
    v *= 10
    r = y.reshape(3, 4)
    r[0] = 0
    t = r.T
    t[1] = 5
    f = y.ravel()
    f[-1] = 7
    d = np.diagonal(r[:3, :3])
    return y, v, r, t, f, d, np.shares_memory(y, v), v.base is y, y.flags.owndata, v.flags.owndata


@idiom
def sort_in_place(x):
    c = np.concatenate([x[::-1], x])
    c.sort()
    p = np.copy(x)
    p.partition(3)
    return c, p[3], np.argpartition(x, 3)[3], c[::-1][:3]


@idiom
def asarray_alias(x):
    y = np.sin(x)
    a = np.asarray(y)
    a[0] = 5
    y[1] = 6
    b = np.array(y)
    b[2] = 9
    return y, a, b


@idiom
def filling(x):
    z = np.zeros_like(x)
    z[0] = 1
    e = np.empty_like(x)
    e.fill(2)
    f = np.full_like(x, 3)
    f[f > 2] = x[0]
    o = np.ones_like(x, dtype=int)
    o += 1
    return z, e, f, o


@idiom
def out_args(x):
    o = np.empty(12, "f4")
    np.sin(x, out=o)
    p = np.copy(x)
    np.multiply(p, 2, out=p)
    np.add(p, 1, out=p, where=p > 0)
    return o, p


@idiom
def adam(x):
    w = np.zeros(12)
    m = np.zeros(12)
    v = np.zeros(12)
    for t in range(1, 4):
        g = 2 * (w - np.copy(x))
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        w -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w, m


@idiom
def perceptron(x):
    A = np.copy(x).reshape(4, 3)
    y = np.sign(A.sum(1))
    w = np.zeros(3)
    for a, b in zip(A, y):
        if b * (a @ w) <= 0:
            w += b * a
    return w


@idiom
def distance_matrix(x):
    p = np.copy(x).reshape(4, 3)
    d = np.sqrt(((p[:, None, :] - p[None, :, :]) ** 2).sum(-1))
    np.fill_diagonal(d, np.inf)
    return d, d.argmin(1), d.min(axis=1)


@idiom
def pca(x):
    A = np.copy(x).reshape(4, 3)
    A = A - A.mean(axis=0)
    c = np.cov(A.T)
    w, v = np.linalg.eigh(c)
    return w, np.abs(A @ v[:, ::-1]), c


@idiom
def markov(x):
    P = np.abs(x[:9]).reshape(3, 3)
    P /= P.sum(axis=1, keepdims=True)
    return P, np.linalg.matrix_power(np.copy(P), 3)


@idiom
def markov2(x):
    P = np.abs(np.copy(x[:9]).reshape(3, 3))
    P /= P.sum(axis=1, keepdims=True)
    p = np.array([1.0, 0, 0])
    for _ in range(4):
        p = p @ P
    return P, p


@idiom
def unravel(x):
    a = np.copy(x).reshape(3, 4)
    i = np.unravel_index(np.argmax(a), a.shape)
    return i, a[i], np.argwhere(a > 0)[:2], np.nonzero(a > 0)[0], np.flatnonzero(a > 0)


@idiom
def integer_power(x):
    k = np.array([3, 7]) * (np.copy(x[:2]) * 0 + 1).astype(int)
    return np.power(k, 20), k**3, 2**k, k @ k, np.prod(k)


@idiom
def astype(x):
    y = np.sin(x)
    return (
        y.astype(np.float64),
        y.astype(int),
        y.astype(bool),
        y.astype(np.float16),
        y.sum(dtype=np.float64),
        np.float64(y.sum()),
        y.tolist()[:1],
    )


@idiom
def copies(x):
    b = a = np.copy(x)
    a += 1
    c = a.copy()
    c[0] = 0
    d = a[:]
    d[1] = 0
    e = a[[0, 1]]
    e[:] = 9
    f = a[a > 0]
    f[:] = 4
    return a, b, c, d, e


@idiom
def vectorize(x):
    return (
        np.vectorize(lambda v: v * 2 if v > 0 else 0.0)(np.copy(x)),
        np.apply_along_axis(lambda r: r.sum(), 1, np.copy(x).reshape(3, 4)),
        np.fromiter((v for v in np.copy(x)), float),
    )


@idiom
def random_choice(x):
    g = np.random.default_rng(1)
    p = np.abs(np.copy(x))
    p /= p.sum()
    y = np.copy(x)
    g.shuffle(y)
    return y, g.permutation(np.copy(x)), g.choice(np.copy(x), 3)


@idiom
def errors(x):
    out = []
    for f in (
        lambda: np.copy(x)[20],
        lambda: np.copy(x) + np.ones(5),
        lambda: np.copy(x).reshape(5, 5),
        lambda: np.concatenate([x, x.reshape(3, 4)]),
        lambda: np.linalg.inv(np.copy(x)),
        lambda: np.copy(x)[0].foo,
        lambda: np.copy(x).__setitem__(0, "a"),
        lambda: bool(np.copy(x)),
        lambda: int(np.copy(x)),
        lambda: np.copy(x)["a"],
        lambda: hash(np.copy(x)),
        lambda: np.copy(x).resize(3, 3),
        lambda: np.stack([]),
        lambda: np.copy(x) @ np.ones((3, 3)),
    ):
        try:
            f()
            out.append("none")
        except Exception as e:
            out.append((type(e).__name__, str(e)[:60]))
    return out


@idiom
def matrix_ops(x):
    a = np.copy(x).reshape(3, 4)
    a[[0, 2]] = a[[2, 0]]
    a[:, [0, 1]] = a[:, [1, 0]]
    a[1, :] += a[0, :]
    a[:, 0] = np.arange(3)
    a[a < 0] *= -1
    a[np.ix_([0, 1], [1, 2])] = 0
    return a, np.triu(a), np.rot90(a), a.swapaxes(0, 1), np.kron(a, [1, 2]).shape


@idiom
def lookups(x):
    t = np.array([10, 20, 30])
    i = (np.abs(np.copy(x)) * 2).astype(int) % 3
    return t[i], np.take(t, i), np.choose(i, [i, i * 2, i * 3]), np.select([i == 0, i == 1], [1.0, 2.0], 0.0)


@idiom
def strings(x):
    y = np.copy(x).round(1)
    return (
        str(y),
        repr(y),
        f"{y[0]:.2f}",
        "%.3f" % y[1],
        np.array2string(y, precision=1),
        str(y[0]),
        format(y[0], ".1e"),
        [str(v) for v in y[:2]],
    )


@idiom
def comparisons(x):
    y = np.copy(x)
    return (
        y == y,
        (y != y).any(),
        np.array_equal(y, y),
        np.allclose(y, y + 1e-9),
        np.isclose(y, 0).sum(),
        np.isnan(y).any(),
        np.isfinite(y).all(),
        y is y,
        3 in y,
        y[0] in list(y),
    )


@idiom
def jaxmix(x):
    y = np.sin(x)
    return (
        y + x,
        x * y,
        jnp.dot(y, x),
        jax.jit(lambda v: v * 2)(y),
        jax.grad(lambda v: (v**2).sum())(y),
        x.at[:2].set(y[:2]),
        jnp.where(y > 0, x, 0),
        x[y > 0],
        jnp.asarray(y.astype(float)),
        jnp.stack([y, x]),
        y[:3] @ x[:3],
        y.sum() * x,
        jax.vmap(jnp.sin)(y),
    )


@idiom
def crossover(x):
    g = np.random.default_rng(0)
    pop = np.tile(np.copy(x), (4, 1))
    pop += g.normal(size=pop.shape)
    f = (pop**2).sum(1)
    best = pop[f.argsort()[:2]]
    pop[2:] = best * 0.9
    return pop, f


@idiom
def nbody(x):
    p = np.copy(x).reshape(4, 3)
    v = np.zeros_like(p)
    for _ in range(3):
        d = p[None] - p[:, None]
        r = (d**2).sum(-1) + 0.1
        a = (d / r[..., None] ** 1.5).sum(1)
        v += 0.01 * a
        p += 0.01 * v
    return p, v


@idiom
def gradient_descent(x):
    A = np.copy(x).reshape(4, 3)
    b = A.sum(1)
    w = np.zeros(3)
    losses = []
    for _ in range(4):
        r = A @ w - b
        w -= 0.05 * A.T @ r
        losses.append((r**2).mean())
    return w, losses, np.array(losses)


@idiom
def moving_average(x):
    c = np.cumsum(np.insert(np.copy(x), 0, 0))
    return (c[3:] - c[:-3]) / 3, np.ediff1d(x), np.maximum.accumulate(x)


@idiom
def rank(x):
    order = np.copy(x).argsort()
    r = np.empty_like(order)
    r[order] = np.arange(12)
    return r


@idiom
def struct(x):
    s = np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])
    s["a"] = np.copy(x)[:3]
    return s["a"], s.dtype.names


@idiom
def pickle_deepcopy(x):
    import pickle, copy

    y = np.sin(x)
    z = pickle.loads(pickle.dumps(y))
    w = copy.deepcopy(y)
    w[0] = 1
    c = copy.copy(y)
    c[1] = 2
    return y, z, w, c, type(z).__name__


@idiom
def attributes(x):
    y = np.sin(x).reshape(3, 4)
    return (
        y.shape,
        y.ndim,
        y.size,
        y.itemsize,
        y.nbytes,
        y.strides,
        y.flags.c_contiguous,
        y.T.flags.f_contiguous,
        y.dtype,
        len(y),
        y.T.shape,
        y.flat[3],
        list(y.flat)[:2],
        y.base is None,
    )


@idiom
def resize_setshape(x):
    y = np.copy(x)
    y.shape = (3, 4)
    z = np.copy(x)
    z.resize((2, 3), refcheck=False)
    return y, z, np.resize(np.copy(x), (2, 2))
