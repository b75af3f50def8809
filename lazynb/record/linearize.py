"""Linearisation with a memory: what ``jax.grad`` does for one operation is worked out once for its types.

For a primitive without a linearisation rule of its own, JAX runs the JVP rule under partial evaluation, each time anew: 0.2 ms
an operation, most of what an unmodified training step takes. What comes out depends on the primitive, its parameters and the
types of its operands alone: a known part (results and residuals from operands), which is recorded like any call, and a linear
part, which JAX goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb import _jax_compat as jc
from lazynb.record.recall import recall
from lazynb.record.trace import LazyTrace, operations

MAX_RULES = 4096


class _Rule:
    """How an operation is linearised.

    Attributes:
      known: gives the results and the residuals from the operands.
      results: how many of its values are results; the rest are residuals.
      nonzero: what JAX's rule says of the results' tangents.
      rest: what JAX's rule returns after the residuals, the linear function last.
      single: whether the primitive has one result.
    """

    __slots__ = ("known", "nonzero", "rest", "results", "single")

    def __init__(self, plain: Callable[..., Any], primitive: Any, is_vjp: bool, nonzeros: Sequence[bool], avals: Sequence[Any],
                 params: dict[str, Any]):
        self.single = not primitive.multiple_results

        def known(*primals: Any) -> list[Any]:
            results, self.nonzero, residuals, *self.rest = plain(primitive, is_vjp, nonzeros, *primals, **params)
            results = [results] if self.single else list(results)
            self.results = len(results)
            return [*results, *residuals]

        self.known = jc.traced(known, avals)


_rules: dict[Any, _Rule | None] = {}


def _rule(plain: Callable[..., Any], primitive: Any, is_vjp: bool, nonzeros: Sequence[bool], primals: Sequence[Any],
          params: dict[str, Any], trace: LazyTrace) -> _Rule | None:
    """The rule for operands like ``primals``; None where JAX has to be asked each time."""
    avals = tuple([jc.typeof(primal) for primal in primals])
    if not all(isinstance(aval, jc.ShapedArray) and aval.sharding.mesh.empty for aval in avals):
        return None
    key = (operations.find(primitive, params, trace.context_token()), is_vjp, tuple(nonzeros), avals)
    if key not in _rules:
        if len(_rules) >= MAX_RULES:
            _rules.clear()
        try:
            _rules[key] = _Rule(plain, primitive, is_vjp, nonzeros, avals, params)
        except Exception:  # JAX says it better, at the operation itself
            _rules[key] = None
    return _rules[key]


def _substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in for JAX's ``fallback_linearize_rule``, which is ``plain``, while a thread is lazy."""

    def rule(primitive: Any, is_vjp: bool, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        trace = jc.ambient.value
        if trace.__class__ is LazyTrace and not jc.must_run_eagerly():
            found = _rule(plain, primitive, is_vjp, nonzeros, primals, params, trace)
            if found is not None:
                values = recall(trace, found, found.known, primals, {}, True)
                results, residuals = values[:found.results], values[found.results:]
                return (results[0] if found.single else results), found.nonzero, residuals, *found.rest
        return plain(primitive, is_vjp, nonzeros, *primals, **params)

    return rule


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """What changes while a thread is lazy, by module."""
    module, name = jc.linearisation
    return [(module, {name: _substitute(vars(module)[name])})]
