"""Cached linearisation: ``jax.grad`` differentiates a call once for each combination of operand avals.

Eager JAX differentiates each primitive again, which takes 0.1 to 0.2 ms for each operation, and most of the
time of an unmodified training step. The result depends only on the function, its parameters and the operand
avals. Its *known* part (from operands to results and residuals) is recorded like any call. Its *linear* part
(from tangents to tangents) is returned to JAX. Two kinds of calls under ``jax.grad`` are cached: operators,
methods and functions of ``jax.numpy`` and similar modules; and primitives without a linearisation rule of
their own, whose JVP rule JAX would run under partial evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.jaxpr_structure import derivative_rules
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.operation_checks import size_of
from lazynb.recording.operation_step import operations
from lazynb.recording.replay.call_replay import replay, value_key
from lazynb.recording.replay.replay_edge import NUMBER_KINDS, NotReplayable
from lazynb.recording.value_placement import committed_devices

# ---- Number of programs that eager JAX runs for a call -----------------------------------------------------
# If it is one jitted function, all its results are on the devices of its operands, also those that depend
# only on constants: the 0.5 in the gradient of ``x * 0.5`` is where ``x`` is.


class PrimitiveCounter(jc.Trace):
    """Notes the primitives that are bound, and binds them on the trace that was current.

    Attributes:
      names: the names of the primitives, in order. A call with its own rules is noted by its name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._inner: Any = jc.current_trace()

    @property
    def are_one_jit(self) -> bool:
        return len(self.names) == 1 and self.names[0] in jc.JIT_PRIMITIVES

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        self.names.append(primitive.name)
        with jc.set_current_trace(self._inner):
            return primitive.bind(*tracers, **params)

    def process_custom_jvp_call(self, primitive: Any, *args: Any, **params: Any) -> Any:
        self.names.append(primitive.name)
        with jc.set_current_trace(self._inner):
            return self._inner.process_custom_jvp_call(primitive, *args, **params)

    def process_custom_vjp_call(self, primitive: Any, *args: Any, **params: Any) -> Any:
        self.names.append(primitive.name)
        with jc.set_current_trace(self._inner):
            return self._inner.process_custom_vjp_call(primitive, *args, **params)


MAX_RULES = 4096
MAX_FAMILY = 32
"""Rules of one function for one set of avals. A number compared by value has a rule for each value."""


class Known:
    """The known part: a program that is recorded. Values that it returns unchanged are not computed.

    Attributes:
      eqns: its equations, in the order of recording.
      is_one_jit: whether it is one jitted function, which eager JAX runs on the devices of its operands.
    """

    is_one_jit = False

    def __init__(self, function: Callable[..., Sequence[Any]], avals: Sequence[Any]):
        jaxpr = jc.trace_to_jaxpr(function, avals)
        if jaxpr.effects:
            raise NotReplayable  # a replayed call has results and no other effect
        self._sources, self._fresh = jc.forwarded_outputs(jaxpr)
        self._jaxpr = jaxpr
        self.eqns: Sequence[Any] = getattr(jaxpr, "jaxpr", jaxpr).eqns

    def values(self, trace: LazyTrace, primals: Sequence[Any]) -> list[Any]:
        """Returns the results of the function for ``primals``, recorded on ``trace``."""
        computed: Any = ()
        if self._fresh is not None:
            computed = replay(trace, self, self._recorded, tuple(primals), {}, True)
        values = []
        for is_operand, number in self._sources:
            values.append(_as_array(primals[number], trace) if is_operand else computed[number])
        return values

    def _recorded(self, *primals: Any) -> list[Any]:
        """Returns the computed results, recorded operation by operation."""
        trace = jc.trace_state.value
        assert self._fresh is not None
        if not jc.has_several_devices():
            return self._fresh(*primals)
        with trace.recording_on(self._devices(trace, primals)):
            return self._fresh(*primals)

    def _devices(self, trace: LazyTrace, primals: Sequence[Any]) -> tuple[Any, ...] | None:
        """Returns the devices to which eager JAX commits all results, by an operand; None without any.
        Uncommitted operations of the program are recorded there too. Eager JAX computes them on the default
        device and moves the results; here that would need another trace, and the program could not be
        replayed. Not more bytes are moved than eagerly."""
        places = [committed_devices(primal, trace) for primal in primals]
        sets = {place for place in places if place is not None}
        if len(sets) != 1:
            return None
        committed = [var for var, place in zip(jc.jaxpr_inputs(self._jaxpr), places) if place is not None]
        return next(iter(sets)) if self.is_one_jit or self._is_moved_less(committed) else None

    def _is_moved_less(self, committed: Sequence[Any]) -> bool:
        """Whether each result depends on an input of ``committed``, and no other value shrinks before its
        move."""
        computed = zip(self._sources, jc.outputs_depending_on(self._jaxpr, committed))
        return all(is_operand or depends for (is_operand, _), depends in computed) and all(
            size_of(var.aval for var in eqn.invars) <= size_of(var.aval for var in eqn.outvars)
            for eqn in jc.independent_eqns(self._jaxpr, set(committed))
        )


def _as_array(value: Any, trace: LazyTrace) -> Any:
    return value if isinstance(value, jax.Array) else trace.stage_value(value)


