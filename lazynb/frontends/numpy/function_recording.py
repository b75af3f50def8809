"""Records NumPy functions on lazy tensors: NumPy runs on stand-ins, then JAX records an equivalent call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lazynb import jax_compat as jc
from lazynb.frontends.numpy import function_lowerings as forms, linalg_checks, numpy_arguments
from lazynb.frontends.numpy.function_names import NAMES, Function, name_of
from lazynb.frontends.numpy.function_rules import (
    BREAKS,
    CAST_FIRST_FUNCTIONS,
    CHECKED_LINALG,
    IN_PLACE_FUNCTIONS,
    INDEX_ARGUMENT_FUNCTIONS,
    TEXT_FUNCTIONS,
    Condition,
)
from lazynb.frontends.numpy.mutable_array import MutableArray
from lazynb.frontends.numpy.numpy_arguments import (
    NumpyFallback,
    errstate_raises,
    is_jax_dtype,
    is_x64,
    leaves,
    map_leaves,
    uncommitted,
    without_weak_type,
)
from lazynb.frontends.numpy.trial_calls import (
    MAX_INDEX_VALUES,
    ArrayStandIn,
    ValueStandIn,
    numpy_answer,
)
from lazynb.recording.lazy_tensor import LazyTensor


class CallPlan(NamedTuple):
    """How a call is recorded.

    Attributes:
      answer: NumPy's result, with an :class:`ArrayStandIn` for each array.
      form: JAX's function.
      options: additional arguments for it.
      input_dtype: the dtype to which the arrays are first cast, or None for no cast.
      lists_to_arrays: whether lists of numbers are first converted to arrays.
      needs_x64: whether a 64-bit dtype occurs in JAX's 32-bit mode, see
        :mod:`lazynb.frontends.numpy.numpy_arguments`.
    """

    answer: Any
    form: Function
    options: dict[str, Any]
    input_dtype: Any
    lists_to_arrays: bool
    needs_x64: bool = False


_WRITES = {function: name for function, (name, _, _) in NAMES.items() if name in IN_PLACE_FUNCTIONS}
_plans: dict[Any, CallPlan | NumpyFallback] = {}
_MAX_PLANS = 10_000  # plans kept


def run_output_function(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a function that shows or saves values, or any function outside lazy mode.

    Functions that save values read them through the array protocol.
    """
    if name_of(function) not in TEXT_FUNCTIONS:
        return function._implementation(*args, **kwargs)

    # Concrete JAX arrays: NumPy prints their elements differently from those of a ``numpy.ndarray``.
    def concrete(leaf: Any) -> Any:
        if isinstance(leaf, MutableArray):
            return leaf.seen("print", name_of(function))
        return leaf._force("print", name_of(function)) if type(leaf) is LazyTensor else leaf

    args, kwargs = map_leaves(concrete, args), map_leaves(concrete, kwargs)
    with jc.set_current_trace(jc.eval_trace):  # NumPy iterates over the array element by element
        return function(*args, **kwargs)


