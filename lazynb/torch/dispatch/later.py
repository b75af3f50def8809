"""Whole numbers that grow, such as the tokens generated so far: worked out on the host when asked for.

Each new token gives them another shape, so in a program they would make each program another one. An
operation on them waits outside of the trace. When a value is asked for, what it takes from the trace is run,
a break of the kind that was asked for, and PyTorch does the rest on the CPU. If an operation that is recorded
takes them after all, what waited is recorded first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from lazynb.record.tensor import LazyTensor
from lazynb.torch.dispatch.known import Known, array_of, of_layout, part
from lazynb.torch.dispatch.storage import Storage
from lazynb.torch.tensor import Tensor, array_to_torch, concrete


class Seen(NamedTuple):
    """An argument as it was when the operation was called.

    Attributes:
      source: an array, a :class:`Known` or a :class:`Later`.
      whole: layout of the source.
      layout, steps: of the argument, which looks into the source.
    """

    source: Any
    whole: Any
    layout: Any
    steps: tuple[Any, ...]

    def tensor(self) -> Tensor:
        """A tensor on device ``jax`` with these values."""
        storage = Storage(None, self.whole)
        if isinstance(self.source, (Known, Later)):
            storage.host = self.source
        else:
            storage.value = self.source
        return Tensor(storage, self.layout, self.steps)

    def plain(self, kind: str, detail: str) -> Any:
        """The values on the CPU: a trace break if they are pending."""
        if isinstance(self.source, (Known, Later)):
            assert self.source.plain is not None  # it was worked out before
            return part(self.tensor(), self.source.plain)
        return array_to_torch(concrete(self.source, kind, detail), self.layout.dtype).reshape(
            self.layout.shape
        )


def seen(tensor: Tensor) -> Seen:
    """A tensor as an argument."""
    storage = tensor._storage
    if storage.host is not None:
        return Seen(storage.host, storage.layout, tensor._layout, tensor._steps)
    return Seen(tensor._elem, tensor._layout, tensor._layout, ())


class Later:
    """The result of an operation that waits.

    Attributes:
      plain: the values on the CPU; None until they are asked for.
    """

    __slots__ = ("_array", "_call", "_layout", "plain")

    def __init__(self, func: Any, handler: Callable[..., Any], args: Any, kwargs: Any, layout: Any) -> None:
        """Arguments: the operation; how it is recorded; its arguments, :class:`Seen` in place of tensors;
        the layout of the result."""
        self._call: Any = func, handler, args, kwargs
        self._layout = layout
        self._array: Any = None
        self.plain: torch.Tensor | None = None

    def array(self) -> Any:
        """The values as an array of JAX's. What is not known is recorded."""
        if self.plain is not None and self._array is None:
            self._array = array_of(self.plain.numpy())
        for one in self._waiting(lambda later: later._array is None and later.plain is None):
            func, handler, args, kwargs = one._call
            result = handler(func, mapped(args, _on_device), mapped(kwargs, _on_device))
            one._array = result._elem
        return self._array

    def values(self, kind: str, detail: str = "") -> torch.Tensor:
        """The values on the CPU. A trace break of ``kind`` where they depend on what is pending."""
        for one in self._waiting(lambda later: later.plain is None):
            if one._array is not None:
                found = array_to_torch(concrete(one._array, kind, detail), one._layout.dtype)
            else:
                func, _, args, kwargs = one._call
                get = functools.partial(_on_host, kind, detail)
                found = func(*mapped(args, get), **mapped(kwargs, get))
            one.plain, one._call = of_layout(found, one._layout), None
        assert self.plain is not None
        return self.plain

    def pending(self) -> tuple[int, list[LazyTensor]]:
        """How many operations wait, and the pending arrays that they take."""
        waiting = list(self._waiting(lambda later: later.plain is None))
        taken = [one._array for one in waiting if one._array is not None]
        for one in waiting:
            taken += [x.source for x in _seen_in(one._call[2:]) if one._array is None]
        return len(waiting), [x for x in taken if isinstance(x, LazyTensor) and x.is_pending]

    def _waiting(self, is_open: Callable[[Later], bool]) -> Iterator[Later]:
        """What is open of this and of what it takes, each after what it takes itself."""
        stack = [(self, False)]
        done: set[int] = set()
        while stack:
            one, is_ready = stack.pop()
            if id(one) in done or not is_open(one):
                continue
            if is_ready or one._array is not None:
                done.add(id(one))
                yield one
                continue
            stack.append((one, True))
            stack += [(x.source, False) for x in _seen_in(one._call[2:]) if isinstance(x.source, Later)]


def _on_device(x: Any) -> Any:
    return x.tensor() if isinstance(x, Seen) else x


def _on_host(kind: str, detail: str, x: Any) -> Any:
    if isinstance(x, Seen):
        return x.plain(kind, detail)
    return torch.device("cpu") if isinstance(x, torch.device) else x


def mapped(x: Any, get: Callable[[Any], Any]) -> Any:
    """``x`` with what ``get`` returns in place of each argument in its lists and dictionaries."""
    if isinstance(x, (list, tuple)) and not isinstance(x, Seen):
        return type(x)([mapped(item, get) for item in x])
    return {name: mapped(item, get) for name, item in x.items()} if isinstance(x, dict) else get(x)


def _seen_in(x: Any) -> Iterator[Seen]:
    if isinstance(x, Seen):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _seen_in(item)
    elif isinstance(x, dict):
        for item in x.values():
            yield from _seen_in(item)
