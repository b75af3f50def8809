"""LazyTensor: a jax.Array whose value may still be pending (LazyTensor, Suhan et al. 2021, section 3)."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.jax_compat.jax_names import INTERPRETERS_FOLDER
from lazynb.recording import input_protection
from lazynb.recording.array_ufunc import ArrayUfuncDescriptor
from lazynb.recording.break_cause import find_cause, text_output_kind
from lazynb.recording.break_reasons import REASONS
from lazynb.recording.buffer_protocol import (
    HAS_BUFFER_METHODS,
    exported_buffer,
    install_buffer_protocol,
    raise_deferred_interrupt,
)
from lazynb.recording.external_arrays import exclusively_owned, held_outside
from lazynb.recording.pending_trace import PendingTrace, pending_dependencies
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.tensor_placement import DeletedValue, TensorPlacement, aot_placement
from lazynb.recording.tool_access import tool_access
from lazynb.user_code.call_stack import calling_frame


class _ArrayImplMeta(type(jax.Array)):  # type: ignore[misc]
    """The metaclass of :class:`LazyTensor`, which compares equal to ``ArrayImpl``, JAX's own array class.
    Libraries compare trees by ``type(x) == type(y)`` (``equinox.tree_equal``). In sets and dicts, and for
    ``is``, the classes differ."""

    def __eq__(cls, other: object) -> bool:
        return cls is other or other is jc.ArrayImpl

    __hash__ = type.__hash__


class LazyTensor(TensorPlacement, jax.Array, metaclass=_ArrayImplMeta):
    """A ``jax.Array`` whose value is computed when Python needs it. It is no tracer.

    Operations on it are recorded while lazy mode is on. ``repr``, rich display, ``shape``, ``dtype``, ``dir``
    and tab completion run nothing. ``float(x)``, ``bool(x)``, ``print(x)``, ``np.asarray(x)`` and the like
    give the results of eager JAX and are trace breaks.
    """

    __slots__ = (
        "__weakref__",
        "_code",
        "_edge",
        "_lasti",
        "_pending",
        "_scope",
        "_slot",
        "_trace",
        "_value",
        "aval",
    )

    # The recorder, and the aval (a ``ShapedArray``).
    _trace: Any
    aval: Any

    # While pending: the trace and the slot in it. For the first result of a call also the end of the call (a
    # State or a ReplayEdge) and the user's line (an Origin or its parts).
    _pending: PendingTrace | None
    _slot: int
    _edge: Any
    _code: Any
    _lasti: int
    _scope: Any

    _value: Any

    def __init__(self, trace: Any, aval: Any, pending: PendingTrace | None, slot: int, value: Any = None):
        self._trace = trace
        self.aval = aval
        self._pending = pending
        self._slot = slot
        self._value = value
        self._edge = self._code = None

    def _set_value(self, value: Any, whole: bool) -> None:
        """Sets the value. The origin is kept until the ``whole`` trace has run."""
        self._value = value
        self._pending = None
        if whole:
            self._edge = self._code = None

    def _alias(self) -> LazyTensor:
        """Returns another tensor for the same pending result."""
        twin = LazyTensor(self._trace, self.aval, self._pending, self._slot)
        if self._edge is not None:
            twin._edge, twin._code = self._edge, self._code
            twin._lasti, twin._scope = getattr(self, "_lasti", 0), getattr(self, "_scope", None)
        return twin

    def _forget_origin(self) -> None:
        self._edge = self._code = None

    # ---- The value -----------------------------------------------------------------------------------------

    def _force(self, kind: str, detail: str = "") -> Any:
        """Returns the concrete array, computed if it is pending, with a trace break of ``kind``.

        Arguments:
          detail: the attribute or function that needs the value. Without it, the cause is searched in the
            callers of the calling method, see :func:`lazynb.recording.break_cause.find_cause`.

        Raises:
          RuntimeError: the array was deleted or donated; the text is eager JAX's.
        """
        value = self._value
        if value is None:
            if not detail and REASONS[kind].conversion:
                kind, detail = find_cause(self, kind, calling_frame(2))
            value = runtime().execution.force(self, kind, detail)
        if REASONS[kind].shares_memory:
            self._mark_exposed(value)
        if type(value) is DeletedValue:
            self.raise_if_deleted()
            return self._force(kind, detail)
        return value

    def raise_if_deleted(self) -> None:
        """Raises eager JAX's error if the array was deleted or donated."""
        if self.is_deleted():
            raise RuntimeError(f"Array has been deleted with shape={self.aval.str_short()}.")

    def _mark_exposed(self, value: Any) -> None:
        """Notes that other code gets the concrete array and may delete or donate it."""
        exclusively_owned.discard(value)
        if type(value) is not DeletedValue and id(value) not in held_outside.ids:
            held_outside.add(value)
            input_protection.protect_inputs(self._trace, value, self)

    @property
    def is_pending(self) -> bool:
        """Whether the value is not computed yet."""
        return self._value is None

    # ---- Conversions: the checks come before the run -------------------------------------------------------

    def __bool__(self) -> bool:
        jc.check_bool_conversion(self)
        return bool(self._force("bool"))

    def __int__(self) -> int:
        jc.check_scalar_conversion(self)
        return int(self._force("int"))

    def __float__(self) -> float:
        jc.check_scalar_conversion(self)
        return float(self._force("float"))

    def __complex__(self) -> complex:
        jc.check_scalar_conversion(self)
        return complex(self._force("complex"))

    def __index__(self) -> int:
        jc.check_integer_conversion(self)
        return operator.index(self._force("index"))

    def item(self, *args: int) -> Any:
        return self._force("item").item(*args)

    def __iter__(self) -> Any:
        # Eager JAX reads the rows of a sharded array from the host.
        if jc.is_sharded_along_first_axis(self.aval):
            return iter(self._force("unrecordable", "iteration along an axis on several devices"))
        return iter(jc.iterate_traced(self))

    def __reversed__(self) -> Any:
        return iter(self[::-1]) if self.ndim else iter(self)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")  # the text of JAX
        return int(self.shape[0])

    def tolist(self) -> Any:
        return self._force("tolist").tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return self._force("bytes").tobytes(order)

    def __array__(self, dtype: Any = None, context: Any = None, copy: bool | None = None) -> np.ndarray:
        raise_deferred_interrupt(self, calling_frame(1))
        return self._force("asarray").__array__(dtype, context, copy)

    # NumPy's protocols (NEP 13, NEP 18), implemented in ``lazynb.frontends``, which the first call imports.
    __array_ufunc__ = ArrayUfuncDescriptor()
    __array_priority__ = 100  # the value of jax.Array; a tracer's is higher
    __numpy_dtype__ = jax.Array.__numpy_dtype__  # read by NumPy 2.4, which warns the user

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return runtime().numpy_protocols.array_function(function, args, kwargs)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        # ``np.ma`` creates its arrays this way from results of NumPy functions.
        if inspect.isclass(dtype) and issubclass(dtype, np.ndarray):
            return np.array(self._force("asarray", f"a view as {dtype.__name__}")).view(dtype)
        return jc.array_methods["view"](self, dtype=dtype, type=type)

    def __contains__(self, item: Any) -> bool:
        # JAX's method checks the types and compares; Python needs the truth value of the result.
        result: Any = jc.array_operators["contains"](self, item)
        if isinstance(result, LazyTensor):
            result = result._force("contains")
        return bool(result)

    if HAS_BUFFER_METHODS:  # otherwise ``install_buffer_protocol`` below

        def __buffer__(self, flags: int) -> memoryview:
            return memoryview(exported_buffer(self, calling_frame(1), flags))

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._force("dlpack").__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._force("dlpack").__dlpack_device__()

    def __reduce__(self) -> Any:
        return self._force("pickle").__reduce__()

    def __copy__(self) -> Any:
        return self._copied(copy.copy)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._copied(lambda value: copy.deepcopy(value, memo))

    def _copied(self, how: Callable[[Any], Any]) -> Any:
        if self._value is None:
            return self.copy()
        with jc.set_current_trace(jc.eval_trace):  # a copy of a PRNG key array copies the array inside
            return how(self._force("pickle"))

    # ---- Text ----------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        if tool_access.active or INTERPRETERS_FOLDER in calling_frame(1).f_code.co_filename:
            return repr(self)  # text of a tracer: JAX names functions by their arguments
        return str(self._force("print"))

    def __format__(self, spec: str) -> str:
        return repr(self) if tool_access.active else format(self._force("format"), spec)

    def __repr__(self) -> str:
        if type(self._value) is DeletedValue and self.is_deleted():
            return f"LazyTensor({self.aval.str_short()}, deleted)"
        value = self._value
        if (
            value is None
            and not tool_access.active
            and (kind := text_output_kind(calling_frame(1))) is not None
        ):
            value = self._force(kind)
        if value is not None:
            return repr(value)
        count = sum(map(len, pending_dependencies([self])))
        return f"LazyTensor({self.aval.str_short()}, pending: {count} operation{'s' * (count != 1)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if self._value is not None:
            return {"text/plain": repr(self)}
        return runtime().execution.display(self)

    # ---- Attributes of the concrete array ------------------------------------------------------------------

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)

    @property
    def addressable_shards(self) -> Any:
        return self._concrete_attribute("addressable_shards")

    @property
    def global_shards(self) -> Any:
        return self._concrete_attribute("global_shards")

    def addressable_data(self, index: int) -> Any:
        return self._concrete_attribute("addressable_data")(index)

    @property
    def traceback(self) -> Any:
        return self._concrete_attribute("traceback")

    def unsafe_buffer_pointer(self) -> int:
        return self._force("buffer", "unsafe_buffer_pointer").unsafe_buffer_pointer()

    def on_device_size_in_bytes(self) -> int:
        return self._force("buffer", "on_device_size_in_bytes").on_device_size_in_bytes()

    def is_ready(self) -> bool:
        return self._value is not None and self._force("attribute").is_ready()

    def block_until_ready(self) -> LazyTensor:
        if type(self._value) is DeletedValue and self.is_deleted():
            raise jc.deleted_array_error()
        self._force("block").block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        if self._value is not None:  # only a hint: a pending value cannot be copied yet
            self._force("block").copy_to_host_async()

    def is_deleted(self) -> bool:
        if type(self._value) is DeletedValue:
            input_protection.restore_lost_donation(self._trace)
        value = self._value
        return type(value) is DeletedValue or (value is not None and value.is_deleted())

    def delete(self) -> None:
        if not self.is_deleted() and self._value is None:
            self._force("delete")  # pending values that need it are computed in the same run
        if type(self._value) is not DeletedValue and not self._value.is_deleted():
            input_protection.flush_users(self._trace, self)
            self._value.delete()
        self._forget_value()

    def _forget_value(self) -> None:
        """Marks the tensor as deleted; its sharding stays readable."""
        value = self._value
        if value is None:
            value = DeletedValue(self._equivalent_sharding(), self._committed)
        elif type(value) is not DeletedValue:
            value = DeletedValue(value.sharding, jc.is_committed(value))
        self._value, self._pending = value, None

    def __getattr__(self, name: str) -> Any:
        # Attributes that only the concrete array has (``_arrays``, ``_npy_value``,
        # ``__cuda_array_interface__``, ...). Names that no array has run nothing. dir() reads __dict__, and
        # copy other special names.
        if name in LazyTensor.__slots__:  # a debugger looks at a tensor that is being made
            raise AttributeError(f"a tensor that is being made has no {name!r} yet")
        special = name.startswith("__") and name != "__cuda_array_interface__"
        if special or not jc.concrete_array_has(self.aval, name):
            raise jc.array_attribute_error(self.aval, name)
        devices = self._known_devices()
        if devices is not None and name in _DEVICE_PROTOCOL_ATTRIBUTES:
            getattr(jc.probe_scalar(devices[0]), name)
        if name == "__cuda_array_interface__":
            return getattr(self._force("buffer", name), name)
        return self._concrete_attribute(name)


