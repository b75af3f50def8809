"""The registration of a lazy tensor's type with JAX: for operations, arguments and constants."""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax._src import (
    api as _api,
    array as _array,
    core as _core,
    dtypes as _dtypes,
    pjit as _pjit,
    source_info_util as _source_info_util,
    stages as _stages,
    traceback_util as _traceback_util,
)
from jax._src.interpreters import mlir as _mlir, partial_eval as _partial_eval, pxla as _pxla
from jax._src.numpy import array_methods as _array_methods
from jax._src.random import prng as _prng

from lazynb.jax_compat.jax_arrays import ArrayImpl
from lazynb.jax_compat.jaxprs import ClosedJaxpr, Jaxpr
from lazynb.jax_compat.tracers import Tracer, eval_trace, set_current_trace

_F = TypeVar("_F", bound=Callable[..., Any])

# ---- Assembled arrays -----------------------------------------------------------------------------------
# JAX's functions for it require its own class. Code that runs lazily may have bound these functions before,
# so the functions that they call are made to accept lazy tensors, permanently.


def register_shard_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets JAX assemble arrays from values of ``cls``.

    ``jax.make_array_from_single_device_arrays`` passes its parts to the constructor of JAX's arrays.
    ``jax.make_array_from_callback`` checks the result of the function, moves it if necessary and puts it on
    the devices.

    Arguments:
      concrete: returns the array that is the value of a part.
    """

    def known(arrays: Any) -> Any:
        if isinstance(arrays, (list, tuple)):
            for part in arrays:
                if isinstance(part, cls):
                    return [concrete(each) if isinstance(each, cls) else each for each in arrays]
        return arrays

    def init(array: Any, aval: Any, sharding: Any, arrays: Any, *rest: Any, **more: Any) -> None:
        plain(array, aval, sharding, known(arrays), *rest, **more)

    def put(aval: Any, sharding: Any, xs: Any, *rest: Any, **more: Any) -> Any:
        return plain_put(aval, sharding, known(xs), *rest, **more)

    def canonicalize(value: Any, *rest: Any, **more: Any) -> Any:
        given = concrete(value) if isinstance(value, cls) else value
        return _dtypes.canonicalize_value(given, *rest, **more)

    def keys(aval: Any, sharding: Any, arrays: Any, *rest: Any, **more: Any) -> Any:
        parts = known(arrays)
        with set_current_trace(eval_trace):  # JAX takes the arrays out of key arrays by an operation
            return plain_keys(aval, sharding, parts, *rest, **more)

    plain, plain_keys = ArrayImpl.__init__, _prng.KeyTyRules.make_sharded_array
    plain_put = _pxla.batched_device_put
    ArrayImpl.__init__, _pxla.batched_device_put = init, put
    _prng.KeyTyRules.make_sharded_array = staticmethod(keys)
    dtypes = types.ModuleType(_dtypes.__name__)
    dtypes.__dict__.update(_dtypes.__dict__, canonicalize_value=canonicalize)
    _array.dtypes = dtypes


def register_array_type(cls: type, canonical: Callable[[Any], Any]) -> None:
    """Registers ``cls``, a subclass of ``jax.Array`` whose values have an ``aval``, as an array type.

    Adds the operators, methods and properties of JAX's own class.

    Arguments:
      canonical: JAX calls it with each value that enters an operation, before it reads the current trace, and
        uses the result.
    """
    _core.pytype_aval_mappings[cls] = lambda x: x.aval
    _dtypes.register_canonicalize_value_handler(cls, canonical)
    own = set(vars(cls))
    _array_methods._set_array_base_attributes(cls, exclude=own)
    _array_methods._set_array_attributes(cls)


def register_evaluated_type(cls: type, concrete: Callable[[Any, str], Any]) -> None:
    """Lets eager operations, and ``jax.device_get``, take values of ``cls``.

    Arguments:
      concrete: returns the array that is the value, for ``(value, function)``; ``function`` is the name of
        JAX's function, empty for an operation.
    """

    def process_primitive(trace: Any, primitive: Any, args: Any, params: Any) -> Any:
        args = [concrete(arg, "") if arg.__class__ is cls else arg for arg in args]
        return plain(trace, primitive, args, params)

    def device_get(leaf: Any) -> Any:
        return plain_get(concrete(leaf, "jax.device_get") if leaf.__class__ is cls else leaf)

    plain, plain_get = _core.EvalTrace.process_primitive, _api._device_get
    _core.EvalTrace.process_primitive = functools.wraps(plain)(process_primitive)
    _api._device_get = functools.wraps(plain_get)(device_get)


_containers: dict[type, Callable[[Any], Any]] = {}


def register_container_type(cls: type, array: Callable[[Any], Any]) -> None:
    """Registers ``cls`` as an array for arguments, constants and operands.

    Arguments:
      array: returns the JAX array for a ``cls``, with its ``shape``, and with its ``dtype`` if JAX supports
        that in the current mode.
    """
    _containers[cls] = array

    def aval(x: Any) -> Any:
        return _core.ShapedArray(x.shape, _dtypes.canonicalize_dtype(x.dtype))

    _core.pytype_aval_mappings[cls] = aval
    _dtypes.register_canonicalize_value_handler(cls, array)


def is_container(value: Any) -> bool:
    """Whether ``value`` is of a type that was registered by :func:`register_container_type`."""
    return value.__class__ in _containers


def unwrap_container(value: Any) -> Any:
    """The JAX array for a value of a type that was registered by :func:`register_container_type`. Any other
    ``value`` is returned unchanged."""
    array = _containers.get(value.__class__)
    return value if array is None else array(value)


def register_argument_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets executables take arguments of type ``cls``. The value of one is ``concrete(argument)``."""

    def shard(args: Sequence[Any], shardings: Any, layouts: Any, copy_semantics: Any) -> Any:
        return _pxla.shard_args(shardings, layouts, copy_semantics, [concrete(arg) for arg in args])

    _pxla.shard_arg_handlers[cls] = shard


