"""The registration of a lazy tensor's type with JAX: for arguments, constants and ``device_get``."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import (
    api as _api,
    core as _core,
    dtypes as _dtypes,
    pjit as _pjit,
    source_info_util as _source_info_util,
    stages as _stages,
    traceback_util as _traceback_util,
)
from jax._src.interpreters import mlir as _mlir, partial_eval as _partial_eval, pxla as _pxla

from lazynb._jax.building import ClosedJaxpr, Jaxpr
from lazynb._jax.tracing import Tracer


def register_tracer_type(cls: type) -> None:
    """Tells JAX the type of a ``cls``, so that it does not look through the bases each time that it asks."""
    _core.pytype_aval_mappings[cls] = lambda x: x.aval
    _dtypes.register_canonicalize_value_handler(cls, None)


_containers: dict[type, Callable[[Any], Any]] = {}


def register_container_type(cls: type, array: Callable[[Any], Any]) -> None:
    """Tells JAX that a ``cls`` is an array as an argument, a constant or an operand.

    Arguments:
      array: gives the array of JAX's for a ``cls``, which has its ``shape``, and its ``dtype`` as far as JAX
        holds that in the present mode.
    """
    _containers[cls] = array

    def aval(x: Any) -> Any:
        return _core.ShapedArray(x.shape, _dtypes.canonicalize_dtype(x.dtype))

    _core.pytype_aval_mappings[cls] = aval
    _dtypes.register_canonicalize_value_handler(cls, array)


def is_container(value: Any) -> bool:
    """Whether ``value`` is of a type that was registered by :func:`register_container_type`."""
    return value.__class__ in _containers


def uncontained(value: Any) -> Any:
    """The array of JAX's for a value of a type that was registered by :func:`register_container_type`.

    Any other ``value`` is given as it is.
    """
    array = _containers.get(value.__class__)
    return value if array is None else array(value)


class DeviceGet:
    """Lets ``jax.device_get`` return the value of a lazy tensor.

    JAX returns tracers as they are, but a lazy tensor outlives lazy mode. JAX's own function is replaced only
    while ``jax.device_get`` is about to read a lazy tensor.
    """

    def __init__(self) -> None:
        self._plain = _api._device_get
        self._caller = inspect.unwrap(_api.device_get).__code__
        # By thread that is between the two halves of ``jax.device_get``, a token that stands for the call.
        self._reading: dict[int, object] = {}
        self._ours: Any = None

    def register(self, is_lazy: Callable[[Any], bool], concrete: Callable[[Any], Any]) -> None:
        """Sets the functions that recognise a lazy tensor and that compute its value."""

        def device_get(leaf: Any) -> Any:
            self.done()  # JAX has hold of this function already
            return self._plain(concrete(leaf) if is_lazy(leaf) else leaf)

        self._ours = device_get

    def announced(self, caller: types.FrameType) -> None:
        """Notes that ``caller`` asked a lazy tensor to come to the host. This is the first half of
        ``jax.device_get``, if that called."""
        frames = (
            caller,
            caller.f_back,
            caller.f_back and caller.f_back.f_back,
        )  # 0.12 has two functions in between
        for frame in frames:
            if frame is not None and frame.f_code is self._caller and _Reading.NAME not in frame.f_locals:
                reading = _Reading(self)
                self._reading[reading.thread] = reading.token
                if _api._device_get is self._plain:
                    _api._device_get = self._ours
                frame.f_locals[_Reading.NAME] = reading

    def done(self) -> None:
        """Notes that this thread has left ``jax.device_get``."""
        if self._reading or _api._device_get is not self._plain:
            self.ended(threading.get_ident())

    def ended(self, thread: int, token: object = None) -> None:
        """Notes that ``thread`` has left ``jax.device_get``, or the call of it that ``token`` stands for."""
        if self._reading and (token is None or self._reading.get(thread) is token):
            self._reading.pop(thread, None)
        if not self._reading and _api._device_get is self._ours:
            _api._device_get = self._plain


class _Reading:
    """A call of ``jax.device_get``.

    It is a variable of the call's frame and dies with it, even if the first half raises.
    """

    NAME = "_lazynb_reading"

    def __init__(self, owner: DeviceGet):
        self._owner = owner
        self.thread, self.token = threading.get_ident(), object()

    def __del__(self) -> None:
        self._owner.ended(self.thread, self.token)


device_get = DeviceGet()


def register_argument_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets executables take arguments of type ``cls``. The value of one is ``concrete(argument)``."""

    def shard(args: Sequence[Any], shardings: Any, layouts: Any, copy_semantics: Any) -> Any:
        return _pxla.shard_args(shardings, layouts, copy_semantics, [concrete(arg) for arg in args])

    _pxla.shard_arg_handlers[cls] = shard


