"""Records NumPy ufuncs on lazy tensors: NumPy selects the loop, JAX computes with the loop's dtypes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.numpy import numpy_arguments
from lazynb.frontends.numpy.numpy_arguments import (
    NumpyFallback,
    errstate_raises,
    is_jax_dtype,
    is_x64,
    small_shapes,
    uncommitted,
    without_weak_type,
)
from lazynb.frontends.numpy.ufunc_lowerings import ALIASES, UFUNC_FORMS, VALUE_DEPENDENT_ERRORS, bool_product

_SCALARS = (bool, int, float, complex)


class UfuncPlan(NamedTuple):
    """How a ufunc is recorded for operands of given dtypes and shapes.

    Attributes:
      form: the JAX function.
      inputs: the dtypes to which the operands are cast.
      outputs: the dtypes of the results.
    """

    form: Callable[..., Any]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


_plans: dict[Any, UfuncPlan | NumpyFallback] = {}
_MAX_PLANS = 20_000  # plans kept
_MAX_GUFUNC_SIZE = 100_000  # elements: above this size, no trial call of a gufunc


def record(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The lazy result of ``ufunc``, called directly or by one of its methods.

    Raises:
      NumpyFallback: JAX cannot give NumPy's result.
      Exception: NumPy's error for arguments of these dtypes and shapes.
    """
    kwargs, inputs = _significant(kwargs, name_of(ufunc)), uncommitted(inputs)
    if method != "__call__":
        return _by_method(ufunc, method, inputs, kwargs)
    operands = tuple([_operand(value, ufunc) for value in inputs])
    key = (ufunc, is_x64(), *map(_operand_key, operands), *kwargs.items())
    try:
        plan = _plans.get(key)
    except TypeError:
        raise NumpyFallback("numpy_function", f"{name_of(ufunc)} with arguments that JAX has not") from None
    if plan is None:
        plan = _plan(ufunc, operands, kwargs)
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        _plans[key] = plan
    if isinstance(plan, NumpyFallback):
        raise NumpyFallback(plan.kind, plan.detail)
    check_values(ufunc, operands)
    with numpy_arguments.x64_context(any(map(numpy_arguments.needs_x64, (*plan.inputs, *plan.outputs)))):
        try:
            cast = [_cast(operand, dtype) for operand, dtype in zip(operands, plan.inputs, strict=True)]
        except OverflowError:
            _raise_numpy_error(
                ufunc, operands, kwargs
            )  # NumPy raises for integers out of range, except in comparisons
            raise NumpyFallback(
                "numpy_function", f"{name_of(ufunc)} of an integer that does not fit"
            ) from None
        return finish(plan, ufunc, cast, operands)


def finish(plan: UfuncPlan, ufunc: np.ufunc, cast: list[Any], operands: tuple[Any, ...]) -> Any:
    """The results of ``plan`` for operands that have its input dtypes."""
    try:
        results = plan.form(*cast)
    except (TypeError, ValueError, NotImplementedError) as error:
        _raise_numpy_error(ufunc, operands, {})  # NumPy's own error message, if NumPy raises too
        raise NumpyFallback("numpy_function", f"{name_of(ufunc)} of {cast[0].dtype}") from error
    if not isinstance(results, list | tuple):
        dtype = plan.outputs[0]
        return results if results.dtype == dtype and not results.weak_type else results.astype(dtype)
    return tuple([result.astype(dtype) for result, dtype in zip(results, plan.outputs, strict=True)])


def name_of(ufunc: np.ufunc) -> str:
    """The public name of ``ufunc``."""
    if getattr(np, ufunc.__name__, None) is ufunc:
        return f"np.{ufunc.__name__}"
    return ufunc.__name__


