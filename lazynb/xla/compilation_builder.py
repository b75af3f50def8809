"""Builds a ``Compilation`` from pending traces, run or still to run; and ``compile_tensors``."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.recording.snapshot.trace_description import Input, Names, SnapshotBuilder, summarise
from lazynb.recording.snapshot.variable_names import names_of
from lazynb.running.compiler_dump import record_dumps
from lazynb.running.executable_cache import Binding
from lazynb.running.flush import execution, tensors_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.out_of_memory import explain_out_of_memory
from lazynb.xla.dump_reader import DumpReader
from lazynb.xla.jit_equivalent import (
    INPUT_GONE,
    JitProgram,
    KeptConstants,
    NotOneFunction,
    ReturnedLeaf,
    leaves_of,
)
from lazynb.xla.program_interface import Inputs
from lazynb.xla.program_origins import ProgramOrigins, origins_of_executable
from lazynb.xla.recorded_operations import PendingSnapshot, Value, recorded_trace
from lazynb.xla.targets.target_chip import Target
from lazynb.xla.targets.target_compilation import OutOfMemory
from lazynb.xla.targets.target_executable import prepare_for_target


class CompilationBuilder:
    """Collects programs in execution order, and the graph that they compute."""

    def __init__(self) -> None:
        self._description = SnapshotBuilder((), {}, opens=True)
        self._programs: list[tuple[Binding, bool, ProgramOrigins, Inputs]] = []
        self._described: list[PendingTrace] = []  # kept alive: the description refers to traces by id
        self._earlier_results: dict[
            int, tuple[Any, tuple[int, int]]
        ] = {}  # by id of an existing array, a weak reference and the result that it is

    def __len__(self) -> int:
        return len(self._programs)

    @property
    def is_empty(self) -> bool:
        return not self._described

    def describe(self, pending: PendingTrace, names: Names) -> None:
        """Adds the operations of ``pending`` to the graph. The traces that compute its inputs come first.

        Arguments:
          names: the user's variable names, see :func:`lazynb.recording.snapshot.variable_names.names_of`.
        """
        self._described.append(pending)
        summary = summarise(pending, names)
        inputs = [self._resolve_input(value, known) for value, known in zip(pending.inputs, summary.inputs)]
        self._description.add(dataclasses.replace(summary, inputs=inputs))

    def _resolve_input(self, value: Any, known: Input) -> Input:
        """``known``, linked to the earlier program's result if ``value`` is one."""
        reference, result = self._earlier_results.get(id(value), (None, None))
        if reference is None or reference() is not value:
            return known
        return dataclasses.replace(known, earlier=result)

    def snapshot(self) -> Snapshot:
        return self._description.snapshot()

    def add(
        self, pending: PendingTrace, tensors: Sequence[LazyTensor], binding: Binding, is_new: bool
    ) -> None:
        """Adds the program that computes ``tensors`` of ``pending``, a described trace.

        Arguments:
          is_new: whether the program was made now.
        """
        wanted = tuple([tensor._slot for tensor in tensors])
        origins = origins_of_executable(pending, binding.executable, wanted, self._description)
        self._programs.append((binding, is_new, origins, Inputs.of(pending, binding.inputs)))

    def give(self, pending: PendingTrace, tensors: Sequence[LazyTensor], results: Sequence[Any]) -> None:
        """Registers ``results`` as the values of ``tensors``, so that later programs link to them.

        Holds weak references only.
        """
        for tensor, result in zip(tensors, results):
            self._earlier_results[id(result)] = weakref.ref(result), (id(pending), tensor._slot)

    def _returned_leaf(self, leaf: Any, is_constant: Callable[[Any], bool]) -> ReturnedLeaf:
        """A leaf (tensor, array or number) of the return value of the user's code."""
        value = self.value_of(id(leaf))
        if value is None and isinstance(leaf, LazyTensor):
            if leaf._pending is not None:
                return ReturnedLeaf(self._description.result(leaf._pending, leaf._slot))
            leaf = leaf._value
            value = self.value_of(id(leaf))
        if isinstance(leaf, np.ndarray) and not is_constant(leaf):
            aval = jc.typeof(leaf)
            leaf = jax.ShapeDtypeStruct(aval.shape, aval.dtype)
        if isinstance(leaf, jax.Array) and not is_constant(leaf):
            leaf = jc.abstract(leaf)
        return ReturnedLeaf(value, leaf)

    def value_of(self, identity: int) -> Value | None:
        """The graph value of the input with id ``identity``; None if there is none."""
        for pending in self._described:
            slot = pending.slots_of.get(identity)
            if slot is not None:
                return self._description.result(pending, slot)
        return None

    def as_jit(
        self,
        returned: Sequence[Any],
        is_constant: Callable[[Any], bool],
        first: Sequence[int] = (),
    ) -> JitProgram:
        """The program that ``jax.jit`` would compile from the described traces.

        Arguments:
          returned: the leaves that the function returns: tensors, arrays and numbers.
          is_constant: whether the code itself creates an array that the operations read.
          first: ids of the leading arguments, in their order.

        Raises:
          NotOneFunction: see :class:`lazynb.xla.jit_equivalent.JitProgram`.
        """
        if not self._described:
            raise NotOneFunction("nothing of it was pending, so there is nothing to compile")
        sources = [recorded_trace(pending, self._description) for pending in self._described]
        arguments = [value for value in map(self.value_of, first) if value is not None]
        leaves = [self._returned_leaf(leaf, is_constant) for leaf in returned]
        return JitProgram(sources, self.snapshot(), leaves, is_constant, arguments)

    def as_jit_later(
        self, returned: Sequence[Any], is_constant: Callable[[Any], bool]
    ) -> Callable[[], JitProgram]:
        """Returns a function that does :meth:`as_jit` later, when the traces may have run. Keeps alive only
        the small constants among the user's arrays. Raises NotOneFunction if there is no such program."""
        if not self._described:
            raise NotOneFunction("nothing of it was pending, so there is nothing to compile")
        leaves = [self._returned_leaf(leaf, is_constant) for leaf in returned]
        constants = KeptConstants(is_constant)
        results = [(leaf.value, constants.result_getter(leaf.given)) for leaf in leaves]
        kept = [PendingSnapshot(pending, constants.getter) for pending in self._described]

        def make() -> JitProgram:
            known = constants.values()
            if len(kept) > 1 and not all(one.is_whole() for one in kept):
                raise NotOneFunction(INPUT_GONE)
            sources = [one.source(self._description) for one in kept]
            again = [ReturnedLeaf(value, given()) for value, given in results]
            return JitProgram(sources, self.snapshot(), again, lambda array: id(array) in known)

        return make

    def values_of(self, tensors: Sequence[Any]) -> frozenset[Value]:
        """The graph values of those ``tensors`` that are pending and described."""
        values = set()
        for tensor in tensors_in(tensors):
            pending = tensor._pending
            if pending is not None and pending in self._described:
                values.add(self._description.result(pending, tensor._slot))
        return frozenset(values)

    def compile(self, pending: PendingTrace) -> None:
        """Makes the program of ``pending``, a described trace, and adds it. Runs nothing.

        The traces that compute its inputs must have been compiled before.
        """
        self._add_prepared(pending, execution.prepare(pending))

    def compile_for(self, pending: PendingTrace, target: Target, names: Names) -> None:
        """Makes the program of ``pending``, a described trace, for another chip, and adds it."""
        try:
            self._add_prepared(pending, prepare_for_target(pending, target, names))
        except OutOfMemory as error:
            raise self._explain_out_of_memory(error, pending) from None

    def _explain_out_of_memory(self, error: OutOfMemory, pending: PendingTrace) -> OutOfMemory:
        wanted = tuple([tensor._slot for tensor in pending.live()])
        origins = origins_of_executable(pending, error.executable, wanted, self._description)
        return explain_out_of_memory(error, origins, self.snapshot())

    def _add_prepared(self, pending: PendingTrace, prepared: tuple[Binding, bool] | None) -> None:
        if prepared is not None:
            self.add(pending, pending.live(), *prepared)

    def compilation(
        self, snapshot: Snapshot | None = None, is_function: bool = False, **about: Any
    ) -> Compilation:
        """Builds the compilation of all programs.

        Arguments:
          snapshot: the graph, if it was taken before.
          is_function: whether the results of the last program are the return value of a function.
          about: further arguments of :class:`Compilation`.
        """
        graph = snapshot if snapshot is not None else self.snapshot()
        traces = []
        for number, (binding, is_new, origins, inputs) in enumerate(self._programs, 1):
            returns = is_function and number == len(self._programs)
            traces.append(CompiledProgram(binding.executable, is_new, origins, graph, inputs, returns))
        return Compilation(traces, graph, **about)


