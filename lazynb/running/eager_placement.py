"""The placement of results in eager JAX: shardings on a mesh, committed and uncommitted results.

On Auto axes XLA chooses the sharding of a result: in eager JAX once for each operation, in a program once for
all operations together. The two may differ. So each operation is compiled alone to find its sharding; none
runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.input_key import HOST, Constant, UnresolvedSharding
from lazynb.recording.operation import Operation
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.result_sharding import named_result_sharding, predetermined_sharding
from lazynb.recording.trie import Root, State
from lazynb.running.background_thread import in_background, wait
from lazynb.running.jaxpr_program import lower, needed_steps

Shardings = tuple[Any, ...]
"""The shardings of the results of a step; None for a result that is uncommitted."""

_known: weakref.WeakKeyDictionary[State, Shardings] = weakref.WeakKeyDictionary()
_alone: weakref.WeakKeyDictionary[Root, dict[Any, Shardings | None]] = weakref.WeakKeyDictionary()
"""The shardings of operations compiled alone, under the configuration of a root."""


def eager_sharding(pending: PendingTrace, slot: int) -> Any:
    """The sharding that eager JAX gives the committed value ``slot``. Returns None if it is not known: an
    input is still computed, or an operation cannot be compiled alone."""
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
    if type(place) is UnresolvedSharding:
        return None
    return (None if place is HOST or type(place) is Constant else place,)


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
    # Numbers that a gradient has on its mesh have no placement by themselves.
    return tuple([one if one.device_set == set(step.devices) else None for one in found])


def _compiled(
    operation: Operation,
    places: tuple[int, ...],
    given: tuple[tuple[Any, Any], ...],
    results: tuple[Any, ...],
    config: Any,
) -> Shardings | None:
    """Compiles one operation and returns the shardings of its results.

    Arguments:
      places: for each operand its index among the different operands.
      given: the type and the sharding of each different operand.
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
    except Exception:  # only JAX can evaluate it: a run computes the value, and JAX reports the error
        return None
    return tuple(compiled.output_shardings)


# ---- Result placement of a compiled program -------------------------------------------------------------


def misplaced_results(steps: Sequence[State], wanted: Sequence[int]) -> tuple[list[int], dict[int, Any]]:
    """The results whose placement in eager JAX differs from that in this program.

    Returns: the numbers of the results that are uncommitted, though an input is committed; and the devices
      for the results that must be committed, by number of the result. For those, no input is committed, or
      the user placed the result with ``device_put``.
    """
    if all(step.devices is None for step in steps):
        return [], {}
    owners: list[State] = []  # by slot
    for step in steps:
        owners.extend([step] * (step.slots - step.first))
    free = all(step.devices is None for step in steps if step.operation is None)
    uncommit, commit = [], {}
    for number, slot in enumerate(wanted):
        owner = owners[slot]
        if owner.devices is None:
            uncommit.append(number)
        elif len(owner.devices) == 1 and (free or _is_put(owner)):
            commit[number] = owner.devices[0]
    return uncommit, commit


def committed_results(path: Sequence[State], wanted: Sequence[int]) -> frozenset[int]:
    """The numbers of the results among ``wanted`` that are committed to devices."""
    slots = {slot for step in path if step.devices is not None for slot in range(step.first, step.slots)}
    return frozenset(number for number, slot in enumerate(wanted) if slot in slots)


def named_results(path: Sequence[State], wanted: Sequence[int]) -> list[Any] | None:
    """The sharding that the operation of each result names; None if none names one."""
    owners = {slot: step for step in path for slot in range(step.first, step.slots)}
    named = [named_result_sharding(owners[slot], slot) for slot in wanted]
    if not any(named):
        return None
    return [jc.UNSPECIFIED if sharding is None else sharding for sharding in named]


def _is_put(step: State) -> bool:
    return step.operation is not None and step.operation.primitive.name == "device_put"
