"""Jaxprs: building, reading and tracing them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

import jax
import numpy as np
from jax._src import core as _core, linear_util as _linear_util, source_info_util as _source_info_util
from jax._src.interpreters import partial_eval as _partial_eval

from lazynb.jax_compat.jax_arrays import UNSPECIFIED
from lazynb.jax_compat.jax_config import settings_preserved
from lazynb.jax_compat.jax_names import BACKWARD_SCOPE
from lazynb.jax_compat.tracers import eval_trace, set_current_trace

Var = _core.Var
Literal = _core.Literal
Jaxpr = _core.Jaxpr
ClosedJaxpr = getattr(_core, "ClosedJaxpr", _core.Jaxpr)  # 0.12 merged the two into Jaxpr
no_effects = _core.no_effects
_NO_PYTREES = (str, bytes, bool, int, float, complex, type, np.dtype)
_PLAIN = frozenset((str, bytes, bool, int, float, complex, type(None), type(UNSPECIFIED)))
"""Types of most parameters, and of most items of those that are tuples."""

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
    """An equation with ``scope`` as its only source information: the user's lines must not enter cache
    keys."""
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


def traced_function(jaxpr: Any) -> tuple[str, str, int] | None:
    """Name, file and first line of the function that was traced to ``jaxpr``; None if JAX has no record."""
    debug_info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
    # ``name at file:line``
    name, separator, place = str(getattr(debug_info, "func_src_info", None) or "").partition(" at ")
    file, _, line = place.rpartition(":")
    return (name, file, int(line)) if separator and line.isdigit() else None


def argument_names(jaxpr: Any) -> list[str | None]:
    """For each input of ``jaxpr`` the argument in the user's terms, such as ``p['w']``; None if unknown."""
    debug_info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
    names = list(getattr(debug_info, "arg_names", None) or ())
    count = len(jaxpr_inputs(jaxpr))
    return [*[None] * (count - len(names)), *names] if len(names) <= count else [None] * count


as_function: Callable[[Any], Callable[..., list[Any]]] = _core.jaxpr_as_fun
"""A function that binds the equations of a closed jaxpr."""


def as_function_at_caller(jaxpr: Any) -> Callable[..., list[Any]]:
    """As :data:`as_function`, but the equations count as traced at its call, and not where ``jaxpr`` was."""
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
    """The jaxprs in a parameter of a primitive, which may be a pytree of them."""
    if is_jaxpr(value):
        return [value]
    if value is None or isinstance(value, _NO_PYTREES):
        return []
    return [leaf for leaf in jax.tree.leaves(value) if is_jaxpr(leaf)]  # a jaxpr is a leaf


def map_jaxprs(function: Callable[[Any], Any], value: Any) -> Any:
    """A parameter of a primitive with ``function`` of each of its jaxprs; the same object if all are the
    same."""
    if is_jaxpr(value):
        return function(value)
    old = jaxprs_of(value)
    new = [function(jaxpr) for jaxpr in old]
    if all(one is other for one, other in zip(old, new, strict=True)):
        return value
    made = iter(new)
    return jax.tree.map(lambda leaf: next(made) if is_jaxpr(leaf) else leaf, value)


def jaxprs_in(params: dict[str, Any]) -> list[Any]:
    """The jaxprs in the parameters of a primitive: the functions that it calls."""
    found: list[Any] = []
    for value in params.values():
        kind = type(value)
        if kind not in _PLAIN and not (kind is tuple and _PLAIN.issuperset(map(type, value))):
            found += jaxprs_of(value)
    return found


def equations_in(params: dict[str, Any]) -> int:
    """The number of equations in the jaxprs of a primitive's parameters, nested ones included."""
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


def replace_contents(jaxpr: Any, eqns: Sequence[Any], consts: Sequence[Any]) -> Any:
    """A copy of ``jaxpr``, closed or not, with other equations and other values of its constants."""
    if isinstance(jaxpr, Jaxpr) and ClosedJaxpr is not Jaxpr:
        return jaxpr.replace(eqns=list(eqns))
    open_jaxpr = (
        jaxpr.replace(eqns=list(eqns)) if ClosedJaxpr is Jaxpr else jaxpr.jaxpr.replace(eqns=list(eqns))
    )
    return ClosedJaxpr(open_jaxpr, list(consts))


