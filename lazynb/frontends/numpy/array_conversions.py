"""Conversions of a lazy array to NumPy and Python values, and its text.

A conversion reads the values, which is a trace break while they are pending.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lazynb.frontends.numpy import numpy_arguments
from lazynb.frontends.numpy.array_indexing import WritableArray
from lazynb.frontends.numpy.view_memory import numpy_view
from lazynb.recording.array_ufunc import callee_of
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.tool_access import tool_access
from lazynb.user_code.call_stack import calling_frame

_ASKED_BY_NUMPY = 0x11C
"""The flags ``PyBUF_FULL_RO``, with which NumPy requests a buffer."""


class ConvertibleArray(WritableArray):
    """Base class of :class:`lazynb.frontends.numpy.mutable_array.MutableArray`, with its conversions."""

    __slots__ = ()
    _layout: Any
    _scalar: Any
    dtype: Any
    shape: Any

    def own(self, kind: str, detail: str = "") -> Any:
        """Returns the values as a ``numpy.ndarray`` or NumPy scalar; a trace break if they are pending.

        The result shares its memory with this array.
        """
        array = numpy_view(self._memory.own(kind, detail), self._path)
        if self._scalar:
            return array[()]
        array = array.view()  # hides the owned ndarray, because its references are counted
        if not self._layout.flags.writeable:
            array.flags.writeable = False
        return array

    def seen(self, kind: str, detail: str = "") -> Any:
        """The values as a read-only ``numpy.ndarray`` or NumPy scalar; a trace break if they are pending."""
        array = numpy_view(self._memory.seen(kind, detail), self._path)
        return array[()] if self._scalar else array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.asarray(self.own("asarray"))
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __getattr__(self, name: str) -> Any:
        """Other attributes of ``numpy.ndarray``. For a method, only its call forces the values."""
        kind = self.dtype.type if self._scalar else np.ndarray
        if name.startswith("_") or not hasattr(kind, name):
            raise AttributeError(f"'{kind.__module__}.{kind.__name__}' object has no attribute '{name}'")
        detail = f"ndarray.{name}"
        if not callable(getattr(kind, name)):
            return getattr(self.own("numpy_function", detail), name)
        return lambda *args, **kwargs: getattr(self.own("numpy_function", detail), name)(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.own("pickle").__reduce_ex__(protocol)

    def __jax_array__(self) -> Any:
        return numpy_arguments.to_32_bit(self.value)

    def __dlpack__(self, **options: Any) -> Any:
        return np.asarray(self.own("dlpack")).__dlpack__(**options)

    def __bytes__(self) -> bytes:
        return self.own("asarray").tobytes()

    def __buffer__(self, flags: int) -> memoryview:
        """Exports the memory to buffer consumers: ``hashlib``, ``file.write``, Cython (Python 3.12 or newer).
        Raises ``BufferError`` if NumPy requests the buffer; NumPy then uses ``__array__``. ``memoryview``
        requests with the same flags, so the calling code is inspected to tell the two apart."""
        if flags == _ASKED_BY_NUMPY and callee_of(calling_frame(1)) is not memoryview:
            raise BufferError("no buffer for NumPy; memoryview(np.asarray(x)) is one")
        return memoryview(self.own("asarray"))

    def __dlpack_device__(self) -> Any:
        return np.empty(0).__dlpack_device__()

    def __hash__(self) -> int:
        if self._scalar:
            return hash(self.item())  # like NumPy scalars
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __bool__(self) -> bool:
        return bool(self.seen("bool"))

    def __int__(self) -> int:
        return int(self.seen("int"))

    def __float__(self) -> float:
        return float(self.seen("float"))

    def __complex__(self) -> complex:
        return complex(self.seen("complex"))

    def __round__(self, ndigits: int | None = None) -> Any:
        if not self._scalar:
            raise TypeError(f"type {type(self).__name__} doesn't define __round__ method")
        return round(self.item()) if ndigits is None else np.round(self, ndigits)

    def __index__(self) -> int:
        return operator.index(self.seen("index"))

    def item(self, *place: int) -> Any:
        return self.seen("item").item(*place)

    def tolist(self) -> Any:
        return self.seen("tolist").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self.seen("bytes").tobytes(order)

    def __repr__(self) -> str:
        memory = self._memory
        if not memory.is_pending:
            return repr(self.seen("print"))
        if not self._path:
            return f"MutableArray({memory.current!r})"
        shape = ",".join(map(str, self.shape))
        return f"MutableArray({self.dtype.name}[{shape}], a view of {memory.current!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if not self._memory.is_pending:
            return {"text/plain": repr(self)}
        return runtime().execution.display(self.value)

    def __str__(self) -> str:
        return repr(self) if tool_access.active else str(self.seen("print"))

    def __format__(self, spec: str) -> str:
        return repr(self) if tool_access.active else format(self.seen("format"), spec)
