"""Executables: compiled programs of recorded traces, in a bounded cache.

The cache finds a program by its trace and the wanted results.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.errors import OneHostOnlyError
from lazynb.recording.external_arrays import exclusively_owned
from lazynb.recording.fingerprint import of_request
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.operation_checks import exceeds_free_memory
from lazynb.recording.pending_trace import named_result_sharding
from lazynb.recording.trie import State, Trie
from lazynb.running import jaxpr_program
from lazynb.running.background_thread import in_background, wait
from lazynb.running.compiler_dump import Dump, new_dump
from lazynb.running.disk_cache import disk_cache
from lazynb.running.donation import donation_order, is_large
from lazynb.running.jaxpr_program import Program, Request, key_of, lower
from lazynb.running.miss_log import Miss, miss_log as miss_log
from lazynb.running.observers import notify_observers
from lazynb.running.run_delivery import InFlightRun
from lazynb.running.run_failure import add_note
from lazynb.user_code.call_stack import Place

# ---- The heap of the process: the bytes in use, and the return of free pages to the operating system ------
# A compiled program of XLA:CPU takes a megabyte or more in thousands of small pieces (thunks, HLO, machine
# code), and no interface of XLA reports them. When they are freed, glibc does not return them to the
# operating system, because pieces of other programs lie between them. Of 220 MB, freeing all programs
# returned 10 MB, and ``malloc_trim`` another 140 MB.

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Info(ctypes.Structure):
    """glibc's ``struct mallinfo2``: over all arenas, ``uordblks`` is the number of bytes in use."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


