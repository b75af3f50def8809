"""Keys of inputs in the trie that have no sharding: Python numbers, literals and unresolved shardings."""

from __future__ import annotations

from typing import Any, NamedTuple

HOST = "host"
"""Stands for the sharding in the key of an input that is a Python number."""


class Constant:
    """A literal number. It stands for the sharding in the key of an input.

    Two constants are equal if all bits are equal.

    Attributes:
      value: the number as a NumPy scalar.
      is_own: whether JAX's code recorded it first, instead of a line of the user's.
    """

    __slots__ = ("_content", "is_own", "value")

    def __init__(self, value: Any, is_own: bool = False):
        self.value = value
        self.is_own = is_own
        self._content = (value.dtype.name, value.tobytes())

    def __hash__(self) -> int:
        return hash(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and other._content == self._content

    def __repr__(self) -> str:
        return f"Constant({self.value})"


class UnresolvedSharding(NamedTuple):
    """Stands for the sharding in the key of a pending input on several devices.

    XLA chooses the sharding with the program that computes the input, see
    :meth:`lazynb.recording.pending_trace.PendingTrace.resolve_shardings`.
    """

    devices: tuple[Any, ...]
