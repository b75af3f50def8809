"""Executables: compiled programs of recorded traces, found by trace and wanted results, and bounded in
number."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from lazynb import _jax as jc
from lazynb.config import config
from lazynb.execute.background import in_background, wait
from lazynb.execute.donation import is_large
from lazynb.execute.dumps import Dump, new_dump
from lazynb.execute.error_notes import add_note
from lazynb.execute.heap import give_back, in_use
from lazynb.execute.landing import Landing
from lazynb.execute.misses import Miss, log as miss_log
from lazynb.execute.observers import tell
from lazynb.execute.packing import Packing
from lazynb.execute.persistent import persistent
from lazynb.execute.program import Program, lower
from lazynb.execute.request import Request, key_of
from lazynb.record.capacity import lacks
from lazynb.record.owned import owned
from lazynb.record.trace import thread_trace
from lazynb.record.trie import State, Trie
from lazynb.source import Place


class Executable:
    """A compiled program: some results of a recorded trace in which nothing is dead.

    Attributes:
      state: the end of the trace.
      wanted: slots that it computes.
      operations: operations in it.
      place: the user's line of the last one.
      origin: ``compiled`` or ``disk``.
      compile_seconds: lowering, compiling or loading.
      held: bytes by which the process's heap grew while it was made; None where nobody counts them.
      runs: how often it was run.
      may_fail: whether it has operations that can fail when they run; nothing is donated to it, and its end
        is waited for.
      hits: runs after the first.
      wait_seconds: how long Python last waited for its results, where that was measured.
      compiled: JAX's compiled object: HLO, cost and memory analysis.
      donated: numbers of the inputs whose memory its results take; they are gone after the run.
      dump: what XLA wrote while it compiled; None where nobody asked.
      bindings: the recorded traces that it runs, as (end of the trace, key in ``executables``).
      miss: why it was made.
      took: seconds until Python went on when it was last run for a value: waiting included, compiling not.
    """

    def __init__(
        self, state: State, wanted: tuple[int, ...], donated: tuple[int, ...], config_then: Any, place: Place
    ):
        self.state = state
        self.place = place
        self.wanted = wanted
        self.donated = donated
        self._config = config_then
        self._x64 = jc.x64_in(config_then)
        path = state.path()
        program = Program()
        variables = program.add(path)
        taken = [step for step in path if step.operation is None]
        self._jaxpr: Any = program.jaxpr([variables[slot] for slot in wanted])
        self._packing = Packing(taken)
        self._donated = self._packing.positions(donated)
        self._large = [number for number, aval in enumerate(self._jaxpr.out_avals) if is_large(aval)]
        self.operations = len(program.eqns)
        self._need: int | None = None  # bytes that a run takes beyond its inputs
        self._device = (
            next((step.program[0] for step in reversed(path) if step.program), None) or jax.local_devices()[0]
        )
        self.may_fail = any(step.operation.may_fail for step in path if step.operation)
        self._uncommit, self._commit = self._placed_results(path, taken)
        self._arguments: list[Any] = []  # what they look like, to lower again when the text is asked for
        self.compiled: Any = None
        self.dump: Dump | None = None
        self.call: Callable[..., Sequence[Any]] | None = None
        self.origin = ""
        self.compile_seconds = 0.0
        self.held: int | None = None
        self.runs = 0
        self.hits = 0
        self.wait_seconds = float("inf")
        self.miss: Miss | None = None
        self.took: float | None = None
        self._brief = 0  # waits
        self._call_here: Callable[..., Sequence[Any]] | None = None
        self._entry: Callable[[], bytes | None] | None = None  # of the persistent cache
        self.bindings: list[tuple[State, tuple[Any, ...]]] = []

    def _placed_results(
        self, steps: Sequence[State], taken: Sequence[State]
    ) -> tuple[list[int], dict[int, Any]]:
        """Results that eager JAX leaves uncommitted, though this program has a committed input; results that
        eager JAX commits to a device, though no input is (by number, the device)."""
        if all(step.devices is None for step in steps):
            return [], {}
        owner = {slot: step for step in steps for slot in range(step.first, step.slots)}
        owners = [owner[slot] for slot in self.wanted]
        free = all(step.devices is None for step in taken)
        placed = {
            number: step.devices[0]
            for number, step in enumerate(owners)
            if step.devices is not None
            and (free or (step.operation is not None and step.operation.primitive.name == "device_put"))
        }
        return [number for number, step in enumerate(owners) if step.devices is None], placed

    @property
    def platform(self) -> str:
        """The platform that it is compiled for, as JAX names it: ``cpu``, ``gpu``, ``tpu``."""
        return str(self._device.platform)

    def compile(self, inputs: Sequence[Any]) -> None:
        """Lowers for ``inputs`` (or what they will look like) here; compiles in another thread, so that an
        interrupt gets through.

        Raises what JAX raises for a program that cannot be lowered or compiled.
        """
        start, before = time.perf_counter(), in_use()
        with _announced(self.operations):
            arguments = self._packing.arguments(inputs)
            lowered = lower(self._jaxpr, arguments, self._config, self._packing.inputs, self._donated)
            self._arguments = [jc.abstract(argument) for argument in arguments]
            dump, settings = new_dump(), jc.settings_now(self._config)
            self.compiled, self.origin, self._entry = wait(
                in_background(lambda: _compile(lowered, settings, dump))
            )
        self.dump = dump if self.origin == "compiled" else None
        after = in_use()
        self.held = max(0, after - before) if after is not None and before is not None else None
        self.compile_seconds = time.perf_counter() - start

    def compile_apart(self, inputs: Sequence[Any]) -> None:
        """As :meth:`compile`, beside every cache."""
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
    ) -> Any:
        """JAX's compiled object of the program compiled anew, beside every cache. Runs nothing; ``self``
        stays as it is.

        Arguments:
          wanted: compute these slots instead of its own.
          copies: compute a step once more for another, see :meth:`Program.add`.
          options: compiler options, such as those of a :class:`Dump`.
        """
        jaxpr, donated = self._jaxpr, self._donated
        if wanted is not None or copies:
            program = Program()
            variables = program.add(self.state.path(), copies=copies)
            jaxpr, donated = program.jaxpr([variables[slot] for slot in wanted or self.wanted]), ()
        lowered = lower(jaxpr, self._arguments, self._config, self._packing.inputs, donated)
        settings = jc.settings_now(self._config)
        return wait(in_background(lambda: _compile_uncached(lowered, settings, options)))

    def waited(self, seconds: float) -> None:
        """Python waited for results until ``seconds`` after it asked for them, compiling not included.

        A short program that is often waited for runs in the thread that waits from here on: waking one of
        XLA's takes longer.
        """
        self.took = seconds
        if (
            seconds > _LONG
        ):  # it loops as often as its inputs say: whoever waits for it must be able to interrupt it
            self._brief, self._call_here = 0, None
        elif seconds < _BRIEF:
            self._brief += 1
            if self._brief == _OFTEN and not self.may_fail:
                self._load_here()

    def _load_here(self) -> None:
        entry = self._entry() if self._entry is not None else None
        if self._entry is None or entry is not None:
            self._call_here = jc.call_here(self.compiled, entry)

    def _call(self, arguments: Sequence[Any], awaited: bool, landing: Landing) -> None:
        """Calls the program in 64-bit mode as it was when the trace was recorded (it decides what a scalar
        argument is)."""
        if self.call is None:
            self.call = jc.capturing_call(self.compiled)
        if jc.runs_as_compiled(self._x64):
            landing.take((awaited and self._call_here) or self.call, arguments)
        else:
            with jc.running_settings(self._x64):
                landing.take(self.call, arguments)

    def stablehlo(self) -> str:
        """The program as JAX lowers it, with the scopes of its operations."""
        return lower(self._jaxpr, self._arguments, self._config, self._packing.inputs, self._donated).as_text(
            debug_info=True
        )

    def abstract_result(self, number: int) -> jax.ShapeDtypeStruct:
        """What result ``number`` will look like, sharding included where it is committed."""
        aval = self._jaxpr.out_avals[number]
        if number in self._commit:
            return jax.ShapeDtypeStruct(
                aval.shape,
                aval.dtype,
                weak_type=aval.weak_type,
                sharding=jc.uncommitted_sharding(self._commit[number]),
            )
        loose = number in self._uncommit or not any(getattr(a, "sharding", None) for a in self._arguments)
        sharding = None if loose else self.compiled.output_shardings[number]
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for ``inputs``; returns at once (asynchronous)."""
        landing = Landing()
        self.start(inputs, False, landing)
        return self.placed(landing.results)

    def start(self, inputs: Sequence[Any], awaited: bool, landing: Landing) -> None:
        """Runs the program on ``inputs``; returns at once (asynchronous), as JAX does, unless a result is
        ``awaited`` anyway. ``landing`` has the results from the moment that the inputs are given away.

        Raises:
          jax.errors.JaxRuntimeError: there is not the memory for it, or an operation that may fail has
            failed. Nothing is given away then.
        """
        if self._need is None:
            self._need = _needed_memory(self.compiled)
        if self._need and lacks(self._need, self._device):
            raise jc.out_of_memory(self._need)
        arguments = self._packing.arguments(inputs)
        before = jc.current_trace()
        jc.set_trace(jc.eval_trace)
        try:
            self._call(arguments, awaited, landing)
        finally:
            jc.set_trace(before)
        if self.may_fail:
            try:
                jax.block_until_ready(landing.results)
            except BaseException:
                landing.drop()
                raise

    def placed(self, found: Sequence[Any]) -> list[Any]:
        """The results as the user gets them, where ``found`` are those of XLA's."""
        results = list(found)
        for number in self._uncommit:
            results[number] = jc.uncommitted(results[number])
        for number, device in self._commit.items():
            results[number] = jc.committed(results[number], device)
        for number in self._large:
            owned.add(results[number])
        return results


