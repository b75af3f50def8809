"""Batch normalisation. PyTorch does not say in its schema that the running statistics are written to."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import jax.numpy as jnp
import torch

from lazynb.torch.dispatch import dispatch as d, layout as layouts
from lazynb.torch.dispatch.keys import by_name, key_and_row
from lazynb.torch.dispatch.recalled import recalled
from lazynb.torch.ops.norms import batch_norm
from lazynb.torch.tensor import wrap

aten = torch.ops.aten
_ARRAYS = ("input", "weight", "bias", "running_mean", "running_var")


class _Normalisation:
    """What calls with equal layouts and options have in common.

    Attributes:
      result: layout of the result.
      training: whether the statistics are those of the batch.
    """

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        with contextlib.suppress(layouts.Unknown):
            d.expected(func, args, kwargs, writes=True)  # raises what PyTorch raises
        self.func = func  # its id is a part of the key
        bound = by_name(func, args, kwargs)
        self.result = layouts.layout_of(torch.empty_like(bound["input"]._layout.dummy()))
        self.training = bool(bound.get("training", not re.search("no_training|no_update", str(func))))
        self._options = bound["momentum"], bound["eps"]
        self._given = [bound.get(name) is not None for name in _ARRAYS]

    def compute(self, *given: Any) -> list[Any]:
        """The result, the batch's statistics, and in training the new running ones that there are.

        Arguments:
          given: the arrays that are not None.
        """
        values = iter(given)
        arrays = [next(values) if is_given else None for is_given in self._given]
        result, *others = batch_norm(arrays, self.training, *self._options)
        result = result.astype(d.jax_dtype(self.result.dtype))
        if not self.training:  # the statistics of the batch are the same array of no elements
            return [result, others[0]]
        return [result, *[x for x in others if x is not None]]


_known: dict[Any, _Normalisation] = {}


def _normalise(func: Any, args: Any, kwargs: Any) -> Any:
    key, row = key_and_row(func, args, kwargs, False)
    known = _known.get(key)
    if known is None:
        if len(_known) > layouts.MOST:
            _known.clear()
        known = _known[key] = _Normalisation(func, args, kwargs)
    if row is None:  # a tensor on the CPU among them
        bound = by_name(func, args, kwargs)
        row = [bound[name] for name in _ARRAYS if bound.get(name) is not None]
    result, *others = recalled(known, known.compute, tuple(d.array_of(row)))
    statistics = others[:2] if known.training else [others[0], others[0]]
    tensors = [wrap(result, known.result), *[_statistic(x, known.result.dtype) for x in statistics]]
    if known.training:
        bound = by_name(func, args, kwargs)
        running = [x for x in (bound.get("running_mean"), bound.get("running_var")) if x is not None]
        for target, new in zip(running, others[2:], strict=True):
            d.store(target, new)
    if len(func._schema.returns) == 4:  # what a backend keeps for its gradient; this one keeps nothing
        tensors.append(wrap(None, layouts.contiguous((0,), torch.uint8)))
    return tuple(tensors)


def _statistic(value: Any, dtype: torch.dtype) -> Any:
    """A tensor of float32, or of ``dtype``, as ``value`` is."""
    kind = torch.float32 if value.dtype == jnp.float32 else dtype
    return wrap(value, layouts.contiguous(value.shape, kind))


for _overload in (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_no_training.default,
    aten._batch_norm_with_update.default,
    aten._batch_norm_no_update.default,
):
    d.special[_overload] = _normalise