def compile_tensors(
    tensors: Sequence[Any],
    namespace: Mapping[str, Any],
    ahead: bool = True,
    target: Target | None = None,
    as_jit: bool = False,
) -> Compilation:
    """Compiles what ``tensors`` (or pytrees of them) need, or all pending work of this thread. Runs nothing.

    Arguments:
      namespace: the user's variables; the inspector shows their names.
      ahead: read XLA's dump while it still compiles, which slows it a little; otherwise on demand.
      target: compile for this target, bypassing the caches.
      as_jit: compile what ``jax.jit`` of a function that returns ``tensors`` compiles, bypassing the caches.

    Raises JAX's error if a program cannot be lowered or compiled; the pending graph is then unchanged.
    """
    waiting, names = execution.waiting(tensors), names_of(namespace)
    if not as_jit:
        return compile_pending_traces(waiting, names, ahead, target, tensors)
    leaves = leaves_of(tensors)
    gathering = CompilationBuilder()
    for pending in waiting:
        gathering.describe(pending, names)
    with dumping_passes(ahead):
        return gathering.as_jit(leaves, lambda array: False).compile(target)


def compile_pending_traces(
    waiting: Sequence[PendingTrace],
    names: Names,
    ahead: bool = True,
    target: Target | None = None,
    tensors: Sequence[Any] | None = None,
    **about: Any,
) -> Compilation:
    """Like :func:`compile_tensors`, for the traces ``waiting``.

    Arguments:
      tensors: the tensors that the user asked for; None if unknown.
      about: further arguments of :class:`Compilation`.
    """
    if target is not None:
        target = target.for_inputs([value for pending in waiting for value in pending.inputs], names)
    gathering = CompilationBuilder()
    for pending in waiting:
        gathering.describe(pending, names)
    snapshot = gathering.snapshot()
    about.setdefault("asked", gathering.values_of(tensors) if tensors is not None else None)
    with dumping_passes(ahead):
        for pending in waiting:
            if target is None:
                gathering.compile(pending)
            else:
                gathering.compile_for(pending, target, names)
    return gathering.compilation(snapshot, target=target, **about)


@contextlib.contextmanager
def dumping_passes(ahead: bool = True) -> Iterator[None]:
    """XLA dumps how it compiles the body's programs.

    Arguments:
      ahead: read the dump while XLA still compiles.
    """
    ended = threading.Event()
    try:
        with record_dumps(partial(DumpReader, ended=ended)) if ahead else record_dumps():
            yield
    finally:  # an interrupted compilation has no files to wait for
        ended.set()
