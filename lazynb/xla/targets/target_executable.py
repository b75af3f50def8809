"""A recorded program compiled for another chip: an ``Executable`` that cannot run here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trie import State
from lazynb.running.compiler_dump import Dump, new_dump
from lazynb.running.executable_cache import Binding, executables
from lazynb.running.jaxpr_program import ArgumentPacking, Request, constant_packing, lower
from lazynb.running.run_failure import failing_lines
from lazynb.running.time_log import compiling_since
from lazynb.running.trace_executable import Executable, notify_compiling
from lazynb.running.trace_launch import finish
from lazynb.user_code.source_lines import Place
from lazynb.xla.targets.compiler_process import compiler_process
from lazynb.xla.targets.target_chip import Target
from lazynb.xla.targets.target_compilation import CrossCompiledProgram, OutOfMemory, TargetError, compile_for


class LoweringUnsupported(TargetError):
    """JAX has no lowering rule for an operation on the chip."""


class TargetNotPresent(LazynbError):
    """A program for a chip that is not present cannot run."""


class TargetExecutable(Executable):
    """A program for ``target`` that computes some results of a recorded trace without dead operations.

    It donates no input.

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
        packing: ArgumentPacking,
        shardings: Sequence[Any] = (),
    ):
        super().__init__(state, wanted, (), config_then, Place("", 0, ""))
        self.target = target
        self._mesh = target.layout.sizes if target.layout is not None else ()
        taken = [step for step in state.path() if step.operation is None]
        self._packing = packing
        placed = shardings or [None] * len(taken)
        self._arguments = [
            _array_type(taken[number].avals[0], placed[number]) for number in self._packing.single
        ]

    @property
    def platform(self) -> str:
        return self.target.chip.platform

    def compile(self, inputs: Sequence[Any] = ()) -> None:
        """Compiles it in the compiler process.

        Raises like :func:`lazynb.xla.targets.target_compilation.compile_for`; OutOfMemory also if a run takes
        more than the chip's memory; LoweringUnsupported if JAX cannot lower an operation for the chip.
        """
        start, dump = time.perf_counter(), new_dump(self.elsewhere)
        with notify_compiling(self.operations):
            try:
                lowering = jc.lowering_of(self._lowered(self._jaxpr, self._donated))
            except Exception as error:
                words = f"{type(error).__name__}: {error}"
                raise LoweringUnsupported(
                    f"JAX cannot lower the program for {self.target.title}: {words}"
                ) from error
            self.lowering_seconds = time.perf_counter() - start
            with dump.profile.taken(None) if dump is not None else contextlib.nullcontext():
                self.compiled = self._compile_for_target(lowering, dump)
        self.dump, self.origin = dump, self.compiled.origin
        self.compile_seconds = compiling_since(start)

    def _compile_for_target(self, lowering: jc.SerializedLowering, dump: Dump | None) -> CrossCompiledProgram:
        try:
            compiled = compile_for(self.target, lowering, self._mesh, dump=dump)
            compiled.check_memory(dump)
            return compiled
        except OutOfMemory as error:
            error.executable = self
            raise

    def _lowered(self, jaxpr: Any, donated: tuple[int, ...]) -> jax.stages.Lowered:
        layout = self.target.layout
        own = jc.without_devices(jaxpr, layout.mesh if layout is not None else None)
        return lower(
            own, self._arguments, self._config, self._packing.inputs, donated, self.target.chip.platform
        )

    def _compiled_uncached(
        self, lowered: jax.stages.Lowered, options: dict[str, Any] | None
    ) -> CrossCompiledProgram:
        return compile_for(self.target, jc.lowering_of(lowered), self._mesh, options)

    def compile_hlo(self, text: str) -> str:
        """Compiles an HLO module for the target; returns the optimised HLO, empty for a mesh."""
        if self.target.layout is not None:
            return ""
        return compile_for(self.target, jc.lowering_of_hlo(text)).as_text()

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """XLA's cost analysis, in the compiler process, because it may crash.

        Each figure is a sentence if that process fails.
        """
        try:
            return compiler_process(self.target.chip.platform).costs(texts)
        except LazynbError as error:
            return [str(error)] * len(texts)

    def start(self, *arguments: Any) -> None:
        """Raises TargetNotPresent."""
        raise TargetNotPresent(
            f"This was compiled for {self.target.title}, which is not here; it cannot run."
        )


def _array_type(aval: Any, sharding: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


def prepare_for_target(
    pending: PendingTrace, target: Target, names: Mapping[int, tuple[str, ...]]
) -> tuple[Binding, bool] | None:
    """Makes a program of ``pending`` for ``target``; returns None if no tensor is live. Runs nothing.

    Arguments:
      names: the user's names of arrays, by ``id``.

    Raises like :meth:`TargetExecutable.compile`; the pending trace is then unchanged.
    """
    with pending.trace.lock:
        finish(pending)
        wanted = tuple([tensor._slot for tensor in pending.live()])
        if not wanted:
            return None
        request = Request(pending, wanted, ())
        state, slots, inputs, _ = executables.part(request)
        values = [pending.inputs[number] for number in inputs]
    shardings = []
    if target.layout is not None:
        place = target.layout.sharding
        shardings = [place(value, names.get(id(value), ())) for value in values]
    packing = constant_packing(state.path(), values)
    executable = TargetExecutable(state, slots, pending.root.config, target, packing, shardings)
    binding = Binding(executable, inputs)
    try:
        executable.compile()
    except LoweringUnsupported as error:
        lines = failing_lines(request, target.chip.platform)
        raise LoweringUnsupported(
            "\n  ".join([f"{error}. It stands at", *lines]) if lines else str(error)
        ) from error
    finally:
        executables.trie.prune(state)
    return binding, True
