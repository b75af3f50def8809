"""The operators and methods of LazyTensor, with a memory of their calls.

The memory is that of :mod:`lazynb.record.fast.recall`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lazynb import _jax as jc
from lazynb.record.fast.accelerator import binary, remembered
from lazynb.record.tensor import LazyTensor

# JAX records these in the same way for all numbers of one type. For the others (powers, indices) the value
# may change the program.
_ALIKE = frozenset(
    """add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod and rand or ror xor rxor
                      lshift rlshift rshift rrshift eq ne lt le gt ge""".split()
)
_OTHER = frozenset("neg pos abs invert matmul rmatmul pow rpow divmod rdivmod round getitem".split())

_METHODS = frozenset(
    """all any argmax argmin argpartition argsort astype clip conj conjugate cumprod cumsum diagonal dot max
    mean min nonzero prod ptp ravel repeat reshape round sort squeeze std sum swapaxes take trace transpose
    var""".split()
)


def _named(function: Callable[..., Any], name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    functools.update_wrapper(function, plain)
    function.__name__ = name
    function.__qualname__ = f"Array.{name}"
    return function


def _table() -> dict[str, tuple[Callable[..., Any], bool]]:
    """JAX's operators and methods that get a memory, by name.

    Each is given with whether it records all numbers of one type in the same way.
    """
    table: dict[str, tuple[Callable[..., Any], bool]] = {}
    for name, plain in jc.array_operators.items():
        if name in _ALIKE or name in _OTHER:
            table[f"__{name}__"] = (plain, name in _ALIKE)
    for name, plain in jc.array_methods.items():
        if name in _METHODS:
            table[name] = (plain, False)
    return table


def install() -> None:
    """Gives LazyTensor its operators and methods."""
    for name, (plain, alike) in _table().items():
        function = binary(name, plain) if alike else remembered(name, plain, False)
        setattr(LazyTensor, name, _named(function, name, plain))


Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def of_linearized(counted: Wrapper) -> dict[str, Callable[..., Any]]:
    """The operators and methods that values under ``jax.grad`` have while a thread is lazy.

    A call that is not remembered uses the method of JAX's tracer, which depends on its type: a reference
    (``jax.new_ref``) is no array, and ``ref[...]`` reads it.

    Arguments:
      counted: gives JAX's method as it is to be called.
    """
    return {
        name: _named(remembered(name, counted(getattr(jc.Tracer, name)), alike), name, plain)
        for name, (plain, alike) in _table().items()
    }


def of_arrays(counted: Wrapper) -> dict[str, Callable[..., Any]]:
    """The operators and methods that concrete arrays have while a thread is lazy.

    An operator with a concrete array on the left must be recorded too. Only lazy threads use the memory.

    Arguments:
      counted: gives JAX's method as it is to be called.
    """
    methods, functions = vars(jc.ArrayImpl), {}
    for name, (_, alike) in _table().items():
        if name in methods:
            function = remembered(f"array.{name}", counted(methods[name]), alike)
            functions[name] = _named(function, name, methods[name])
    return functions
