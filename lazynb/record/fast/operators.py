"""The operators and methods of LazyTensor, with a memory of their calls.

The memory is that of :mod:`lazynb.record.fast.recall`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from lazynb import _jax as jc
from lazynb.record.fast.linearize import linearized_call
from lazynb.record.fast.recall import KINDS, recall, take
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace
from lazynb.source import is_user_code

LinearizeTrace = jc.LinearizeTrace

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


def _binary(name: str, plain: Callable[..., Any], depth: int = 1) -> Callable[..., Any]:
    """``plain`` for a tensor and another operand, with a memory; the user's frame is ``depth`` above."""
    # Written flat, because a loop of small operations spends its time here. ``Pending`` explains the order of
    # the last three statements.
    ambient, changes, scopes = jc.ambient, jc.changes, jc.scopes
    new, getframe, kinds, array = LazyTensor.__new__, sys._getframe, KINDS, jc.ArrayImpl

    def operator(self: LazyTensor, other: Any) -> Any:
        pending = self._pending
        if pending is not None and (tip := pending.tip) is not None:
            cls = other.__class__
            if cls is LazyTensor and other._pending is pending:
                part = other._slot
            elif cls is array:
                part = pending.slots_of.get(id(other))
                if part is None or other.is_deleted():
                    part = pending.array(other, True)
                    tip = pending.tip or tip  # the array may have become an input just now
            elif cls is LazyTensor:
                part = pending.array(other._value, other._trace is not pending.trace)
                tip = pending.tip or tip
            else:
                part = kinds.get(cls)
            edge = tip.edges.get((name, self._slot, part)) if part is not None else None
            if (
                edge is not None
                and edge.plain
                and ambient.value is pending.trace
                and (pending.epoch == changes.count or pending.same_context())
            ):
                inputs = None
                if edge.convert is not None:
                    if edge.scalar is other:
                        inputs = edge.converted
                    else:
                        try:
                            inputs = (edge.convert(other),)
                        except OverflowError:  # for JAX's own error, or another edge
                            return recall(pending.trace, name, plain, (self, other), {}, True, depth + 1)
                        edge.converted, edge.scalar = inputs, other
                tensor = new(LazyTensor)
                tensor._trace = trace = pending.trace
                tensor.aval = edge.aval
                tensor._pending = pending
                tensor._slot = edge.slot
                tensor._value = None
                frame = getframe(depth)
                tensor._code = code = frame.f_code
                if code is trace.user_code or is_user_code(code):
                    trace.user_code = code
                    tensor._edge = edge
                    tensor._lasti = frame.f_lasti
                    tensor._scope = scopes.context
                else:
                    tensor._edge = edge.end
                    tensor._code = trace.origin_of(frame)
                append = pending.append
                if pending.tip is tip:
                    if inputs is not None:
                        pending.inputs[tip.inputs :] = inputs
                    pending.tip = edge.end
                    append(tensor)
                    return tensor
        trace = ambient.value
        if trace.__class__ is LazyTrace:
            return recall(trace, name, plain, (self, other), {}, True, depth + 1)
        if trace.__class__ is LinearizeTrace and trace.parent_trace.__class__ is LazyTrace:
            return linearized_call(trace, name, plain, (self, other), {}, True)
        if trace is None:
            _make_current()
        return plain(self, other)

    return operator


def remembered(
    name: str, plain: Callable[..., Any], scalars_alike: bool, between: int = 0
) -> Callable[..., Any]:
    """``plain`` with a memory, for use while a thread is lazy; in other threads ``plain`` itself runs.

    Arguments:
      scalars_alike: whether all numbers of one type are recorded in the same way.
      between: number of frames between the user's and that of the call.
    """
    ambient, changes, getframe = jc.ambient, jc.changes, sys._getframe
    array, kinds = jc.ArrayImpl, KINDS
    pair = _binary(name, plain, 2 + between)

    def call(*args: Any, **kwargs: Any) -> Any:
        trace = ambient.value
        if trace.__class__ is not LazyTrace:
            if trace.__class__ is LinearizeTrace and trace.parent_trace.__class__ is LazyTrace:
                return linearized_call(trace, name, plain, args, kwargs, scalars_alike)
            if trace is None:
                _make_current()
            return plain(*args, **kwargs)
        if scalars_alike and len(args) == 2 and not kwargs and args[0].__class__ is LazyTensor:
            return pair(*args)
        pending = trace.pending
        if (
            not kwargs
            and pending is not None
            and pending.tip is not None
            and (pending.epoch == changes.count or pending.same_context())
        ):
            # The most common types of arguments, without a call of ``recall``, which knows all types.
            parts: list[Any] = [name]
            scalars = []
            for arg in args:
                cls = arg.__class__
                if cls is LazyTensor:
                    part = (
                        arg._slot
                        if arg._pending is pending
                        else pending.array(arg._value, arg._trace is not trace)
                    )
                elif cls is array:
                    part = pending.array(arg, True)
                elif scalars_alike:
                    part = kinds.get(cls)
                    scalars.append(arg)
                else:
                    part = (int, arg) if cls is int else None
                if part is None:
                    break
                parts.append(part)
            else:
                tip = pending.tip
                if (
                    tip is not None
                    and (edge := tip.edges.get(tuple(parts))) is not None
                    and edge.end is not None
                ):
                    result = take(pending, tip, edge, scalars, getframe(1 + between))
                    if result is not None:
                        return result
        return recall(trace, name, plain, args, kwargs, scalars_alike, 2 + between)

    return call


def _make_current() -> None:
    """To be called if no trace is current: in an operation of JAX, or after an interrupt of one."""
    if not jc.at_work():
        LazyTrace.make_current()


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
        function = _binary(name, plain) if alike else remembered(name, plain, False)
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