def form_of(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """JAX's current function for ``ufunc``, or None if JAX has none."""
    name = ALIASES.get(ufunc.__name__, ufunc.__name__)
    if getattr(np, ufunc.__name__, None) is ufunc:
        return UFUNC_FORMS.get(name) or getattr(jnp, name, None)
    special = sys.modules.get("scipy.special")
    if special is not None and getattr(special, name, None) is ufunc:
        from lazynb.frontends.numpy.ufunc_lowerings import scipy_special_form

        return scipy_special_form(name)
    return None


def _significant(kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    """``kwargs`` without defaults and without options that JAX arrays ignore (order, subclasses)."""
    significant = {key: value for key, value in kwargs.items() if key not in ("order", "subok", "out")}
    out = kwargs.get("out")
    if out is not None and any(target is not None for target in out):
        raise NumpyFallback("numpy_out", f"{name} with out=")
    if significant.get("where", True) is True:
        significant.pop("where", None)
    return significant


def _operand(value: Any, ufunc: np.ufunc) -> Any:
    """``value``, with a list of numbers converted to a ``numpy.ndarray``."""
    if isinstance(value, jax.Array | np.ndarray | np.generic) or type(value) in _SCALARS:
        return value
    if isinstance(value, list | tuple) and not any(isinstance(item, jax.Array) for item in _flat(value)):
        return np.asarray(value)
    raise NumpyFallback("numpy_function", f"{name_of(ufunc)} of a {type(value).__name__}")


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        return [value]
    items = []
    for item in value:
        items.extend(_flat(item))
    return items


def _operand_key(value: Any) -> Any:
    """The part of an operand on which the plan depends: dtype and shape, or the type of a Python number.
    Whether the number fits the dtype is checked at each call."""
    if type(value) in _SCALARS:
        return type(value)
    return value.dtype, value.shape


def _plan(ufunc: np.ufunc, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> UfuncPlan | NumpyFallback:
    """The plan for ``ufunc`` with operands of these dtypes and shapes, or the reason why NumPy must run."""
    name = name_of(ufunc)
    if errstate_raises():
        return NumpyFallback("numpy_values", f"{name} under np.errstate")
    if "where" in kwargs:
        return NumpyFallback("numpy_function", f"{name} with where= and no out=")
    if set(kwargs) - {"dtype", "casting", "signature", "sig"}:
        _raise_numpy_error(ufunc, operands, kwargs)
        return NumpyFallback("numpy_function", f"{name} with {'=, '.join(kwargs)}=")
    if ufunc.signature is not None or kwargs or not _can_broadcast(operands):
        _raise_numpy_error(ufunc, operands, kwargs)
    try:
        loop = _loop(ufunc, operands, kwargs)
    except TypeError:
        _raise_numpy_error(ufunc, operands, kwargs)
        described = ", ".join([str(_operand_key(operand)) for operand in operands])
        return NumpyFallback("numpy_function", f"{name} of {described}")
    for dtype in loop:
        if not is_jax_dtype(dtype):
            return NumpyFallback("numpy_dtype", f"{name} computes in {dtype.name}")
    return _plan_of_loop(ufunc, operands, loop)


def _plan_of_loop(
    ufunc: np.ufunc, operands: tuple[Any, ...], loop: tuple[np.dtype, ...]
) -> UfuncPlan | NumpyFallback:
    name = name_of(ufunc)
    inputs, outputs = loop[: ufunc.nin], loop[ufunc.nin :]
    form = form_of(ufunc)
    if form is None:
        return NumpyFallback("numpy_function", f"{name}: JAX has none")
    raises = VALUE_DEPENDENT_ERRORS.get(ALIASES.get(ufunc.__name__, ufunc.__name__))
    if raises is not None and raises(inputs, operands):
        return NumpyFallback("numpy_values", f"{name}: NumPy's error depends on the values")
    if ufunc is np.multiply and inputs[0].kind in "fc":
        left, right = map(_is_truth, operands)
        if left or right:
            form = bool_product(left)
            inputs = (np.dtype(bool) if left else inputs[0], np.dtype(bool) if right else inputs[1])
    return UfuncPlan(form, inputs, outputs)


def _is_truth(operand: Any) -> bool:
    return np.dtype(getattr(operand, "dtype", type(operand))).kind == "b"


def _can_broadcast(operands: tuple[Any, ...]) -> bool:
    try:
        np.broadcast_shapes(*map(np.shape, operands))
    except ValueError:
        return False
    return True


def _loop(ufunc: np.ufunc, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[np.dtype, ...]:
    """The dtypes of NumPy's loop, operands first. Raises ``TypeError`` if NumPy has no such loop."""
    options = {}
    if "casting" in kwargs:
        options["casting"] = kwargs["casting"]
    signature = kwargs.get("signature", kwargs.get("sig"))
    if kwargs.get("dtype") is not None:
        signature = (*[None] * ufunc.nin, *[np.dtype(kwargs["dtype"])] * ufunc.nout)
    if signature is not None:
        options["signature"] = signature
    given: Any = (*map(_promotion_type, operands), *[None] * ufunc.nout)
    loop: tuple[np.dtype, ...] = ufunc.resolve_dtypes(given, **options)
    return loop


def _promotion_type(operand: Any) -> Any:
    """The input of NumPy's promotion: the type of a Python number, else the dtype."""
    if type(operand) in _SCALARS and type(operand) is not bool:
        return type(operand)
    return np.dtype(getattr(operand, "dtype", bool))


def _raise_numpy_error(ufunc: np.ufunc, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Calls NumPy with ones in place of the operands, so that NumPy raises its own error. Each stand-in uses
    the memory of one element. A gufunc computes on the full size, so large gufunc calls are skipped."""
    with np.errstate(all="ignore"):
        if ufunc.signature is None and _can_broadcast(operands):
            options = {key: value for key, value in kwargs.items() if key != "where"}
            ufunc(*map(_one_element, operands), **options)
        elif ufunc.signature is None or max(map(np.size, operands)) < _MAX_GUFUNC_SIZE:
            ufunc(*map(_ones, operands), **kwargs)


def _one_element(operand: Any) -> Any:
    """A single one of the operand's dtype, as an array if the operand is one."""
    if type(operand) in _SCALARS:
        return operand
    return np.ones((1,) * bool(np.ndim(operand)), operand.dtype)


def _ones(operand: Any) -> Any:
    if type(operand) in _SCALARS:
        return operand
    return np.broadcast_to(np.ones((), operand.dtype), operand.shape)


def check_values(ufunc: np.ufunc, operands: tuple[Any, ...]) -> None:
    """Checks integer exponents for negative values, if the values are known.

    Raises:
      ValueError: NumPy's error for a negative exponent.
    """
    if ufunc is not np.power or isinstance(operands[1], jax.Array):
        return
    base, exponents = operands
    is_integral = np.result_type(_kind(base), _kind(exponents)).kind in "bui"
    if is_integral and np.any(np.less(exponents, 0)):
        negative = exponents if type(exponents) is int else -1
        _raise_numpy_error(ufunc, (base, negative), {})


def _kind(value: Any) -> Any:
    return type(value) if type(value) in _SCALARS else value.dtype


def _cast(value: Any, dtype: Any) -> Any:
    """``value`` cast to ``dtype``, without a weak type."""
    if type(value) in _SCALARS:
        return dtype.type(value)
    if value.dtype != dtype:
        return value.astype(dtype)
    if isinstance(value, jax.Array):
        return without_weak_type(value)
    return value


def _by_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    has_numbers = any(type(value) in _SCALARS for value in inputs)
    if method == "outer" and not kwargs and not has_numbers:
        return _outer(ufunc, inputs)
    name = f"{name_of(ufunc)}.{method}"
    if method not in _POSITIONAL or not isinstance(inputs[0], jax.Array):
        raise NumpyFallback("numpy_function", name)
    return _reduction(ufunc, method, inputs, kwargs, name)


def _outer(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    left, right = (_operand(value, ufunc) for value in inputs)
    if np.ndim(right) and np.ndim(left):
        left = left.reshape(np.shape(left) + (1,) * np.ndim(right))
    return record(ufunc, "__call__", (left, right), {})


_POSITIONAL = {
    "reduce": ("axis", "dtype", "out", "keepdims", "initial", "where"),
    "accumulate": ("axis", "dtype", "out"),
    "reduceat": ("indices", "axis", "dtype", "out"),
}
"""The names of the positional arguments after the array, by method."""


def _reduction(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """The result of ``reduce``, ``accumulate`` or ``reduceat``. NumPy gives the dtype for a small array of
    the same rank; JAX computes."""
    array = inputs[0]
    given = {**dict(zip(_POSITIONAL[method], inputs[1:])), **kwargs}
    _check_options(given, name)
    if array.dtype.kind == "c" and ufunc in (np.maximum, np.minimum):
        raise NumpyFallback("numpy_function", f"{name} of complex numbers")
    dtype = _reduced_dtype(ufunc, method, array, given)
    if not is_jax_dtype(dtype):
        raise NumpyFallback("numpy_dtype", f"{name} gives {dtype.name}")
    form = _reduction_form(ufunc, method)
    if form is None:
        raise NumpyFallback("numpy_function", f"{name}: JAX has none")
    computes = dtype
    if ufunc in (np.logical_and, np.logical_or):
        array, computes = array.astype(bool), np.dtype(bool)
    given.pop("dtype", None)
    if "indices" in given:
        given["indices"] = np.asarray(given["indices"], np.int32)
    try:
        with numpy_arguments.x64_context(
            numpy_arguments.needs_x64(dtype) or numpy_arguments.needs_x64(array.dtype)
        ):
            return form(_cast(array, computes), **given).astype(computes)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise NumpyFallback("numpy_function", name) from error


def _check_options(given: dict[str, Any], name: str) -> None:
    """Checks the options of a reduction and removes ``out=None``. Raises :class:`NumpyFallback` if an option
    cannot be recorded."""
    if given.pop("out", None) is not None:
        raise NumpyFallback("numpy_out", f"{name} with out=")
    has_arrays = any(isinstance(value, jax.Array | np.ndarray) for value in given.values())
    if has_arrays or "where" in given or "initial" in given:
        raise NumpyFallback("numpy_function", f"{name} with arrays or initial=")


def _reduced_dtype(ufunc: np.ufunc, method: str, array: Any, given: dict[str, Any]) -> np.dtype:
    """The dtype of NumPy's result. Raises: NumPy's errors."""
    shape = array.shape
    if array.size >= 10_000 and method != "reduceat":
        shape = small_shapes([shape])[shape]
    with np.errstate(all="ignore"):
        return getattr(ufunc, method)(np.ones(shape, array.dtype), **given).dtype


def _reduction_form(ufunc: np.ufunc, method: str) -> Callable[..., Any] | None:
    """The method of JAX's ufunc, or None if JAX has none with NumPy's semantics."""
    differs = ufunc.__name__ in UFUNC_FORMS and ufunc not in (np.maximum, np.minimum)
    if differs:
        return None
    return getattr(getattr(jnp, ufunc.__name__, None), method, None)
