"""Batch normalisation. PyTorch does not say in its schema that the running statistics are written to."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import torch

from lazynb.torch.dispatch import dispatch as d, layout as layouts
from lazynb.torch.dispatch.keys import by_name, key_and_row
from lazynb.torch.dispatch.layout import Layout
from lazynb.torch.dispatch.recalled import recalled
from lazynb.torch.ops.norms import batch_norm
from lazynb.torch.tensor import wrap

aten = torch.ops.aten
_NOTHING = layouts.contiguous((0,), torch.uint8)
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
        self._statistics: list[Layout] | None = None
        # what a backend keeps for its gradient; this one keeps nothing
        self.keeps = len(func._schema.returns) == 4

    def compute(self, *given: Any) -> list[Any]:
        """The result, the batch's statistics, and in training the new running ones that there are.

        Arguments:
          given: the arrays that are not None.
        """
        values = iter(given)
        arrays = [next(values) if is_given else None for is_given in self._given]
        result, *others = batch_norm(arrays, self.training, *self._options)
        result = result.astype(d.jax_dtype(self.result.dtype))
        if not self.training:  # the statistics of the batch have no elements
            return [result, *others[:2]]
        return [result, *[x for x in others if x is not None]]

    def tensors(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """What the call gives, of what :meth:`compute` gave."""
        result, *statistics = arrays[:3]
        if self._statistics is None:
            self._statistics = [self._layout_of(x) for x in statistics]
        tensors = [wrap(result, self.result), *map(wrap, statistics, self._statistics)]
        if self.keeps:
            tensors.append(wrap(None, _NOTHING))
        return tuple(tensors)

    def layouts(self) -> list[Layout]:
        """Those of what :meth:`tensors` gave, before what a backend keeps."""
        return [self.result, *(self._statistics or ())]

    def _layout_of(self, statistic: Any) -> Layout:
        """That of float32, or of the result's dtype, as ``statistic`` is."""
        kind = torch.float32 if statistic.dtype == jnp.float32 else self.result.dtype
        return layouts.contiguous(statistic.shape, kind)


_known: dict[Any, _Normalisation] = {}


def _normalise(func: Any, args: Any, kwargs: Any) -> Any:
    key, row = key_and_row(func, args, kwargs, False)
    known = _known.get(key)
    if known is None:
        if len(_known) > layouts.MOST:
            _known.clear()
        known = _known[key] = _Normalisation(func, args, kwargs)
    bound = by_name(func, args, kwargs)
    if row is None:  # a tensor on the CPU among them
        row = [bound[name] for name in _ARRAYS if bound.get(name) is not None]
    arrays = recalled(known, known.compute, tuple(d.array_of(row)))
    if known.training:
        running = [x for x in (bound.get("running_mean"), bound.get("running_var")) if x is not None]
        for target, new in zip(running, arrays[3:], strict=True):
            d.store(target, new)
    tensors = known.tensors(arrays)
    if not (known.training or known.keeps):
        d.let_recall(func, key, known.layouts(), known)
    return tensors


for _overload in (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_no_training.default,
    aten._batch_norm_with_update.default,
    aten._batch_norm_no_update.default,
):
    d.special[_overload] = _normalise
