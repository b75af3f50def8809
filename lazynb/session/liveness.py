"""What lazynb's program does that ``jax.jit`` of the same code would not: it keeps what names can reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from lazynb import _jax as jc
from lazynb.execute.records import plural
from lazynb.units import size
from lazynb.xla.compilation import Compilation
from lazynb.xla.recorded import Value
from lazynb.xla.written_anyway import written_anyway

_LISTED = 8


@dataclasses.dataclass(frozen=True)
class Liveness:
    """What is in lazynb's program alone.

    Attributes:
      arrays: results that ``jax.jit`` would not give.
      bytes: that they take, all together.
      names: the user's, of those that have one.
      numbers: Python's numbers that are inputs, where ``jax.jit`` has constants.
      anyway: how many of the arrays the program of ``jax.jit`` certainly writes too, because one of its
        kernels reads them from another. Of the others it may write some.
      named_anyway: the user's names for these.
    """

    arrays: int
    bytes: int
    names: tuple[str, ...]
    numbers: int
    anyway: int = 0
    named_anyway: tuple[str, ...] = ()

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
        if self.anyway:
            said.append(self._written_anyway())
        if self.numbers:
            inputs, constants = ("an input", "a constant") if self.numbers == 1 else ("inputs", "constants")
            numbers = plural(self.numbers, "number")
            said.append(f"{numbers} of Python's: {inputs} of lazynb's program, under jax.jit {constants}.")
        return said

    def _written_anyway(self) -> str:
        what = "all" if self.anyway == self.arrays else f"{self.anyway:,}"
        them = f"{what} of them" if self.arrays > 1 else "it"
        named = f": {listed(self.named_anyway)}" if self.named_anyway and self.anyway < self.arrays else ""
        return (
            f"The program of jax.jit writes {them} to memory all the same, because one of its kernels reads "
            f"what another gives{named}."
        )


def liveness(lazy: Compilation, jitted: Compilation) -> Liveness:
    """What ``lazy`` does that ``jitted``, which is ``jax.jit`` of the same code, does not."""
    given = {value for trace in jitted.traces for value in trace.origins.results}
    arrays: dict[Value, int] = {}
    for trace in lazy.traces:
        for value, aval in zip(trace.origins.results, trace.result_types, strict=True):
            if value not in given:
                arrays[value] = 0 if jc.is_key(aval) else aval.size * np.dtype(aval.dtype).itemsize
    numbers = sum(trace.numbers for trace in lazy.traces)
    anyway = written_anyway(lazy, jitted, arrays)
    return Liveness(
        len(arrays),
        sum(arrays.values()),
        _names(lazy, arrays),
        numbers,
        len(anyway),
        _names(lazy, [value for value in arrays if value in anyway]),
    )


def _names(compilation: Compilation, values: Iterable[Value]) -> tuple[str, ...]:
    """The user's, of those that have one."""
    names: list[str] = []
    for node, result in values:
        found = compilation.snapshot.nodes[node]
        names += found.result_names[result][:1] if found.result_names else found.names[:1]
    return tuple(names)


def listed(names: Sequence[str]) -> str:
    """Names by commas, the first few."""
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join([*names[:_LISTED], *more])