def check_writable(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises NumPy's error if a JAX array is passed as the write target. Its value is not computed.

    Raises: the same error as for any ``jax.Array``.
    """
    out = kwargs.get("out")
    if isinstance(out, jax.Array):
        raise TypeError("return arrays must be of ArrayType")
    if (function in _WRITES or name_of(function) == "np.astype") and args and isinstance(args[0], jax.Array):
        with jc.set_current_trace(jc.eval_trace):  # NumPy refuses the type before it reads a value
            target = jnp.zeros((1,) * max(1, len(args[0].shape)), args[0].dtype)
        function(target, *map_leaves(_one_element, args[1:]), **map_leaves(_one_element, kwargs))


def _one_element(leaf: Any) -> Any:
    return np.ones((1,) * len(leaf.shape), leaf.dtype) if hasattr(leaf, "aval") else leaf


Finish = Callable[[Any, bool], Any]


def _plain(result: Any, is_scalar: bool) -> Any:
    return result


def record(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], finish: Finish = _plain) -> Any:
    """The lazy result of a call.

    Arguments:
      finish: applied to each JAX array of the result, with a bool: whether NumPy returns a scalar.

    Raises:
      NumpyFallback: JAX cannot give NumPy's result.
      Exception: NumPy's error for arguments of these dtypes and shapes.
    """
    name = name_of(function)
    needed = BREAKS.get(name)
    if needed is not None and _applies(needed.condition, args, kwargs):
        raise NumpyFallback(needed.kind, f"{name} {needed.why}")
    kwargs = _relevant_options(name, kwargs)
    args, kwargs = uncommitted((args, kwargs))
    checked = CHECKED_LINALG.get(name)
    if checked is not None and _applies(checked, args, kwargs):
        return _finished(linalg_checks.CHECKED_FORMS[name](*args, **kwargs), finish)
    if name == "np.allclose":
        return _finished(jnp.all(record(np.isclose, args, kwargs)), finish)
    own = forms.DIRECT_FORMS.get(name)
    if own is not None:
        return _finished(own(*args, **kwargs), finish)
    args, kwargs = map_leaves(_concrete_indices(name), args), map_leaves(_concrete_indices(name), kwargs)
    try:
        key = function, is_x64(), _key(name, args), _key(name, kwargs)
        plan = _plans.get(key)
    except TypeError:  # an argument is not hashable
        key, plan = None, None
    if plan is None:
        plan, results = _record_first(function, name, args, kwargs, key)
        return _restructured(plan.answer, results, finish)
    if isinstance(plan, NumpyFallback):
        raise NumpyFallback(plan.kind, plan.detail)
    return _restructured(plan.answer, _call(plan, args, kwargs), finish)


def _finished(results: Any, finish: Finish) -> Any:
    return map_leaves(
        lambda leaf: finish(leaf, leaf.ndim == 0) if isinstance(leaf, jax.Array) else leaf, results
    )


def _applies(condition: Condition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the table entry holds for these arguments. If the condition fails with an error (on lists, or
    on arguments passed by name), the entry holds."""
    try:
        return condition(args, kwargs)
    except Exception:
        return True


def _record_first(
    function: Function, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], key: Any
) -> tuple[CallPlan, Any]:
    """Records the first call with this key and stores its plan."""
    if len(_plans) >= _MAX_PLANS:
        _plans.clear()
    try:
        plan, results = _plan(function, name, args, kwargs)
    except NumpyFallback as needed:
        if key is not None:
            _plans[key] = NumpyFallback(needed.kind, needed.detail)
        raise
    if key is not None:
        _plans[key] = plan
    return plan, results


