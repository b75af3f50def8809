"""Variants of an executable for inspection: with other XLA options, or with the arguments of ``jax.jit``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.trie import State
from lazynb.running.background_thread import in_background, wait
from lazynb.running.compiler_dump import new_dump
from lazynb.running.jaxpr_program import ArgumentPacking
from lazynb.running.time_log import compiling_since
from lazynb.running.trace_executable import Executable, notify_compiling
from lazynb.user_code.source_lines import Place


class OptionsExecutable(Executable):
    """The program of another executable, compiled with ``options`` outside of all caches. It never runs.

    Arguments:
      original: a compiled executable.
      options: XLA's compiler options.
    """

    def __init__(self, original: Executable, options: Mapping[str, Any]):
        vars(self).update(vars(original))
        self.options = dict(options)
        self.compiled = self.call = self.dump = self.miss = self.held = None
        self.bindings = []
        self.origin = "compiled"
        self.runs = self.hits = 0
        self._call_here = self._entry = self._need = None

    def compile_with_options(self) -> None:
        """Compiles the program.

        Raises:
          jax.errors.JaxRuntimeError: XLA refuses an option, or cannot compile the program with it.
        """
        start, dump = time.perf_counter(), new_dump()
        profiled = dump.profile.taken(self.platform) if dump is not None else contextlib.nullcontext()
        with notify_compiling(self.operations), profiled:
            self.compiled = self.compile_again(options=dump.options() if dump is not None else None)
        self.dump = dump
        self.compile_seconds = compiling_since(start)

    def compile_hlo(self, text: str) -> str:
        """As :meth:`Executable.compile_hlo`, with ``options``."""
        if any(step.program and len(step.program) > 1 for step in self.state.path()):
            return ""
        lowering, settings = jc.lowering_of_hlo(text), jc.settings_now(self._config)

        def compiled() -> str:
            with jc.restore_config(settings), jc.no_cache():
                return jc.optimised_text(jc.compile_for([self._device], lowering, self.options))

        return str(wait(in_background(compiled)))

    def _compiled_uncached(self, lowered: jax.stages.Lowered, options: dict[str, Any] | None) -> Any:
        return super()._compiled_uncached(lowered, {**self.options, **(options or {})})


# ---- The program of jax.jit -----------------------------------------------------------------------------


class JitExecutable(Executable):
    """A program in which, as under ``jax.jit``, numbers in the code are constants and no input is donated. It
    is outside of lazynb's caches.

    Arguments:
      packing: decides which inputs are constants.
    """

    def __init__(self, state: State, wanted: tuple[int, ...], config_then: Any, packing: ArgumentPacking):
        super().__init__(state, wanted, (), config_then, Place("", 0, ""))
        self._packing = packing
