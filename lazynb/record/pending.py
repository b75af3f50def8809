"""A pending trace: what one thread recorded and nobody has run yet."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lazynb import _jax_compat as jc
from lazynb.record.trie import HOST, Root, State, Trie
from lazynb.source import Origin

if TYPE_CHECKING:
    from lazynb.record.tensor import LazyTensor
    from lazynb.record.trace import LazyTrace


class Mark(NamedTuple):
    """A point to which a pending trace can be taken back."""

    state: State
    inputs: int


class Pending:
    """A path in the trie with the values that flow into it and the tensors that wait for it.

    Attributes:
      trace: the recorder; one a thread.
      trie: where the path runs.
      root: the start of the path.
      state: the end of the path.
      steps: by slot, the state that gives it.
      inputs: values of the inputs in order: an array, a scalar, or a tensor still pending elsewhere.
      refs: by slot, weak reference to the tensor that waits for it; None for inputs.
      origins: by step, where the user asked for it; None for inputs.
      doomed: concrete arrays that the user donated: they are deleted when the trace has run.
      sealed: nothing more may be recorded (a later trace may depend on this one).
    """

    __slots__ = ("__weakref__", "_slots_of", "doomed", "inputs", "origins", "refs", "root", "sealed", "state", "steps",
                 "trace", "trie")

    def __init__(self, trace: LazyTrace, trie: Trie, root: Root):
        self.trace = trace
        self.trie = trie
        self.root = root
        self.state: State = root
        root.uses += 1
        self.steps: list[State] = []
        self.inputs: list[Any] = []
        self.refs: list[weakref.ref[LazyTensor] | None] = []
        self.origins: list[Origin | None] = []
        self._slots_of: dict[int, int] = {}
        self.doomed: list[Any] = []
        self.sealed = False

    def __len__(self) -> int:
        """Number of pending operations."""
        return self.state.operations

    # ---- recording -------------------------------------------------------------------------------------------

    def input(self, value: Any, aval: Any, identity: Any = None) -> int:
        """The slot of an input. ``identity``: an object that stands for the value; the same one gets the same slot."""
        if identity is not None:
            slot = self._slots_of.get(id(identity))
            if slot is not None:
                return slot
        if jc.is_host_array(value):
            key: tuple[Any, Any] = (aval, HOST)
        else:
            key = (aval, value.sharding if jc.is_committed(value) else None)
        state = self.state.children.get(key)
        if state is None:
            devices = jc.device_assignment(value.sharding) if key[1] not in (None, HOST) else None
            state = self.trie.extend(self.state, key, None, (), (aval,), devices)
        slot = self.state.slots
        self._advance(state)
        self.inputs.append(value if identity is None else identity)
        self.refs.append(None)
        self.origins.append(None)
        if identity is not None:
            self._slots_of[id(identity)] = slot  # ``inputs`` keeps the object alive, so the id stays its own
        return slot

    def commit(self, state: State, tensors: list[LazyTensor], origin: Origin) -> None:
        """Appends the operation of ``state``, whose results are ``tensors``."""
        self.refs.extend(map(weakref.ref, tensors))
        self.origins.append(origin)
        self._advance(state)

    def _advance(self, state: State) -> None:
        self.steps.extend([state] * len(state.avals))
        state.uses += 1
        self.state.uses -= 1
        self.state = state

    def mark(self) -> Mark:
        """The present end, for :meth:`rollback`."""
        return Mark(self.state, len(self.inputs))

    def rollback(self, mark: Mark) -> None:
        """Takes back what was recorded after ``mark`` (a failed operation leaves no trace)."""
        for value in self.inputs[mark.inputs:]:
            self._slots_of.pop(id(value), None)
        del self.inputs[mark.inputs:]
        del self.steps[mark.state.slots:], self.refs[mark.state.slots:], self.origins[mark.state.depth:]
        abandoned, self.state = self.state, mark.state
        if abandoned is not mark.state:
            abandoned.uses -= 1
            mark.state.uses += 1
            self.trie.prune(abandoned)

    # ---- running ---------------------------------------------------------------------------------------------

    def live(self) -> list[LazyTensor]:
        """The tensors that somebody can still reach, in order."""
        found = (ref() for ref in self.refs if ref is not None)
        return [tensor for tensor in found if tensor is not None and tensor._pending is self]

    def close(self) -> None:
        """Lets go of the path, when the trace has run or nobody waits for it."""
        self.sealed = True
        state, self.state = self.state, self.root
        state.uses -= 1
        self.state.uses += 1
        self.trie.prune(state)
        self.steps, self.inputs, self.refs, self.origins, self.doomed, self._slots_of = [], [], [], [], [], {}


def scalar_input(value: Any) -> Any:
    """The host form in which a scalar is handed to an executable: a Python number where the type is weak."""
    if isinstance(value, jc.TYPED_SCALARS):
        return np.asarray(jc.weak_scalar(value), dtype=jc.typeof(value).dtype)[()]
    return np.asarray(value)[()]


def closure(tensors: Iterable[LazyTensor]) -> list[Pending]:
    """The pending traces that ``tensors`` depend on, each after those it takes inputs from."""
    order: dict[int, Pending] = {}
    stack: list[tuple[Pending, bool]] = [(t._pending, False) for t in tensors if t._pending is not None]
    while stack:
        pending, ready = stack.pop()
        if ready:
            order.setdefault(id(pending), pending)
        elif id(pending) not in order:
            stack.append((pending, True))
            stack.extend((value._pending, False) for value in pending.inputs
                         if getattr(value, "_pending", None) is not None)
    return list(order.values())
