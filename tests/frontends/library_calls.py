"""Calls of SciPy, scikit-learn and matplotlib with lazy arguments, each a function of a vector of twelve float32 numbers."""

# ruff: noqa

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize as so
import scipy.signal
import scipy.sparse
import scipy.spatial
import scipy.special
import scipy.stats

CALLS: dict[str, Callable[[Any], Any]] = {}


def idiom(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CALLS[function.__name__] = function
    return function


ros = lambda x: jnp.sum((x - 1.0) ** 2)


@idiom
def lbfgs(x):
    r = so.minimize(ros, x, jac=jax.grad(ros), method="L-BFGS-B")
    return r.x, r.fun, r.nit, r.success


@idiom
def bfgs(x):
    r = so.minimize(ros, x, jac=jax.grad(ros), method="BFGS")
    return r.x, r.nit


@idiom
def fmin(x):
    return so.fmin_l_bfgs_b(lambda p: (float(ros(p)), jax.grad(ros)(p)), x)[0]


@idiom
def least_squares(x):
    return so.least_squares(
        lambda p: jnp.asarray(p)[:3] - x[:3], x[3:6], jac=jax.jacobian(lambda p: jnp.asarray(p)[:3] - x[:3])
    ).x


@idiom
def np_minimize(x):
    f = lambda p: np.sum((np.asarray(p) - np.sin(x)) ** 2)
    return so.minimize(f, np.zeros(12)).x


@idiom
def curve_fit(x):
    return so.curve_fit(lambda t, a, b: a * t + b, np.arange(12.0), np.copy(x))[0]


@idiom
def root(x):
    return so.root_scalar(lambda t: float(jnp.cos(t) - t), bracket=[0, 1]).root, so.fsolve(
        lambda t: np.cos(t) - t, np.copy(x[:1])
    )


@idiom
def linprog(x):
    return so.linprog(np.abs(x[:2]), A_ub=-np.eye(2), b_ub=-np.abs(np.copy(x[2:4]))).x


@idiom
def stats(x):
    return (
        scipy.stats.zscore(np.copy(x)),
        scipy.stats.ttest_1samp(np.copy(x), 0.0).pvalue,
        scipy.stats.norm.pdf(np.copy(x)),
        scipy.stats.pearsonr(x, np.cos(x))[0],
        scipy.stats.rankdata(np.copy(x)),
    )


@idiom
def signal(x):
    return (
        scipy.signal.lfilter(np.abs(x[:3]), 1.0, np.copy(x)),
        scipy.signal.convolve(np.copy(x), np.ones(3)),
        scipy.signal.find_peaks(np.copy(x))[0],
        scipy.signal.savgol_filter(np.copy(x), 5, 2),
    )


@idiom
def interpolate(x):
    return scipy.interpolate.CubicSpline(np.arange(12.0), np.copy(x))([0.5, 1.5]), scipy.interpolate.interp1d(
        np.arange(12), x
    )(2.5)


@idiom
def integrate(x):
    return (
        scipy.integrate.solve_ivp(lambda t, y: -np.copy(x[:2]) * y, (0, 1), np.abs(np.copy(x[:2]))).y[:, -1],
        scipy.integrate.simpson(np.copy(x), dx=0.1),
        scipy.integrate.quad(lambda t: float(jnp.sin(t)), 0, 1)[0],
        scipy.integrate.trapezoid(x),
    )


@idiom
def odeint(x):
    return scipy.integrate.odeint(lambda y, t: np.array([y[1], -y[0]]), np.copy(x[:2]), np.linspace(0, 1, 3))


@idiom
def ndimage(x):
    return (
        scipy.ndimage.gaussian_filter(np.copy(x).reshape(3, 4), 1),
        scipy.ndimage.label(np.copy(x) > 0)[0],
        scipy.ndimage.uniform_filter(np.copy(x), 3),
    )


@idiom
def linalg(x):
    a = np.outer(x[:3], x[:3]) + np.eye(3)
    return (
        scipy.linalg.solve(a, np.copy(x[:3])),
        scipy.linalg.expm(a),
        scipy.linalg.lu(a)[2],
        scipy.linalg.cho_factor(a)[0],
        scipy.linalg.toeplitz(np.copy(x[:3])),
    )


@idiom
def spatial(x):
    return scipy.spatial.distance.cdist(
        np.copy(x).reshape(4, 3), np.abs(x).reshape(4, 3)
    ), scipy.spatial.KDTree(np.copy(x).reshape(4, 3)).query(np.zeros(3))


@idiom
def special(x):
    return (
        scipy.special.expit(np.copy(x)),
        scipy.special.gamma(np.abs(np.copy(x))),
        scipy.special.logsumexp(np.copy(x)),
        scipy.special.softmax(np.copy(x)),
        scipy.special.erf(x),
    )


@idiom
def sparse(x):
    s = scipy.sparse.csr_matrix(np.copy(x).reshape(3, 4))
    return s @ np.abs(np.copy(x[:4])), s.toarray(), s.nnz


@idiom
def kmeans2(x):
    return scipy.cluster.vq.vq(np.copy(x).reshape(4, 3), np.copy(x).reshape(4, 3)[:2])[0], scipy.fft.rfft(
        np.copy(x)
    )


@idiom
def sklearn_linear(x):
    from sklearn.linear_model import LinearRegression, Ridge

    X = np.copy(x).reshape(4, 3)
    y = X.sum(1)
    m = LinearRegression().fit(X, y)
    return m.coef_, m.predict(X), m.score(X, y), Ridge().fit(X, y).coef_, type(m.coef_).__name__


@idiom
def sklearn_pre(x):
    from sklearn.preprocessing import StandardScaler
    from sklearn.decomposition import PCA

    X = np.copy(x).reshape(4, 3)
    return StandardScaler().fit_transform(X), np.abs(PCA(2).fit_transform(X))


@idiom
def sklearn_class(x):
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier
    from sklearn.metrics import accuracy_score, confusion_matrix

    X = np.copy(x).reshape(4, 3)
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    m = LogisticRegression().fit(X, y)
    p = m.predict(X)
    return (
        p,
        accuracy_score(y, p),
        confusion_matrix(y, p),
        DecisionTreeClassifier(random_state=0).fit(X, y).predict(X),
    )


@idiom
def sklearn_cluster(x):
    from sklearn.cluster import KMeans
    from sklearn.neighbors import NearestNeighbors
    from sklearn.model_selection import train_test_split

    X = np.copy(x).reshape(4, 3)
    return (
        KMeans(2, random_state=0, n_init=1).fit(X).inertia_,
        NearestNeighbors(n_neighbors=2).fit(X).kneighbors(X)[1],
        train_test_split(X, random_state=0),
    )


@idiom
def matplotlib_plot(x):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    f, a = plt.subplots()
    (l,) = a.plot(np.arange(12), np.sin(x))
    h = a.hist(np.copy(x), bins=3)[0]
    a.imshow(np.copy(x).reshape(3, 4))
    a.scatter(np.copy(x), np.cos(x))
    f.canvas.draw()
    plt.close(f)
    return l.get_ydata(), h
