"""Where eager JAX puts a pending value on a mesh: each operation that gives it is compiled alone, none runs.

On Auto axes XLA chooses the sharding of a result. Eager JAX asks it once for each operation, a program once
for all of them, and the two may differ.
"""

from __future__ import annotations

import weakref
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.operation import Operation
from lazynb.recording.pending_trace import PendingTrace, predetermined_sharding
from lazynb.recording.trie import HOST, Constant, Root, State, UnresolvedSharding
from lazynb.running.background_thread import in_background, wait
from lazynb.running.jaxpr_program import lower, needed_steps

Shardings = tuple[Any, ...]
"""Of the results of a step; None for one that is not committed, or goes with what it is used with."""

_known: weakref.WeakKeyDictionary[State, Shardings] = weakref.WeakKeyDictionary()
_alone: weakref.WeakKeyDictionary[Root, dict[Any, Shardings | None]] = weakref.WeakKeyDictionary()
"""Of operations, whatever gives their operands, under the configuration of a root."""


def eager_sharding(pending: PendingTrace, slot: int) -> Any:
    """The sharding that eager JAX gives the committed value ``slot``.

    Returns: None if it cannot be told: of an input that is still computed, or of an operation that cannot be
      compiled by itself.
    """
    owners: dict[int, State] = {}
    for step in needed_steps(pending.state.path(), [slot]):
        owners.update((number, step) for number in range(step.first, step.slots))
        if step not in _known:
            is_input = step.operation is None
            found = _of_input(step) if is_input else _of_results(step, owners, pending.root)
            if found is None:
                return None
            _known[step] = found
    return _at(owners, slot)


def _at(owners: dict[int, State], slot: int) -> Any:
    owner = owners[slot]
    return _known[owner][slot - owner.first]


def _of_input(step: State) -> Shardings | None:
    place = step.key[1]  # type: ignore[index]
    if place.__class__ is UnresolvedSharding:
        return None
    return (None if place is HOST or place.__class__ is Constant else place,)


def _of_results(step: State, owners: dict[int, State], root: Root) -> Shardings | None:
    slots = range(step.first, step.slots)
    if step.devices is None:
        return (None,) * len(slots)
    promised = tuple(predetermined_sharding(step, slot) for slot in slots)
    if None not in promised:
        return promised
    numbers: dict[int, int] = {}
    places = tuple(numbers.setdefault(slot, len(numbers)) for slot in step.operands)
    given = tuple((owners[slot].avals[slot - owners[slot].first], _at(owners, slot)) for slot in numbers)
    assert step.operation is not None
    known, key = _alone.setdefault(root, {}), (step.operation, places, given, step.avals)
    if key not in known:
        known[key] = wait(in_background(lambda: _compiled(*key, root.config)))
    found = known[key]
    if found is None:
        return None
    # Numbers that a gradient has on its mesh are nowhere by themselves.
    return tuple([one if one.device_set == set(step.devices) else None for one in found])


def _compiled(
    operation: Operation,
    places: tuple[int, ...],
    given: tuple[tuple[Any, Any], ...],
    results: tuple[Any, ...],
    config: Any,
) -> Shardings | None:
    """The shardings of the results of one operation.

    Arguments:
      places: the number of each operand among those that differ.
      given: the type and the sharding of each of these.
      results: the types of the results.
    """
    inputs, outputs = [jc.new_var(aval) for aval, _ in given], [jc.new_var(aval) for aval in results]
    equation = jc.new_eqn(
        [inputs[place] for place in places],
        outputs,
        operation.primitive,
        operation.params_with_positions,
        jc.no_effects,
        operation.context,
        "alone",
    )
    types = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)
        for aval, sharding in given
    ]
    try:
        compiled = lower(jc.closed_jaxpr(inputs, outputs, [equation]), types, config).compile()
    except Exception:  # what only JAX's own evaluation can do: the value is computed, and JAX says why
        return None
    return tuple(compiled.output_shardings)