@functools.cache
def _function(name: str, result: Any) -> Any:
    """The function ``name`` of glibc; returns None if the C library has none, or is not that of Linux."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.restype = result
    return function


def heap_bytes() -> int | None:
    """Bytes in use in the heap; returns None if the C library cannot say.

    Large arrays are not counted, because they have pages of their own.
    """
    info = _function("mallinfo2", _Info)
    return int(info().uordblks) if info is not None else None


def trim_heap() -> None:
    """Returns the empty pages of the heap to the operating system. Takes about 50 ms."""
    trim = _function("malloc_trim", ctypes.c_int)
    if trim is not None:
        trim(ctypes.c_size_t(0))


class Executable:
    """A compiled program for some results of a recorded trace without dead operations.

    Attributes:
      state: the end of the trace.
      order: for each result of the program, its number among the results as they were asked for.
      wanted: slots that the program computes, in its order.
      operations: number of operations.
      place: the user's line of the last operation.
      origin: ``compiled`` or ``disk``.
      compile_seconds: time to lower and compile the program, or to load it.
      lowering_seconds: the part of it that JAX took to make StableHLO of the recorded trace.
      held: bytes by which the heap grew while the program was made; None if the C library cannot say.
      runs: number of runs.
      may_fail: whether an operation can fail while it runs. Such a program takes no donated memory, and
        :meth:`start` waits for its end.
      hits: number of runs after the first.
      wait_seconds: time that Python last waited for the results; infinite before the first measurement.
      compiled: JAX's compiled object: HLO, cost and memory analysis.
      donated: numbers of the inputs whose memory the results take; these inputs are deleted by the run.
      dump: the files that XLA wrote while it compiled; None if they were not asked for.
      bindings: the recorded traces that the program runs, as (end of the trace, key in ``executables``).
      miss: why the program was made.
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
        taken = [step for step in path if step.operation is None]
        self._jaxpr: Any = program.jaxpr([variables[slot] for slot in wanted])
        self._packing = jaxpr_program.program_packing(path)
        self._donated = self._packing.positions(donated)
        self._large = [number for number, aval in enumerate(self._jaxpr.out_avals) if is_large(aval)]
        self.operations = len(program.eqns)
        self._need: int | None = None  # bytes that a run takes beyond its inputs
        self._device = _device(path)
        self.may_fail = any(step.operation.may_fail for step in path if step.operation)
        self._uncommit, self._commit = self._placed_results(path, taken)
        self._named = _named_results(path, wanted)
        self._committed = _committed_results(path, wanted)
        self._arguments: list[Any] = []  # their types, to lower the program again for its text
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

    def _placed_results(
        self, steps: Sequence[State], taken: Sequence[State]
    ) -> tuple[list[int], dict[int, Any]]:
        """The results whose placement in eager JAX differs from that of this program.

        Returns: the numbers of the results that are not committed, though an input is; and the devices to
          commit results to, by number of the result. Either no input is committed, or the user put it there.
        """
        if all(step.devices is None for step in steps):
            return [], {}
        owners: list[State] = []  # by slot
        for step in steps:
            owners.extend([step] * (step.slots - step.first))
        free = all(step.devices is None for step in taken)
        uncommit, commit = [], {}
        for number, slot in enumerate(self.wanted):
            owner = owners[slot]
            if owner.devices is None:
                uncommit.append(number)
            elif len(owner.devices) == 1 and (free or _is_put(owner)):
                commit[number] = owner.devices[0]
        return uncommit, commit

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """Of the program: the same in all processes that make it of the same trace."""
        return of_request(self.state, tuple(self._as_asked(self.wanted)), self.donated)

    @property
    def platform(self) -> str:
        """The platform that it is compiled for, as JAX names it: ``cpu``, ``gpu``, ``tpu``."""
        return str(self._device.platform)

    def compile(self, inputs: Sequence[Any]) -> None:
        """Lowers the program for ``inputs`` (or their types), and compiles it in another thread.

        The other thread lets an interrupt through. Raises JAX's error if the program cannot be lowered or
        compiled.
        """
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
        self.compile_seconds = time.perf_counter() - start

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
    ) -> Any:
        """JAX's compiled object of the program, compiled again without any cache.

        Runs nothing and leaves ``self`` unchanged.

        Arguments:
          wanted: compute these slots instead of its own.
          copies: compute a step once more for another step, see :meth:`Program.add`.
          options: compiler options, such as those of a :class:`Dump`.
        """
        jaxpr, donated = self._jaxpr, self._donated
        if wanted is not None or copies:
            program = Program()
            variables = program.add(self.state.path(), copies=copies)
            jaxpr = program.jaxpr([variables[slot] for slot in wanted or self.wanted])
            donated = ()
        return self._compiled_uncached(self._lowered(jaxpr, donated), options)

    def compile_hlo(self, text: str) -> str:
        """The optimised HLO of a module of HLO, compiled as the program is; empty if it runs on several
        devices. Raises XLA's own error."""
        if any(step.program and len(step.program) > 1 for step in self.state.path()):
            return ""
        lowering, settings = jc.lowering_of_hlo(text), jc.settings_now(self._config)
        return wait(in_background(lambda: _compile_hlo(lowering, settings, self._device)))

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """What XLA says that parts of the program cost, which are HLO modules."""
        return jc.cost_figures(texts)

    def _lowered(self, jaxpr: Any, donated: tuple[int, ...]) -> jax.stages.Lowered:
        placed = self._named if jaxpr is self._jaxpr else None
        return lower(jaxpr, self._arguments, self._config, self._packing.inputs, donated, placed=placed)

    def _compiled_uncached(self, lowered: jax.stages.Lowered, options: dict[str, Any] | None) -> Any:
        settings = jc.settings_now(self._config)
        return wait(in_background(lambda: _compile_uncached(lowered, settings, options)))

    def waited(self, seconds: float) -> None:
        """Notes that Python waited ``seconds`` for the results, without compiling.

        After many brief waits the program runs in the thread that waits, because waking a thread of XLA takes
        longer.
        """
        self.took = seconds
        if seconds > _LONG:
            # Its inputs decide how often it loops. Another thread runs it, so that the user can interrupt.
            self._brief, self._call_here = 0, None
        elif seconds < _BRIEF:
            self._brief += 1
            if self._brief == _OFTEN and not self.may_fail:
                self._load_here()

    def _load_here(self) -> None:
        if len(self.state.program or ()) > 1:
            return  # XLA ends the process where it loads a program of several hosts for one device
        entry = self._entry() if self._entry is not None else None
        if self._entry is None or entry is not None:
            self._call_here = jc.synchronous_call(self.compiled, entry)

    def stablehlo(self) -> str:
        """The program as JAX lowers it, with the scopes of its operations."""
        return self.lowered().as_text(debug_info=True)

    def lowered(self) -> jax.stages.Lowered:
        """The program, lowered once more as it was when it was compiled."""
        return self._lowered(self._jaxpr, self._donated)

    @property
    def result_types(self) -> Sequence[Any]:
        """JAX's type of each result."""
        return self._jaxpr.out_avals  # type: ignore[no-any-return]

    @property
    def numbers(self) -> int:
        """How many of Python's numbers are inputs; those that are written into the program are none."""
        inputs = [step for step in self.state.path() if step.operation is None]
        arguments = {number for at in range(len(self._packing)) for number in self._packing.taken(at)}
        return sum(inputs[number].is_host_scalar for number in arguments)

    def abstract_result(self, number: int) -> jax.ShapeDtypeStruct:
        """The type of result ``number``, as they were asked for, with its sharding if it is committed."""
        number = self.order.index(number)
        aval, sharding = self._jaxpr.out_avals[number], self._abstract_sharding(number)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)

    def _abstract_sharding(self, number: int) -> Any:
        """The sharding of result ``number``; returns None if it is not committed."""
        if number in self._commit:
            return jc.uncommitted_sharding(self._commit[number])
        if number not in self._committed:
            return None
        return self.compiled.output_shardings[number]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for ``inputs``; returns at once (asynchronous).

        Raises:
          OneHostOnlyError: the program runs on several hosts, and only a flush agrees with them.
        """
        if jc.spans_hosts(self.state.program or ()):
            raise OneHostOnlyError(jc.host_index())
        landing = InFlightRun()
        self.start(inputs, False, landing)
        return self.placed(landing.results)

    def start(self, inputs: Sequence[Any], awaited: bool, landing: InFlightRun) -> None:
        """Runs the program on ``inputs``; returns at once (asynchronous), as JAX does.

        It runs in the 64-bit mode of the recorded trace, which sets the type of a scalar.

        Arguments:
          awaited: whether Python needs a result at once; the call may then return only at the end of the run.
          landing: takes the results in the moment in which the inputs are consumed.

        Raises:
          jax.errors.JaxRuntimeError: the memory does not suffice, or an operation that may fail has failed.
            No input is consumed then.
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
                    landing.take(self.call, arguments)
            elif jc.x64_is(self._x64):
                landing.take(call, arguments)
            else:
                with jc.x64_preserved(), jc.x64_mode(self._x64):
                    landing.take(call, arguments)
        finally:
            jc.set_trace(before)
        if self.may_fail:
            try:
                jax.block_until_ready(landing.results)
            except BaseException:
                landing.drop()
                raise

    def placed(self, outputs: Sequence[Any]) -> list[Any]:
        """The results as the user gets them and asked for them, from the ``outputs`` of XLA's program."""
        results = list(outputs)
        for number in self._uncommit:
            results[number] = jc.uncommitted(results[number])
        for number, device in self._commit.items():
            results[number] = jc.committed(results[number], device)
        for number in self._large:
            exclusively_owned.add(results[number])
        return self._as_asked(results) if self.donated else results

    def _as_asked(self, results: Sequence[Any]) -> list[Any]:
        """What belongs to the results, in the order in which they were asked for."""
        asked: list[Any] = [None] * len(self.order)
        for at, result in zip(self.order, results, strict=True):
            asked[at] = result
        return asked


