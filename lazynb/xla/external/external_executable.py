"""A program that lazynb did not record, with the interface of a recorded executable."""

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
from lazynb.running.time_log import compiling_since
from lazynb.xla.external.source_locations import ReadProgram
from lazynb.xla.fusion.boundary_experiments import NotTestable
from lazynb.xla.program_interface import InputsGone, synthetic_array

Compile = Callable[[dict[str, Any]], Any]
"""Compiles the program with XLA options; returns an object with ``as_text()`` and ``memory_analysis()``."""


class NotRecompilable(DumpUnavailable, NotTestable):
    """The program was given compiled, so it cannot be compiled again."""


class UnpackedArguments(ArgumentPacking):
    """Packing in which each input is one argument."""

    def __init__(self, count: int):
        super().__init__((), {})
        self._single = list(range(count))


class ExternalExecutable:
    """A program that lazynb did not record.

    Arguments:
      read: its operations.
      compile: compiles it; None if it was given compiled.
      compiled: the compiled object, if it was given compiled.
      runs: the object that runs it here, if any.
      platform: its platform, as JAX names it.
      lowered: returns its StableHLO text; empty if there is none.
      stage: the lowered stage of ``jax.jit``, if it comes from one.

    Attributes:
      compile_seconds: of compiling alone, without lowering.
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
        """Compiles it, with a dump if one is requested.

        Raises XLA's error.
        """
        start, dump = time.perf_counter(), new_dump()
        with dump.profile.taken(self.platform) if dump is not None else contextlib.nullcontext():
            self.compiled = self.compile_again(options=dump.options() if dump is not None else {})
        self.compile_seconds = compiling_since(start)
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
        """See :meth:`Executable.compile_again`. Raises NotRecompilable if the program was given compiled."""
        compile = self._compile
        if compile is None:
            raise NotRecompilable(
                "This program was given compiled: XLA's passes are not in it, nor is it compiled again."
            )
        return wait(in_background(lambda: compile(options or {})))

    def compile_hlo(self, text: str) -> str:
        """Compiles an HLO module; returns the optimised HLO, empty for a program on several devices."""
        if "num_partitions=" in self.compiled.as_text().partition("\n")[0]:
            return ""
        source = jc.stablehlo_of_hlo(text)
        return str(wait(in_background(lambda: jc.compile_module(source, {}))).text)

    @property
    def wanted(self) -> tuple[int, ...]:
        """Raises NotTestable."""
        raise NotTestable("the experiment records the program anew, and lazynb did not record this one")

    @property
    def state(self) -> Any:
        """Raises NotTestable."""
        return self.wanted

    @property
    def result_types(self) -> Sequence[Any]:
        """Raises NotTestable."""
        raise NotTestable("lazynb did not record this program, so it has no types of the results")

    def stablehlo(self) -> str:
        """The given StableHLO, with marks; empty for a program that was given compiled."""
        return self._lowered()

    def lowered(self) -> jax.stages.Lowered | None:
        """The lowered stage of ``jax.jit``; None for a program from a file, or given compiled."""
        return self._stage

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """XLA's cost analysis of HLO modules; None for another platform's, because it may crash the
        process."""
        if self.platform != jax.local_devices()[0].platform:
            return [None] * len(texts)
        return jc.cost_figures(texts)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the program on ``inputs``, the leaves of its arguments."""
        assert self.runs is not None
        args, kwargs = jax.tree.unflatten(self.runs.in_tree, list(inputs))
        return list(jax.tree.leaves(self.runs(*args, **kwargs)))


class SyntheticInputs:
    """Synthetic inputs for a run.

    Arguments:
      program: its ``runs`` is the ``jax.stages.Compiled`` at the time of a run.
    """

    def __init__(self, program: ExternalExecutable):
        self._program = program

    def own_values(self) -> list[Any]:
        """Raises InputsGone."""
        raise InputsGone("lazynb was given the program alone, and no inputs of it")

    def values(self) -> list[Any]:
        """Normal random numbers, zeros for integers. Raises InputsGone if it cannot run here, or takes a
        random key."""
        compiled = self._program.runs
        if compiled is None:
            raise InputsGone("This program was read from a file, so lazynb cannot run it.")
        known = jax.tree.leaves(compiled.args_info)
        self._program.donated = tuple(number for number, each in enumerate(known) if each.donated)
        try:
            return [synthetic_array(jax.core.ShapedArray(each.shape, each.dtype)) for each in known]
        except LazynbError:
            raise
        except Exception as error:
            raise InputsGone(f"arguments cannot be made up for it: {type(error).__name__}: {error}") from None
