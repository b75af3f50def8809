"""Jaxprs: how they are built, read and traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import core as _core, linear_util as _linear_util, source_info_util as _source_info_util
from jax._src.interpreters import partial_eval as _partial_eval

from lazynb._jax.arrays import UNSPECIFIED
from lazynb._jax.config import settings_kept
from lazynb._jax.tracing import eval_trace, set_current_trace

Var = _core.Var
Literal = _core.Literal
Jaxpr = _core.Jaxpr
ClosedJaxpr = getattr(_core, "ClosedJaxpr", _core.Jaxpr)  # 0.12 merged the two into Jaxpr
no_effects = _core.no_effects
separate_consts = _partial_eval.separate_consts


def new_eqn(
    invars: Sequence[Any],
    outvars: Sequence[Any],
    primitive: Any,
    params: dict[str, Any],
    effects: Any,
    context: Any,
    scope: str,
) -> Any:
    """An equation whose only source information is ``scope``: the user's lines must not enter cache keys."""
    info = _source_info_util.new_source_info().replace(name_stack=_source_info_util.new_name_stack(scope))
    return _core.new_jaxpr_eqn(list(invars), list(outvars), primitive, params, effects, info, context)


def eqn_context() -> Any:
    """The part of the configuration that JAX stores with each equation."""
    return _core.current_jaxpr_eqn_context()


def new_var(aval: Any) -> Any:
    """A fresh variable."""
    return Var(aval)


def closed_jaxpr(invars: Sequence[Any], outvars: Sequence[Any], eqns: Sequence[Any]) -> Any:
    """A closed jaxpr without constants."""
    debug = _linear_util.DebugInfo(
        "jit",
        "lazynb",
        tuple(f"x{i}" for i in range(len(invars))),
        tuple(f"y{i}" for i in range(len(outvars))),
    )
    jaxpr = Jaxpr((), list(invars), list(outvars), list(eqns), _core.no_effects, debug)
    return jaxpr if ClosedJaxpr is Jaxpr else ClosedJaxpr(jaxpr, ())


def source_file(jaxpr: Any) -> str | None:
    """The file of the function that was traced to ``jaxpr``. Returns None if JAX does not know it."""
    debug_info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
    # ``name at file:line``
    _, separator, place = str(getattr(debug_info, "func_src_info", None) or "").rpartition(" at ")
    return place.rpartition(":")[0] if separator else None


as_function: Callable[[Any], Callable[..., list[Any]]] = _core.jaxpr_as_fun
"""A function that binds the equations of a closed jaxpr."""


def as_function_here(jaxpr: Any) -> Callable[..., list[Any]]:
    """As :data:`as_function`, but the equations count as traced where it is called, not where ``jaxpr`` was
    traced."""
    eqns, consts = jaxpr.jaxpr, jaxpr.consts
    return lambda *args: list(_core.eval_jaxpr(eqns, consts, *args, propagate_source_info=False))


def jaxpr_inputs(jaxpr: Any) -> list[Any]:
    """The input variables of a closed jaxpr, those of its constants first."""
    inner = jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr
    return [*inner.constvars, *inner.invars]


def jaxpr_outputs(jaxpr: Any) -> list[Any]:
    """The output variables and literals of a closed jaxpr."""
    return list((jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr).outvars)


def is_jaxpr(value: Any) -> bool:
    """Whether ``value`` is a jaxpr, closed or not."""
    return isinstance(value, (Jaxpr, ClosedJaxpr))


def jaxprs_of(value: Any) -> list[Any]:
    """The jaxprs that a parameter of a primitive consists of."""
    if is_jaxpr(value):
        return [value]
    return [one for one in value if is_jaxpr(one)] if isinstance(value, tuple | list) else []


def jaxprs_in(params: dict[str, Any]) -> list[Any]:
    """The jaxprs among the parameters of a primitive: the functions that it calls."""
    return [jaxpr for value in params.values() for jaxpr in jaxprs_of(value)]


def equations_in(params: dict[str, Any]) -> int:
    """The number of equations in the jaxprs among the parameters of a primitive, and in those inside them."""
    return sum(_size(jaxpr, {}) for jaxpr in jaxprs_in(params))


