"""NumPy's ufuncs on lazy tensors: NumPy says which loop would run, JAX records it at the types of that
loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.leaves import Numpy, holds, is_wide, strong, unplaced
from lazynb.frontends.ufunc_forms import ALIASES, BY_HAND, RAISES, masked

_SCALARS = (bool, int, float, complex)
_METHODS = frozenset(("reduce", "accumulate", "reduceat", "outer"))


class Plan(NamedTuple):
    """How a ufunc is recorded for operands of given types and shapes.

    Attributes:
      form: the function of JAX's.
      inputs: the dtype that each operand is cast to; None where it has it.
      outputs: the dtypes of the results.
      scalar: whether NumPy gives a scalar, not an array.
    """

    form: Callable[..., Any]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    scalar: bool


_plans: dict[Any, Plan | Numpy] = {}
_MOST = 20_000  # plans kept


def record(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The lazy result of ``ufunc``, called or by one of its methods.

    Raises:
      Numpy: JAX cannot give NumPy's result.
      Exception: what NumPy raises for arguments of these types and shapes.
    """
    kwargs, inputs = _significant(kwargs, name_of(ufunc)), unplaced(inputs)
    if method != "__call__":
        return _by_method(ufunc, method, inputs, kwargs)
    operands = tuple([_operand(one, ufunc) for one in inputs])
    key = (ufunc, is_wide(), *map(_part, operands), *kwargs.items())
    try:
        plan = _plans.get(key)
    except TypeError:
        raise Numpy("numpy_function", f"{name_of(ufunc)} with arguments that JAX has not") from None
    if plan is None:
        plan = _plan(ufunc, operands, kwargs)
        if len(_plans) >= _MOST:
            _plans.clear()
        _plans[key] = plan
    if isinstance(plan, Numpy):
        raise Numpy(plan.kind, plan.detail)
    check_values(ufunc, operands)
    try:
        cast = [_cast(one, dtype) for one, dtype in zip(operands, plan.inputs, strict=True)]
    except OverflowError:
        _stand_in(ufunc, operands, kwargs)  # NumPy refuses integers that do not fit, but compares with any
        raise Numpy("numpy_function", f"{name_of(ufunc)} of an integer that does not fit") from None
    return finish(plan, ufunc, cast, operands)


def finish(plan: Plan, ufunc: np.ufunc, cast: list[Any], operands: tuple[Any, ...]) -> Any:
    """The results of ``plan`` for operands of the right types."""
    try:
        results = plan.form(*cast)
    except (TypeError, ValueError, NotImplementedError) as error:
        _stand_in(ufunc, operands, {})  # where NumPy refuses too, in its own words
        raise Numpy("numpy_function", f"{name_of(ufunc)} of {cast[0].dtype}") from error
    if not isinstance(results, list | tuple):
        dtype = plan.outputs[0]
        return results if results.dtype == dtype and not results.weak_type else results.astype(dtype)
    return tuple([result.astype(dtype) for result, dtype in zip(results, plan.outputs, strict=True)])


def name_of(ufunc: np.ufunc) -> str:
    """How users know it."""
    return f"np.{ufunc.__name__}" if getattr(np, ufunc.__name__, None) is ufunc else ufunc.__name__


