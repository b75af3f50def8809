"""What a traced graph gives back: tensors of arrays, views, inputs, and what is no tensor."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from lazynb.torch.dispatch import storage
from lazynb.torch.dispatch.layout import Layout, layout
from lazynb.torch.dispatch.traced import Untraceable
from lazynb.torch.tensor import Tensor, wrap


class _Output(NamedTuple):
    """An output of a graph.

    Attributes:
      source: the number of the input, or of a tensor of a result's array, which come after the inputs. None
        if it is no tensor.
      view: the layout in which the source is seen; None if it is the source itself.
      value: what it is if it is no tensor.
    """

    source: int | None
    view: Layout | None = None
    value: Any = None


class Outputs:
    """What a graph gives back.

    Outputs in the same memory are views of one tensor, if the user sees one of them. Nobody writes to what is
    kept for the backward pass alone, so there each is a tensor of its own.

    Arguments:
      outputs: what the graph gave when it was traced.
      inputs: its inputs then.
      visible: how many outputs the user may see, the first ones; None for all.

    Attributes:
      arrays: those that the traced function gives for them.

    Raises:
      Untraceable: an output is on another device, or sees memory in a way that cannot be repeated.
    """

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any], visible: int | None) -> None:
        self.arrays: list[Any] = []
        self._layouts: list[Layout] = []
        self._inputs = len(inputs)
        self._sources = {id(x._storage): at for at, x in enumerate(inputs) if isinstance(x, Tensor)}
        self._shared = _shared(outputs, visible)
        self._outputs = [self._noted(x, inputs) for x in outputs]
        self._numbers = list(range(len(self.arrays)))

    def _noted(self, x: Any, inputs: Sequence[Any]) -> _Output:
        if not isinstance(x, Tensor):
            if isinstance(x, torch.Tensor) and not is_token(x):
                raise Untraceable("an output on another device")
            return _Output(None, value=x)
        memory, seen = x._storage, x._layout
        source = self._sources.get(id(memory))
        if source is None and id(memory) not in self._shared:
            return _Output(self._added(x._elem, layout(seen.shape, seen.stride, 0, seen.dtype)))
        if source is None:
            source = self._sources[id(memory)] = self._added(memory.read(), memory.layout)
        if x is (inputs[source] if source < self._inputs else self._shared[id(memory)]):
            return _Output(source)
        if x._steps and storage.strided(memory.layout, seen) is None:
            raise Untraceable("a view that is no plain one")
        return _Output(source, seen)

    def _added(self, array: Any, wanted: Layout) -> int:
        """The number of a new source: ``array`` as a tensor."""
        self.arrays.append(array)
        self._layouts.append(wanted)
        return self._inputs + len(self.arrays) - 1

    def renumber(self, numbers: Sequence[int]) -> None:
        """Takes another array in place of each: their numbers among those that :meth:`made` is given."""
        self._numbers = [numbers[at] for at in range(len(self._layouts))]

    def made(self, given: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """The outputs for the inputs ``given``."""
        pairs = zip(self._numbers, self._layouts, strict=True)
        sources = [*given, *[wrap(arrays[number], wanted) for number, wanted in pairs]]
        return [
            one.value if one.source is None else _seen(sources[one.source], one.view) for one in self._outputs
        ]


def is_token(x: Any) -> bool:
    """Whether ``x`` has no values: PyTorch puts operations with effects in order by such a tensor."""
    return isinstance(x, torch.Tensor) and x.device.type == "cpu" and not x.numel()


def _shared(outputs: Sequence[Any], visible: int | None) -> dict[int, Tensor | None]:
    """The memories, by their ids, in which there are several outputs and one that the user may see: of each
    the output that is no view, if there is one."""
    tensors = [x for x in outputs if isinstance(x, Tensor)]
    counts = collections.Counter([id(x._storage) for x in tensors])
    seen = {id(x._storage) for x in outputs[:visible] if isinstance(x, Tensor)}
    shared: dict[int, Tensor | None] = {one: None for one in seen if counts[one] > 1}
    for x in reversed(tensors):
        if id(x._storage) in shared and not x._steps:
            shared[id(x._storage)] = x
    return shared


def _seen(source: torch.Tensor, view: Layout | None) -> torch.Tensor:
    """``source`` itself, or a view of it, of which PyTorch knows that it is one."""
    if view is None:
        return source
    return torch.as_strided(source, view.shape, view.stride, view.offset)
