"""Random draws, their value checks, dropout, and ``rrelu``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch import random_generator
from lazynb.frontends.torch.dispatch import op_rules, tensor_layout as layouts
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.in_place_writes import store
from lazynb.frontends.torch.dispatch.op_execution import fit_results
from lazynb.frontends.torch.dispatch.op_rules import fill, lowering
from lazynb.frontends.torch.dispatch.result_layouts import expected_results, to_arrays
from lazynb.frontends.torch.dispatch.torch_replay import arguments_by_name
from lazynb.frontends.torch.dispatch.value_checks import check_probabilities, checker, raise_if_true
from lazynb.frontends.torch.torch_requirements import import_torchax
from lazynb.frontends.torch.torch_tensor import wrap
from lazynb.recording.operation_checks import add_check

# ---- Value checks: probabilities, weights, deviations, rates -----------------------------------------------

aten = torch.ops.aten


@checker(aten.multinomial.default)
def _weights(bound: dict[str, Any]) -> None:
    weights = bound["self"]._elem
    if bound.get("replacement") and bound["num_samples"] > 1:
        add_check(_first_improper(weights), _no_weight)
    else:
        text = "probability tensor contains either `inf`, `nan` or element < 0"
        raise_if_true(~(jnp.isfinite(weights) & (weights >= 0)).all(), lambda _: RuntimeError(text))
    empty = (weights.sum(axis=-1) <= 0).any()
    text_of_none = "invalid multinomial distribution (sum of probabilities <= 0)"
    raise_if_true(empty, lambda _: RuntimeError(text_of_none))


def _first_improper(weights: Any) -> Any:
    flat = weights.reshape(-1)
    bad = ~(jnp.isfinite(flat) & (flat >= 0))
    return jnp.where(bad.any(), flat[jnp.argmax(bad)], 0) if flat.size else jnp.zeros((), flat.dtype)


def _no_weight(found: Any) -> Exception | None:
    if found >= 0 and np.isfinite(found):
        return None
    entry = "probability entry = infinity or NaN" if found >= 0 else "probability entry < 0"
    return RuntimeError(f"invalid multinomial distribution (encountering {entry})")


@checker(aten.bernoulli.default)
def _probabilities(bound: dict[str, Any]) -> None:
    check_probabilities(bound["self"]._elem)


@checker(aten.normal.Tensor_Tensor, aten.normal.float_Tensor)
def _deviations(bound: dict[str, Any]) -> None:
    std = bound["std"]._elem
    if std.size and std.dtype.kind != "c":
        raise_if_true(~(std >= 0).all(), lambda _: RuntimeError("normal expects all elements of std >= 0.0"))


@checker(aten.poisson.default)
def _rates(bound: dict[str, Any]) -> None:
    text = "invalid Poisson rate, expected rate to be non-negative"
    raise_if_true((bound["self"]._elem < 0).any(), lambda _: RuntimeError(text))


lax = jax.lax
_env = import_torchax().default_env()


def _floats(layout: Any) -> Any:
    """The dtype to draw in: JAX draws complex numbers and small floats differently from PyTorch."""
    wanted = jax_dtype(layout.dtype)
    if wanted.kind == "f" and wanted.itemsize >= 4:
        return wanted
    return np.dtype(np.float32)


@fill(aten.normal_)
def normal(layout: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    numbers = jax.random.normal(_key(generator), layout.shape, _floats(layout))
    return numbers * std + mean


@fill(aten.uniform_)
def uniform(layout: Any, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Any:
    numbers = jax.random.uniform(_key(generator), layout.shape, _floats(layout))
    return numbers * (high - low) + low


@fill(aten.random_)
def random(layout: Any, *bounds: Any, generator: Any = None) -> Any:
    most = _random_end(jax_dtype(layout.dtype))
    low, high = 0, None
    if bounds:
        low, high = (0, *bounds)[-2:]
    if high is None:
        high = most
    return jax.random.randint(_key(generator), layout.shape, low, high, np.dtype(np.int64))


def _random_end(dtype: Any) -> int:
    """The default end of the integers that ``random_`` draws for ``dtype``."""
    if dtype.kind == "b":
        return 2
    if dtype.kind in "fV":
        return (1 << (jnp.finfo(dtype).nmant + 1)) + 1
    return min(np.iinfo(dtype).max + 1, np.iinfo(np.int64).max)  # the largest int64 is not drawn


@fill(aten.bernoulli_.float)
def bernoulli(layout: Any, p: float = 0.5, generator: Any = None) -> Any:
    return jax.random.uniform(_key(generator), layout.shape, np.dtype(np.float32)) < p


@fill(aten.bernoulli_.Tensor)
def bernoulli_of(layout: Any, p: Any, generator: Any = None) -> Any:
    check_probabilities(p)
    return jax.random.uniform(_key(generator), layout.shape, np.dtype(np.float32)) < p


@fill(aten.exponential_)
def exponential(layout: Any, rate: float = 1.0, generator: Any = None) -> Any:
    return jax.random.exponential(_key(generator), layout.shape, _floats(layout)) / rate


@fill(aten.cauchy_)
def cauchy(layout: Any, median: float = 0.0, sigma: float = 1.0, generator: Any = None) -> Any:
    return jax.random.cauchy(_key(generator), layout.shape, _floats(layout)) * sigma + median


@fill(aten.log_normal_)
def log_normal(layout: Any, mean: float = 1.0, std: float = 2.0, generator: Any = None) -> Any:
    return jnp.exp(normal(layout, mean, std, generator))


@fill(aten.geometric_)
def geometric(layout: Any, p: float, generator: Any = None) -> Any:
    least = np.finfo(np.float32).tiny
    numbers = jax.random.uniform(_key(generator), layout.shape, np.dtype(np.float32), least)
    return jnp.ceil(jnp.log(numbers) / np.log1p(-p))


@lowering(aten.bernoulli.default)
def bernoulli_like(p: Any, generator: Any = None) -> Any:
    return jax.random.uniform(_key(generator), p.shape, np.dtype(np.float32)) < p


@lowering(aten.rand_like.default)
def rand_like(x: Any, dtype: Any = None, **_: Any) -> Any:
    return jax.random.uniform(_key(None), x.shape, x.dtype if dtype is None else jax_dtype(dtype))


@lowering(aten.randn_like.default)
def randn_like(x: Any, dtype: Any = None, **_: Any) -> Any:
    return jax.random.normal(_key(None), x.shape, x.dtype if dtype is None else jax_dtype(dtype))


@lowering(aten.randint_like.default)
def randint_like(x: Any, high: int, **options: Any) -> Any:
    return randint_like_from(x, 0, high, **options)


@lowering(aten.randint_like.low_dtype)
def randint_like_from(x: Any, low: int, high: int, **_: Any) -> Any:
    return jax.random.randint(_key(None), x.shape, low, high, np.dtype(np.int64))


@lowering(aten.native_dropout.default)
def native_dropout(x: Any, p: float, train: bool | None) -> Any:
    if train is False or p == 0:
        return x, jnp.ones(x.shape, bool)
    kept = jax.random.uniform(_key(None), x.shape, np.dtype(np.float32)) >= p
    scaled = x / (1 - p) if p < 1 else x
    return jnp.where(kept, scaled, jnp.zeros((), x.dtype)), kept


@lowering(aten.native_dropout_backward.default)
def native_dropout_backward(grad: Any, mask: Any, scale: float) -> Any:
    return grad * mask * scale


@lowering(aten.randperm.default, aten.randperm.generator)
def randperm(n: int, generator: Any = None, **_: Any) -> Any:
    return jax.random.permutation(_key(generator), n)


@lowering(aten.multinomial.default)
def multinomial(weights: Any, count: int, replacement: bool = False, generator: Any = None) -> Any:
    logits = jnp.log(weights)
    if replacement:
        shape = (count, *weights.shape[:-1])
        chosen = jax.random.categorical(_key(generator), logits, axis=-1, shape=shape)
        return jnp.moveaxis(chosen, 0, -1)
    noise = jax.random.gumbel(_key(generator), weights.shape, np.dtype(np.float32))
    return lax.top_k(logits + noise, count)[1]


def _rrelu(func: Any, args: Any, kwargs: Any) -> Any:
    """``rrelu_with_noise`` and variants: the drawn slopes are written to ``noise``, or returned."""
    bound: dict[str, Any] = {"lower": 1 / 8, "upper": 1 / 3, "training": False, "generator": None}
    bound |= arguments_by_name(func, args, kwargs)
    x, noise, lower, upper = (bound[name] for name in ("self", "noise", "lower", "upper"))
    value = to_arrays(x)
    slopes = (lower + upper) / 2
    left = to_arrays(noise)
    if bound["training"]:
        drawn = jax.random.uniform(_key(bound["generator"]), value.shape, _floats(x._layout))
        slopes = (drawn * (upper - lower) + lower).astype(value.dtype)
        left = jnp.where(value <= 0, slopes, jnp.ones((), value.dtype))
    result = jnp.where(value <= 0, value * slopes, value)
    if func is aten.rrelu_with_noise_functional.default:
        return wrap(result, layouts.contiguous(tuple(x.shape), x.dtype)), wrap(left, noise._layout)
    if bound["training"]:
        store(noise, left)
    if func is aten.rrelu_with_noise_.default:
        store(x, result)
        return x
    return wrap(result, layouts.contiguous(tuple(x.shape), x.dtype))


for _overload in (
    aten.rrelu_with_noise.default,
    aten.rrelu_with_noise_.default,
    aten.rrelu_with_noise_functional.default,
):
    op_rules.special[_overload] = _rrelu


def _functional_draw(func: Any, args: Any, kwargs: Any) -> Any:
    """Draws like the in-place operation: ``bernoulli.p`` draws as ``bernoulli_.float``."""
    layout = expected_results(func, args, kwargs).tree
    filled = _fills[func](layout, *to_arrays(args[1:]), **kwargs)
    return wrap(fit_results(filled, layout), layout)


_fills: dict[Any, Any] = {
    aten.normal_functional.default: normal,
    aten.uniform.default: uniform,
    aten.random.default: random,
    aten.random.to: random,
    getattr(aten.random, "from"): random,
    aten.bernoulli.p: bernoulli,
    aten.bernoulli.Tensor: bernoulli_of,
    aten.exponential.default: exponential,
    aten.cauchy.default: cauchy,
    aten.log_normal.default: log_normal,
    aten.geometric.default: geometric,
}
"""The fill function of the in-place operation, by functional variant."""
op_rules.special.update(dict.fromkeys(_fills, _functional_draw))


def _key(given: Any) -> Any:
    return random_generator.key(given)
