"""``MutableArray``: a lazy array with the interface of ``numpy.ndarray``.

It supports ``x[0] = 1``, ``x += 1``, ``out=`` and views that share memory. JAX arrays are immutable, so a
:class:`MutableArray` holds one and replaces it at each write; views see the replacement. While the thread is
lazy, all operations are recorded.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb import jax_compat as jc
from lazynb.frontends.numpy import array_indexing, numpy_arguments
from lazynb.frontends.numpy.array_conversions import ConvertibleArray
from lazynb.frontends.numpy.array_flags import Flags
from lazynb.frontends.numpy.array_operators import add_operators
from lazynb.frontends.numpy.numpy_arguments import is_jax_dtype, without_weak_type
from lazynb.frontends.numpy.view_memory import (
    ComplexPart,
    IndexStep,
    PathStep,
    ReadOnly,
    Reshaped,
    SharedMemory,
    Transposed,
    axis_order,
    layout,
    reshape_layout,
)
from lazynb.recording.array_ufunc import reset_lookups
from lazynb.recording.runtime_interface import runtime
from lazynb.user_code.call_stack import calling_frame
from lazynb.user_code.code_ownership import is_user_code

numpy: Any = np  # hides NumPy's signatures, which reject these arrays, from type checkers


class MutableArray(ConvertibleArray):
    """A lazy array with the interface of ``numpy.ndarray``: NumPy's dtypes, promotion, views, in-place
    writes.

    Where NumPy returns a scalar, the result is a read-only :class:`MutableArray`. NumPy functions and ufuncs
    on lazy tensors return such arrays; :func:`lazynb.numpy.mutable` makes one. A call that breaks the trace
    returns a ``numpy.ndarray``. ``np.asarray(x)`` returns a ``numpy.ndarray`` that shares its memory with
    ``x`` in both directions. In user code, ``isinstance`` treats a :class:`MutableArray` as a
    ``numpy.ndarray`` or a NumPy scalar.
    """

    __slots__ = ("__weakref__", "_base", "_layout", "_memory", "_path", "_scalar")

    def __init__(
        self,
        memory: SharedMemory,
        path: tuple[PathStep, ...],
        laid: np.ndarray,
        base: Any = None,
        scalar: bool = False,
    ):
        self._memory = memory
        self._path = path
        self._layout = laid
        self._base = base
        self._scalar = scalar  # stands for a NumPy scalar, which is read-only

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # ``isinstance(x, np.ndarray)`` reads it after the type. Libraries must then call ``np.asarray(x)``.
        frame = calling_frame(1)
        if is_user_code(frame.f_code) or str(frame.f_globals.get("__name__")).startswith("numpy."):
            return self.dtype.type if self._scalar else np.ndarray
        return MutableArray

    # ---- Shape and dtype -----------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self._layout.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        stand_in = np.broadcast_to(np.int8(0), self._layout.shape)
        wanted = stand_in.reshape(shape).shape  # raises NumPy's error
        laid = reshape_layout(self._layout, wanted)
        if laid is None:
            raise AttributeError(
                "Incompatible shape for in-place modification. Use `.reshape()` to make a copy"
            )
        self._path, self._layout = (*self._path, Reshaped(wanted)), laid

    dtype = property(lambda self: self._layout.dtype)
    ndim = property(lambda self: self._layout.ndim)
    size = property(lambda self: self._layout.size)
    itemsize = property(lambda self: self._layout.itemsize)
    nbytes = property(lambda self: self._layout.nbytes)
    strides = property(lambda self: self._layout.strides)
    base = property(lambda self: self._base, doc="The array that this is a view of, or None.")
    flags = property(lambda self: Flags(self))

    @property
    def is_scalar(self) -> bool:
        """Whether this array stands for a NumPy scalar, which is read-only."""
        return self._scalar

    @property
    def is_in_c_order(self) -> bool:
        """``flags.c_contiguous``, without making a :class:`Flags`."""
        return self._layout.flags.c_contiguous

    @property
    def is_pending(self) -> bool:
        """Whether the values are not computed yet."""
        return self._memory.is_pending

    @property
    def held(self) -> Any:
        """The JAX array behind the memory (for a view, behind the whole base), or None after NumPy took it
        over."""
        present = self._memory.current
        return present if isinstance(present, jax.Array) else None

    @property
    def value(self) -> Any:
        """The values as a JAX array, possibly pending. Later writes do not change it."""
        return self._memory.read(self._path)

    # ---- Items and writes ----------------------------------------------------------------------------------

    def _write(self, value: Any) -> None:
        """Replaces all values by ``value``, which must have this array's shape and dtype."""
        self._check_writing()
        self._memory.write(self._path, value)

    def _check_writing(self) -> None:
        if self._scalar:
            raise TypeError(f"'numpy.{self.dtype.name}' object does not support item assignment")
        if not self._layout.flags.writeable:
            raise ValueError("assignment destination is read-only")

    def __setitem__(self, place: Any, value: Any) -> None:
        self._check_writing()
        array_indexing.set_item(self, place, value)

    def __getitem__(self, place: Any) -> Any:
        return array_indexing.get_item(self, place)

    def __len__(self) -> int:
        if not self.ndim:
            if self._scalar:
                raise TypeError(f"object of type 'numpy.{self.dtype.name}' has no len()")
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[number] for number in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def _new_array(self, value: Any, laid: np.ndarray | None = None, scalar: bool = False) -> MutableArray:
        return wrap(value, laid, scalar)

    def _view(self, step: PathStep, laid: np.ndarray) -> MutableArray:
        if isinstance(step, ReadOnly):
            laid = laid.view()
            laid.flags.writeable = False
        if self._scalar:
            with numpy_arguments.x64_for_dtype(self.dtype):
                return wrap(step.get(self.value), laid)
        base = self if self._base is None else self._base
        return MutableArray(self._memory, (*self._path, step), laid, base)

    def fill(self, value: Any) -> None:
        if not self._scalar:  # NumPy fills a copy of a scalar
            self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        self[...] = np.sort(self, axis=axis)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        if write is not None and not self._scalar:
            self.flags.writeable = write
        self._layout.setflags(align=align, uic=uic)

    def resize(self, *shape: Any, refcheck: bool = True) -> None:
        """Resizes in place: drops elements or appends zeros. ``refcheck`` is ignored."""
        if self._base is not None or self._scalar:
            raise ValueError("cannot resize this array: it does not own its data")
        wanted = np.broadcast_shapes(_as_one_argument(shape) if shape else self.shape)
        flat, size = self.value.reshape(-1), int(np.prod(wanted))
        with numpy_arguments.x64_for_dtype(self.dtype):
            flat = jnp.pad(flat[:size], (0, max(0, size - flat.size))).reshape(wanted)
        laid = layout(wanted, self.dtype)
        self._memory, self._path, self._layout = SharedMemory(flat, laid), (), laid

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        numpy.put(self, indices, values, mode)

    # ---- Views ---------------------------------------------------------------------------------------------

    @property
    def T(self) -> MutableArray:
        return self.transpose()

    @property
    def mT(self) -> MutableArray:
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return self.swapaxes(-1, -2)

    def transpose(self, *axes: Any) -> MutableArray:
        if not axes or (len(axes) == 1 and axes[0] is None):
            if self._scalar:
                return self
            return self._view(Transposed(tuple(range(self.ndim))[::-1]), self._layout.transpose())
        order = _as_one_argument(axes)
        laid = self._layout.transpose(order)
        full = tuple([operator.index(axis) % self.ndim for axis in order])
        return self._view(Transposed(full), laid)

    def swapaxes(self, axis1: int, axis2: int) -> MutableArray:
        self._layout.swapaxes(axis1, axis2)  # raises NumPy's error
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(tuple(order))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> MutableArray:
        stand_in = np.broadcast_to(np.int8(0), self.shape)
        wanted = stand_in.reshape(_as_one_argument(shape)).shape  # raises NumPy's error
        if order == "F" or (order == "A" and self._layout.flags.fnc):
            return self.transpose().reshape(wanted[::-1], copy=copy).transpose()
        laid = reshape_layout(self._layout, wanted)
        if laid is not None and not copy:
            return self._view(Reshaped(wanted), laid)
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return wrap(self.value.reshape(wanted))

    def ravel(self, order: str = "C") -> MutableArray:
        flat = self
        if order == "K":
            if self.ndim > 1:
                flat = self.transpose(axis_order(self._layout))
            order = "C"
        flat = flat.reshape(-1, order=order)
        if flat.flags.c_contiguous:
            return flat
        return flat.copy()  # ``reshape`` may return a strided view

    def squeeze(self, axis: Any = None) -> MutableArray:
        laid = self._layout.squeeze(axis)
        if laid.ndim == self.ndim:
            return self
        return self._view(Reshaped(laid.shape), laid)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> MutableArray:
        arguments = offset, axis1, axis2
        return self._view(ReadOnly("diagonal", arguments), self._layout.diagonal(*arguments))

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        if type is not None:
            return self.own("asarray", f"a view as {type.__name__}").view(
                *[dtype][: dtype is not None], type=type
            )
        if inspect.isclass(dtype) and issubclass(dtype, np.ndarray):
            return self.own("asarray", f"a view as {dtype.__name__}").view(dtype)
        if dtype is not None and np.dtype(dtype) != self.dtype:
            return self.own("numpy_dtype", f"a view as {np.dtype(dtype).name}").view(dtype)
        return self._view(IndexStep((...,)), self._layout.view())

    @property
    def real(self) -> MutableArray:
        if self.dtype.kind != "c":
            return self
        return self._view(ComplexPart("real"), self._layout.real)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> MutableArray:
        if self.dtype.kind == "c":
            return self._view(ComplexPart("imag"), self._layout.imag)
        return self._view(ReadOnly("imag", ()), self._layout)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    @property
    def flat(self) -> Any:
        return array_indexing.FlatIterator(self)

    # ---- Copies --------------------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> MutableArray:
        axes: Any = None
        if order == "F":
            axes = range(self.ndim)[::-1]
        elif order in ("K", "A") and not self._layout.flags.c_contiguous:
            axes = axis_order(self._layout)
        return wrap(self.value, layout(self.shape, self.dtype, axes))

    def __copy__(self) -> MutableArray:
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> MutableArray:
        return self.copy("K")

    def flatten(self, order: str = "C") -> MutableArray:
        return self.ravel(order).copy()

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        wanted = np.zeros((), self.dtype).astype(dtype, casting=casting).dtype
        if casting == "same_value":  # raises depending on the values
            return self.own("numpy_values", "astype").astype(wanted, casting=casting)
        if wanted == self.dtype:
            return self.copy(order) if copy else self
        if not is_jax_dtype(wanted):
            return self.own("numpy_dtype", f"astype to {wanted.name}").astype(wanted)
        laid = layout(self.shape, wanted, axis_order(self._layout))
        return wrap(array_indexing.cast_like_numpy(self.value, wanted), laid)

    # ---- Array API standard --------------------------------------------------------------------------------

    device = "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> MutableArray:
        if device != "cpu":
            raise ValueError(f"Unsupported device: {device!r}.")
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """NumPy's functions, returning :class:`MutableArray`."""
        calls = runtime().numpy_protocols
        calls.note_array_api_caller()
        return calls.array_namespace

    # ---- NumPy's protocols ---------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
        reset_lookups()  # NumPy may have called ``__array_ufunc__`` of a lazy tensor before
        return runtime().numpy_protocols.array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return runtime().numpy_protocols.array_function(func, args, kwargs)


