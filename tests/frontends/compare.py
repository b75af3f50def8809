"""The oracle: a call on lazy tensors is what it is of JAX's arrays eagerly, in values, dtypes, shapes, containers,
kinds of arrays and errors."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lazynb
from lazynb.frontends.numpy.mutable_array import MutableArray, mutable
from lazynb.running.break_log import break_log
from tests.oracle import RTOL, _message

LOOSE = {"np.percentile(F, [20, 80], axis=1)": 5e-6}
"""NumPy's result has 64 bits, but it subtracts in 32."""


@dataclass
class Found:
    """What a call came to.

    Attributes:
      status: ``lazy``, ``break`` or ``unsupported``.
      why: the break's code and detail, or the error.
      problem: in what it is not what eagerly.
    """

    status: str
    why: str = ""
    problem: str | None = None


def run_call(text: str, arrays: dict[str, np.ndarray]) -> Found:
    """Runs the expression ``text`` on NumPy's arrays and lazily."""
    own = {f"{name}n": value for name, value in arrays.items()}
    target = arrays["F"].copy()
    expected, error = _run(
        text, {**{name: jnp.asarray(value) for name, value in arrays.items()}, **own, "M": target}
    )
    expected = target if "(M" in text else expected
    lazynb.sync()
    break_log.clear()
    with lazynb.lazy():
        # A barrier changes nothing, and what comes of it is pending.
        lazy = dict(
            zip(arrays, jax.lax.optimization_barrier([jnp.asarray(value) for value in arrays.values()]))
        )
        written = mutable(lazy["F"])
        result, lazy_error = _run(text, {**lazy, **own, "M": written})
        result = written if "(M" in text else result
        del lazy
    broken = [f"{row.code} {row.detail}".rstrip() for row in lazynb.breaks()]
    lazynb.sync()
    if lazy_error is not None:
        same = type(error) is type(lazy_error) and _message(error) == _message(lazy_error)
        problem = None if same else f"raises {lazy_error!r}, eagerly {error!r}"
        return Found(
            "unsupported", f"{type(lazy_error).__name__}: {str(lazy_error).splitlines()[0]}", problem
        )
    problem = (
        f"raises nothing, eagerly {error!r}"
        if error is not None
        else difference(expected, result, LOOSE.get(text))
    )
    return Found("break" if broken else "lazy", "; ".join(dict.fromkeys(broken)), problem)


def _run(text: str, names: dict[str, Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return eval(text, {"np": np, "FILE": io.BytesIO(), **names}), None
        except Exception as error:
            return None, error.with_traceback(None)


def difference(expected: Any, found: Any, rtol: float | None = None) -> str | None:
    """The first thing in which a result is not NumPy's; None where it is the same."""
    if isinstance(expected, list | tuple):
        if type(expected) is not type(found) or len(expected) != len(found):
            return f"is {type(found).__name__}, eagerly {type(expected).__name__}"
        return next((problem for e, f in zip(expected, found) if (problem := difference(e, f, rtol))), None)
    if expected.__class__ is bool and isinstance(found, MutableArray):  # a pending truth value
        return None if found.dtype == bool and bool(found) is expected else f"is {found!r}, not {expected}"
    if not isinstance(expected, jax.Array | np.ndarray | np.generic):
        same = type(expected) is type(found) and (expected == found or expected != expected)
        return None if same else f"is {found!r}, eagerly {expected!r}"
    if not hasattr(found, "dtype") or found.dtype != expected.dtype:
        return f"is {getattr(found, 'dtype', type(found))}, eagerly {expected.dtype}"
    if found.shape != expected.shape:
        return f"has shape {found.shape}, eagerly {expected.shape}"
    kind = jax.Array if isinstance(expected, jax.Array) else type(expected)
    if not isinstance(found, kind):
        return f"is a {type(found).__name__}, eagerly a {type(expected).__name__}"
    if getattr(found, "weak_type", False) is not getattr(expected, "weak_type", False):
        return f"is {'' if found.weak_type else 'not '}weak"
    got, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.kind not in "fcV":
        return None if np.array_equal(expected, got) else f"is\n{got}\neagerly\n{expected}"
    tolerance = 4 * (rtol or RTOL.get(expected.dtype.name, 1e-2))
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0) if expected.ndim else 0
    close = np.isclose(got, expected, rtol=tolerance, atol=float(tolerance * scale), equal_nan=True)
    return None if np.all(close) else f"is\n{got}\neagerly\n{expected}"