def register_constant_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets JAX lower functions that close over values of ``cls``, with their values."""

    def constant(value: Any, aval: Any) -> Any:
        return _mlir.ir_constant(concrete(value), aval=aval)

    _mlir.register_constant_handler(cls, constant)


def register_closure_tracer_type(cls: type, value: Callable[[Any], Any]) -> None:
    """Registers ``cls``, a class of tracers, as standing for a value, which becomes an operand of operations.

    Programs may close over such values. A function that is traced ahead of time has them as constants, like
    arrays. JAX would make them leading arguments of the jitted function, which no caller of the compiled
    function passes.

    Arguments:
      value: returns the value of an instance.
    """

    def init(
        traced: Any,
        types: Sequence[Any],
        params: dict[str, Any],
        in_tree: Any,
        out_tree: Any,
        consts: Sequence[Any],
        *more: Any,
    ) -> None:
        if consts and all(isinstance(const, cls) or not isinstance(const, Tracer) for const in consts):
            values = [value(const) if isinstance(const, cls) else const for const in consts]
            types, params, consts = types[len(consts) :], _close_over(values, params), []
        plain(traced, types, params, in_tree, out_tree, consts, *more)

    _core.pytype_aval_mappings[cls] = lambda x: x.aval
    _dtypes.register_canonicalize_value_handler(cls, value)
    plain = _stages.Traced.__init__
    _stages.Traced.__init__ = functools.wraps(plain)(init)


def register_aot_placement(cls: type, placed: Callable[[Any], Any]) -> None:
    """Makes functions that are lowered ahead of time read the placement of arguments of ``cls`` without a
    run.

    Arguments:
      placed: returns for an argument a concrete array in the same place, or the sharding to which the
        argument is committed; None if JAX may move it.
    """

    def type_of(argument: Any) -> Any:
        if not isinstance(argument, cls):
            return plain(argument)
        where = placed(argument)
        if where is None or isinstance(where, jax.sharding.Sharding):
            return _pjit.create_meta_ty(argument.aval, where, None, True, False)
        return plain(where)

    plain = _pjit.convert_to_metaty
    _pjit.convert_to_metaty = functools.wraps(plain)(type_of)


def register_transfer_source(cls: type, where: Callable[[Any], Any]) -> None:
    """Registers the source of a ``device_put`` of ``cls`` under ``jax.grad``: the gradient goes back there,
    and is committed.

    Arguments:
      where: returns the sharding of the value.
    """

    def source(src: Any, x: Any, *more: Any) -> Any:
        if src is None and isinstance(x, Tracer):
            value = x.to_concrete_value()
            if isinstance(value, cls):
                return where(value)
        return plain(src, x, *more)

    plain = _api._infer_src_sharding
    _api._infer_src_sharding = functools.wraps(plain)(source)


def exclude_from_user_frames(directory: str) -> None:
    """Excludes lines of files in ``directory`` from JAX's user frames: in jaxprs and programs, and in the
    tracebacks of errors that JAX filters (``jax_traceback_filtering``)."""
    _source_info_util.register_exclusion(directory)
    _traceback_util.register_exclusion(directory)


_HIDDEN = ":importlib_bootstrap"
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def hidden_file(file: str) -> str:
    """Returns a name in this package for the code of ``file``. Frames of it are passed over: by ``warnings``,
    which searches both words of ``_HIDDEN`` in it (``is_internal_filename`` in CPython's _warnings.c), and,
    because it begins with the package's folder, by JAX's and lazynb's tracebacks."""
    return (file if file.startswith(_FOLDER) else os.path.join(_FOLDER, os.path.basename(file))) + _HIDDEN


def hide_frame(function: _F) -> _F:
    """Returns ``function``, which stands between the user's code and JAX's, with a code that warnings and
    tracebacks pass over: a warning of JAX names the line that eager JAX names."""
    function.__code__ = _hidden(function.__code__)  # type: ignore[attr-defined]
    return function


@functools.cache
def _hidden(code: types.CodeType) -> types.CodeType:
    return code.replace(co_filename=hidden_file(code.co_filename))


def _close_over(consts: Sequence[Any], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a jitted function's call that closes over its first arguments, ``consts``."""
    count, jaxpr = len(consts), params["jaxpr"]
    if ClosedJaxpr is Jaxpr:
        closed = jaxpr.with_consts(consts)
    else:
        closed = ClosedJaxpr(_partial_eval.convert_invars_to_constvars(jaxpr.jaxpr, count), consts)
    rest = {name: params[name][count:] for name in ("in_shardings", "in_layouts", "donated_invars")}
    return {**params, "jaxpr": closed, **rest}
