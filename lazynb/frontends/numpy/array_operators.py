"""The operators of a lazy array, and its methods that only call a NumPy function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_METHODS = """all any argmax argmin argsort clip cumprod cumsum dot max mean min nonzero prod repeat round
    searchsorted std sum take trace var compress choose argpartition""".split()


def _left_operator(ufunc: Any, name: str) -> Callable[[Any, Any], Any]:
    """The operator ``name``. With a JAX array on the right, JAX's operator runs, as for any
    ``numpy.ndarray``."""

    def answer(self: Any, other: Any) -> Any:
        if isinstance(other, jax.Array):
            return getattr(self.__jax_array__(), name)(other)
        return ufunc(self, other)

    return answer


def _equality(
    ufunc: Any, name: str, compare: Callable[[Any, Any], Any], mutable: Callable[[Any], Any]
) -> Callable[[Any, Any], Any]:
    """``==`` or ``!=``, which NumPy also defines for operands without a numeric loop (text)."""
    numbers = _left_operator(ufunc, name)

    def answer(self: Any, other: Any) -> Any:
        try:
            return numbers(self, other)
        except TypeError:
            stand_in = np.broadcast_to(np.zeros((), self.dtype), self.shape)
            return mutable(compare(stand_in, other))  # or raises NumPy's error

    return answer


def _right_operator(ufunc: Any) -> Callable[[Any, Any], Any]:
    return lambda self, other: ufunc(other, self)


def _unary_operator(ufunc: Any) -> Callable[[Any], Any]:
    return lambda self: ufunc(self)


def _in_place_operator(ufunc: Any) -> Callable[[Any, Any], Any]:
    def write(self: Any, other: Any) -> Any:
        if isinstance(other, jax.Array):
            return NotImplemented  # then Python calls the operator that is not in place
        if self._scalar:
            return ufunc(self, other)
        return ufunc(self, other, out=(self,))

    return write


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)
    if name == "compress":
        return lambda self, condition, *args, **kwargs: function(condition, self, *args, **kwargs)
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


def add_operators(kind: Any, mutable: Callable[[Any], Any]) -> None:
    """Defines the operators, and the methods that only call a NumPy function, on the class ``kind``.

    Arguments:
      mutable: copies a ``numpy.ndarray`` into an array of that class.
    """
    for name, ufunc in _BINARY.items():
        setattr(kind, f"__{name}__", _left_operator(ufunc, f"__{name}__"))
        setattr(kind, f"__r{name}__", _right_operator(ufunc))
        if name != "divmod":
            setattr(kind, f"__i{name}__", _in_place_operator(ufunc))
    for name, ufunc in _COMPARISONS.items():
        setattr(kind, f"__{name}__", _left_operator(ufunc, f"__{name}__"))
    kind.__eq__ = _equality(np.equal, "__eq__", operator.eq, mutable)
    kind.__ne__ = _equality(np.not_equal, "__ne__", operator.ne, mutable)
    for name, ufunc in _UNARY.items():
        setattr(kind, f"__{name}__", _unary_operator(ufunc))
    for name in _METHODS:
        setattr(kind, name, _method(name))
    kind.conj = kind.conjugate = lambda self: np.conjugate(self)
