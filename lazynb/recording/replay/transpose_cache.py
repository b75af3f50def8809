"""Cached transposition: a linear program of a backward pass is transposed once for its content.

``jax.grad`` transposes the linear program of each step again, operation by operation, though the content is
the same. The transposed operations depend only on that content and on the avals of residuals and cotangents.
They are recorded like any call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.forward_tracebacks import ForwardTracebacks
from lazynb.recording.jaxpr_structure import jaxpr_content
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.replay.linearize_cache import Known, cached_rule, known_avals
from lazynb.recording.replay.replay_edge import NotReplayable

MIN_EQUATIONS = 8
"""A shorter program is transposed in less time than its content is compared."""


class _TransposedProgram:
    """The transposition of one linear program.

    Attributes:
      known: the program that computes the nonzero cotangents.
      nonzero: for each accumulator, whether its cotangent is nonzero.
      returned: the return value of JAX's function.
    """

    def __init__(
        self,
        plain: Callable[..., Any],
        jaxpr: Any,
        transform_stack: bool,
        primals: Sequence[Any],
        counts: tuple[int, int],
        zeros: Sequence[Any],
        avals: Sequence[Any],
    ):
        consts_end, primals_end = counts[0], counts[0] + counts[1]

        def known(*values: Any) -> list[Any]:
            consts = values[:consts_end]
            arrays, rest = iter(values[consts_end:primals_end]), iter(values[primals_end:])
            fresh: list[Any] = []
            for primal in primals:
                is_accumulator = isinstance(primal, jc.GradAccum)
                fresh.append(jc.new_accumulator(primal) if is_accumulator else next(arrays))
            cotangents = [next(rest) if zero is None else zero for zero in zeros]
            self.returned = plain(jaxpr, transform_stack, consts, fresh, cotangents)
            if self.returned:
                raise NotReplayable
            sums = [accum.freeze() for accum in fresh if type(accum) is jc.ValAccum]
            self.nonzero = [type(value) is not jc.Zero for value in sums]
            return [value for value, nonzero in zip(sums, self.nonzero) if nonzero]

        self.known = Known(known, avals)
        linear = {id(jc.traceback_of(eqn)): number for number, eqn in enumerate(jaxpr.eqns)}
        self._made_of = [linear.get(id(jc.traceback_of(eqn))) for eqn in self.known.eqns]

    def values(self, trace: LazyTrace, jaxpr: Any, operands: Sequence[Any]) -> list[Any]:
        """Records the program on ``trace`` for the equal ``jaxpr``, and returns its nonzero cotangents."""
        tracebacks = [jc.traceback_of(eqn) for eqn in jaxpr.eqns]
        trace.forward_tracebacks = ForwardTracebacks(
            [tracebacks[number] if number is not None else None for number in self._made_of]
        )
        try:
            return self.known.values(trace, operands)
        finally:
            trace.forward_tracebacks = None


def _substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the substitute for ``plain``, JAX's ``backward_pass3``, while a thread is lazy."""

    def backward(
        jaxpr: Any,
        transform_stack: bool,
        consts: Sequence[Any],
        primals_in: Sequence[Any],
        cotangents_in: Sequence[Any],
    ) -> Any:
        trace = jc.trace_state.value
        if type(trace) is not LazyTrace:
            return plain(jaxpr, transform_stack, consts, primals_in, cotangents_in)
        if transform_stack:
            outvars = getattr(jaxpr, "jaxpr", jaxpr).outvars
            cotangents_in = [
                _drop_weak_cotangent_type(ct, var, jaxpr) for ct, var in zip(cotangents_in, outvars)
            ]
        if len(jaxpr.eqns) >= MIN_EQUATIONS and not jaxpr.effects and _are_empty(primals_in):
            rule, operands = _rule(plain, trace, jaxpr, transform_stack, consts, primals_in, cotangents_in)
            if rule is not None:
                _accumulate(primals_in, rule, rule.values(trace, jaxpr, operands))
                return rule.returned
        return plain(jaxpr, transform_stack, consts, primals_in, cotangents_in)

    return backward


def _accumulate(primals: Sequence[Any], rule: _TransposedProgram, cotangents: Sequence[Any]) -> None:
    """Adds the nonzero ``cotangents`` to the accumulators among ``primals``."""
    values = iter(cotangents)
    accums = [primal for primal in primals if type(primal) is jc.ValAccum]
    for accum, nonzero in zip(accums, rule.nonzero):
        if nonzero:
            accum.accum(next(values))


def _rule(
    plain: Callable[..., Any],
    trace: LazyTrace,
    jaxpr: Any,
    transform_stack: bool,
    consts: Sequence[Any],
    primals_in: Sequence[Any],
    cotangents_in: Sequence[Any],
) -> tuple[_TransposedProgram | None, list[Any]]:
    """Returns the rule and its operands; the rule is None if JAX must transpose the program."""
    arrays = [primal for primal in primals_in if not isinstance(primal, jc.GradAccum)]
    zeros = [cotangent if type(cotangent) is jc.Zero else None for cotangent in cotangents_in]
    operands = [*consts, *arrays, *[ct for ct, zero in zip(cotangents_in, zeros) if zero is None]]
    if jc.must_run_eagerly():
        return None, operands
    avals = known_avals(operands)
    if avals is None:
        return None, operands
    counts = (len(consts), len(arrays))
    mask = tuple([zero.aval if zero is not None else None for zero in zeros])
    key = (jaxpr_content(jaxpr), transform_stack, _kinds(primals_in), mask, avals, trace.context_token())
    family = ("backward", len(jaxpr.eqns), avals)

    def make() -> _TransposedProgram:
        return _TransposedProgram(plain, jaxpr, transform_stack, primals_in, counts, zeros, avals)

    return cached_rule(key, family, make), operands


def _kinds(primals: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the type and aval of each accumulator; None for each array."""
    return tuple(
        [(type(primal), primal.aval) if isinstance(primal, jc.GradAccum) else None for primal in primals]
    )


def _drop_weak_cotangent_type(cotangent: Any, var: Any, jaxpr: Any) -> Any:
    """Returns ``cotangent`` for the result ``var``, with the weak type of eager JAX. Eager JAX drops the weak
    type of a cotangent in the first jitted function that it transposes. All of JAX's operators are jitted
    functions, but the linear programs here contain none. The backward rule of a user's function gets the
    cotangent unchanged."""
    if type(cotangent) is jc.Zero or not getattr(jc.typeof(cotangent), "weak_type", False):
        return cotangent
    if var.aval.weak_type:
        return cotangent
    for eqn in reversed(jaxpr.eqns):
        if var in eqn.outvars:
            return cotangent if jc.transpose_forwards_cotangent(eqn) else jc.drop_weak_type(cotangent)
    return cotangent


def _are_empty(primals: Sequence[Any]) -> bool:
    """Whether all accumulators are plain and have no cotangent yet."""
    for primal in primals:
        if type(primal) is jc.ValAccum:
            if type(primal.val) is not jc.Zero:
                return False
        elif isinstance(primal, jc.GradAccum) and type(primal) is not jc.NullAccum:
            return False
    return True


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """Returns the substitutes while a thread is lazy, by module."""
    module, name = jc.BACKWARD_PASS
    return [(module, {name: _substitute(vars(module)[name])})]
