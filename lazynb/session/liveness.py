"""What lazynb's program does that ``jax.jit`` of the same code would not: it keeps what names can reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from lazynb import _jax as jc
from lazynb.execute.records import plural
from lazynb.units import size
from lazynb.xla.compilation import Compilation
from lazynb.xla.recorded import Value

_LISTED = 8


@dataclasses.dataclass(frozen=True)
class Liveness:
    """What is in lazynb's program alone.

    Attributes:
      arrays: results that ``jax.jit`` would not give.
      bytes: that they take, all together.
      names: the user's, of those that have one.
      numbers: Python's numbers that are inputs, where ``jax.jit`` has constants.
    """

    arrays: int
    bytes: int
    names: tuple[str, ...]
    numbers: int

    def sentences(self) -> list[str]:
        """The same in the user's words; empty if there is nothing."""
        said = []
        if self.arrays:
            one = self.arrays == 1
            what = "This array is" if one else f"These {self.arrays:,} arrays are"
            named = f": {listed(self.names)}" if self.names else ""
            said.append(
                f"{what} written ({size(self.bytes)}) because {'it is' if one else 'they are'} still in reach"
                f"{named}. Under jax.jit {'it is no result' if one else 'they are no results'}."
            )
        if self.numbers:
            inputs, constants = ("an input", "a constant") if self.numbers == 1 else ("inputs", "constants")
            numbers = plural(self.numbers, "number")
            said.append(f"{numbers} of Python's: {inputs} of lazynb's program, under jax.jit {constants}.")
        return said


def liveness(lazy: Compilation, jitted: Compilation) -> Liveness:
    """What ``lazy`` does that ``jitted``, which is ``jax.jit`` of the same code, does not."""
    given = {value for trace in jitted.traces for value in trace.origins.results}
    arrays: dict[Value, int] = {}
    for trace in lazy.traces:
        for value, aval in zip(trace.origins.results, trace.result_types, strict=True):
            if value not in given:
                arrays[value] = 0 if jc.is_key(aval) else aval.size * np.dtype(aval.dtype).itemsize
    names: list[str] = []
    for node, result in arrays:
        found = lazy.snapshot.nodes[node]
        names += found.result_names[result][:1] if found.result_names else found.names[:1]
    numbers = sum(trace.numbers for trace in lazy.traces)
    return Liveness(len(arrays), sum(arrays.values()), tuple(names), numbers)


def listed(names: Sequence[str]) -> str:
    """Names by commas, the first few."""
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join([*names[:_LISTED], *more])