def register_constant_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets programs close over values of ``cls``, a class of tracers that outlive the trace.

    A function that is traced ahead of time has them as constants, like arrays, and its lowering asks for
    ``concrete(constant)``. JAX makes leading arguments of the tracers that a jitted function closes over, but
    no caller of the compiled function gives these.
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
        if consts and not any(isinstance(const, Tracer) and not isinstance(const, cls) for const in consts):
            types, params, consts = types[len(consts) :], _closing_over(consts, params), []
        plain(traced, types, params, in_tree, out_tree, consts, *more)

    def constant(value: Any, aval: Any) -> Any:
        return _mlir.ir_constant(concrete(value), aval=aval)

    plain = _stages.Traced.__init__
    _stages.Traced.__init__ = functools.wraps(plain)(init)
    _mlir.register_constant_handler(cls, constant)


def register_placed_type(cls: type, placed: Callable[[Any], Any]) -> None:
    """Tells a function that is lowered ahead of time where its arguments of ``cls``, a class of tracers, are.

    Arguments:
      placed: gives, of an argument, a concrete array in the same place, or the sharding to which the argument
        is committed; None if JAX may move it.
    """

    def type_of(argument: Any) -> Any:
        where = placed(argument) if isinstance(argument, cls) else None
        if where is None or isinstance(where, jax.sharding.Sharding):
            found = plain(argument)
            return found if where is None else _pjit.create_meta_ty(argument.aval, where, None, True, False)
        return plain(where)

    plain = _pjit.convert_to_metaty
    _pjit.convert_to_metaty = functools.wraps(plain)(type_of)


def register_source(cls: type, where: Callable[[Any], Any]) -> None:
    """Tells ``device_put`` under ``jax.grad`` where a value of ``cls``, a class of tracers, comes from: its
    gradient goes back there, and is committed.

    Arguments:
      where: gives the sharding of the value.
    """

    def source(src: Any, x: Any, *more: Any) -> Any:
        if src is None and isinstance(x, Tracer) and not isinstance(x, cls):
            value = x.to_concrete_value()
            if isinstance(value, cls):
                return where(value)
        return plain(src, x, *more)

    plain = _api._infer_src_sharding
    _api._infer_src_sharding = functools.wraps(plain)(source)


def register_own_files(directory: str) -> None:
    """Keeps JAX from taking lines of files in ``directory`` for the user's: in jaxprs and programs, and in
    the tracebacks of errors, from which it leaves out its own (``jax_traceback_filtering``)."""
    _source_info_util.register_exclusion(directory)
    _traceback_util.register_exclusion(directory)


def _closing_over(consts: Sequence[Any], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a jitted function's call that closes over its first arguments, ``consts``."""
    count, jaxpr = len(consts), params["jaxpr"]
    if ClosedJaxpr is Jaxpr:
        closed = jaxpr.with_consts(consts)
    else:
        closed = ClosedJaxpr(_partial_eval.convert_invars_to_constvars(jaxpr.jaxpr, count), consts)
    rest = {name: params[name][count:] for name in ("in_shardings", "in_layouts", "donated_invars")}
    return {**params, "jaxpr": closed, **rest}
