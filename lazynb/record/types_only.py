"""Tensors that have a type and never a value: the arguments of a function that is compiled and not run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import jax

from lazynb import _jax as jc
from lazynb.record.mode import lazy
from lazynb.record.pending import Pending
from lazynb.record.tensor import Deleted, LazyTensor
from lazynb.record.trace import thread_trace, trie


class TypesOnly:
    """The arguments of one call that have a type only.

    Attributes:
      types: by ``id`` of each tensor made, its type.
    """

    def __init__(self) -> None:
        self._recorder = thread_trace()
        # a trace of their own, without operations: they are its inputs
        self._given = Pending(self._recorder, trie, self._recorder.seal().root, None)
        self.types: dict[int, jax.ShapeDtypeStruct] = {}

    def tensor(self, type_: jax.ShapeDtypeStruct) -> LazyTensor:
        """A tensor of that type."""
        aval = jc.ShapedArray(type_.shape, type_.dtype, weak_type=type_.weak_type)
        own = jax.ShapeDtypeStruct(
            type_.shape, type_.dtype, weak_type=type_.weak_type, sharding=type_.sharding
        )
        given = self._given
        given.unseal()
        tensor = LazyTensor(self._recorder, aval, given, given.input(own, aval, own))
        given.seal()
        given.records.append(tensor)
        self.types[id(tensor)] = own
        return tensor

    def put_into(self, traces: Iterable[Pending]) -> list[Pending]:
        """Makes the types inputs of ``traces`` in place of the tensors; they are recorded no further.

        Returns: those that compute something, in the same order.
        """
        computing = [pending for pending in traces if pending is not self._given]
        for pending in computing:
            pending.seal()
            pending.inputs[:] = [self.types.get(id(value), value) for value in pending.inputs]
        return computing

    def close(self) -> None:
        """Deletes the tensors: whoever still holds one finds no value."""
        _give_up(self._given)


@contextlib.contextmanager
def running_nothing() -> Iterator[None]:
    """Records the body as a trace of its own, which ends with it: what it leaves pending is given up.

    What would run a pending operation raises :class:`lazynb.TraceBreakError`, a barrier that was asked for
    too.
    """
    recorder = thread_trace()
    before, others = recorder.is_dry, [*recorder.sealed, recorder.pending]
    recorder.seal()
    recorder.is_dry = True
    try:
        with lazy(strict=True):
            yield
    finally:
        recorder.is_dry = before
        for pending in (*recorder.sealed, recorder.pending):
            if pending is not None and not any(pending is other for other in others):
                _give_up(pending)
        recorder.cut()


def _give_up(pending: Pending) -> None:
    """Closes a trace that cannot run."""
    for tensor in pending.records:
        tensor._value, tensor._pending = Deleted(), None
    pending.close()
