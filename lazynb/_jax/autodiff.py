"""Differentiation: JAX's tracers, accumulators, and the functions that linearise and transpose."""

from __future__ import annotations

from typing import Any

from jax._src.interpreters import ad as _ad, batching as _batching

linearisation: tuple[Any, str] = (_ad, "fallback_linearize_rule")
"""Module and name of what linearises a primitive that has no rule of its own:
``(primitive, is_vjp, nonzeros, *primals, **params)`` to results, nonzero tangents, residuals, ..., linear
function."""


transposition: tuple[Any, str] = (_ad, "backward_pass3")
"""Module and name of what transposes a linear jaxpr:
``(jaxpr, transform_stack, consts, primals, cotangents)``, where the primals that cotangents are wanted for
are :class:`GradAccum`; a dictionary of logs on 0.12, None on 0.10."""
GradAccum = _ad.GradAccum
ValAccum = _ad.ValAccum
NullAccum = _ad.NullAccum
Zero = _ad.Zero


def new_accumulator(like: Any) -> Any:
    """An empty accumulator of the kind and type of ``like``."""
    return type(like)(like.aval)


def innermost(tracer: Any) -> Any:
    """The value that tracers of ``grad``, ``jvp`` and ``vmap`` around one another stand for; one of ``jit``
    is its own."""
    while isinstance(tracer, (_ad.JVPTracer, LinearizeTracer, _batching.BatchTracer)):
        tracer = tracer.val if isinstance(tracer, _batching.BatchTracer) else tracer.primal
    return tracer


LinearizeTrace = _ad.LinearizeTrace
"""The trace of ``jax.grad``: ``parent_trace`` records operands, ``tangent_trace`` tangents."""
LinearizeTracer = _ad.LinearizeTracer