def _needed_memory(compiled: Any) -> int:
    """Bytes that a run of ``compiled`` takes on a device beside its inputs; 0 if they are few or unknown."""
    try:
        sizes = compiled.memory_analysis()
        need = sizes.output_size_in_bytes + sizes.temp_size_in_bytes - sizes.alias_size_in_bytes
    except Exception:  # not every backend has the analysis
        return 0
    return int(need) if need > _LITTLE else 0


_LITTLE = 1 << 20  # bytes
_BRIEF, _LONG = 2e-3, 0.1  # seconds
_OFTEN = 64
"""The number of brief waits that cost as much as to load a program once more: some milliseconds."""


def _device(path: Sequence[State]) -> Any:
    """The first device of the program of ``path``."""
    for step in reversed(path):
        if step.program:
            return step.program[0]
    return jax.local_devices()[0]


def _committed_results(path: Sequence[State], wanted: Sequence[int]) -> frozenset[int]:
    """The numbers of the results among ``wanted`` that are committed to devices."""
    slots = {slot for step in path if step.devices is not None for slot in range(step.first, step.slots)}
    return frozenset(number for number, slot in enumerate(wanted) if slot in slots)


def _named_results(path: Sequence[State], wanted: Sequence[int]) -> list[Any] | None:
    """The sharding that the operation of each result names; None if none does."""
    owners = {slot: step for step in path for slot in range(step.first, step.slots)}
    named = [named_result_sharding(owners[slot], slot) for slot in wanted]
    if not any(named):
        return None
    return [jc.UNSPECIFIED if sharding is None else sharding for sharding in named]


