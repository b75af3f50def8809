"""scikit-learn on arrays that can be written to, by the array API standard: what each of these comes to.

``python -m tests.frontends.scikit_learn`` runs them, in a process of its own: SciPy looks at its setting when
it is imported.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

ROWS: dict[str, tuple[str, str]] = {
    "Ridge(solver='svd').fit(X, y).predict(X)": ("linear_model", "LNB101 LNB312"),
    "StandardScaler().fit_transform(X)": ("preprocessing", "LNB101 LNB311"),
    "MinMaxScaler().fit_transform(X)": ("preprocessing", "LNB101"),
    "MaxAbsScaler().fit_transform(X)": ("preprocessing", "LNB101"),
    "Normalizer().fit_transform(X)": ("preprocessing", "LNB101"),
    "Binarizer(threshold=0.5).fit_transform(X)": ("preprocessing", "LNB101"),
    "PolynomialFeatures(2).fit_transform(X)": ("preprocessing", "LNB101"),
    "KernelCenterer().fit_transform(X @ X.T)": ("preprocessing", "LNB101"),
    "PCA(2, svd_solver='full').fit(X).explained_variance_": ("decomposition", "LNB101 LNB312"),
    "PCA(2, svd_solver='covariance_eigh').fit(X).explained_variance_": ("decomposition", "LNB101 LNB312"),
    "LinearDiscriminantAnalysis().fit(X, k).decision_function(X)": (
        "discriminant_analysis",
        "LNB101 LNB105 LNB312",
    ),
    "r2_score(y, y + X[:, 0])": ("metrics", "LNB101 LNB103 LNB312"),
    "explained_variance_score(y, y + X[:, 0])": ("metrics", "LNB101 LNB103 LNB312"),
    "mean_squared_error(y, y + X[:, 0])": ("metrics", "LNB101 LNB103"),
    "mean_absolute_error(y, y + X[:, 0])": ("metrics", "LNB101 LNB103"),
    "mean_squared_log_error(y, y + X[:, 0])": ("metrics", "LNB101 LNB103"),
    "mean_tweedie_deviance(y, y + X[:, 0])": ("metrics", "LNB101 LNB103"),
    "max_error(y, y + X[:, 0])": ("metrics", "LNB101 LNB103"),
    "accuracy_score(k, 1 - k)": ("metrics", "LNB311 LNB312"),
    "zero_one_loss(k, 1 - k)": ("metrics", "LNB311 LNB312"),
    "cosine_similarity(X)": ("metrics.pairwise", "LNB101"),
    "cosine_distances(X)": ("metrics.pairwise", "LNB101"),
    "euclidean_distances(X)": ("metrics.pairwise", "LNB101"),
    "pairwise_distances(X, metric='euclidean')": ("metrics.pairwise", "LNB101"),
    "paired_cosine_distances(X, X[::-1])": ("metrics.pairwise", "LNB101"),
    "linear_kernel(X)": ("metrics.pairwise", "LNB101"),
    "polynomial_kernel(X)": ("metrics.pairwise", "LNB101"),
    "rbf_kernel(X)": ("metrics.pairwise", "LNB101"),
    "sigmoid_kernel(X)": ("metrics.pairwise", "LNB101"),
    "additive_chi2_kernel(X)": ("metrics.pairwise", "LNB101"),
}
"""scikit-learn's module and the codes of the trace breaks, by the expression."""


def table() -> str:
    """The table in docs/numpy.md."""
    lines = ["| in `sklearn` | the call | breaks |", "|---|---|---|"]
    lines += [f"| `{module}` | `{text}` | {codes} |" for text, (module, codes) in ROWS.items()]
    return "\n".join(lines) + "\n"


def run(text: str, module: str) -> dict[str, object]:
    """What the expression comes to: how far it is from what NumPy's arrays give, its type, the breaks."""
    import importlib

    import jax.numpy as jnp
    import numpy as np

    import lazynb
    from lazynb.frontends.numpy.mutable_array import mutable
    from lazynb.running.break_log import break_log

    names = vars(importlib.import_module(f"sklearn.{module}"))
    random = np.random.default_rng(0)
    x = np.abs(random.normal(size=(40, 4))).astype(np.float32)
    y = (x @ np.array([1, 2, 3, 4], np.float32)).astype(np.float32)
    values = {"X": x, "y": y, "k": (y > y.mean()).astype(np.int32)}
    own = eval(text, {**names, **values})
    lazynb.sync()
    break_log.clear()
    with lazynb.lazy():
        found = eval(text, {**names, **{name: mutable(jnp.asarray(one)) for name, one in values.items()}})
        codes = sorted({one.code for one in lazynb.breaks()})
    error = float(np.max(np.abs(np.asarray(found, np.float64) - np.asarray(own, np.float64))))
    kinds = [str(getattr(one, "dtype", type(one).__name__)) for one in (own, found)]
    return {"error": error, "same type": kinds[0] == kinds[1], "breaks": " ".join(codes)}


def main(texts: list[str]) -> None:
    """Prints what the rows ``texts`` come to, all of them if there is none."""
    os.environ["SCIPY_ARRAY_API"] = "1"
    warnings.simplefilter("ignore")
    import sklearn

    sklearn.set_config(array_api_dispatch=True)
    json.dump({text: run(text, ROWS[text][0]) for text in texts or ROWS}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