def form_of(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """JAX's function for ``ufunc``, as it is at the moment."""
    name = ALIASES.get(ufunc.__name__, ufunc.__name__)
    if getattr(np, ufunc.__name__, None) is ufunc:
        return BY_HAND.get(name) or getattr(jnp, name, None)
    special = sys.modules.get("scipy.special")
    if special is not None and getattr(special, name, None) is ufunc:
        from lazynb.frontends.special import form

        return form(name)
    return None


def _significant(kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    """``kwargs`` without what has no meaning for arrays of JAX's (memory order, subclasses) or says
    nothing."""
    found = {key: value for key, value in kwargs.items() if key not in ("order", "subok", "out")}
    if kwargs.get("out") is not None and any(one is not None for one in kwargs["out"]):
        raise Numpy("numpy_out", f"{name} with out=")
    if found.get("where", True) is True:
        found.pop("where", None)
    return found


def _operand(value: Any, ufunc: np.ufunc) -> Any:
    if isinstance(value, jax.Array | np.ndarray | np.generic) or value.__class__ in _SCALARS:
        return value
    if isinstance(value, list | tuple) and not any(isinstance(leaf, jax.Array) for leaf in _flat(value)):
        return np.asarray(value)
    raise Numpy("numpy_function", f"{name_of(ufunc)} of a {type(value).__name__}")


def _flat(value: Any) -> list[Any]:
    return [leaf for one in value for leaf in _flat(one)] if isinstance(value, list | tuple) else [value]


def _part(value: Any) -> Any:
    """What the plan depends on: dtype and shape, and of a number its type. (Whether it fits is looked at each
    time.)"""
    if value.__class__ in _SCALARS:
        return value.__class__
    return value.dtype, value.shape


def _plan(ufunc: np.ufunc, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan | Numpy:
    name = name_of(ufunc)
    if any(setting in ("raise", "call", "print", "log") for setting in np.geterr().values()):
        return Numpy("numpy_values", f"{name} under np.errstate")
    if "where" in kwargs:
        return Numpy("numpy_function", f"{name} with where= and no out=")
    if set(kwargs) - {"dtype", "casting", "signature", "sig"}:
        _stand_in(ufunc, operands, kwargs)
        return Numpy("numpy_function", f"{name} with {'=, '.join(kwargs)}=")
    sizes = [np.shape(one) for one in operands]
    if ufunc.signature is not None or kwargs or not _broadcast(sizes):
        _stand_in(ufunc, operands, kwargs)
    try:
        loop = _loop(ufunc, operands, kwargs)
    except TypeError:
        _stand_in(ufunc, operands, kwargs)
        return Numpy("numpy_function", f"{name} of {', '.join(str(_part(one)) for one in operands)}")
    inputs, outputs = loop[: ufunc.nin], loop[ufunc.nin :]
    for dtype in loop:
        if not holds(dtype):
            return Numpy("numpy_dtype", f"{name} computes in {dtype.name}")
    form = form_of(ufunc)
    if form is None:
        return Numpy("numpy_function", f"{name}: JAX has none")
    reason = RAISES.get(ALIASES.get(ufunc.__name__, ufunc.__name__))
    if reason is not None and reason(inputs, operands):
        return Numpy("numpy_values", f"{name}: NumPy's error depends on the values")
    if ufunc is np.multiply and inputs[0].kind in "fc":
        truths = [np.dtype(getattr(one, "dtype", type(one))).kind == "b" for one in operands]
        if any(truths):
            form, inputs = (
                masked(truths[0]),
                tuple(
                    [np.dtype(bool) if truth else dtype for truth, dtype in zip(truths, inputs, strict=True)]
                ),
            )
    return Plan(form, inputs, outputs, not any(sizes))


def _broadcast(sizes: list[tuple[int, ...]]) -> bool:
    try:
        np.broadcast_shapes(*sizes)
    except ValueError:
        return False
    return True


def _loop(ufunc: np.ufunc, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[np.dtype, ...]:
    """The dtypes of NumPy's loop, operands first.

    Raises:
      TypeError: NumPy has no such loop.
    """
    given = [
        one.__class__
        if one.__class__ in _SCALARS and one.__class__ is not bool
        else np.dtype(getattr(one, "dtype", bool))
        for one in operands
    ]
    options = {"casting": kwargs["casting"]} if "casting" in kwargs else {}
    signature = kwargs.get("signature", kwargs.get("sig"))
    if "dtype" in kwargs and kwargs["dtype"] is not None:
        signature = (*[None] * ufunc.nin, *[np.dtype(kwargs["dtype"])] * ufunc.nout)
    if signature is not None:
        options["signature"] = signature
    found: tuple[np.dtype, ...] = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout), **options)  # type: ignore[arg-type]
    return found


def _stand_in(ufunc: np.ufunc, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's own call with ones of these shapes in place of the operands, which takes one element's memory
    each.

    A gufunc computes with all of them: an upper bound keeps that short.
    """

    def one(value: Any) -> Any:
        if value.__class__ in _SCALARS:
            return value
        shape = value.shape if ufunc.signature is None or value.size < 100_000 else ()
        return np.broadcast_to(np.ones((), value.dtype), shape)

    if ufunc.signature is not None and any(np.size(value) >= 100_000 for value in operands):
        return None
    if ufunc.signature is None and _broadcast([np.shape(value) for value in operands]):
        operands = tuple(
            [
                value if value.__class__ in _SCALARS else np.ones((1,) * bool(np.ndim(value)), value.dtype)
                for value in operands
            ]
        )
        with np.errstate(all="ignore"):
            return ufunc(*operands, **{key: value for key, value in kwargs.items() if key != "where"})
    with np.errstate(all="ignore"):
        return ufunc(*map(one, operands), **kwargs)


def check_values(ufunc: np.ufunc, operands: tuple[Any, ...]) -> None:
    """Looks at what is known of the exponents of integers.

    Raises:
      ValueError: one is negative, as NumPy says it.
    """
    if (
        ufunc is np.power
        and not isinstance(operands[1], jax.Array)
        and np.result_type(*map(_kind, operands)).kind in "bui"
        and (np.any(np.less(operands[1], 0)))
    ):
        _stand_in(ufunc, (operands[0], operands[1] if operands[1].__class__ is int else -1), {})


def _kind(value: Any) -> Any:
    return value.__class__ if value.__class__ in _SCALARS else value.dtype


def _cast(value: Any, dtype: Any) -> Any:
    """``value`` at ``dtype``, which NumPy casts it to; not weak."""
    if value.__class__ in _SCALARS:
        return dtype.type(value)
    if value.dtype != dtype:
        return value.astype(dtype)
    if isinstance(value, jax.Array):
        return strong(value)
    return value


def _by_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = f"{name_of(ufunc)}.{method}"
    if method == "outer" and not kwargs and not any(one.__class__ in _SCALARS for one in inputs):
        left, right = (_operand(one, ufunc) for one in inputs)
        if np.ndim(right) and np.ndim(left):
            left = left.reshape(np.shape(left) + (1,) * np.ndim(right))
        return record(ufunc, "__call__", (left, right), {})
    if method not in _METHODS or method == "outer" or not isinstance(inputs[0], jax.Array):
        raise Numpy("numpy_function", name)
    return _reduction(ufunc, method, inputs, kwargs, name)


def _reduction(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """``reduce``, ``accumulate`` or ``reduceat``: NumPy answers for a small array of the same rank, JAX
    computes."""
    from lazynb.frontends.functions import shrunken

    array = inputs[0]
    positional = (
        ("axis", "dtype", "out", "keepdims", "initial", "where")
        if method == "reduce"
        else ("axis", "dtype", "out")
    )
    if method == "reduceat":
        positional = ("indices", *positional)
    given = {**dict(zip(positional, inputs[1:])), **kwargs}
    if given.pop("out", None) is not None:
        raise Numpy("numpy_out", f"{name} with out=")
    if (
        any(isinstance(value, jax.Array | np.ndarray) for value in given.values())
        or "where" in given
        or "initial" in given
    ):
        raise Numpy("numpy_function", f"{name} with arrays or initial=")
    if array.dtype.kind == "c" and ufunc in (np.maximum, np.minimum):
        raise Numpy("numpy_function", f"{name} of complex numbers")
    exact = array.size < 10_000 or method == "reduceat"
    stand = np.ones(array.shape if exact else shrunken([array.shape])[array.shape], array.dtype)
    with np.errstate(all="ignore"):
        answer = getattr(ufunc, method)(stand, **given)
    if not holds(answer.dtype):
        raise Numpy("numpy_dtype", f"{name} gives {answer.dtype.name}")
    own = ufunc not in (np.maximum, np.minimum) and ufunc.__name__ in BY_HAND
    form = None if own else getattr(getattr(jnp, ufunc.__name__, None), method, None)
    if form is None:
        raise Numpy("numpy_function", f"{name}: JAX has none")
    computes = answer.dtype
    if ufunc in (np.logical_and, np.logical_or):
        array, computes = array.astype(bool), np.dtype(bool)
    given.pop("dtype", None)
    if "indices" in given:
        given["indices"] = np.asarray(given["indices"], np.int32)
    try:
        return form(_cast(array, computes), **given).astype(computes)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise Numpy("numpy_function", name) from error
