"""Why a collective is there, as a sentence. What the partitioner put in is inferred from what needs it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from lazynb.xla.hlo.opcodes import Trait, opcodes_of

_REDUCTIONS = opcodes_of(Trait.COMBINES)
_REDUCING = ("dot_general", "reduce_", "conv_general_dilated", "cumsum", "argmax", "argmin", "scatter-add")


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of a collective.

    Attributes:
      primitives: of JAX's, that it was made from; of several that XLA put together, of each.
      readers: names of the operations that read what it gives; empty if none does, or if they are not asked.
      made: names of the operations that it was made from.
      is_within: whether the operation that reads it also computes what it takes: XLA computes one operation
        in several steps, or its result lies otherwise than it was computed.
      is_later: whether it takes what another collective gives: the two may be one operation's.
      axes: of the mesh.
    """

    kind: str
    primitives: Sequence[str]
    readers: Sequence[str]
    made: Sequence[str]
    is_within: bool
    is_later: bool
    axes: Sequence[str]

    @property
    def over(self) -> str:
        along = " and ".join(f"`{axis}`" for axis in self.axes)
        return f" on {along}" if along else ""

    @property
    def together(self) -> str:
        return f"; XLA put {len(self.primitives)} into one" if len(self.primitives) > 1 else ""


def of_code(facts: Facts) -> str:
    """Of one that the code asks for."""
    written = ", ".join(f"`{one}`" for one in dict.fromkeys(facts.primitives))
    return f"the code asks for it: {written}{facts.together}"


def of_partitioner(facts: Facts) -> str:
    """Of one that XLA's partitioner put in."""
    return _of_partitioner(facts) + facts.together


def _of_partitioner(facts: Facts) -> str:
    named = dict.fromkeys(facts.readers or facts.made)
    what = ", ".join(f"`{name}`" for name in named) or "an operation"
    verb = "" if len(named) > 1 else "s"
    over = facts.over
    if facts.kind in _REDUCTIONS:
        if all(any(re.match(form, primitive) for form in _REDUCING) for primitive in facts.primitives):
            return f"{what} reduce{verb} a dimension that is sharded{over}: each device has a part of it"
        return f"each device has a part of what {what} give{verb}, sharded{over}"
    if facts.is_within:
        if facts.kind == "all-gather":
            return f"each device computes a part of {what}, sharded{over}, and the whole is needed"
        return f"what {what} give{verb} is computed sharded otherwise{over} than it is needed"
    if facts.readers and facts.is_later:
        return f"{what} read{verb} or give{verb} a value that is sharded otherwise{over}"
    if facts.readers:
        if facts.kind == "all-gather":
            return f"{what} read{verb} whole what is sharded{over}"
        return f"{what} read{verb} a value that is sharded otherwise{over}"
    if facts.kind == "all-gather":
        return f"what {what} give{verb} is sharded{over}, and needed whole"
    return f"what {what} give{verb} is needed sharded otherwise{over}"
