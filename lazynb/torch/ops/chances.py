"""What drawing demands of values: probabilities, weights, deviations, rates."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from lazynb.record.checks import expect
from lazynb.torch.dispatch.demands import checker, demand_probabilities, demand_true

aten = torch.ops.aten


@checker(aten.multinomial.default)
def _weights(bound: dict[str, Any]) -> None:
    weights = bound["self"]._elem
    if bound.get("replacement") and bound["num_samples"] > 1:
        expect(_first_improper(weights), _no_weight)
    else:
        text = "probability tensor contains either `inf`, `nan` or element < 0"
        demand_true(~(jnp.isfinite(weights) & (weights >= 0)).all(), lambda _: RuntimeError(text))
    empty = (weights.sum(axis=-1) <= 0).any()
    text_of_none = "invalid multinomial distribution (sum of probabilities <= 0)"
    demand_true(empty, lambda _: RuntimeError(text_of_none))


def _first_improper(weights: Any) -> Any:
    """The first number that is no weight, or 0."""
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
    demand_probabilities(bound["self"]._elem)


@checker(aten.normal.Tensor_Tensor, aten.normal.float_Tensor)
def _deviations(bound: dict[str, Any]) -> None:
    std = bound["std"]._elem
    if std.size and std.dtype.kind != "c":
        demand_true(~(std >= 0).all(), lambda _: RuntimeError("normal expects all elements of std >= 0.0"))


@checker(aten.poisson.default)
def _rates(bound: dict[str, Any]) -> None:
    text = "invalid Poisson rate, expected rate to be non-negative"
    demand_true((bound["self"]._elem < 0).any(), lambda _: RuntimeError(text))
