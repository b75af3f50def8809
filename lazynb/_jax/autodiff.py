"""Differentiation: JAX's tracers, accumulators, and the functions that linearise and transpose."""

from __future__ import annotations

from typing import Any

from jax._src.interpreters import ad as _ad, batching as _batching

linearisation: tuple[Any, str] = (_ad, "fallback_linearize_rule")
"""Module and name of the function that linearises a primitive without a rule of its own.

It takes ``(primitive, is_vjp, nonzeros, *primals, **params)`` and returns results, nonzero tangents,
residuals, ..., and the linear function."""


transposition: tuple[Any, str] = (_ad, "backward_pass3")
"""Module and name of the function that transposes a linear jaxpr.

It takes ``(jaxpr, transform_stack, consts, primals, cotangents)``. The primals for which cotangents are
wanted are :class:`GradAccum`. It returns a dictionary of logs on 0.12, and None on 0.10."""

GradAccum = _ad.GradAccum
ValAccum = _ad.ValAccum
NullAccum = _ad.NullAccum
Zero = _ad.Zero


def new_accumulator(like: Any) -> Any:
    """An empty accumulator of the kind and type of ``like``."""
    return type(like)(like.aval)


def innermost(tracer: Any) -> Any:
    """The value inside nested tracers of ``grad``, ``jvp`` and ``vmap``. Those of ``jit`` are that value."""
    while isinstance(tracer, (_ad.JVPTracer, LinearizeTracer, _batching.BatchTracer)):
        tracer = tracer.val if isinstance(tracer, _batching.BatchTracer) else tracer.primal
    return tracer


LinearizeTrace = _ad.LinearizeTrace
"""The trace of ``jax.grad``: its ``parent_trace`` records operands, its ``tangent_trace`` tangents."""

LinearizeTracer = _ad.LinearizeTracer
