"""Calls of jitted functions that JAX makes in Python.

``jax.jit`` knows concrete arrays in C++. For a call with any tracer it asks Python: first which program the
arguments want (:data:`infer`), then what that gives (:data:`run`), and last whether the program is to be made
anew (:data:`finish`).
"""

from __future__ import annotations

from types import CodeType, FrameType
from typing import Any

from jax._src import (
    dtypes as _dtypes,
    mesh as _mesh,
    pjit as _pjit,
    traceback_util as _traceback_util,
    tree_util as _tree_util,
)
from jax._src.lib import jax_jit as _jax_jit
from jax._src.random import prng as _prng

from lazynb._jax.arrays import UNSPECIFIED, ShapedArray
from lazynb._jax.building import no_effects
from lazynb._jax.primitives import names_layouts

jitting: Any = _pjit
infer, run, finish = "_infer_params", "_run_python_pjit", "_need_to_rebuild_with_fdo"
"""The module, and the names of three functions of it. They take ``(function, info, args, kwargs)``,
``(program, operands, function, args, kwargs)``, and a profiler; the second gets what the first returned."""

jit_primitive: Any = _pjit.jit_p

calling: CodeType | None = next(
    (one for one in _pjit._cpp_pjit.__code__.co_consts if getattr(one, "co_name", "") == "cache_miss"), None
)
"""The code that makes such a call. Others ask for the program alone: ``lower``, ``trace``, ``eval_shape``."""


def call_around(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of :data:`calling`, from ``frame`` on."""
    while frame is not None and frame.f_code is not calling:
        frame = frame.f_back
    return frame


def caller_of(call: FrameType) -> FrameType:
    """The frame that called a jitted function, whose call is made in the frame ``call``."""
    caller = call.f_back or call
    if caller.f_code.co_filename == _traceback_util.__file__ and caller.f_back is not None:
        return caller.f_back
    return caller


KeyArray = _prng.PRNGKeyArray
"""An array of random keys, which is no plain array."""

canonical_value = _dtypes.canonicalize_value
"""What JAX makes of an argument before it binds a primitive to it: a NumPy array has a type of JAX's then."""


def parsed(info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """What identifies the arguments of a call apart from the types of the arrays: the structure of each, and
    the values of those that are static; and the arrays in it."""
    signature, leaves = _jax_jit.parse_arguments(
        args,
        tuple(kwargs.values()),
        tuple(kwargs.keys()),
        info.static_argnums,
        info.static_argnames,
        _tree_util.tracing_registry,
    )
    return signature, leaves


def _anchor() -> None:
    """Stands for a function in :func:`keep_as_traced`."""


def keep_as_traced(thing: Any) -> None:
    """Keeps ``thing`` as long as JAX keeps what it has traced until now: until ``jax.clear_caches()``, or
    ``clear_cache()`` of any jitted function. It becomes part of a key in JAX's own cache."""
    _pjit._infer_params_cached(_anchor, thing, None, (), None)


def is_simple(info: Any, program: Any) -> bool:
    """Whether a call of the program does nothing but compute: its arguments and results may lie anywhere, and
    nothing but the types of its arguments decides what it is."""
    params = program.params
    jaxpr = params["jaxpr"]
    return (
        not (info.use_resource_env or params["compiler_options_kvs"] or names_layouts(params))
        and all(one is UNSPECIFIED for one in (*params["in_shardings"], *params["out_shardings"]))
        and jaxpr.effects == no_effects
        and not getattr(jaxpr, "is_high", False)
        and not getattr(getattr(jaxpr, "jaxpr", None), "is_high", False)
        and all(isinstance(aval, ShapedArray) for aval in program.in_avals)
        and not _mesh.get_abstract_mesh()._any_axis_manual
    )
