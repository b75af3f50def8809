"""The backward pass with a memory: transposing a linear program is worked out once for its content.

``jax.grad`` transposes the linear program of each step anew, operation by operation, though the next step's
has the same content. Which operations come out depends on that content and on the types of residuals and
cotangents; they are recorded like any call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb import _jax as jc
from lazynb.record.fast.linearize import Known, known_avals, rule_for
from lazynb.record.fast.recall import NotRecalled
from lazynb.record.structure import jaxpr_content
from lazynb.record.trace import LazyTrace

MIN_EQUATIONS = 8
"""A shorter program is transposed in less time than its content is compared."""


class _Backward:
    """How one linear program is transposed.

    Attributes:
      known: gives the cotangents that are not zero.
      nonzero: for each accumulator, whether its cotangent is not zero.
      returned: what JAX's function returns.
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
            arrays, cotangents = iter(values[consts_end:primals_end]), iter(values[primals_end:])
            fresh: list[Any] = [
                jc.new_accumulator(p) if isinstance(p, jc.GradAccum) else next(arrays) for p in primals
            ]
            self.returned = plain(
                jaxpr,
                transform_stack,
                values[:consts_end],
                fresh,
                [next(cotangents) if zero is None else zero for zero in zeros],
            )
            if self.returned:
                raise NotRecalled
            found = [accum.freeze() for accum in fresh if type(accum) is jc.ValAccum]
            self.nonzero = [type(value) is not jc.Zero for value in found]
            return [value for value, nonzero in zip(found, self.nonzero) if nonzero]

        self.known = Known(known, avals)


def _substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in for JAX's ``backward_pass3``, which is ``plain``, while a thread is lazy."""

    def backward(
        jaxpr: Any,
        transform_stack: bool,
        consts: Sequence[Any],
        primals_in: Sequence[Any],
        cotangents_in: Sequence[Any],
    ) -> Any:
        trace = jc.ambient.value
        if trace.__class__ is LazyTrace and transform_stack:
            cotangents_in = [
                _strong(cotangent, var, jaxpr) if _is_weak(cotangent) else cotangent
                for cotangent, var in zip(cotangents_in, getattr(jaxpr, "jaxpr", jaxpr).outvars)
            ]
        if (
            trace.__class__ is LazyTrace
            and len(jaxpr.eqns) >= MIN_EQUATIONS
            and not jaxpr.effects
            and _are_empty(primals_in)
        ):
            rule, operands = _rule(plain, trace, jaxpr, transform_stack, consts, primals_in, cotangents_in)
            if rule is not None:
                values = iter(rule.known.values(trace, operands))
                accums = [primal for primal in primals_in if type(primal) is jc.ValAccum]
                for accum, nonzero in zip(accums, rule.nonzero):
                    if nonzero:
                        accum.accum(next(values))
                return rule.returned
        return plain(jaxpr, transform_stack, consts, primals_in, cotangents_in)

    return backward


def _rule(
    plain: Callable[..., Any],
    trace: LazyTrace,
    jaxpr: Any,
    transform_stack: bool,
    consts: Sequence[Any],
    primals_in: Sequence[Any],
    cotangents_in: Sequence[Any],
) -> tuple[_Backward | None, list[Any]]:
    """The rule, None where JAX has to be asked, and the arrays that it takes."""
    arrays = [primal for primal in primals_in if not isinstance(primal, jc.GradAccum)]
    zeros = [cotangent if type(cotangent) is jc.Zero else None for cotangent in cotangents_in]
    operands = [*consts, *arrays, *[ct for ct, zero in zip(cotangents_in, zeros) if zero is None]]
    if jc.must_run_eagerly() or (avals := known_avals(operands)) is None:
        return None, operands
    kinds = tuple(
        [(type(primal), primal.aval) if isinstance(primal, jc.GradAccum) else None for primal in primals_in]
    )
    mask = tuple([zero.aval if zero is not None else None for zero in zeros])
    key = (jaxpr_content(jaxpr), transform_stack, kinds, mask, avals, trace.context_token())
    family = ("backward", len(jaxpr.eqns), avals)
    rule = rule_for(
        key,
        family,
        lambda: _Backward(
            plain, jaxpr, transform_stack, primals_in, (len(consts), len(arrays)), zeros, avals
        ),
    )
    return rule, operands


def _is_weak(cotangent: Any) -> bool:
    return type(cotangent) is not jc.Zero and getattr(jc.typeof(cotangent), "weak_type", False)


def _strong(cotangent: Any, var: Any, jaxpr: Any) -> Any:
    """``cotangent``, which is weakly typed, as eager JAX has it for a result ``var`` that is not: it loses
    the weak type in the first jitted function that is transposed, which all operators are; the linear
    programs here have none. The backward rule of a user's function gets the very object."""
    if var.aval.weak_type:
        return cotangent
    source = next((eqn for eqn in reversed(jaxpr.eqns) if var in eqn.outvars), None)
    return cotangent if source is None or jc.hands_on(source) else jc.strongly_typed(cotangent)


def _are_empty(primals: Sequence[Any]) -> bool:
    """Whether no cotangent was accumulated yet, and all accumulators are plain ones."""
    return all(
        (type(primal) is jc.ValAccum and type(primal.val) is jc.Zero) or type(primal) is jc.NullAccum
        for primal in primals
        if isinstance(primal, jc.GradAccum)
    )


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """What changes while a thread is lazy, by module."""
    module, name = jc.transposition
    return [(module, {name: _substitute(vars(module)[name])})]
