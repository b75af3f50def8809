"""What stands inside of a call: the primitives that call the user's functions, and where JAX saw their
equations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import jax
from jax._src import source_info_util as _source_info_util

from lazynb._jax.building import ClosedJaxpr, Jaxpr
from lazynb._jax.names import BACKWARD_SCOPE

CALLS = frozenset(
    {"jit", "closed_call", "core_call", "checkpoint", "remat2", "custom_jvp_call", "custom_vjp_call"}
)
"""Primitives that run one jaxpr on their operands."""

_JAX_ROOT = os.path.join(os.path.dirname(jax.__file__), "")

SCAN, WHILE, BRANCHES = "scan", "while", "cond"
"""Loops and branches."""

MAPPED = "shard_map"
"""Runs one jaxpr on each device's parts of its operands."""

CALLING = CALLS | {SCAN, WHILE, BRANCHES, MAPPED}
"""All primitives that run jaxprs of the user's functions."""


def traceback_of(eqn: Any) -> Any:
    """What was running when an equation was traced, for :func:`running`; the same object for all equations
    that JAX made of one."""
    return eqn.source_info.traceback


def differentiated(context: Any) -> Any:
    """What was running when the operation was traced of which JAX does the backward pass in ``context``, a
    source context of JAX's; None if it does none."""
    if context.traceback is None or f"{BACKWARD_SCOPE}(" not in str(context.name_stack):
        return None
    return context.traceback


def instructions(eqn: Any) -> Iterable[tuple[CodeType, int]]:
    """The instructions that were running when an equation was traced, as code object and offset, the
    innermost first. JAX keeps those within the function that is traced, and none of its callers'."""
    return running(eqn.source_info.traceback)


def own_function(jaxpr: Any) -> tuple[str, str] | None:
    """Name and file of the function that ``jaxpr`` was traced of, if it is JAX's own; None otherwise."""
    debug_info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
    info = getattr(debug_info, "func_src_info", None) or ""
    name, _, where = info.partition(" at ")
    file = where.rpartition(":")[0]
    return (name, file) if file.startswith(_JAX_ROOT) else None


def running(traceback: Any) -> Iterable[tuple[CodeType, int]]:
    """The instructions in one of JAX's tracebacks, as code object and offset, the innermost first."""
    if traceback is None:
        return ()
    codes, offsets = traceback.raw_frames()
    return zip(codes, offsets)


def name_stack(eqn: Any) -> str:
    """The name scopes of an equation, and what transformed it: ``jvp(MLP)/Dense_0``."""
    return str(eqn.source_info.name_stack)


def under(eqn: Any, scope: str, params: dict[str, Any]) -> Any:
    """``eqn`` under one more name scope, around its own, with other parameters."""
    stack = _source_info_util.new_name_stack(scope) + eqn.source_info.name_stack
    return eqn.replace(params=params, source_info=eqn.source_info.replace(name_stack=stack))


def with_eqns(jaxpr: Any, eqns: Sequence[Any]) -> Any:
    """A jaxpr like ``jaxpr``, closed or not, with other equations."""
    if ClosedJaxpr is Jaxpr or isinstance(jaxpr, Jaxpr):
        return jaxpr.replace(eqns=list(eqns))
    return ClosedJaxpr(jaxpr.jaxpr.replace(eqns=list(eqns)), jaxpr.consts)


def scan_constants(params: dict[str, Any]) -> int:
    """How many of a scan's operands are the same in each turn; they come first."""
    if "num_consts" in params:  # 0.10
        return int(params["num_consts"])
    constants, _, _ = params["ft_in"].unpack()
    return len(list(constants))
