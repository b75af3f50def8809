"""Conversions of an array to the type that it has already, while JAX has no trace.

Eager JAX returns the array itself before it needs a trace. Some of its code (``sparsify`` in 0.12) converts
while a trace of JAX's processes an operation, and then no trace is current.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazynb import _jax as jc
from lazynb.record.trace import changes_nothing


def _binding(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def bind_with_trace(trace: Any, args: Sequence[Any], avals: Any, params: dict[str, Any], /) -> Any:
        if trace is None and changes_nothing(args[0], params):
            return args[0]
        return plain(trace, args, avals, params)

    return bind_with_trace


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitute for JAX's own binding while some thread is lazy."""
    return [(jc.conversion, {"bind_with_trace": _binding(jc.conversion.bind_with_trace)})]