class _PrimitiveLinearization:
    """The linearisation of one primitive.

    Attributes:
      known: the known part, with results and residuals.
      results: the number of its values that are results; the others are residuals.
      nonzero: for each result, whether JAX's rule gives it a tangent.
      rest: the values that JAX's rule returns after the residuals; the last is the linear function.
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


class _CallLinearization:
    """The linearisation of one call.

    Attributes:
      known: the known part, with results and residuals.
      results: the number of its values that are results.
      container: type of the tuple or list of results; None for a single result.
      linear: computes the tangents of the results from the residuals and the tangents of the varying
        operands.
      nonzero: for each result, whether it has a tangent. As in eager JAX, a result without one is no tracer.
    """

    def __init__(self, call: Callable[..., Any], nonzeros: Sequence[bool], avals: Sequence[Any]):
        def known(*primals: Any) -> list[Any]:
            def varying(*values: Any) -> Any:
                given = iter(values)
                args = [next(given) if nonzero else primal for nonzero, primal in zip(nonzeros, primals)]
                return call(*args)

            varied = [primal for primal, nonzero in zip(primals, nonzeros) if nonzero]
            with jc.set_current_trace(programs := PrimitiveCounter()):
                result, linear = jax.linearize(varying, *varied)
            self._is_one_jit = programs.are_one_jit
            self.container = type(result) if type(result) in (tuple, list) else None
            results = [result] if self.container is None else list(result)
            dtypes = [jc.typeof(result).dtype for result in results]
            if not all(jax.numpy.issubdtype(dtype, np.inexact) for dtype in dtypes):
                raise NotReplayable
            self.results = len(results)
            residuals, self._tree = jax.tree.flatten(linear)
            self._avals = [jc.typeof(residual) for residual in residuals]
            return [*results, *residuals]

        self.known = Known(known, avals)
        self.known.is_one_jit = self._is_one_jit
        tangents = [aval.to_tangent_aval() for aval, nonzero in zip(avals, nonzeros) if nonzero]
        count = len(self._avals)

        def linear(*values: Any) -> Sequence[Any]:
            return jax.tree.leaves(jax.tree.unflatten(self._tree, values[:count])(*values[count:]))

        jaxpr = jc.trace_to_jaxpr(linear, [*self._avals, *tangents])
        self.linear = jc.as_function_at_caller(jaxpr)
        self.nonzero = jc.outputs_depending_on(jaxpr, jc.jaxpr_inputs(jaxpr)[-len(tangents) :])


_rules: dict[Any, Any] = {}
_families: dict[Any, int] = {}


def cached_rule(key: Any, family: Any, make: Callable[[], Any]) -> Any:
    """Returns the rule for ``key``, made if new; None if JAX must differentiate each time.

    Arguments:
      family: equal for keys that differ only in numbers; at most :data:`MAX_FAMILY` of them get a rule.
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
        except Exception:  # JAX raises the error at the operation, with a better text
            _rules[key] = None
    return _rules[key]


def known_avals(primals: Sequence[Any]) -> tuple[Any, ...] | None:
    """Returns the operand avals; None if one has a sharding on Explicit axes."""
    avals = tuple([jc.typeof(primal) for primal in primals])
    for aval in avals:
        if not isinstance(aval, jc.ShapedArray) or not (aval.sharding.mesh.empty or jc.is_auto(aval)):
            return None
    return avals


# ---- Calls -------------------------------------------------------------------------------------------------


@jc.hide_frame
def linearized_call(
    trace: Any,
    name: Hashable,
    plain: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scalars_alike: bool,
) -> Any:
    """Makes the call ``plain(*args, **kwargs)`` under ``jax.grad`` (``trace``) over a lazy trace."""
    lazy = trace.parent_trace
    primals: list[Any] = []
    tangents: list[Any] = []
    parts: list[Any] = [name]
    nonzeros: list[bool] = []
    try:
        for arg in args:
            cls = type(arg)
            varies = cls is jc.LinearizeTracer and arg._trace is trace
            if varies or cls is LazyTensor or cls is jc.ArrayImpl or (scalars_alike and cls in NUMBER_KINDS):
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
    except (NotReplayable, TypeError, RecursionError):
        avals = None
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
) -> _CallLinearization | None:
    varying = [isinstance(part, bool) for part in parts[1 : 1 + len(args)]]

    @jc.hide_frame
    def call(*primals: Any) -> Any:
        given = iter(primals)
        return plain(*[next(given) if varies else arg for varies, arg in zip(varying, args)], **kwargs)

    rule: _CallLinearization | None = cached_rule(
        key, (parts[0], avals), lambda: _CallLinearization(call, nonzeros, avals)
    )
    return rule


def _static(arg: Any) -> Hashable:
    return value_key(arg, _static)


# ---- Primitives --------------------------------------------------------------------------------------------


def _linearize_substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the substitute for ``plain``, JAX's ``fallback_linearize_rule``, while a thread is lazy."""

    def linearize(
        primitive: Any, is_vjp: bool, nonzeros: Sequence[bool], *primals: Any, **params: Any
    ) -> Any:
        trace, avals = jc.trace_state.value, None
        if type(trace) is LazyTrace and not jc.must_run_eagerly():
            avals = known_avals(primals)
        if avals is None:
            return plain(primitive, is_vjp, nonzeros, *primals, **params)
        operation = operations.find(primitive, params, trace.context_token())
        key = (operation, derivative_rules(params), is_vjp, tuple(nonzeros), avals)

        def make() -> _PrimitiveLinearization:
            return _PrimitiveLinearization(plain, primitive, is_vjp, nonzeros, avals, params)

        rule = cached_rule(key, (primitive, avals), make)
        if rule is None:
            return plain(primitive, is_vjp, nonzeros, *primals, **params)
        values = rule.known.values(trace, primals)
        results, residuals = values[: rule.results], values[rule.results :]
        return (results[0] if rule.single else results), rule.nonzero, residuals, *rule.rest

    return linearize


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """Returns the substitutes while a thread is lazy, by module."""
    module, name = jc.LINEARIZE_RULE
    return [(module, {name: _linearize_substitute(vars(module)[name])})]
