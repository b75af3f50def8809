"""Shardings of results that are known before XLA compiles the program."""

from __future__ import annotations

from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.trie import State


def named_result_sharding(state: State, slot: int) -> Any:
    """Returns the sharding that the operation of ``state`` names for its result ``slot``, or None.

    It is passed to the program as ``out_shardings``, because XLA may ignore a sharding named inside of the
    program.
    """
    operation = state.operation
    if operation is None or state.devices is None:
        return None
    return jc.named_sharding(operation.primitive, operation.params, slot - state.first)


def predetermined_sharding(state: State, slot: int) -> Any:
    """Returns the sharding of the committed result ``slot`` of ``state``, or None if XLA chooses it."""
    named = named_result_sharding(state, slot)
    if named is not None:
        return named
    assert state.devices is not None
    return jc.explicit_sharding(state.avals[slot - state.first], state.devices)