def _needed_memory(compiled: Any) -> int:
    """Bytes that a run of ``compiled`` takes on a device, inputs not counted; 0 where that is little or not
    known."""
    try:
        found = compiled.memory_analysis()
        need = found.output_size_in_bytes + found.temp_size_in_bytes - found.alias_size_in_bytes
    except Exception:  # not every backend says
        return 0
    return int(need) if need > _LITTLE else 0


_LITTLE = 1 << 20
_BRIEF, _LONG = 2e-3, 0.1  # seconds
_OFTEN = 64
"""So many brief waits have cost what loading a program once more does: some milliseconds."""


@contextlib.contextmanager
def _announced(operations: int) -> Iterator[None]:
    """Tells the observers that its body makes a program."""
    recorder = thread_trace()
    tell(recorder, lambda one: one.compiling(operations))
    try:
        yield
    finally:
        tell(recorder, lambda one: one.compiled())


def _compile(lowered: jax.stages.Lowered, config_then: Any, dump: Dump | None) -> tuple[Any, str, Any]:
    with jc.restore_config(config_then), persistent.settings() as origin:
        compiled = lowered.compile(compiler_options=dump.options() if dump is not None else None)
    return compiled, *origin


def _compile_uncached(lowered: jax.stages.Lowered, config_then: Any, options: dict[str, Any] | None) -> Any:
    with jc.restore_config(config_then), jc.no_cache():
        return lowered.compile(compiler_options=options)


