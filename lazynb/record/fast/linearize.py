"""Linearisation with a memory: what ``jax.grad`` does for one call is worked out once for the types of its
operands.

Eager JAX differentiates each primitive anew: 0.1 to 0.2 ms an operation, most of what an unmodified training
step takes. What comes out depends on the function, its parameters and its operands' types alone: a *known*
part (results and residuals from the operands), which is recorded like any call, and a *linear* part (tangents
to tangents), which JAX goes on with. Two things are remembered: calls of operators, methods and functions of
``jax.numpy`` and its like under ``jax.grad``, and single primitives without a linearisation rule of their
own, whose JVP rule JAX would run under partial evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc
from lazynb.record.fast.recall import KINDS, NotRecalled, by_value, recall
from lazynb.record.structure import derivative_rules
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace, operations

MAX_RULES = 4096
MAX_FAMILY = 32
"""Rules of one function for one set of types: a number that enters by value makes one each."""


class Known:
    """The known part: a program that is recorded. Values that it hands on unchanged are no results of it."""

    def __init__(self, function: Callable[..., Sequence[Any]], avals: Sequence[Any]):
        jaxpr = jc.traced(function, avals)
        if jaxpr.effects:
            raise NotRecalled  # what prints has no results, or more to do than give them
        self._sources, self._fresh = jc.forwarded(jaxpr)

    def values(self, trace: LazyTrace, primals: Sequence[Any]) -> list[Any]:
        """What the function returns for ``primals``, recorded on ``trace``."""
        fresh = recall(trace, self, self._fresh, tuple(primals), {}, True) if self._fresh is not None else ()
        return [
            _as_array(primals[number], trace) if given else fresh[number] for given, number in self._sources
        ]


def _as_array(value: Any, trace: LazyTrace) -> Any:
    return value if isinstance(value, jax.Array) else trace.stage_value(value)


class _Primitive:
    """How one primitive is linearised.

    Attributes:
      known: gives the results and the residuals.
      results: how many of its values are results; the rest are residuals.
      nonzero: what JAX's rule says of the results' tangents.
      rest: what JAX's rule returns after the residuals, the linear function last.
      single: whether the primitive has one result.
    """

    def __init__(
        self,
        plain: Callable[..., Any],
        primitive: Any,
        is_vjp: bool,
        nonzeros: Sequence[bool],
        avals: Sequence[Any],
        params: dict[str, Any],
    ):
        self.single = not primitive.multiple_results

        def known(*primals: Any) -> list[Any]:
            results, self.nonzero, residuals, *self.rest = plain(
                primitive, is_vjp, nonzeros, *primals, **params
            )
            results = [results] if self.single else list(results)
            self.results = len(results)
            return [*results, *residuals]

        self.known = Known(known, avals)


class _Call:
    """How one call is linearised.

    Attributes:
      known: gives the results and the residuals.
      results: how many of its values are results.
      container: type in which the call returns them; None for a single one.
      linear: gives the results' tangents from the residuals and the tangents of the operands that have one.
      nonzero: for each result, whether it has a tangent: what does not depend on the operands' is no tracer,
        as eagerly.
    """

    def __init__(self, call: Callable[..., Any], nonzeros: Sequence[bool], avals: Sequence[Any]):
        def known(*primals: Any) -> list[Any]:
            def varying(*values: Any) -> Any:
                given = iter(values)
                return call(
                    *[next(given) if nonzero else primal for nonzero, primal in zip(nonzeros, primals)]
                )

            result, linear = jax.linearize(varying, *[p for p, nonzero in zip(primals, nonzeros) if nonzero])
            self.container = result.__class__ if result.__class__ in (tuple, list) else None
            results = [result] if self.container is None else list(result)
            if not all(jax.numpy.issubdtype(jc.typeof(r).dtype, np.inexact) for r in results):
                raise NotRecalled
            self.results = len(results)
            residuals, self._tree = jax.tree.flatten(linear)
            self._avals = [jc.typeof(residual) for residual in residuals]
            return [*results, *residuals]

        self.known = Known(known, avals)
        tangents = [aval.to_tangent_aval() for aval, nonzero in zip(avals, nonzeros) if nonzero]
        count = len(self._avals)

        def linear(*values: Any) -> Sequence[Any]:
            return jax.tree.leaves(jax.tree.unflatten(self._tree, values[:count])(*values[count:]))

        jaxpr = jc.traced(linear, [*self._avals, *tangents])
        self.linear = jc.as_function(jaxpr)
        self.nonzero = jc.depending(jaxpr, jc.jaxpr_inputs(jaxpr)[-len(tangents) :])


_rules: dict[Any, Any] = {}
_families: dict[Any, int] = {}


def rule_for(key: Any, family: Any, make: Callable[[], Any]) -> Any:
    """The rule for ``key``, made if need be; None where JAX has to be asked each time.

    Arguments:
      family: what stands for the keys that differ in no type: of those, only so many get a rule.
    """
    if key not in _rules:
        if len(_rules) >= MAX_RULES:
            _rules.clear()
            _families.clear()
        _families[family] = _families.get(family, 0) + 1
        if _families[family] > MAX_FAMILY:
            return None
        try:
            _rules[key] = make()
        except Exception:  # JAX says it better, at the operation itself
            _rules[key] = None
    return _rules[key]


def known_avals(primals: Sequence[Any]) -> tuple[Any, ...] | None:
    """Types of the operands; None where they are more than shape and dtype."""
    avals = tuple([jc.typeof(primal) for primal in primals])
    return (
        avals
        if all(isinstance(aval, jc.ShapedArray) and aval.sharding.mesh.empty for aval in avals)
        else None
    )


# ---- calls -------------------------------------------------------------------------------------------------


def linearized_call(
    trace: Any,
    name: Hashable,
    plain: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scalars_alike: bool,
) -> Any:
    """``plain(*args, **kwargs)`` under ``jax.grad``, whose trace is ``trace``, over a lazy trace."""
    lazy = trace.parent_trace
    primals: list[Any] = []
    tangents: list[Any] = []
    parts: list[Any] = [name]
    nonzeros: list[bool] = []
    try:
        for arg in args:
            cls = arg.__class__
            varies = cls is jc.LinearizeTracer and arg._trace is trace
            if varies or cls is LazyTensor or cls is jc.ArrayImpl or (scalars_alike and cls in KINDS):
                primals.append(arg.primal if varies else arg)
                nonzeros.append(varies)
                parts.append(varies)
                if varies:
                    tangents.append(arg.tangent)
            else:
                parts.append((_static(arg),))
        for word, arg in kwargs.items():
            parts.append((word, _static(arg)))
        avals = known_avals(primals)
    except (NotRecalled, TypeError):
        return plain(*args, **kwargs)
    if not tangents or avals is None or jc.must_run_eagerly():
        return plain(*args, **kwargs)
    key = (tuple(parts), avals, lazy.context_token())
    rule = _rules.get(key) or _new_call(key, plain, args, kwargs, parts, nonzeros, avals)
    if rule is None:
        return plain(*args, **kwargs)
    with jc.set_current_trace(lazy):
        values = rule.known.values(lazy, primals)
    with jc.set_current_trace(trace.tangent_trace):
        out = rule.linear(*values[rule.results :], *tangents)
    results = [
        jc.LinearizeTracer(trace, value, tangent) if nonzero else value
        for value, tangent, nonzero in zip(values, out, rule.nonzero)
    ]
    return results[0] if rule.container is None else rule.container(results)


def _new_call(
    key: Any,
    plain: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    parts: Sequence[Any],
    nonzeros: Sequence[bool],
    avals: Sequence[Any],
) -> _Call | None:
    varying = [isinstance(part, bool) for part in parts[1 : 1 + len(args)]]

    def call(*primals: Any) -> Any:
        given = iter(primals)
        return plain(*[next(given) if varies else arg for varies, arg in zip(varying, args)], **kwargs)

    found: _Call | None = rule_for(key, (parts[0], avals), lambda: _Call(call, nonzeros, avals))
    return found


def _static(arg: Any) -> Hashable:
    """What stands in a key for an argument that is no array."""
    return by_value(arg, _static)


# ---- primitives --------------------------------------------------------------------------------------------


def _substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in for JAX's ``fallback_linearize_rule``, which is ``plain``, while a thread is lazy."""

    def rule(primitive: Any, is_vjp: bool, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        trace = jc.ambient.value
        if (
            trace.__class__ is LazyTrace
            and not jc.must_run_eagerly()
            and (avals := known_avals(primals)) is not None
        ):
            key = (
                operations.find(primitive, params, trace.context_token()),
                derivative_rules(params),
                is_vjp,
                tuple(nonzeros),
                avals,
            )
            found = rule_for(
                key, (primitive, avals), lambda: _Primitive(plain, primitive, is_vjp, nonzeros, avals, params)
            )
            if found is not None:
                values = found.known.values(trace, primals)
                results, residuals = values[: found.results], values[found.results :]
                return (results[0] if found.single else results), found.nonzero, residuals, *found.rest
        return plain(primitive, is_vjp, nonzeros, *primals, **params)

    return rule


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """What changes while a thread is lazy, by module."""
    module, name = jc.linearisation
    return [(module, {name: _substitute(vars(module)[name])})]
