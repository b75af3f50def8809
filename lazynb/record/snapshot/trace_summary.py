"""A summary of a pending trace: its steps and names without its values, for whoever explains it when it has
run."""

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
    """What flowed into a trace.

    Attributes:
      names: the user's variables for it, the simplest first.
      scalar: its text where it is a number; None for an array.
      earlier: key of the trace in which it was still pending then, and its slot there.
    """

    names: tuple[str, ...]
    scalar: str | None
    earlier: tuple[int, int] | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TraceSummary:
    """What one pending trace was.

    Attributes:
      key: stands for the trace among those sketched together.
      root: the start of the path; ``root.config`` is JAX's configuration then.
      end: the end of the path; ``end.path()`` gives the steps.
      origins: by step, where the user asked for it; None for inputs.
      inputs: in the order in which they appear on the path.
      live: the user's names by slot, for the results that somebody could reach.
    """

    key: int
    root: Root
    end: State
    origins: list[Origin | None]
    inputs: list[Input]
    live: dict[int, tuple[str, ...]]


def summarise(pending: Pending, names: Names) -> TraceSummary:
    """``pending`` as it is now. Holds no value.

    Arguments:
      names: of the user's variables, see :func:`lazynb.record.snapshot.names.names_of`.
    """
    return TraceSummary(
        id(pending),
        pending.root,
        pending.state,
        pending.origins(),
        [_input(value, names) for value in pending.inputs],
        {tensor._slot: names.get(id(tensor), ()) for tensor in pending.live()},
    )


def _input(value: Any, names: Names) -> Input:
    if jc.is_host_array(value):
        return Input((), _scalar_text(value), None)
    waits = isinstance(value, LazyTensor) and value._pending is not None
    return Input(names.get(id(value), ()), None, (id(value._pending), value._slot) if waits else None)


def _scalar_text(value: Any) -> str:
    return (
        f"{value:.6g}"
        if getattr(value, "dtype", None) is not None and value.dtype.kind == "f"
        else str(value)
    )