def _size(jaxpr: Any, known: dict[int, int]) -> int:
    size = known.get(id(jaxpr))
    if size is None:
        inside = [inner for eqn in jaxpr.eqns for inner in jaxprs_in(eqn.params)]
        size = known[id(jaxpr)] = len(jaxpr.eqns) + sum(_size(inner, known) for inner in inside)
    return size


def constants(jaxpr: Any) -> Sequence[Any]:
    """The values of the constants of a jaxpr; empty if it is not closed."""
    return getattr(jaxpr, "consts", ())


def with_content(jaxpr: Any, eqns: Sequence[Any], consts: Sequence[Any]) -> Any:
    """A jaxpr like ``jaxpr``, closed or not, with other equations and other values of its constants."""
    if isinstance(jaxpr, Jaxpr) and ClosedJaxpr is not Jaxpr:
        return jaxpr.replace(eqns=list(eqns))
    open_jaxpr = (
        jaxpr.replace(eqns=list(eqns)) if ClosedJaxpr is Jaxpr else jaxpr.jaxpr.replace(eqns=list(eqns))
    )
    return ClosedJaxpr(open_jaxpr, list(consts))


def traced(function: Callable[..., Sequence[Any]], avals: Sequence[Any]) -> Any:
    """The closed jaxpr of ``function`` for arguments of types ``avals``."""
    with set_current_trace(eval_trace), settings_kept():
        return jax.make_jaxpr(function)(
            *[jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
        )


def forwarded(jaxpr: Any) -> tuple[list[tuple[bool, int]], Callable[..., list[Any]] | None]:
    """Where the outputs of a closed jaxpr come from.

    Returns for each output whether it is an input, with a number; and a function that computes the outputs
    that are not, or None if all are inputs. The number is that of the input, or of the function's result.

    Raises:
      ValueError: the jaxpr has constants.
    """
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    if inner.constvars or any(isinstance(var, Literal) for var in inner.outvars):
        raise ValueError("constants")
    inputs = {var: number for number, var in enumerate(inner.invars)}
    fresh = list(dict.fromkeys(var for var in inner.outvars if var not in inputs))
    sources = [(var in inputs, inputs[var] if var in inputs else fresh.index(var)) for var in inner.outvars]
    return sources, as_function(closed_jaxpr(inner.invars, fresh, inner.eqns)) if fresh else None


def depending(jaxpr: Any, inputs: Sequence[Any]) -> list[bool]:
    """For each output of a closed jaxpr, whether its equations make it depend on one of the variables
    ``inputs``."""
    reached = set(inputs)
    independent(jaxpr, reached)
    outvars = getattr(jaxpr, "jaxpr", jaxpr).outvars
    return [not isinstance(var, Literal) and var in reached for var in outvars]


def independent(jaxpr: Any, reached: set[Any]) -> list[Any]:
    """The equations that do not depend on the variables ``reached``, which the results of the others join."""
    rest = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if any(not isinstance(var, Literal) and var in reached for var in eqn.invars):
            reached.update(eqn.outvars)
        else:
            rest.append(eqn)
    return rest


def static_arguments(function: Any) -> tuple[int | str, ...]:
    """Positions and names of the arguments of a jitted function that are no arrays; empty for another."""
    known = getattr(function, "_jit_info", None)
    return (*known.static_argnums, *known.static_argnames) if known is not None else ()


def jit_options(function: Any) -> list[str]:
    """What a jitted function was given besides static arguments that changes its program, by the names that
    the user wrote; empty for another."""
    known = getattr(function, "_jit_info", None)
    if known is None:
        return []
    given = {
        "donate_argnums": known.donate_argnums or known.donate_argnames,
        "in_shardings": known.user_specified_in_shardings,
        "out_shardings": any(leaf is not UNSPECIFIED for leaf in known.out_shardings_leaves),
        "compiler_options": known.compiler_options_kvs,
        "keep_unused": known.keep_unused,
        "device": known.device is not None,
        "backend": known.backend is not None,
    }
    return [name for name, value in given.items() if value]
