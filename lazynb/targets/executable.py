"""A recorded program compiled for another chip: what an executable is to this machine, but for running."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.errors import LazynbError
from lazynb.execute.dumps import new_dump
from lazynb.execute.error_notes import failing_lines
from lazynb.execute.executable import Binding, Executable, announced
from lazynb.execute.flush import executables, execution
from lazynb.execute.packing import Packing, with_constants
from lazynb.execute.program import lower
from lazynb.execute.request import Request
from lazynb.record.pending import Pending
from lazynb.record.trie import State
from lazynb.source import Place
from lazynb.targets.compiled import CompiledFor, OutOfMemory, TargetError, compile_for
from lazynb.targets.process import worker_of
from lazynb.targets.target import Target


class NotLowered(TargetError):
    """JAX has no rule for an operation on the chip."""


class NotHere(LazynbError):
    """A program was to run that was compiled for a chip that is not there."""


class TargetExecutable(Executable):
    """A program for ``target``, of some results of a recorded trace without dead operations.

    No input is donated.

    Arguments:
      packing: which inputs are constants: at least the numbers in the user's lines, as under ``jax.jit``.
      shardings: of its inputs, on the target's mesh.
    """

    elsewhere = True

    def __init__(
        self,
        state: State,
        wanted: tuple[int, ...],
        config_then: Any,
        target: Target,
        packing: Packing,
        shardings: Sequence[Any] = (),
    ):
        super().__init__(state, wanted, (), config_then, Place("", 0, ""))
        self.target = target
        self._mesh = target.layout.sizes if target.layout is not None else ()
        taken = [step for step in state.path() if step.operation is None]
        self._packing = packing
        placed = shardings or [None] * len(taken)
        self._arguments = [_type(taken[number].avals[0], placed[number]) for number in self._packing.single]

    @property
    def platform(self) -> str:
        """``tpu`` or ``cuda``."""
        return self.target.chip.platform

    def compile(self, inputs: Sequence[Any] = ()) -> None:
        """Compiles it in the worker process.

        Raises as :func:`lazynb.targets.compiled.compile_for` does; NotLowered if JAX cannot lower an
        operation for the chip.
        """
        start, dump = time.perf_counter(), new_dump(self.elsewhere)
        with announced(self.operations):
            try:
                lowering = jc.lowering_of(self._lowered(self._jaxpr, self._donated))
            except Exception as error:
                words = f"{type(error).__name__}: {error}"
                raise NotLowered(f"JAX cannot lower the program for {self.target.title}: {words}") from error
            self.lowering_seconds = time.perf_counter() - start
            with dump.profile.taken(None) if dump is not None else contextlib.nullcontext():
                self.compiled = compile_for(self.target, lowering, self._mesh, dump=dump)
        self.dump, self.origin = dump, self.compiled.origin
        self.compile_seconds = time.perf_counter() - start

    def _lowered(self, jaxpr: Any, donated: tuple[int, ...]) -> jax.stages.Lowered:
        layout = self.target.layout
        own = jc.unplaced(jaxpr, layout.mesh if layout is not None else None)
        return lower(
            own, self._arguments, self._config, self._packing.inputs, donated, self.target.chip.platform
        )

    def _compiled_uncached(self, lowered: jax.stages.Lowered, options: dict[str, Any] | None) -> CompiledFor:
        return compile_for(self.target, jc.lowering_of(lowered), self._mesh, options)

    def compile_hlo(self, text: str) -> str:
        """The optimised HLO of a module of HLO, compiled for the target; empty if that is a mesh."""
        if self.target.layout is not None:
            return ""
        return compile_for(self.target, jc.lowering_of_hlo(text)).as_text()

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """Asks the worker process, which XLA's analysis may end.

        Without it, there are no figures, but a sentence.
        """
        try:
            return worker_of(self.target.chip.platform).costs(texts)
        except LazynbError as error:
            return [str(error)] * len(texts)

    def start(self, *arguments: Any) -> None:
        """
        Raises:
          NotHere: always.
        """
        raise NotHere(f"This was compiled for {self.target.title}, which is not here; it cannot run.")


def _type(aval: Any, sharding: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


def prepare_for(
    pending: Pending, target: Target, names: Mapping[int, tuple[str, ...]]
) -> tuple[Binding, bool] | None:
    """What ``pending`` needs as a program for ``target``, which is made now; returns None if no tensor waits.
    Runs nothing.

    Arguments:
      names: the user's names of arrays, by ``id``.

    Raises as :meth:`TargetExecutable.compile` does; the pending trace stays as it was.
    """
    with pending.trace.lock:
        execution.finish(pending)
        wanted = tuple([tensor._slot for tensor in pending.live()])
        if not wanted:
            return None
        request = Request(pending, wanted, ())
        state, slots, inputs, _ = executables.part(request)
        values, originals = [pending.inputs[number] for number in inputs], pending.originals()
    shardings = []
    if target.layout is not None:
        place = target.layout.sharding
        shardings = [place(originals[number], names.get(id(originals[number]), ())) for number in inputs]
    packing = with_constants(state.path(), values)
    executable = TargetExecutable(state, slots, pending.root.config, target, packing, shardings)
    binding = Binding(executable, inputs)
    try:
        executable.compile()
    except OutOfMemory as error:
        error.binding = binding
        raise
    except NotLowered as error:
        lines = failing_lines(request, target.chip.platform)
        raise NotLowered("\n  ".join([f"{error}. It stands at", *lines]) if lines else str(error)) from error
    finally:
        executables.trie.prune(state)
    return binding, True
