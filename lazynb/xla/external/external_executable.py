"""A program that somebody gave: what an executable is to one that was recorded."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.running.background_thread import in_background, wait
from lazynb.running.compiler_dump import Dump, DumpUnavailable, new_dump
from lazynb.running.jaxpr_program import ArgumentPacking
from lazynb.xla.external.source_locations import ReadProgram
from lazynb.xla.fusion.boundary_experiments import NotTestable
from lazynb.xla.program_interface import InputsGone, synthetic_array

Compile = Callable[[dict[str, Any]], Any]
"""Compiles the program with options of XLA's; gives what has ``as_text()`` and ``memory_analysis()``."""


class NotRecompilable(DumpUnavailable, NotTestable):
    """The program was given as the compiler had left it: it cannot be compiled again."""


class UnpackedArguments(ArgumentPacking):
    """Each input is an argument of its own."""

    def __init__(self, count: int):
        super().__init__((), {})
        self._single = list(range(count))


class ExternalExecutable:
    """A program that was not recorded.

    Arguments:
      read: its operations.
      compile: compiles it; None if it was compiled already.
      compiled: what was made of it, if it was compiled already.
      runs: what runs it here, if anything does.
      platform: that it is for, as JAX names it.
      lowered: its text as StableHLO; empty if there is none.
      stage: what ``jax.jit`` lowered, if it comes from that.

    Attributes:
      compile_seconds: of compiling alone: it was lowered before.
    """

    elsewhere = False
    lowering_seconds: float | None = None
    numbers = 0
    donated: tuple[int, ...] = ()

    def __init__(
        self,
        read: ReadProgram,
        platform: str,
        *,
        compile: Compile | None = None,
        compiled: Any = None,
        runs: jax.stages.Compiled | None = None,
        lowered: Callable[[], str] = lambda: "",
        stage: jax.stages.Lowered | None = None,
    ):
        self.platform = platform
        self.compiled = compiled
        self.dump: Dump | None = None
        self.operations = len(read.origins.operations)
        self.origin = "compiled" if compiled is None else "given"
        self.runs = runs
        self.compile_seconds = 0.0
        self._compile = compile
        self._lowered = lowered
        self._stage = stage
        self._packing = UnpackedArguments(len(read.origins.inputs))

    def compile(self) -> None:
        """Compiles it, with what XLA writes down if that is asked for.

        Raises what XLA raises.
        """
        start, dump = time.perf_counter(), new_dump()
        with dump.profile.taken(self.platform) if dump is not None else contextlib.nullcontext():
            self.compiled = self.compile_again(options=dump.options() if dump is not None else {})
        self.compile_seconds = time.perf_counter() - start
        self.dump = dump
        if isinstance(self.compiled, jax.stages.Compiled):
            self.runs = self.compiled

    def compile_again(
        self,
        *,
        wanted: tuple[int, ...] | None = None,
        copies: dict[int, int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:
        """See :meth:`lazynb.running.trace_executable.Executable.compile_again`.

        Raises:
          Final: it was compiled already.
        """
        compile = self._compile
        if compile is None:
            raise NotRecompilable(
                "This program was given compiled: XLA's passes are not in it, nor is it compiled again."
            )
        return wait(in_background(lambda: compile(options or {})))

    def compile_hlo(self, text: str) -> str:
        """The optimised HLO of a module of HLO; empty if the program runs on several devices."""
        if "num_partitions=" in self.compiled.as_text().partition("\n")[0]:
            return ""
        source = jc.stablehlo_of_hlo(text)
        return str(wait(in_background(lambda: jc.compile_module(source, {}))).text)

    @property
    def wanted(self) -> tuple[int, ...]:
        """
        Raises:
          NotTestable: always.
        """
        raise NotTestable("the experiment records the program anew, and lazynb did not record this one")

    @property
    def state(self) -> Any:
        """
        Raises:
          NotTestable: always.
        """
        return self.wanted

    @property
    def result_types(self) -> Sequence[Any]:
        """
        Raises:
          NotTestable: always.
        """
        raise NotTestable("the types of the results are those that the program was written with")

    def stablehlo(self) -> str:
        """As it was given, with marks; empty for one that was compiled."""
        return self._lowered()

    def lowered(self) -> jax.stages.Lowered | None:
        """What ``jax.jit`` lowered; None if it comes from a file, or was given compiled."""
        return self._stage

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """What XLA says that parts of the program cost; of another chip's nothing, since XLA's analysis of
        that may end the process."""
        if self.platform != jax.local_devices()[0].platform:
            return [None] * len(texts)
        return jc.cost_figures(texts)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for ``inputs``, all of the arguments' leaves."""
        assert self.runs is not None
        args, kwargs = jax.tree.unflatten(self.runs.in_tree, list(inputs))
        return list(jax.tree.leaves(self.runs(*args, **kwargs)))


class SyntheticInputs:
    """Inputs for a run, of the right types.

    Arguments:
      program: gives ``jax.stages.Compiled``, when somebody runs it.
    """

    def __init__(self, program: ExternalExecutable):
        self._program = program

    def own_values(self) -> list[Any]:
        """
        Raises:
          InputsGone: always.
        """
        raise InputsGone("lazynb was given the program alone, and no inputs of it")

    def values(self) -> list[Any]:
        """Arrays: normal random numbers, zeros for integers.

        Raises:
          InputsGone: it cannot be run here, or takes a random key.
        """
        compiled = self._program.runs
        if compiled is None:
            raise InputsGone("This program was read from a file, with which there is nothing to run it on.")
        known = jax.tree.leaves(compiled.args_info)
        self._program.donated = tuple(number for number, each in enumerate(known) if each.donated)
        try:
            return [synthetic_array(jax.core.ShapedArray(each.shape, each.dtype)) for each in known]
        except LazynbError:
            raise
        except Exception as error:
            raise InputsGone(f"arguments cannot be made up for it: {type(error).__name__}: {error}") from None
