"""Deferred operations on growing integer tensors, such as the generated tokens: they run on the host.

Each new token changes the shape, so in a program it would force a new compilation. Such an operation is
deferred outside the trace. When its value is read, the trace computes the pending inputs (a trace break of
the reader's kind) and PyTorch does the rest on the CPU. If a recorded operation takes the result, the
deferred operations are recorded first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from lazynb.frontends.torch.cpu_tensors import array_to_torch
from lazynb.frontends.torch.dispatch.known_integers import (
    KnownIntegers,
    has_storage_numbers,
    view_of,
    with_layout,
)
from lazynb.frontends.torch.dispatch.replay_context import in_64_bit
from lazynb.frontends.torch.dispatch.strided_views import strided_box, strided_steps
from lazynb.frontends.torch.dispatch.tensor_layout import Layout, contiguous, layout
from lazynb.frontends.torch.dispatch.tensor_storage import Storage
from lazynb.frontends.torch.torch_tensor import Tensor, force_value
from lazynb.recording.external_arrays import new_array
from lazynb.recording.lazy_tensor import LazyTensor


class ArgumentView(NamedTuple):
    """An argument as it was at the call of the operation.

    Attributes:
      source: an array, a :class:`KnownIntegers` or a :class:`DeferredIntegers`.
      whole: layout of the source.
      layout, steps: layout and view steps of the argument, which is a view of the source.
      bounds: bounds of the numbers of an array, if known, see :class:`.tensor_storage.Storage`.
    """

    source: Any
    whole: Any
    layout: Any
    steps: tuple[Any, ...]
    bounds: tuple[int, int] | None = None

    def tensor(self) -> Tensor:
        """A tensor on device ``jax`` with these values."""
        storage = Storage(None, self.whole)
        if isinstance(self.source, (KnownIntegers, DeferredIntegers)):
            storage.host = self.source
        else:
            storage.value, storage.bounds = self.source, self.bounds
        return Tensor(storage, self.layout, self.steps)

    def part(self, index: list[slice], along: list[int | None], wanted: Layout) -> ArgumentView | None:
        """The slices ``index`` of this argument, with the shape of ``wanted``.

        Arguments:
          along: for each axis of ``wanted``, the axis of this argument, or None.
        """
        whole, seen = self.whole, self.layout
        if not isinstance(
            self.source, (KnownIntegers, DeferredIntegers)
        ):  # an array, which may have any memory layout
            whole = seen = contiguous(seen.shape, seen.dtype)
        offset = seen.offset + sum(part.start * step for part, step in zip(index, seen.stride, strict=True))
        stride = [0 if axis is None else index[axis].step * seen.stride[axis] for axis in along]
        new = layout(wanted.shape, tuple(stride), offset, seen.dtype)
        steps = () if new is whole else strided_steps(whole, new)
        return None if steps is None else ArgumentView(self.source, whole, new, steps, self.bounds)

    def plain(self, kind: str, detail: str) -> Any:
        """The values on the CPU: a trace break if they are pending."""
        if isinstance(self.source, (KnownIntegers, DeferredIntegers)):
            assert self.source.plain is not None  # computed before
            is_all = self.layout is self.whole
            return self.source.plain if is_all else view_of(self.tensor(), self.source.plain)
        return array_to_torch(force_value(self.source, kind, detail), self.layout.dtype).reshape(
            self.layout.shape
        )


def view_argument(tensor: Tensor) -> ArgumentView:
    """The :class:`ArgumentView` of a tensor."""
    storage = tensor._storage
    if storage.host is not None:
        return ArgumentView(storage.host, storage.layout, tensor._layout, tensor._steps)
    return ArgumentView(tensor._elem, tensor._layout, tensor._layout, (), known_bounds(tensor))


def known_bounds(tensor: Tensor) -> tuple[int, int] | None:
    """Bounds of a tensor's numbers that were stored with it or that the host knows, or None."""
    if not has_storage_numbers(tensor):
        return None
    storage = tensor._storage
    host = storage.host
    if host is None:
        return storage.bounds
    if isinstance(host, DeferredIntegers):
        return host.view_at(tensor._layout, tensor._steps).bounds
    return host.bounds() if isinstance(host, KnownIntegers) else None


