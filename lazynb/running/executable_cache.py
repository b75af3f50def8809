"""The executable cache: compiled programs by recorded trace, wanted results and donated inputs."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

from lazynb.config import config
from lazynb.recording.trace_registry import trie
from lazynb.recording.trie import State, Trie
from lazynb.running.jaxpr_program import Request, key_of
from lazynb.running.miss_log import Eviction, miss_log
from lazynb.running.process_heap import trim_heap
from lazynb.running.run_failure import add_note
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import Place


class Binding(NamedTuple):
    """A recorded trace with the program that runs it.

    Attributes:
      executable: the program, without dead operations.
      inputs: numbers of the trace's inputs that the program takes, in its order.
    """

    executable: Executable
    inputs: list[int]


def _last_place(request: Request) -> Place:
    origin = request.origins[request.steps[-1].depth - 1]
    return origin.place if origin is not None else Place("", 0, "")


def _part(request: Request, moved: dict[int, int]) -> tuple[list[int], tuple[int, ...]]:
    """The inputs of the part of a trace that ``request`` needs. ``moved``: the slots of the part, by slot of
    the whole trace. Slots that are not in it sort first. Returns numbers of the trace's inputs that the
    results need, in the order of the program; and the positions in that list of the donated inputs."""
    numbers = request.numbers()
    slots = [step.first for step in request.steps if step.operation is None]
    slots.sort(key=lambda slot: moved.get(slot, -1))
    inputs = [numbers[slot] for slot in slots]
    donated = [inputs.index(number) for number in request.donated or () if number in inputs]
    return inputs, tuple(sorted(donated))


def _computes(key: tuple[Any, ...], wanted: tuple[int, ...]) -> bool:
    return key == wanted or key[:1] == (wanted,)


MAX_VARIANTS = 4
"""Maximum number of executables of one trace that differ only in their donated inputs."""

_TOGETHER = 16
"""Number of evicted executables after which freed memory is returned; that takes as long as a compilation."""


class ExecutableCache:
    """All executables, the least recently used first.

    The lookup has two levels. A trace that ended in the same state with the same wanted slots finds its
    executable at once. Otherwise the wanted part is looked up as a trace of its own, so dead operations (an
    unused result, the rest of a failed cell) do not change the program.
    """

    def __init__(self, trie: Trie):
        self.trie = trie
        self.order: collections.OrderedDict[Executable, None] = collections.OrderedDict()
        self.hits = 0
        self.misses = 0
        self._freed = 0  # executables evicted since memory was last returned

    @property
    def held(self) -> int | None:
        """Bytes by which the heap grew when the executables were made; None if none was measured."""
        sizes = [executable.held for executable in tuple(self.order) if executable.held is not None]
        if self.order and not sizes:
            return None
        return sum(sizes)

    def find(self, state: State, key: tuple[Any, ...]) -> Binding | None:
        """The binding of an earlier run for a trace that ends in ``state``; None if there is none.

        Arguments:
          key: see :func:`lazynb.running.jaxpr_program.key_of`.
        """
        binding = state.executables.get(key)
        if binding is not None:
            self._use(binding.executable)
        return binding

    def _use(self, executable: Executable) -> None:
        """Makes ``executable`` the most recently used one. A signal may arrive between any two steps, and
        another thread may evict the executable at the same time."""
        self.order.pop(executable, None)
        self.order[executable] = None

    def peek(self, request: Request) -> tuple[bool | None, Executable | None]:
        """Whether the cache holds the program for ``request`` (None if that is not certain), and the program.
        Does not change the order of use."""
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
                return None, None  # the program may donate other inputs
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
        """The inputs of ``donated`` that a program may take. Returns all of ``donated`` while the trace has
        few variants; then the donated inputs of the existing variant that takes the most of them."""
        variants = [key[1] for key in state.executables if key[:1] == (wanted,)]
        if donated in variants or len(variants) < MAX_VARIANTS:
            return donated
        offered = set(donated)
        fitting = [variant for variant in variants if offered.issuperset(variant)]
        return max(fitting, key=len, default=())

    def make(self, request: Request) -> tuple[Binding, bool]:
        """The binding for ``request``, and whether its program was compiled now."""
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
        """The part of a trace that ``request`` needs, as a trace of its own. Returns its end; the wanted
        slots in it; the numbers of the trace's inputs that it takes, in its order; and the positions in that
        list of the donated inputs."""
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
        """Compiles the program for the part of a trace that ``request`` needs. ``state``: the end of that
        part as a trace of its own."""
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
        self._use(binding.executable)  # first, so that every binding is subject to the limits
        binding.executable.bindings.append((state, key))
        state.executables[key] = binding

    def bound(self) -> None:
        """Evicts the least recently used executables until the limits are kept."""
        while len(self.order) > 1 and (exceeded := self._exceeded()) is not None:
            oldest = next(iter(self.order))
            if oldest.miss is not None:
                oldest.miss.forgotten = Eviction(miss_log.total, exceeded, getattr(config, exceeded))
                oldest.miss.release()
            self._forget(oldest)
            self.order.pop(oldest, None)
            self._freed += 1
        if self._freed >= _TOGETHER:
            self._give_back()

    def _exceeded(self) -> str | None:
        """The name of a setting that the cache exceeds; None if it keeps both limits."""
        if len(self.order) > config.max_executables:
            return "max_executables"
        return "max_recorded" if self.trie.size > config.max_recorded else None

    def _give_back(self) -> None:
        self._freed = 0
        trim_heap()

    def _forget(self, executable: Executable) -> None:
        for state, key in executable.bindings:
            state.executables.pop(key, None)
            self.trie.prune(state)

    def clear(self) -> None:
        """Evicts all executables and recorded traces."""
        self._freed += len(self.order)
        for executable in tuple(self.order):
            self._forget(executable)
        self.order.clear()
        self.trie.clear()
        self.hits = self.misses = 0
        if self._freed:
            self._give_back()


executables = ExecutableCache(trie)
