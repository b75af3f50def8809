"""The inputs of a pending trace, with guards of inputs that other code may delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazynb import jax_compat as jc
from lazynb.recording.external_arrays import (
    Guard,
    give_private_memory,
    held_outside,
    make_guard,
    private_copy,
    restore_from_guard,
    shared_memory,
)
from lazynb.recording.input_key import HOST, UnresolvedSharding
from lazynb.recording.python_numbers import number_step
from lazynb.recording.result_sharding import predetermined_sharding
from lazynb.recording.trie import State, Trie

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor
    from lazynb.recording.pending_trace import PendingTrace


class TraceInputs:
    """A path in the trie and the values of its inputs.

    Attributes:
      trie: the trie of the path.
      open_state: the end of the path while operations may be appended; None after sealing, because a later
        trace may depend on this one.
      inputs: the input values in order: an array, a scalar, or a tensor that is pending in another trace.
      slots_of: slot by id of the object that stands for the input value.
      sources: the traces in which inputs were pending when they were recorded.
      unresolved_shardings: numbers of the inputs that were pending on several devices.
      guards: guards of the inputs that other code may delete, by id of the input.
    """

    __slots__ = (
        "_end",
        "_owners",
        "_variables",
        "guards",
        "inputs",
        "open_state",
        "slots_of",
        "sources",
        "trie",
        "unresolved_shardings",
    )

    def __init__(self, trie: Trie, start: State):
        self.trie = trie
        self.open_state: State | None = start
        self._end = start
        self.inputs: list[Any] = []
        self.slots_of: dict[int, int] = {}
        self._owners: list[State] = []  # the step of each slot; ``owner`` extends the list
        self._variables: tuple[State | None, set[Any]] = (None, set())
        self.sources: set[PendingTrace] = set()
        self.unresolved_shardings: set[int] = set()
        self.guards: dict[int, Guard] = {}

    @property
    def state(self) -> State:
        """The end of the path."""
        tip = self.open_state
        return self._end if tip is None else tip

    def owner(self, slot: int) -> State:
        """Returns the step that defines ``slot``."""
        owners, state = self._owners, self.state
        if slot >= state.first:
            return state  # the usual case: a value used by the next trace
        if slot >= len(owners):
            new = []
            while state.slots > len(owners):
                new.append(state)
                state = state.parent  # type: ignore[assignment]
            for step in reversed(new):
                owners.extend([step] * len(step.avals))
        return owners[slot]

    def input(self, value: Any, aval: Any, identity: Any = None) -> int:
        """Returns the slot of an input, a new one unless the object ``identity`` stands for an input
        already."""
        if identity is not None:
            slot = self.slots_of.get(id(identity))
            if slot is not None:
                return slot
        before = self.state
        state = self._after_input(before, value, aval)
        entry = (value if identity is None else identity,)
        if identity is not None and identity is value and hasattr(value, "_pending"):
            self._note_pending_source(value, before.inputs, state)
        self.inputs[before.inputs :] = entry
        self.open_state = state
        # Set last: a slot in ``slots_of`` must exist. ``inputs`` keeps the object alive, so its id is valid.
        if identity is not None:
            self.slots_of[id(identity)] = before.slots
        return before.slots

    def number(self, value: Any, aval: Any, place: Any) -> int:
        """Returns the slot of a Python number.

        Arguments:
          value: the number as a NumPy scalar.
          place: where the code contains the literal; None if a variable holds the number.
        """
        before = self.state
        state = number_step(self.trie, before, aval, value, place)
        entry = (value,)
        self.inputs[before.inputs :] = entry
        self.open_state = state
        return before.slots

    def is_variable_value(self, value: Any) -> bool:
        """Whether an input from a variable equals ``value``."""
        last, contents = self._variables
        found, state = set(), self.state
        while state is not last and state.parent is not None:
            if state.is_host_scalar and state.constant is None:
                found.add(_content(self.inputs[state.inputs - 1]))
            state = state.parent
        if state is last:
            found |= contents
        self._variables = self.state, found
        return _content(value) in found

    def concrete(self, value: Any, outside: bool = True) -> int:
        """Returns the slot of a concrete, not deleted array; ``outside``: whether other code may hold it."""
        slot = self.slots_of.get(id(value))
        if slot is not None:
            return slot
        if outside or id(value) in held_outside.ids:
            self._protect(value)
        return self.input(value, value.aval, value)

    def array(self, value: Any, outside: bool = False) -> int | None:
        """Returns the slot of an uncommitted concrete array whose aval was an input at this state before,
        else None; ``outside`` as for :meth:`concrete`."""
        key = id(value)
        slot = self.slots_of.get(key)
        if slot is not None and not (outside and value.is_deleted()):
            return slot
        if self.open_state is None or type(value) is not jc.ArrayImpl or value.is_deleted():
            return None
        if outside or key in held_outside.ids:
            self._protect(value)
        tip = self.open_state
        if tip is None:
            return None
        aval = value.aval
        known = tip.edges.get((id(aval), None))
        if known is None or known[0] is not aval or value._committed:
            return None
        slot, before, entry, state = tip.slots, tip.inputs, (value,), known[1]
        if self.open_state is not tip:
            return None
        self.inputs[before:] = entry  # no thread switch or signal in between, as in ``append_replayed``
        self.open_state = state
        self.slots_of[key] = slot
        return slot

    def _protect(self, value: Any) -> None:
        """Keeps the value of an array that other code holds: with a guard, and in memory of its own."""
        try:  # the usual case
            view = memoryview(value)
            if value.unsafe_buffer_pointer() not in shared_memory.addresses:
                self.guards[id(value)] = view
                return
        except Exception:
            view = None
        if value in shared_memory:
            view = None  # it holds the shared memory
            give_private_memory(value)
        guard = view if view is not None else make_guard(value)
        if guard is not None:
            self.guards[id(value)] = guard

    def protect_input(self, value: Any) -> None:
        """Keeps the current content of the input ``value``, which other code is about to get."""
        slot = self.slots_of.get(id(value))
        if slot is None:
            return
        if value in shared_memory:
            self._replace(slot, value, private_copy(value))
        elif id(value) not in self.guards:
            self._protect(value)

    def _replace(self, slot: int, value: Any, held: Any) -> None:
        number = self.owner(slot).inputs - 1
        self.slots_of[id(held)] = slot  # first, so that it can be undone after an interrupt
        self.inputs[number] = held
        self.slots_of.pop(id(value), None)
        self.guards.pop(id(value), None)

    def replace(self, value: Any, other: Any) -> None:
        """Replaces the input ``value`` by ``other``, a tensor or a concrete array."""
        slot = self.slots_of.get(id(value))
        if slot is not None:
            self._replace(slot, value, other)

    def restore(self) -> None:
        """Restores inputs that other code deleted."""
        guards = self.guards
        for value in self.inputs:
            guard = guards.get(id(value))
            if guard is None:
                continue
            # An array with a memoryview has one part, and ``is_deleted`` covers it.
            is_lost = value.is_deleted() if type(guard) is memoryview else jc.has_deleted_part(value)
            if is_lost:
                self._replace(self.slots_of[id(value)], value, restore_from_guard(value, guard))

    def _after_input(self, before: State, value: Any, aval: Any) -> State:
        """Returns the state after ``before`` for an input like ``value``."""
        plain = type(value) is jc.ArrayImpl and not value._committed
        if not plain and getattr(value, "_pending", None) is not None:
            plain = value._pending.owner(value._slot).devices is None
        if plain:  # results of one program share their avals; the look-up by id avoids hashing them
            known = before.edges.get(aval_key := (id(aval), None))
            if known is not None and known[0] is aval:
                return known[1]
        if jc.is_host_array(value):
            key: tuple[Any, Any] = (aval, HOST)
        else:
            key = (aval, _place_of(value) if not plain and jc.is_committed(value) else None)
        state = before.children.get(key)
        if state is None:
            state = self.trie.extend(before, key, None, (), (aval,), _devices_of(key[1]))
        if plain:
            before.remember(aval_key, (aval, state), state)
        return state

    def _note_pending_source(self, tensor: LazyTensor, number: int, state: State) -> None:
        """Notes that input ``number``, with the step ``state``, is pending in another trace."""
        source = tensor._pending
        if source is not None:
            self.sources.add(source)
        if state.devices is not None and len(state.devices) > 1:
            self.unresolved_shardings.add(number)


def _place_of(value: Any) -> Any:
    """Returns the placement in the key of a committed input, which may be pending."""
    pending = getattr(value, "_pending", None)
    if pending is None:
        return jc.canonical_sharding(value.sharding)
    state = pending.owner(value._slot)
    if len(state.devices) == 1:
        return jc.uncommitted_sharding(state.devices[0])
    promised = predetermined_sharding(state, value._slot)
    return jc.canonical_sharding(promised) if promised is not None else UnresolvedSharding(state.devices)


def _devices_of(place: Any) -> tuple[Any, ...] | None:
    """Returns the devices of the placement in an input's key; None if the input is uncommitted."""
    if place is None or place is HOST:
        return None
    return place.devices if type(place) is UnresolvedSharding else jc.device_assignment(place)


def _content(number: Any) -> tuple[str, bytes]:
    return number.dtype.name, number.tobytes()


def is_pending(value: Any) -> bool:
    return getattr(value, "_pending", None) is not None