def _as_one_argument(arguments: tuple[Any, ...]) -> Any:
    """Normalises ``f(1, 2)`` and ``f((1, 2))`` to one tuple or list."""
    if len(arguments) == 1 and isinstance(arguments[0], tuple | list):
        return arguments[0]
    return arguments


def wrap(value: Any, laid: np.ndarray | None = None, scalar: bool = False) -> MutableArray:
    """A new :class:`MutableArray` with its own memory and the values of ``value``."""
    value = without_weak_type(value)
    if laid is None:
        laid = layout(value.shape, value.dtype)
    return MutableArray(SharedMemory(value, laid), (), laid, None, scalar)


def mutable(x: Any) -> MutableArray:
    """Copies ``x`` into a :class:`MutableArray`, which supports in-place writes with NumPy's semantics.

    Arguments:
      x: a lazy tensor, a ``jax.Array``, a ``numpy.ndarray``, a number or nested lists.

    Raises:
      TypeError: JAX has no arrays of its dtype.
    """
    if isinstance(x, MutableArray):
        return x.copy("K")
    if isinstance(x, jax.Array):
        return wrap(x)
    array = np.asarray(x)
    if not is_jax_dtype(array.dtype):
        raise TypeError(f"no array of JAX's has the type {array.dtype}")
    with numpy_arguments.x64_for_dtype(array.dtype):
        return wrap(jnp.asarray(array.copy()), layout(array.shape, array.dtype, axis_order(array)))


add_operators(MutableArray, mutable)
jc.register_container_type(MutableArray, lambda x: x.__jax_array__())
