"""Stand-ins for arrays that know by themselves when Python needs their values: NumPy's numbers, and which operations
are pending. Nothing here comes from lazynb.

An operation is pending from its recording until somebody needs a value; then all that is still in reach is
computed, and counted for the line that needed it.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

INSIDE = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}
"""Code that is a part of the function around it."""


class Event(NamedTuple):
    """One break.

    Attributes:
      line: the innermost line of the program, as (file, number).
      kind: what Python asked for.
      ops: how many operations were pending; None if that is not known.
      callers: the lines that led there.
    """

    line: tuple[str, int]
    kind: str
    ops: int | None
    callers: frozenset[tuple[str, int]]


class Pending:
    """The operations that nobody has needed yet.

    Arguments:
      files: of the program.
      shown: the lines on which a ``repr`` is shown, not only looked at.
      together: whether all elements of an array are recorded when they are first iterated over.
    """

    def __init__(self, files: Collection[str], shown: Collection[tuple[str, int]], together: bool):
        self.files, self.shown, self.together = files, shown, together
        self.operations: weakref.WeakSet[Operation] = weakref.WeakSet()
        self.events: list[Event] = []

    def lines(self) -> list[tuple[str, int]]:
        """The lines of the program that run now, the innermost first."""
        found, frame = [], sys._getframe(1)
        inside = False
        while frame is not None:
            if frame.f_code.co_filename in self.files:
                if not inside:
                    found.append((frame.f_code.co_filename, frame.f_lineno))
                inside = frame.f_code.co_name in INSIDE
            frame = frame.f_back
        return found

    def needed(self, kind: str, barrier: bool = False) -> None:
        """Notes that the program waits for all that is pending."""
        line, *callers = self.lines()
        costs = [one.cost for one in self.operations]
        if not barrier or costs:
            ops = None if None in costs else sum(costs)
            self.events.append(Event(line, kind, ops, frozenset(callers) - {line}))
        for one in list(self.operations):
            one.compute()


class Operation:
    """One operation, in reach while a value or a later operation is."""

    def __init__(self, pending: Pending, cost: int | None, operands: tuple[Any, ...]):
        self.pending, self.cost = pending, cost
        self.operands = operands
        pending.operations.add(self)

    def compute(self) -> None:
        self.operands = ()
        self.pending.operations.discard(self)


def operator(function: Callable[..., Any], cost: int | None = 1) -> Callable[..., Shadow]:
    def call(self: Shadow, *others: Any) -> Shadow:
        return self.made(function, *others, cost=cost)

    return call


class Shadow:
    """A value that is computed when it is needed."""

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, pending: Pending, value: Any, operation: Operation | None = None):
        self.pending, self.value, self.operation = pending, value, operation

    def made(self, function: Callable[..., Any], *others: Any, cost: int | None = 1) -> Shadow:
        values = [one.value if isinstance(one, Shadow) else one for one in (self, *others)]
        operands = (self.operation, *(one.operation for one in others if isinstance(one, Shadow)))
        result = np.asarray(function(*values))
        if result.dtype.kind in "fiu":
            result = result.astype(np.float32 if result.dtype.kind == "f" else np.int32)
        return Shadow(self.pending, result, Operation(self.pending, cost, operands))

    def need(self, kind: str) -> Any:
        if self.operation in self.pending.operations:
            self.pending.needed(kind)
        return self.value

    __add__ = __radd__ = operator(lambda a, b: a + b)
    __mul__ = __rmul__ = operator(lambda a, b: a * b)
    __sub__ = operator(lambda a, b: a - b)
    __rsub__ = operator(lambda a, b: b - a)
    __gt__ = operator(lambda a, b: a > b)
    __lt__ = operator(lambda a, b: a < b)
    __ge__ = operator(lambda a, b: a >= b)
    __le__ = operator(lambda a, b: a <= b)
    __eq__ = operator(lambda a, b: a == b)
    __ne__ = operator(lambda a, b: a != b)
    __neg__ = operator(lambda a: -a)
    __abs__ = operator(np.abs)
    sum = operator(np.sum)
    max = operator(np.max)
    min = operator(np.min)
    argmax = operator(np.argmax)
    minimum = operator(np.minimum)
    maximum = operator(np.maximum)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Shadow]:
        """JAX records the elements together from 0.11 on, one by one before."""
        elements = (self.made(lambda value, at=at: value[at], cost=None) for at in range(len(self.value)))
        return iter(list(elements)) if self.pending.together else elements

    def __contains__(self, other: Any) -> bool:
        found = self.made(lambda value: (value == other).any(), cost=None)
        return bool(found.need("contains"))

    def __bool__(self) -> bool:
        return bool(self.need("bool"))

    def __int__(self) -> int:
        return int(self.need("int"))

    def __float__(self) -> float:
        return float(self.need("float"))

    def __complex__(self) -> complex:
        return complex(self.need("complex"))

    def __index__(self) -> int:
        return int(self.need("index"))

    def __format__(self, how: str) -> str:
        value = self.need("format")
        return format(value if self.ndim else value.item(), how) if how else str(value)

    def __str__(self) -> str:
        return str(self.need("print"))

    def __repr__(self) -> str:
        if self.pending.lines()[0] not in self.pending.shown:
            return "a look"
        value = self.need("print")
        text = np.array2string(value, separator=", ", prefix="Array(")
        return f"Array({text}, dtype={value.dtype})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.need("asarray"), dtype)

    def __reduce__(self):
        return np.array, (self.need("pickle"),)

    def item(self) -> Any:
        return self.need("item").item()

    def tolist(self) -> Any:
        return self.need("tolist").tolist()

    def tobytes(self) -> bytes:
        return self.need("bytes").tobytes()

    def block_until_ready(self) -> Shadow:
        self.need("block")
        return self


def namespaces(pending: Pending) -> dict[str, Any]:
    """What a program has under ``x``, ``y``, ``jnp``, ``jax`` and ``lazynb``."""

    def zeros(shape: Any) -> Shadow:
        sizes = [one.need("static") if isinstance(one, Shadow) else one for one in (shape,)]
        return Shadow(pending, np.zeros(int(sizes[0]), np.float32)).made(np.array, cost=None)

    def get(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: get(one) for name, one in tree.items()}
        return np.asarray(tree.need("asarray"))

    jnp = types.SimpleNamespace(
        minimum=lambda a, b: a.minimum(b),
        maximum=lambda a, b: a.maximum(b),
        abs=abs,
        sum=lambda a: a.sum(),
        where=lambda c, a, b: c.made(np.where, a, b),
        zeros=zeros,
    )
    lazynb = types.SimpleNamespace(sync=lambda *values: pending.needed("sync", barrier=True))
    jax = types.SimpleNamespace(device_get=get)
    x, y = (Shadow(pending, np.array(value, np.float32)) for value in START)
    return {"x": x, "y": y, "jnp": jnp, "lazynb": lazynb, "jax": jax}


START = [1.0, 2.0, 3.0], [4.0, -1.0, 2.0]
"""The values that a program begins with."""
