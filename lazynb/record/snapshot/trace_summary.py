"""Summaries of pending traces: steps and names without values, to explain a trace after its run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from lazynb import _jax as jc
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import Root, State
from lazynb.source import Origin

Names = Mapping[int, tuple[str, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """An input of a trace.

    Attributes:
      names: the user's variables for it, the simplest first.
      scalar: the text of a number; None for an array.
      earlier: the key of the trace in which the input was pending, and its slot there; None if it had a
        value.
    """

    names: tuple[str, ...]
    scalar: str | None
    earlier: tuple[int, int] | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TraceSummary:
    """A summary of one pending trace.

    Attributes:
      key: the number of the trace among those that are summarised together.
      root: the start of the path; ``root.config`` is JAX's configuration at that time.
      end: the end of the path; ``end.path()`` gives the steps.
      origins: the user's line of each step; None for an input.
      inputs: the inputs in the order of the path.
      live: the user's names by slot, for the results that could still be reached.
    """

    key: int
    root: Root
    end: State
    origins: list[Origin | None]
    inputs: list[Input]
    live: dict[int, tuple[str, ...]]


def summarise(pending: Pending, names: Names) -> TraceSummary:
    """A summary of ``pending`` in its present state. It holds no value.

    Arguments:
      names: the names of the user's variables, see :func:`lazynb.record.snapshot.names.names_of`.
    """
    return TraceSummary(
        id(pending),
        pending.root,
        pending.state,
        pending.origins(),
        [_input(value, names) for value in pending.originals()],
        {tensor._slot: names.get(id(tensor), ()) for tensor in pending.live()},
    )


def _input(value: Any, names: Names) -> Input:
    if jc.is_host_array(value):
        return Input((), _scalar_text(value), None)
    earlier = None
    if isinstance(value, LazyTensor) and value._pending is not None:
        earlier = (id(value._pending), value._slot)
    return Input(names.get(id(value), ()), None, earlier)


def _scalar_text(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.kind == "f":
        return f"{value:.6g}"
    return str(value)