def _is_put(step: State) -> bool:
    return step.operation is not None and step.operation.primitive.name == "device_put"


@contextlib.contextmanager
def notify_compiling(operations: int) -> Iterator[None]:
    """Tells the observers that the body makes a program."""
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


class Binding(NamedTuple):
    """A recorded trace with the program that runs it.

    Attributes:
      executable: the program, which has no dead operations.
      inputs: numbers of the trace's inputs that the program takes, in its order.
    """

    executable: Executable
    inputs: list[int]


def _last_place(request: Request) -> Place:
    origin = request.origins[request.steps[-1].depth - 1]
    return origin.place if origin is not None else Place("", 0, "")


def _part(request: Request, moved: dict[int, int]) -> tuple[list[int], tuple[int, ...]]:
    """The inputs of the part of a trace that ``request`` needs.

    Arguments:
      moved: the slots of the part, by slot of the whole trace; a slot that is not in it comes first.

    Returns: numbers of the trace's inputs that the results need, in the order in which the program takes
      them; and the positions in that list of the inputs that give their memory.
    """
    numbers = request.numbers()
    slots = [step.first for step in request.steps if step.operation is None]
    slots.sort(key=lambda slot: moved.get(slot, -1))
    inputs = [numbers[slot] for slot in slots]
    donated = [inputs.index(number) for number in request.donated or () if number in inputs]
    return inputs, tuple(sorted(donated))


def _computes(key: tuple[Any, ...], wanted: tuple[int, ...]) -> bool:
    """Whether ``key`` (see :func:`key_of`) is of a program that gives ``wanted``."""
    return key == wanted or key[:1] == (wanted,)


MAX_VARIANTS = 4
"""The number of executables of one trace that may differ only in the inputs whose memory they take."""

_TOGETHER = 16
"""Executables to forget before their memory is returned, which takes as long as compiling one."""