class DeferredIntegers:
    """The result of a deferred operation.

    Attributes:
      plain: the values on the CPU; None until they are read.
    """

    __slots__ = ("_array", "_call", "_layout", "_narrow", "_taken", "plain")

    def __init__(self, func: Any, handler: Callable[..., Any], args: Any, kwargs: Any, layout: Any) -> None:
        """
        Arguments:
          func: the operation.
          handler: records it.
          args, kwargs: its arguments, with :class:`ArgumentView` in place of tensors.
          layout: layout of the result.
        """
        self._call: Any = func, handler, args, kwargs
        self._taken = [*_views_in(args), *_views_in(kwargs)]
        self._layout = layout
        self._array: Any = None
        self._narrow: tuple[ArgumentView, ArgumentView] | None = (
            None  # the last narrowed view, and its result
        )
        self.plain: torch.Tensor | None = None

    def array(self) -> Any:
        """The values as a JAX array. Records the deferred operations if needed."""
        if self._array is None and self.plain is not None:
            self._array = new_array(self.plain.numpy())
        if self._array is None:
            with in_64_bit():  # the caller may be outside an operation, as ``Tensor.jax()`` is
                self._record()
        return self._array

    def _record(self) -> None:
        for one in self._waiting(lambda later: later._array is None and later.plain is None, _narrow):
            func, handler, args, kwargs = one._call
            result = handler(func, map_arguments(args, _on_device), map_arguments(kwargs, _on_device))
            one._array = result._elem

    def view_at(self, wanted: Layout, steps: tuple[Any, ...]) -> ArgumentView:
        """The elements that a view of layout ``wanted`` covers, narrowed to one input of ``cat`` if
        possible."""
        kept = self._narrow
        if kept is None or kept[0].layout is not wanted or kept[0].steps != steps:
            view = ArgumentView(self, self._layout, wanted, steps)
            kept = self._narrow = view, _narrow(view)
        return kept[1]

    def array_at(self, wanted: Layout, steps: tuple[Any, ...]) -> Any:
        """The elements of a view of layout ``wanted`` as an array, or None if they span several ``cat``
        inputs."""
        piece = self.view_at(wanted, steps)
        return None if piece.source is self else piece.tensor()._elem

    def piece(self, wanted: Any) -> ArgumentView | None:
        """The one input of ``cat`` that contains a whole view, or None."""
        if self.plain is not None:
            return None
        func, _, args, kwargs = self._call
        found = strided_box(self._layout, wanted) if func is torch.ops.aten.cat.default else None
        if found is None or wanted.dtype is not self._layout.dtype:
            return None
        index, along = found
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        dim += len(index) if dim < 0 else 0
        end = 0
        for one in args[0]:
            start, end = end, end + (one.layout.shape[dim] if one.layout.count else 0)
            if start <= index[dim].start and index[dim].stop <= end:
                index[dim] = slice(index[dim].start - start, index[dim].stop - start, index[dim].step)
                return one.part(index, along, wanted) if one.layout.dtype is wanted.dtype else None
        return None

    def values(self, kind: str, detail: str = "") -> torch.Tensor:
        """The values on the CPU. A trace break of ``kind`` if they depend on pending values."""
        waiting = list(self._waiting(lambda later: later.plain is None))
        for source in reversed(_pending_inputs(waiting)):  # the last flush also computes the earlier ones
            force_value(source, kind, detail)
        for one in waiting:
            if one._array is not None:
                found = array_to_torch(force_value(one._array, kind, detail), one._layout.dtype)
            else:
                func, _, args, kwargs = one._call
                get = functools.partial(_on_host, kind, detail)
                found = func(*map_arguments(args, get), **map_arguments(kwargs, get))
            one.plain, one._call, one._taken, one._narrow = with_layout(found, one._layout), None, [], None
        assert self.plain is not None
        return self.plain

    def pending(self) -> tuple[int, list[LazyTensor]]:
        """The number of deferred operations, and their pending input arrays."""
        waiting = list(self._waiting(lambda later: later.plain is None))
        return len(waiting), _pending_inputs(waiting)

    def _waiting(
        self,
        is_open: Callable[[DeferredIntegers], bool],
        seen_as: Callable[[ArgumentView], ArgumentView] = lambda x: x,
    ) -> Iterator[DeferredIntegers]:
        """The open operations among this one and its inputs, inputs first.

        Arguments:
          seen_as: replaces each input.
        """
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
            taken = [seen_as(x).source for x in one._taken]
            stack += [(x, False) for x in taken if isinstance(x, DeferredIntegers)]


def _pending_inputs(waiting: list[DeferredIntegers]) -> list[LazyTensor]:
    taken: list[Any] = []
    for one in waiting:
        given = [x.source for x in one._taken] if one._array is None else [one._array]
        taken += [x for x in given if isinstance(x, LazyTensor) and x.is_pending]
    return taken


def _narrow(view: ArgumentView) -> ArgumentView:
    """Narrows a view of a ``cat`` result to the only input that it covers, if there is one. The last appended
    piece has the same shape in each iteration of a loop; the whole has not."""
    while isinstance(view.source, DeferredIntegers) and view.layout is not view.whole:
        piece = view.source.piece(view.layout)
        if piece is None:
            break
        view = piece
    return view


def _on_device(x: Any) -> Any:
    return _narrow(x).tensor() if isinstance(x, ArgumentView) else x


def _on_host(kind: str, detail: str, x: Any) -> Any:
    if isinstance(x, ArgumentView):
        return x.plain(kind, detail)
    return torch.device("cpu") if isinstance(x, torch.device) else x


def map_arguments(x: Any, get: Callable[[Any], Any]) -> Any:
    """``x`` with ``get`` applied to each leaf of its lists and dictionaries."""
    if isinstance(x, (list, tuple)) and not isinstance(x, ArgumentView):
        return type(x)([map_arguments(item, get) for item in x])
    return {name: map_arguments(item, get) for name, item in x.items()} if isinstance(x, dict) else get(x)


def _views_in(x: Any) -> list[ArgumentView]:
    if isinstance(x, ArgumentView):
        return [x]
    items: Any = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [one for item in items for one in _views_in(item)]