def trace_to_jaxpr(function: Callable[..., Sequence[Any]], avals: Sequence[Any]) -> Any:
    """The closed jaxpr of ``function`` for arguments of types ``avals``."""
    with set_current_trace(eval_trace), settings_preserved():
        return jax.make_jaxpr(function)(
            *[jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
        )


def forwarded_outputs(jaxpr: Any) -> tuple[list[tuple[bool, int]], Callable[..., list[Any]] | None]:
    """The sources of the outputs of a closed jaxpr.

    Returns for each output whether it is an input, with a number; and a function that computes the other
    outputs, or None if all are inputs. The number is the index of the input, or of the function's result.

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


def outputs_depending_on(jaxpr: Any, inputs: Sequence[Any]) -> list[bool]:
    """For each output of a closed jaxpr, whether it depends on one of the variables ``inputs``."""
    reached = set(inputs)
    independent_eqns(jaxpr, reached)
    outvars = getattr(jaxpr, "jaxpr", jaxpr).outvars
    return [not isinstance(var, Literal) and var in reached for var in outvars]


def independent_eqns(jaxpr: Any, reached: set[Any]) -> list[Any]:
    """The equations that do not depend on the variables ``reached``; the other results are added to it."""
    rest = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if any(not isinstance(var, Literal) and var in reached for var in eqn.invars):
            reached.update(eqn.outvars)
        else:
            rest.append(eqn)
    return rest


def static_arguments(function: Any) -> tuple[int | str, ...]:
    """Positions and names of the static arguments of a jitted function; empty for another function."""
    known = getattr(function, "_jit_info", None)
    return (*known.static_argnums, *known.static_argnames) if known is not None else ()


def jit_options(function: Any) -> list[str]:
    """The options of a jitted function, besides static arguments, that change its program, by the names that
    the user wrote; empty for another function."""
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


# ---- Jaxprs within a call, and tracebacks ---------------------------------------------------------------
# Primitives that call the user's functions, and the place at which JAX traced their equations.

SINGLE_BODY_PRIMITIVES = frozenset(
    {"jit", "closed_call", "core_call", "checkpoint", "remat2", "custom_jvp_call", "custom_vjp_call"}
)
"""Primitives that run one jaxpr on their operands."""

_JAX_ROOT = os.path.join(os.path.dirname(jax.__file__), "")

SCAN, WHILE, BRANCHES = "scan", "while", "cond"
"""Loops and branches."""

SHARD_MAP = "shard_map"
"""Runs one jaxpr on each device's parts of its operands."""

BODY_PRIMITIVES = SINGLE_BODY_PRIMITIVES | {SCAN, WHILE, BRANCHES, SHARD_MAP}
"""All primitives that run jaxprs of the user's functions."""


def traceback_of(eqn: Any) -> Any:
    """The traceback of an equation, for :func:`eqn_frames`; equations that JAX made from one share it."""
    return eqn.source_info.traceback


def forward_traceback(context: Any) -> Any:
    """The traceback of the operation of which ``context``, a source context of JAX, is the backward pass;
    None if it is no backward pass."""
    if context.traceback is None or f"{BACKWARD_SCOPE}(" not in str(context.name_stack):
        return None
    return context.traceback


def eqn_frames(eqn: Any) -> Iterable[tuple[CodeType, int]]:
    """The stack at which an equation was traced, as code objects and offsets, the innermost first. JAX keeps
    the frames within the traced function, and none of its callers."""
    return traceback_frames(eqn.source_info.traceback)


def jax_function_of(jaxpr: Any) -> tuple[str, str] | None:
    """Name and file of the function that was traced to ``jaxpr``, if it is JAX's own; None otherwise."""
    function = traced_function(jaxpr)
    return function[:2] if function is not None and function[1].startswith(_JAX_ROOT) else None


def traceback_frames(traceback: Any) -> Iterable[tuple[CodeType, int]]:
    """The instructions in a traceback of JAX, as code objects and offsets, the innermost first."""
    if traceback is None:
        return ()
    codes, offsets = traceback.raw_frames()
    return zip(codes, offsets)


def name_stack(eqn: Any) -> str:
    """The name scopes and transformations of an equation: ``jvp(MLP)/Dense_0``."""
    return str(eqn.source_info.name_stack)


def with_name_scope(eqn: Any, scope: str, params: dict[str, Any]) -> Any:
    """``eqn`` within an additional outer name scope, with other parameters."""
    stack = _source_info_util.new_name_stack(scope) + eqn.source_info.name_stack
    return eqn.replace(params=params, source_info=eqn.source_info.replace(name_stack=stack))


def replace_eqns(jaxpr: Any, eqns: Sequence[Any]) -> Any:
    """A copy of ``jaxpr``, closed or not, with other equations."""
    if ClosedJaxpr is Jaxpr or isinstance(jaxpr, Jaxpr):
        return jaxpr.replace(eqns=list(eqns))
    return ClosedJaxpr(jaxpr.jaxpr.replace(eqns=list(eqns)), jaxpr.consts)


def scan_constants(params: dict[str, Any]) -> int:
    """The number of a scan's constant operands, which come first."""
    if "num_consts" in params:  # 0.10
        return int(params["num_consts"])
    constants, _, _ = params["ft_in"].unpack()
    return len(list(constants))
