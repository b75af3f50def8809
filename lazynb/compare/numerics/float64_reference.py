"""The float64 and complex128 reference for operations of any type."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.compare.numerics.equation_list import Equation, single_equation_function
from lazynb.compare.numerics.float_arrays import is_inexact, to_widest

NARROW = frozenset(
    {
        "bitcast_convert_type",
        "custom_call",
        "ffi_call",
        "nextafter",
        "pallas_call",
        "reduce_precision",
        "rng_bit_generator",
        "rng_uniform",
        "threefry2x32",
    }
)
"""Operations that have another meaning in float64, or no float64 form."""

_NARROW_PARTS = ("random_", "callback")

_PRECISION = {"precision": jax.lax.Precision.HIGHEST, "algorithm": None}


def wide_type(dtype: Any) -> Any:
    """float64 for a floating-point type, complex128 for a complex one; other types unchanged."""
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) or not is_inexact(dtype):
        return dtype
    return np.dtype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)


def wide_aval(aval: Any) -> Any:
    """The type of a value in the reference."""
    return aval.update(dtype=wide_type(aval.dtype), weak_type=False) if hasattr(aval, "dtype") else aval


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Runs the body in JAX's 64-bit mode."""
    with jax.enable_x64(True), jax.debug_nans(False), jax.debug_infs(False):
        yield


class Reference:
    """Evaluates equations in float64; those without float64 form, ``narrow``, run in their own type."""

    def __init__(self) -> None:
        self.narrow: set[int] = set()
        self._functions: dict[int, Any] = {}

    def __call__(self, equation: Equation, operands: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
        """Evaluates ``equation`` on wide ``operands``; returns wide NumPy arrays, and random keys unchanged.

        Arguments:
          avals: types of the operands in the program.
        """
        number = equation.number
        with jc.set_current_trace(jc.eval_trace), in_float64():
            if number not in self.narrow and not _is_narrow(equation):
                try:
                    return self._in_float64(equation, operands, avals)
                except Exception:  # no rule for float64; the type of JAX's error varies
                    pass
            self.narrow.add(number)
        return _narrow(equation, operands, avals)

    def _in_float64(self, equation: Equation, operands: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
        function = self._functions.get(equation.number)
        results = [wide_aval(aval) for aval in equation.avals]
        if function is None:
            params = wide_params(equation.params)
            function = single_equation_function(
                equation, [wide_aval(aval) for aval in avals], results, params
            )
        given = [_host(value) for value in function(*operands)]
        for value, aval in zip(given, results, strict=True):
            if value.dtype != aval.dtype:
                raise TypeError(f"{equation.name} gave {value.dtype} where {aval.dtype} is meant")
        self._functions[equation.number] = function
        return given


def _is_narrow(equation: Equation) -> bool:
    name = equation.primitive.name
    return name in NARROW or any(part in name for part in _NARROW_PARTS)


def _narrow(equation: Equation, operands: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Evaluates ``equation`` in its own type, on operands rounded to their types."""
    with np.errstate(all="ignore"):
        taken = [
            value if jc.is_key(aval) else np.asarray(value).astype(aval.dtype)
            for value, aval in zip(operands, avals, strict=True)
        ]
    with jc.set_current_trace(jc.eval_trace), jax.debug_nans(False), jax.debug_infs(False):
        given = single_equation_function(equation, avals, equation.avals, equation.params)(*taken)
    return [to_widest(value) if not jc.is_key(value) else value for value in given]


def _host(value: Any) -> Any:
    return value if jc.is_key(value) else np.asarray(value)


# ---- Parameters --------------------------------------------------------------------------------------------


def wide_params(params: dict[str, Any]) -> dict[str, Any]:
    """Widens types to float64 in a primitive's parameters and inner functions; sets the highest precision."""
    found = {name: _wide_param(value) for name, value in params.items()}
    for name, value in _PRECISION.items():
        if name in found and found[name] is not None:
            found[name] = value
    return found


def _wide_param(value: Any) -> Any:
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return wide_type(np.dtype(value))
    return jc.map_jaxprs(_wide_jaxpr, value)


def _wide_jaxpr(jaxpr: Any) -> Any:
    """``jaxpr`` in float64, without constants; closed if it was closed."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    consts = [to_widest(value) for value in jc.constants(jaxpr)]

    def function(*operands: Any) -> list[Any]:
        return _evaluated(inner, [*consts, *operands])

    variables = jc.jaxpr_inputs(jaxpr)[len(consts) :]
    types = [jax.ShapeDtypeStruct(v.aval.shape, wide_type(v.aval.dtype)) for v in variables]
    closed = jax.make_jaxpr(function)(*types)
    return closed if hasattr(jaxpr, "consts") else closed.jaxpr


def _evaluated(jaxpr: Any, operands: Sequence[Any]) -> list[Any]:
    """Evaluates the equations of ``jaxpr`` in float64 on its constants and inputs."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], operands, strict=True))

    def read(atom: Any) -> Any:
        return to_widest(atom.val) if isinstance(atom, jc.Literal) else values[atom]

    for eqn in jaxpr.eqns:
        taken = [read(atom) for atom in eqn.invars]
        values.update(zip(eqn.outvars, _applied(eqn, taken), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _applied(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    if eqn.primitive.name in jc.SINGLE_BODY_PRIMITIVES:
        jaxpr = jc.jaxprs_in(eqn.params)[0]
        consts = [to_widest(value) for value in jc.constants(jaxpr)]
        return _evaluated(getattr(jaxpr, "jaxpr", jaxpr), [*consts, *operands])
    if eqn.primitive.name in NARROW or any(part in eqn.primitive.name for part in _NARROW_PARTS):
        return _applied_narrow(eqn, operands)
    given = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(wide_params(eqn.params)))
    return list(given) if eqn.primitive.multiple_results else [given]


def _applied_narrow(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Applies an equation in its own type, with conversions before and after."""
    taken = [
        value if jc.is_key(atom.aval) else jax.lax.convert_element_type(value, atom.aval.dtype)
        for value, atom in zip(operands, eqn.invars, strict=True)
    ]
    given = eqn.primitive.bind(*taken, **eqn.primitive.get_bind_params(eqn.params))
    results = list(given) if eqn.primitive.multiple_results else [given]
    return [
        value if jc.is_key(var.aval) else jax.lax.convert_element_type(value, wide_type(var.aval.dtype))
        for value, var in zip(results, eqn.outvars, strict=True)
    ]
