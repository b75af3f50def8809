"""The current trace of a thread, JAX's trace and tracer classes, linearisation and transposition."""

from __future__ import annotations

import sys
import types
from typing import Any

from jax._src import core as _core, source_info_util as _source_info_util
from jax._src.interpreters import ad as _ad, batching as _batching, partial_eval as _partial_eval

from lazynb.jax_compat.jax_names import PUBLIC_MODULES

# ---- Differentiation ------------------------------------------------------------------------------------

LINEARIZE_RULE: tuple[Any, str] = (_ad, "fallback_linearize_rule")
"""Module and name of the function that linearises a primitive without a linearisation rule.

It takes ``(primitive, is_vjp, nonzeros, *primals, **params)`` and returns results, nonzero tangents,
residuals, ..., and the linear function.
"""


BACKWARD_PASS: tuple[Any, str] = (_ad, "backward_pass3")
"""Module and name of the function that transposes a linear jaxpr.

It takes ``(jaxpr, transform_stack, consts, primals, cotangents)``. The primals whose cotangents are requested
are :class:`GradAccum`. It returns a dictionary of logs on 0.12, and None on 0.10.
"""

GradAccum = _ad.GradAccum
ValAccum = _ad.ValAccum
NullAccum = _ad.NullAccum
Zero = _ad.Zero


def new_accumulator(like: Any) -> Any:
    """An empty accumulator of the kind and type of ``like``."""
    return type(like)(like.aval)


def innermost_primal(tracer: Any) -> Any:
    """The value inside nested tracers of ``grad``, ``jvp`` and ``vmap``; a tracer of ``jit`` itself."""
    while isinstance(tracer, (_ad.JVPTracer, LinearizeTracer, _batching.BatchTracer)):
        tracer = tracer.val if isinstance(tracer, _batching.BatchTracer) else tracer.primal
    return tracer


LinearizeTrace = _ad.LinearizeTrace
"""The trace of ``jax.grad``: its ``parent_trace`` records operands, its ``tangent_trace`` tangents."""

LinearizeTracer = _ad.LinearizeTracer


Trace = _core.Trace
Tracer = _core.Tracer
JaxprTrace = _partial_eval.DynamicJaxprTrace

check_bool_conversion = _core.check_bool_conversion
check_scalar_conversion = _core.check_scalar_conversion
check_integer_conversion = _core.check_integer_conversion
escaped_tracer_error = _core.escaped_tracer_error
typeof = _core.typeof
eval_trace = _core.eval_trace
set_current_trace = _core.set_current_trace


def current_trace() -> Trace | None:
    """The trace on which JAX binds primitives in this thread. It is None while 0.12 processes a primitive."""
    return _core.trace_ctx.trace


trace_state: Any = _core.trace_state_strong_ref
"""Its ``value`` is the result of :func:`current_trace`, without two Python calls."""


set_trace = _core.trace_ctx.set_trace
"""Sets the current trace of this thread to a trace, or None."""


def jax_is_on_stack() -> bool:
    """Whether the stack above the caller contains a function of JAX."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(PUBLIC_MODULES):
            return True
        frame = frame.f_back
    return False


def is_eval(trace: Trace | None) -> bool:
    """Whether primitives bound on ``trace`` run at once. 0.12 has no trace between operations."""
    return trace is None or isinstance(trace, _core.EvalTrace)


def has_no_axis_env() -> bool:
    """Whether no vmap axis is in scope."""
    return _core.trace_ctx.axis_env is _core.top_axis_env


source_context: Any = _source_info_util._source_info_context
"""Its ``context.name_stack`` is the current name stack, as text for example ``jvp(MLP)/Dense_0``."""


def extend_scope(context: Any, name: str) -> Any:
    """The value of ``source_context.context`` within ``jax.named_scope(name)`` inside of ``context``."""
    return context.replace(name_stack=context.name_stack.extend(name))