# Other libraries look these up. They depend only on the device, so a missing one runs nothing.
_DEVICE_PROTOCOL_ATTRIBUTES = ("__cuda_array_interface__", "device_buffer", "device_buffers")

install_buffer_protocol(LazyTensor, exported_buffer)


def _restore_current_trace(tensor: LazyTensor) -> LazyTensor:
    """Restores the current trace if an interrupt cleared it. JAX calls this with each operand."""
    if jc.trace_state.value is None:
        tensor._trace.make_current()
    return tensor


def _evaluated(tensor: LazyTensor, function: str) -> Any:
    return tensor._force("asarray", function) if function else tensor._force("eager")


jc.register_array_type(LazyTensor, _restore_current_trace)
jc.register_evaluated_type(LazyTensor, _evaluated)
jc.register_argument_type(LazyTensor, lambda argument: argument._force("eager"))
jc.register_shard_type(LazyTensor, lambda part: part._force("device_put", "an array assembled from others"))
jc.register_mapped_type(
    LazyTensor, lambda value: value._force("unrecordable", "a shard_map that closes over it")
)
jc.register_constant_type(
    LazyTensor, lambda constant: constant._force("static", "a constant of a compiled function")
)
jc.register_aot_placement(LazyTensor, aot_placement)
jc.register_transfer_source(LazyTensor, lambda tensor: tensor._equivalent_sharding() or tensor.sharding)