def _relevant_options(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("out") is not None:
        raise NumpyFallback("numpy_out", f"{name} with out=")
    return {key: value for key, value in kwargs.items() if not _is_irrelevant_option(name, key, value)}


def _is_irrelevant_option(name: str, key: str, value: Any) -> bool:
    """Whether an option is a default or is ignored for JAX arrays."""
    if key in ("out", "like", "subok", "device") or value is np._NoValue:
        return True
    if key == "order":
        return value in ("K", "A", "C")
    if key == "where":
        return value is True
    return key == "kind" and name in ("np.sort", "np.argsort", "np.isin")


def _concrete_indices(name: str) -> Function:
    """A function that converts a concrete array of indices or counts to a ``numpy.ndarray``. Reading a
    concrete array is not a trace break."""
    if name not in INDEX_ARGUMENT_FUNCTIONS:
        return lambda leaf: leaf

    def known(leaf: Any) -> Any:
        value = leaf._value if type(leaf) is LazyTensor else leaf
        if isinstance(value, jax.Array) and value.dtype.kind in "iub" and value.size <= MAX_INDEX_VALUES:
            return np.asarray(value)
        return leaf

    return known


def _key(name: str, tree: Any) -> Any:
    """The hashable part of the arguments in ``tree`` on which the plan depends."""
    kind = type(tree)
    if kind is dict:
        return dict, *[(key, _key(name, value)) for key, value in tree.items()]
    if kind is list or kind is tuple:
        return kind, *[_key(name, value) for value in tree]
    if isinstance(tree, jax.Array):
        return ArrayStandIn(tree.shape, tree.dtype)
    if isinstance(tree, np.ndarray):
        if tree.dtype.kind in "iu" and tree.size <= MAX_INDEX_VALUES and name in INDEX_ARGUMENT_FUNCTIONS:
            return ValueStandIn(tree.shape, tree.dtype, tree.tobytes())
        return ArrayStandIn(tree.shape, tree.dtype), True
    if kind is float and tree != tree:
        return float, "nan"
    hash(tree)
    return kind, tree


def _plan(
    function: Function, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[CallPlan, Any]:
    if errstate_raises():
        raise NumpyFallback("numpy_values", f"{name} under np.errstate")
    form = forms.JAX_FORMS.get(name)
    if form is None and function in NAMES:
        form = _of_jax(*NAMES[function][1:])
    if form is None:
        raise NumpyFallback("numpy_function", f"{name}: JAX has none")
    answer = numpy_answer(function, args, kwargs)
    _check_answer(name, answer)
    for leaf in leaves((args, kwargs)):
        if isinstance(leaf, np.ndarray | np.generic) and not _can_be_taken(name, leaf):
            raise NumpyFallback("numpy_dtype", f"{name} computes in {leaf.dtype.name}")
    return _first_matching_attempt(name, form, answer, args, kwargs)


def _check_answer(name: str, answer: Any) -> None:
    """Raises :class:`NumpyFallback` unless ``answer`` consists of arrays that JAX can hold."""
    for leaf in leaves(answer):
        if leaf is None:
            raise NumpyFallback("numpy_out", f"{name} writes to its argument")
        if not isinstance(leaf, ArrayStandIn):
            raise NumpyFallback("numpy_values", f"{name} gives a {type(leaf).__name__}")
        if not is_jax_dtype(leaf.dtype):
            raise NumpyFallback("numpy_dtype", f"{name} gives {leaf.dtype.name}")


def _can_be_taken(name: str, value: Any) -> bool:
    """Whether JAX computes with a NumPy value as NumPy does."""
    if is_jax_dtype(value.dtype):
        return True
    return name in INDEX_ARGUMENT_FUNCTIONS and value.dtype.kind in "iu" and _fits_int32(value)


def _of_jax(module: Any, name: str) -> Function | None:
    if not hasattr(module, name):
        return None
    # Looked up at each call, because lazy mode replaces functions in the module.
    return lambda *args, **kwargs: getattr(module, name)(*args, **kwargs)


def _fits_int32(value: Any) -> bool:
    return bool(np.all((value >= -(2**31)) & (value < 2**31)))


def _first_matching_attempt(
    name: str, form: Function, answer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[CallPlan, Any]:
    """The first way to call ``form`` that gives NumPy's dtypes and ranks, and its results. Raises
    :class:`NumpyFallback` if no way does."""
    failed: Exception | None = None
    is_beyond = numpy_arguments.has_x64_arrays((answer, args, kwargs))
    for options, casts, listed in _attempts(name, answer, args, kwargs):
        plan = CallPlan(answer, form, options, casts, listed, is_beyond)
        try:
            results = _call(plan, args, kwargs)
        except NumpyFallback:
            raise
        except Exception as error:
            failed = failed or error
            continue
        if _agrees(answer, results):
            return plan, results
    why = "gives another type" if failed is None else "takes other arguments"
    raise NumpyFallback("numpy_function", f"{name}: JAX {why}") from failed


Attempt = tuple[dict[str, Any], Any, bool]


def _attempts(name: str, answer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Attempt]:
    """The combinations of options, input dtype and list conversion to try; see :class:`CallPlan`."""
    ways: list[tuple[dict[str, Any], Any]] = [({}, None)]
    dtypes = {leaf.dtype for leaf in leaves(answer)}
    if len(dtypes) == 1:
        dtype = dtypes.pop()
        if name in CAST_FIRST_FUNCTIONS:
            ways = [({}, dtype)] if dtype.kind in "fc" else ways
        elif "dtype" not in kwargs:
            ways.append(({"dtype": dtype}, None))
    has_lists = any(map(_is_list_of_numbers, args))
    return [(*way, listed) for listed in (False, True)[: 1 + has_lists] for way in ways]


def _is_list_of_numbers(argument: Any) -> bool:
    return type(argument) is list and all(type(one) in (int, float) for one in leaves(argument))


def _call(plan: CallPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def prepared(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array | np.ndarray):
            return leaf
        if plan.input_dtype is not None and leaf.dtype != plan.input_dtype and leaf.dtype.kind in "biuf":
            return leaf.astype(_real_dtype(plan.input_dtype))
        return without_weak_type(leaf) if isinstance(leaf, jax.Array) else leaf

    if plan.lists_to_arrays:
        args = tuple([np.asarray(one) if _is_list_of_numbers(one) else one for one in args])
    with numpy_arguments.x64_context(plan.needs_x64):
        return plan.form(*map_leaves(prepared, args), **map_leaves(prepared, kwargs), **plan.options)


def _real_dtype(dtype: Any) -> Any:
    """The real dtype of a complex ``dtype``; any other ``dtype`` unchanged."""
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def _agrees(answer: Any, results: Any) -> bool:
    """Whether JAX's results have the dtypes and ranks of NumPy's results."""
    expected, given = list(leaves(answer)), list(leaves(results))
    return len(expected) == len(given) and all(map(_is_like, given, expected))


def _is_like(result: Any, wanted: Any) -> bool:
    if not isinstance(result, jax.Array) or result.dtype != wanted.dtype:
        return False
    return len(result.shape) == len(wanted.shape)


def _restructured(answer: Any, results: Any, finish: Finish) -> Any:
    strengthened = iter([without_weak_type(leaf) for leaf in leaves(results)])
    return map_leaves(lambda wanted: finish(next(strengthened), wanted.is_scalar), answer)