class Binding(NamedTuple):
    """How a recorded trace runs.

    Attributes:
      executable: the program, which knows nothing of dead operations.
      inputs: numbers of the trace's inputs that it takes, in its order.
    """

    executable: Executable
    inputs: list[int]

    def start(self, values: Sequence[Any], awaited: bool, landing: Landing) -> None:
        """Runs the trace whose inputs are ``values``; see :meth:`Executable.start`."""
        self.executable.start([values[number] for number in self.inputs], awaited, landing)


def _last_place(request: Request) -> Place:
    origin = request.origins[request.steps[-1].depth - 1]
    return origin.place if origin is not None else Place("", 0, "")


def _part(request: Request, moved: dict[int, int]) -> tuple[list[int], tuple[int, ...]]:
    """Numbers of the trace's inputs that the results need, in the order in which the program takes them; and
    which of these, by their place there, give their memory.

    Arguments:
      moved: by slot of the trace, that of the part which is compiled; a slot that it has not comes first.
    """
    numbers = request.numbers()
    taken = sorted(
        (step.first for step in request.steps if step.operation is None), key=lambda slot: moved.get(slot, -1)
    )
    inputs = [numbers[slot] for slot in taken]
    return inputs, tuple([inputs.index(number) for number in request.donated or () if number in inputs])


MAX_VARIANTS = 4
"""Executables of one trace that differ in the inputs they take the memory of."""

_TOGETHER = 16
"""Executables that are forgotten before their memory is given back: that takes as long as compiling one."""


