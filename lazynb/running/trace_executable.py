"""The executable: a compiled XLA program for wanted results of a recorded trace."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.errors import OneHostOnlyError
from lazynb.recording.external_arrays import exclusively_owned
from lazynb.recording.fingerprint import of_request
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.operation_checks import exceeds_free_memory
from lazynb.recording.trie import State
from lazynb.running import jaxpr_program
from lazynb.running.background_thread import in_background, wait
from lazynb.running.compiler_dump import Dump, new_dump
from lazynb.running.disk_cache import disk_cache
from lazynb.running.donation import donation_order, is_large
from lazynb.running.eager_placement import committed_results, misplaced_results, named_results
from lazynb.running.jaxpr_program import Program, lower
from lazynb.running.miss_log import Miss
from lazynb.running.observers import notify_observers
from lazynb.running.process_heap import heap_bytes
from lazynb.running.run_delivery import InFlightRun
from lazynb.running.time_log import compiling_since
from lazynb.user_code.source_lines import Place


class Executable:
    """A compiled program for some results of a recorded trace, without dead operations.

    Attributes:
      state: the end of the trace.
      order: for each result of the program, its position among the requested results.
      wanted: slots that the program computes, in its order.
      operations: number of operations.
      place: the user's line of the last operation.
      origin: ``compiled`` or ``disk``.
      compile_seconds: time to lower and compile the program, or to load it.
      lowering_seconds: the part of it in which JAX lowered the recorded trace to StableHLO.
      held: bytes by which the heap grew while the program was made; None if they cannot be measured.
      runs: number of runs.
      may_fail: whether an operation can fail while it runs. Such a program takes no donated buffer, and
        :meth:`start` waits for its end.
      hits: number of runs after the first.
      wait_seconds: time that Python last waited for the results; infinite before the first measurement.
      compiled: JAX's compiled object: HLO, cost and memory analysis.
      donated: numbers of the donated inputs, which the run deletes.
      dump: the files that XLA wrote during the compilation; None if they were not requested.
      bindings: the recorded traces that the program runs, as (end of the trace, key in ``executables``).
      miss: the cache miss that made the program.
      took: seconds until Python continued after the last run for a value, with the wait, without compiling.
    """

    elsewhere = False  # whether another process compiles it, for another chip

    def __init__(
        self, state: State, wanted: tuple[int, ...], donated: tuple[int, ...], config_then: Any, place: Place
    ):
        self.state = state
        self.place = place
        self.donated = donated
        self._config = config_then
        self._x64 = jc.snapshot_x64(config_then)
        path = state.path()
        self.order = donation_order(path, wanted, donated)
        self.wanted = wanted = tuple([wanted[at] for at in self.order])
        program = Program()
        variables = program.add(path)
        self._jaxpr: Any = program.jaxpr([variables[slot] for slot in wanted])
        self._packing = jaxpr_program.program_packing(path)
        self._donated = self._packing.positions(donated)
        self._large = [number for number, aval in enumerate(self._jaxpr.out_avals) if is_large(aval)]
        self.operations = len(program.eqns)
        self._need: int | None = None  # bytes of device memory that a run needs beside its inputs
        self._device = _device(path)
        self.may_fail = any(step.operation.may_fail for step in path if step.operation)
        self._uncommit, self._commit = misplaced_results(path, wanted)
        self._named = named_results(path, wanted)
        self._committed = committed_results(path, wanted)
        self._arguments: list[Any] = []  # types of the arguments, to lower the program again
        self.compiled: Any = None
        self.dump: Dump | None = None
        self.call: Callable[..., Sequence[Any]] | None = None
        self.origin = ""
        self.compile_seconds = 0.0
        self.lowering_seconds: float | None = None
        self.held: int | None = None
        self.runs = 0
        self.hits = 0
        self.wait_seconds = float("inf")
        self.miss: Miss | None = None
        self.took: float | None = None
        self._brief = 0  # number of brief waits
        self._call_here: Callable[..., Sequence[Any]] | None = None
        self._entry: Callable[[], bytes | None] | None = None  # reads the entry of the persistent cache
        self.bindings: list[tuple[State, tuple[Any, ...]]] = []

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """The fingerprint of the program, equal in all processes that make it from the same trace."""
        return of_request(self.state, tuple(self._as_asked(self.wanted)), self.donated)

    @property
    def platform(self) -> str:
        """The platform of the program, as JAX names it: ``cpu``, ``gpu``, ``tpu``."""
        return str(self._device.platform)

    def compile(self, inputs: Sequence[Any]) -> None:
        """Lowers the program for ``inputs`` (or their types), and compiles it in another thread. The other
        thread allows an interrupt. Raises JAX's error if lowering or compilation fails."""
        start, before = time.perf_counter(), heap_bytes()
        with notify_compiling(self.operations):
            arguments = self._packing.arguments(inputs)
            lowered = lower(
                self._jaxpr,
                arguments,
                self._config,
                self._packing.inputs,
                self._donated,
                placed=self._named,
            )
            self.lowering_seconds = time.perf_counter() - start
            self._arguments = [jc.abstract(argument) for argument in arguments]
            dump, settings = new_dump(), jc.settings_now(self._config)
            with dump.profile.taken(self.platform) if dump is not None else contextlib.nullcontext():
                self.compiled, self.origin, self._entry = wait(
                    in_background(lambda: _compile(lowered, settings, dump))
                )
        self.dump = dump if self.origin == "compiled" else None
        after = heap_bytes()
        if after is not None and before is not None:
            self.held = max(0, after - before)
        self.compile_seconds = compiling_since(start)

    def compile_uncached(self, inputs: Sequence[Any]) -> None:
        """As :meth:`compile`, without any cache."""
        start = time.perf_counter()
        self._arguments = [jc.abstract(argument) for argument in self._packing.arguments(inputs)]
        self.compiled = self.compile_again()
        self.compile_seconds = time.perf_counter() - start

    def compile_again(
        self,
        *,
        wanted: tuple[int, ...] | None = None,
        copies: dict[int, int] | None = None,
        options: dict[str, Any] | None = None,
        donated: tuple[int, ...] | None = None,
    ) -> Any:
        """Compiles the program again without any cache, runs nothing and leaves ``self`` unchanged.

        Arguments:
          wanted: compute these slots instead of :attr:`wanted`.
          copies: compute a step again for another step, see :meth:`Program.add`.
          options: compiler options, such as those of a :class:`Dump`.
          donated: donate these arguments instead of those that it donates.

        Returns: JAX's compiled object.
        """
        jaxpr = self._jaxpr
        if donated is None:
            donated = self._donated
        if wanted is not None or copies:
            program = Program()
            variables = program.add(self.state.path(), copies=copies)
            jaxpr = program.jaxpr([variables[slot] for slot in wanted or self.wanted])
            donated = ()
        return self._compiled_uncached(self._lowered(jaxpr, donated), options)

    def compile_hlo(self, text: str) -> str:
        """Compiles an HLO module with the settings of the program. Raises XLA's error. Returns the optimised
        HLO; empty if the program runs on several devices."""
        if any(step.program and len(step.program) > 1 for step in self.state.path()):
            return ""
        lowering, settings = jc.lowering_of_hlo(text), jc.settings_now(self._config)
        return wait(in_background(lambda: _compile_hlo(lowering, settings, self._device)))

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """XLA's cost analysis of parts of the program, given as HLO modules."""
        return jc.cost_figures(texts)

    def _lowered(self, jaxpr: Any, donated: tuple[int, ...]) -> jax.stages.Lowered:
        placed = self._named if jaxpr is self._jaxpr else None
        return lower(jaxpr, self._arguments, self._config, self._packing.inputs, donated, placed=placed)

    def _compiled_uncached(self, lowered: jax.stages.Lowered, options: dict[str, Any] | None) -> Any:
        settings = jc.settings_now(self._config)
        return wait(in_background(lambda: _compile_uncached(lowered, settings, options)))

    def waited(self, seconds: float) -> None:
        """Notes that Python waited ``seconds`` for the results, without compiling. After many brief waits the
        program runs in the waiting thread, because waking a thread of XLA takes longer."""
        self.took = seconds
        if seconds > _LONG:
            # The number of loop iterations depends on the inputs. Another thread runs the program, so that
            # the user can interrupt it.
            self._brief, self._call_here = 0, None
        elif seconds < _BRIEF:
            self._brief += 1
            if self._brief == _OFTEN and not self.may_fail:
                self._load_here()

    def _load_here(self) -> None:
        if len(self.state.program or ()) > 1:
            return  # XLA ends the process if it loads a program of several hosts for one device
        entry = self._entry() if self._entry is not None else None
        if self._entry is None or entry is not None:
            self._call_here = jc.synchronous_call(self.compiled, entry)

    def stablehlo(self) -> str:
        """The StableHLO of the program, with the name scopes of its operations."""
        return self.lowered().as_text(debug_info=True)

    def lowered(self) -> jax.stages.Lowered:
        """The program, lowered again."""
        return self._lowered(self._jaxpr, self._donated)

    @property
    def result_types(self) -> Sequence[Any]:
        """JAX's type of each result."""
        return self._jaxpr.out_avals  # type: ignore[no-any-return]

    @property
    def numbers(self) -> int:
        """Number of Python numbers that are inputs; constants of the program do not count."""
        inputs = [step for step in self.state.path() if step.operation is None]
        arguments = {number for at in range(len(self._packing)) for number in self._packing.taken(at)}
        return sum(inputs[number].is_host_scalar for number in arguments)

    def abstract_result(self, number: int) -> jax.ShapeDtypeStruct:
        """The type of requested result ``number``, with its sharding if it is committed."""
        number = self.order.index(number)
        aval, sharding = self._jaxpr.out_avals[number], self._abstract_sharding(number)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)

    def _abstract_sharding(self, number: int) -> Any:
        """The sharding of result ``number``; None if it is not committed."""
        if number in self._commit:
            return jc.uncommitted_sharding(self._commit[number])
        if number not in self._committed:
            return None
        return self.compiled.output_shardings[number]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the program on ``inputs`` and returns the results at once (asynchronous).

        Raises:
          OneHostOnlyError: the program runs on several hosts, and only a flush agrees with them.
        """
        if jc.spans_hosts(self.state.program or ()):
            raise OneHostOnlyError(jc.host_index())
        in_flight = InFlightRun()
        self.start(inputs, False, in_flight)
        return self.placed(in_flight.results)

    def start(self, inputs: Sequence[Any], awaited: bool, in_flight: InFlightRun) -> None:
        """Runs the program on ``inputs``; returns at once (asynchronous), as JAX does.

        It runs in the 64-bit mode of the recorded trace, which determines the type of a scalar.

        Arguments:
          awaited: whether Python needs a result at once; then the call may return at the end of the run.
          in_flight: receives the results at the moment in which the inputs are consumed.

        Raises:
          jax.errors.JaxRuntimeError: out of memory, or an operation that may fail has failed. Then no input
            is consumed.
        """
        if self._need is None:
            self._need = _needed_memory(self.compiled)
        if self._need and exceeds_free_memory(self._need, self._device):
            raise jc.out_of_memory(self._need)
        arguments = self._packing.arguments(inputs)
        if self.call is None:
            self.call = jc.capturing_call(self.compiled)
        before = jc.trace_state.value
        jc.set_trace(jc.eval_trace)
        try:
            call = (awaited and self._call_here) or self.call
            if not jc.can_run_executables():
                with jc.settings_preserved(), jc.running_settings(self._x64):
                    in_flight.take(self.call, arguments)
            elif jc.x64_is(self._x64):
                in_flight.take(call, arguments)
            else:
                with jc.x64_preserved(), jc.x64_mode(self._x64):
                    in_flight.take(call, arguments)
        finally:
            jc.set_trace(before)
        if self.may_fail:
            try:
                jax.block_until_ready(in_flight.results)
            except BaseException:
                in_flight.drop()
                raise

    def placed(self, outputs: Sequence[Any]) -> list[Any]:
        """The requested results with the placement of eager JAX, from the ``outputs`` of the XLA program."""
        results = list(outputs)
        for number in self._uncommit:
            results[number] = jc.uncommitted(results[number])
        for number, device in self._commit.items():
            results[number] = jc.committed(results[number], device)
        for number in self._large:
            exclusively_owned.add(results[number])
        return self._as_asked(results) if self.donated else results

    def _as_asked(self, results: Sequence[Any]) -> list[Any]:
        asked: list[Any] = [None] * len(self.order)
        for at, result in zip(self.order, results, strict=True):
            asked[at] = result
        return asked


def _needed_memory(compiled: Any) -> int:
    """Bytes that a run of ``compiled`` needs on a device beside its inputs; 0 if they are few or unknown."""
    try:
        sizes = compiled.memory_analysis()
        need = sizes.output_size_in_bytes + sizes.temp_size_in_bytes - sizes.alias_size_in_bytes
    except Exception:  # not every backend has the analysis
        return 0
    return int(need) if need > _LITTLE else 0


_LITTLE = 1 << 20  # bytes
_BRIEF, _LONG = 2e-3, 0.1  # seconds
_OFTEN = 64  # number of brief waits that cost as much as loading the program again: some milliseconds


def _device(path: Sequence[State]) -> Any:
    for step in reversed(path):
        if step.program:
            return step.program[0]
    return jax.local_devices()[0]


@contextlib.contextmanager
def notify_compiling(operations: int) -> Iterator[None]:
    """Notifies the observers that the body makes a program."""
    recorder = thread_trace()
    notify_observers(recorder, lambda observer: observer.compiling(operations))
    try:
        yield
    finally:
        notify_observers(recorder, lambda observer: observer.compiled())


def _compile(lowered: jax.stages.Lowered, config_then: Any, dump: Dump | None) -> tuple[Any, str, Any]:
    with jc.restore_config(config_then), disk_cache.settings() as origin:
        compiled = lowered.compile(compiler_options=dump.options() if dump is not None else None)
    return compiled, *origin


def _compile_uncached(lowered: jax.stages.Lowered, config_then: Any, options: dict[str, Any] | None) -> Any:
    with jc.restore_config(config_then), jc.no_cache():
        return lowered.compile(compiler_options=options)


def _compile_hlo(lowering: jc.SerializedLowering, config_then: Any, device: Any) -> str:
    with jc.restore_config(config_then), jc.no_cache():
        return jc.optimised_text(jc.compile_for([device], lowering, {}))
