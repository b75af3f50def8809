"""The sharding of a result that is known before XLA compiles the program."""

from __future__ import annotations

from typing import Any

from lazynb import _jax as jc
from lazynb.record.trie import State


def named_for(state: State, slot: int) -> Any:
    """The sharding that the operation of ``state`` names for its result ``slot``; None if it names none.

    The program has to be told it (``out_shardings``): what is named inside of a program is a wish.
    """
    operation = state.operation
    if operation is None or state.devices is None:
        return None
    return jc.named_sharding(operation.primitive, operation.params, slot - state.first)


def promised_sharding(state: State, slot: int) -> Any:
    """The sharding that a committed result will have; None if XLA chooses it.

    Arguments:
      state: the step that gives ``slot``.
    """
    named = named_for(state, slot)
    if named is not None:
        return named
    assert state.devices is not None
    return jc.explicit_sharding(state.avals[slot - state.first], state.devices)
