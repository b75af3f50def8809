"""An operation of PyTorch's recalled as one call, however many operations of JAX's it comes to.

See :mod:`lazynb.record.fast.recall`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from lazynb import _jax as jc
from lazynb.record.fast.recall import recall
from lazynb.record.trace import LazyTrace


def recalled(
    name: Hashable, call: Callable[..., Any], args: tuple[Any, ...], numbers_alike: bool = False
) -> Any:
    """``call(*args)`` for arrays and numbers, recalled in lazy code.

    Arguments:
      name: the same for all calls that differ in ``args`` alone.
      numbers_alike: whether the call does the same with all numbers of a type.
    """
    trace = jc.ambient.value
    if trace.__class__ is not LazyTrace:
        return call(*args)
    return recall(trace, name, call, args, {}, numbers_alike)
