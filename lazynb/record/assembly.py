"""The assembly of arrays from others: JAX's functions for it refuse tracers, so they get concrete arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.stand_in import stand_in
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace


def _of_concrete(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``plain`` for lazy tensors among its arguments, and among the results of a function that it takes."""

    def concrete(leaf: Any) -> Any:
        return leaf._force("device_put", name) if isinstance(leaf, LazyTensor) else leaf

    def given(argument: Any, trace: Any) -> Any:
        if not callable(argument):
            return jax.tree.map(concrete, argument)

        def recorded(*args: Any) -> Any:
            with jc.set_current_trace(trace):
                return jax.tree.map(concrete, argument(*args))

        return recorded

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        trace = jc.current_trace()
        if trace.__class__ is not LazyTrace:
            return plain(*args, **kwargs)
        with jc.set_current_trace(jc.eval_trace):
            return plain(
                *[given(argument, trace) for argument in args],
                **{name: given(argument, trace) for name, argument in kwargs.items()},
            )

    return call


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for JAX's own functions while some thread is lazy."""
    ours = {name: _of_concrete(getattr(jax, name), name) for name in jc.ASSEMBLING}
    public = {name: stand_in(call, getattr(jax, name), jax, name) for name, call in ours.items()}
    return [(jax, public), (jc.assembling, ours)]