class ExecutableCache:
    """All executables, in order of use.

    The look-up has two levels. A trace that ended in the same state with the same wanted slots finds its
    executable at once. Otherwise the wanted part is looked up as a trace of its own. So dead operations (an
    unused result, the rest of a cell that failed) do not change the program.
    """

    def __init__(self, trie: Trie):
        self.trie = trie
        self.order: collections.OrderedDict[Executable, None] = collections.OrderedDict()
        self.hits = 0
        self.misses = 0
        self._freed = 0  # executables forgotten since memory was last returned

    @property
    def held(self) -> int | None:
        """Bytes of the heap that the executables took when they were made; None if none was measured."""
        sizes = [executable.held for executable in tuple(self.order) if executable.held is not None]
        if self.order and not sizes:
            return None
        return sum(sizes)

    def find(self, state: State, key: tuple[Any, ...]) -> Binding | None:
        """The binding of an earlier run for a trace that ends in ``state``; returns None if there is none.

        Arguments:
          key: see :func:`lazynb.running.jaxpr_program.key_of`.
        """
        binding = state.executables.get(key)
        if binding is not None:
            self._use(binding.executable)
        return binding

    def _use(self, executable: Executable) -> None:
        """Makes ``executable`` the one used last.

        A signal may come between any two steps, and another thread may forget it at the same time.
        """
        self.order.pop(executable, None)
        self.order[executable] = None

    def peek(self, request: Request) -> tuple[bool | None, Executable | None]:
        """Whether the cache holds the program for ``request`` (None if that is not certain), and the program.

        Changes nothing.
        """
        if request.donated is not None:
            allowed = self.allowed_donation(request.state, request.wanted, request.donated)
            binding = request.state.executables.get(key_of(request.wanted, allowed))
            if binding is not None:
                return True, binding.executable
        state, moved = self.trie.find(request.pending.root, request.steps)
        bindings = state.executables if state is not None else {}
        slots = tuple([moved.get(slot, -1) for slot in request.wanted])
        if request.donated is None:
            if any(_computes(key, slots) for key in bindings):
                return None, None  # it may be a program with other donated inputs
            return False, None
        binding = bindings.get(key_of(slots, _part(request, moved)[1]))
        if binding is None:
            return False, None
        return True, binding.executable

    def any(self, state: State, wanted: tuple[int, ...]) -> Executable:
        """An executable for ``wanted`` of the trace that ends in ``state``; one must exist."""
        return next(
            binding.executable for key, binding in state.executables.items() if _computes(key, wanted)
        )

    def allowed_donation(
        self, state: State, wanted: tuple[int, ...], donated: tuple[int, ...]
    ) -> tuple[int, ...]:
        """The inputs of ``donated`` that a program may take.

        They are all of ``donated`` while the trace has few variants. After that they are those of the
        existing variant that takes the most of them.
        """
        variants = [key[1] for key in state.executables if key[:1] == (wanted,)]
        if donated in variants or len(variants) < MAX_VARIANTS:
            return donated
        offered = set(donated)
        fitting = [variant for variant in variants if offered.issuperset(variant)]
        return max(fitting, key=len, default=())

    def make(self, request: Request) -> tuple[Binding, bool]:
        """The binding for ``request``, and whether its program had to be made."""
        state, slots, inputs, donated = self.part(request)
        known = state.executables.get(key_of(slots, donated))
        if known is not None:
            executable = known.executable
        else:
            executable = self._compiled(request, state, slots, inputs, donated)
            self.misses += 1
        binding = Binding(executable, inputs)
        if request.state is not state or donated != request.donated:
            self._bind(binding, request.state, request.key)
        self.bound()
        return binding, known is None

    def part(self, request: Request) -> tuple[State, tuple[int, ...], list[int], tuple[int, ...]]:
        """The part of a trace that ``request`` needs, as a trace of its own.

        Returns: its end; the wanted slots in it; the numbers of the trace's inputs that it takes, in its
          order; and the positions in that list of the inputs that give their memory.
        """
        state, moved = self.trie.copy(request.pending.root, request.steps)
        inputs, donated = _part(request, moved)
        return state, tuple([moved[slot] for slot in request.wanted]), inputs, donated

    def _compiled(
        self,
        request: Request,
        state: State,
        wanted: tuple[int, ...],
        inputs: list[int],
        donated: tuple[int, ...],
    ) -> Executable:
        """The program for the part of a trace that ``request`` needs.

        Arguments:
          state: the end of that part as a trace of its own.
        """
        executable = Executable(state, wanted, donated, request.pending.root.config, _last_place(request))
        try:
            executable.compile([request.values[number] for number in inputs])
        except BaseException as error:
            self.trie.prune(state)
            add_note(error, request)
            raise
        self._bind(Binding(executable, list(range(len(inputs)))), state, key_of(wanted, donated))
        return executable

    def _bind(self, binding: Binding, state: State, key: tuple[Any, ...]) -> None:
        self._use(binding.executable)  # first: what is found is in the order, so that the limits hold for it
        binding.executable.bindings.append((state, key))
        state.executables[key] = binding

    def bound(self) -> None:
        """Forgets the least recently used executables until the limits are kept."""
        while len(self.order) > 1 and self._is_over():
            oldest = next(iter(self.order))
            self._forget(oldest)
            self.order.pop(oldest, None)
            self._freed += 1
        if self._freed >= _TOGETHER:
            self._give_back()

    def _is_over(self) -> bool:
        return len(self.order) > config.max_executables or self.trie.size > config.max_recorded

    def _give_back(self) -> None:
        """Returns the memory of forgotten executables to the operating system."""
        self._freed = 0
        trim_heap()

    def _forget(self, executable: Executable) -> None:
        if executable.miss is not None:
            executable.miss.forgotten = miss_log.total
        for state, key in executable.bindings:
            state.executables.pop(key, None)
            self.trie.prune(state)

    def clear(self) -> None:
        """Forgets all executables and recorded traces."""
        self._freed += len(self.order)
        for executable in tuple(self.order):
            self._forget(executable)
        self.order.clear()
        self.trie.clear()
        self.hits = self.misses = 0
        if self._freed:
            self._give_back()