class ExecutableCache:
    """All executables, in order of use.

    Two levels. A trace that ended in the same state with the same wanted slots finds its executable at once.
    Otherwise the part of it that is wanted is looked up as a trace of its own, so that dead operations (a
    result that nobody kept, the rest of a cell that failed) make no difference to what is compiled.
    """

    def __init__(self, trie: Trie):
        self.trie = trie
        self.order: collections.OrderedDict[Executable, None] = collections.OrderedDict()
        self.hits = 0
        self.misses = 0
        self._freed = 0  # executables, since memory was given back

    @property
    def held(self) -> int | None:
        """Bytes of the heap that the executables hold, as measured when each was made; None where nobody
        counts them."""
        known = [executable.held for executable in self.order if executable.held is not None]
        return sum(known) if known or not self.order else None

    def find(self, request: Request) -> Binding | None:
        """What answers ``request``, if that was run before."""
        found = request.state.executables.get(request.key)
        if found is not None:
            self.order.move_to_end(found.executable)
        return found

    def peek(self, request: Request) -> tuple[bool | None, Executable | None]:
        """Whether what :meth:`make` would make is there, and it. Changes nothing."""
        if request.donated is not None:
            allowed = self.allowed(request.state, request.wanted, request.donated)
            found = request.state.executables.get(key_of(request.wanted, allowed))
            if found is not None:
                return True, found.executable
        state, moved = self.trie.find(request.pending.root, request.steps)
        known = state.executables if state is not None else {}
        there = tuple([moved.get(slot, -1) for slot in request.wanted])
        if request.donated is None:  # a program may be there that does not fit
            return (None if any(there in (key, *key[:1]) for key in known) else False), None
        found = known.get(key_of(there, _part(request, moved)[1]))
        return found is not None, found.executable if found is not None else None

    def any(self, state: State, wanted: tuple[int, ...]) -> Executable:
        """One of those that run ``wanted`` of the trace that ends in ``state``."""
        return next(
            binding.executable for key, binding in state.executables.items() if wanted in (key, *key[:1])
        )

    def allowed(self, state: State, wanted: tuple[int, ...], donated: tuple[int, ...]) -> tuple[int, ...]:
        """``donated``, or where that would be one executable too many for one trace, as many of them as one
        of those takes."""
        known = [key[1] for key in state.executables if key[:1] == (wanted,)]
        if donated in known or len(known) < MAX_VARIANTS:
            return donated
        return max((other for other in known if set(other) <= set(donated)), key=len, default=())

    def make(self, request: Request) -> tuple[Binding, bool]:
        """What answers ``request``, compiled unless the same program is there. Whether it was compiled."""
        state, moved = self.trie.copy(request.pending.root, request.steps)
        inputs, gone = _part(request, moved)
        there = tuple([moved[slot] for slot in request.wanted])
        known = state.executables.get(key_of(there, gone))
        executable = (
            known.executable if known is not None else self._compiled(request, state, there, inputs, gone)
        )
        binding = Binding(executable, inputs)
        if request.state is not state or gone != request.donated:
            self._bind(binding, request.state, request.key)
        self.order[executable] = None
        self.order.move_to_end(executable)
        self.misses += known is None
        self.bound()
        return binding, known is None

    def _compiled(
        self,
        request: Request,
        state: State,
        wanted: tuple[int, ...],
        inputs: list[int],
        donated: tuple[int, ...],
    ) -> Executable:
        """The program for the part of a trace that ``request`` needs, ``state`` being the end of that part as
        a trace of its own."""
        executable = Executable(state, wanted, donated, request.pending.root.config, _last_place(request))
        try:
            executable.compile([request.values[number] for number in inputs])
        except BaseException as error:
            self.trie.prune(state)
            add_note(error, request)
            raise
        self._bind(Binding(executable, list(range(len(inputs)))), state, key_of(wanted, donated))
        return executable

    @staticmethod
    def _bind(binding: Binding, state: State, key: tuple[Any, ...]) -> None:
        state.executables[key] = binding
        binding.executable.bindings.append((state, key))

    def bound(self) -> None:
        """Forgets the least recently used executables until the limits are kept."""
        while len(self.order) > max(1, config.max_executables) or (
            self.trie.size > config.max_recorded and len(self.order) > 1
        ):
            self._forget(self.order.popitem(last=False)[0])
            self._freed += 1
        if self._freed >= _TOGETHER:
            self._give_back()

    def _give_back(self) -> None:
        """What the executables held that were forgotten goes back to the operating system."""
        self._freed = 0
        give_back()

    def _forget(self, executable: Executable) -> None:
        if executable.miss is not None:
            executable.miss.forgotten = miss_log.total
        for state, key in executable.bindings:
            state.executables.pop(key, None)
            self.trie.prune(state)

    def clear(self) -> None:
        """Forgets all executables and recorded traces."""
        for executable in self.order:
            self._forget(executable)
        self.order.clear()
        self.trie.clear()
        self.hits = self.misses = 0
        self._give_back()
