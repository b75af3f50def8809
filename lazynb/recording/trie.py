"""The trie of recorded traces: states, roots, starts of loop pieces, and the trie with its pruning.

A pending trace is a path from a root. A state stands for the steps that lead to it and stores the avals of
its results. So a known trace costs one dictionary look-up for each operation; no graph is hashed or walked.
Values (inputs and results) are numbered in the order in which they appear (*slots*). Operands are slots, so
the key of a step is canonical. It needs no avals, because the path determines them.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from lazynb.recording.input_key import HOST, Constant
from lazynb.recording.operation import Operation

MAX_DIVIDED = 16
"""Number of divided traces whose paths are kept."""

MAX_EDGES = 256
"""Number of edges of a state. A number in the key by value has one edge for each value."""


OWN_PROGRAM_WEIGHT = 200
"""Weight from which an operation gets its own program, such as a jitted training step. It is then compiled
once, as by eager JAX, independent of its neighbours. A common program would save only a launch or two."""


class State:
    """One step of a recorded trace: an input or an operation.

    Attributes:
      parent: the previous state; None at a root.
      key: the step's key in ``parent.children``.
      operation: the recorded operation; None for an input.
      operands, avals: slots of the operands, and avals of the results.
      first, slots: slot of the first result, and number of slots after this step.
      depth: number of steps up to this one; the canonical number of the step is ``depth - 1``.
      operations, inputs: number of operations and of inputs up to this step.
      devices: devices to which the results are committed; None if JAX may move them.
      program: devices on which the operations so far run, one set for a program; None before the first
        operation.
      call: number of the user's call that first recorded the operation, the same for all operations of the
        call.
      children: the next steps, by key.
      executables: bindings of the trace that ends here, by wanted slots, or by wanted slots and donated
        inputs.
      large: the inputs worth donating, by wanted slots.
      edges: the user's calls recorded from here, see :mod:`lazynb.recording.replay.call_replay`.
      recent: the last edge taken with the parts of its key, for the accelerator; None after a change of
        ``edges``.
      edge_sources: states from which an edge leads here.
      weight: weight of the path's operations, see :class:`lazynb.recording.operation.Operation`.
      has_own_program: whether the path's one operation weighs at least :data:`OWN_PROGRAM_WEIGHT`.
      numbers: the constants seen here, by the place of the literal; None at a place where a second value was
        seen, because the number is an input from then on. None without constants.
      constant_variant: weak reference to the state with a constant where this path has an input; None without
        one.
      fingerprint: see :mod:`lazynb.recording.fingerprint`; computed when first read.
    """

    __slots__ = (
        "__weakref__",
        "avals",
        "call",
        "children",
        "constant_variant",
        "depth",
        "devices",
        "edge_sources",
        "edges",
        "executables",
        "fingerprint",
        "first",
        "has_own_program",
        "inputs",
        "key",
        "large",
        "numbers",
        "operands",
        "operation",
        "operations",
        "parent",
        "program",
        "recent",
        "slots",
        "weight",
    )

    first: int
    slots: int
    depth: int
    operations: int
    program: tuple[Any, ...] | None
    fingerprint: bytes

    def __init__(
        self,
        parent: State | None,
        key: Hashable,
        operation: Operation | None,
        operands: tuple[int, ...],
        avals: tuple[Any, ...],
        devices: tuple[Any, ...] | None,
    ):
        self.parent = parent
        self.key = key
        self.operation = operation
        self.operands = operands
        self.avals = avals
        self.devices = devices
        self.program = parent.program if parent is not None else None
        self.call: int | None = None
        self.children: dict[Hashable, State] = {}
        self.executables: dict[tuple[Any, ...], Any] = {}
        self.large: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.edges: dict[Hashable, Any] = {}
        self.recent: tuple[Any, ...] | None = None
        self.edge_sources: set[State] = set()
        self.numbers: dict[Hashable, Constant | None] | None = None
        self.constant_variant: weakref.ref[State] | None = None
        self.first = parent.slots if parent is not None else 0
        self.slots = self.first + len(avals)
        self.depth = parent.depth + 1 if parent is not None else 0
        self.operations = (parent.operations if parent is not None else 0) + (operation is not None)
        self.inputs = self.depth - self.operations
        self.weight: int = parent.weight if parent is not None else 0
        self.has_own_program: bool = parent is not None and parent.has_own_program
        if operation is not None:
            self.weight += operation.weight
            self.has_own_program |= operation.weight >= OWN_PROGRAM_WEIGHT

    @property
    def is_host_scalar(self) -> bool:
        """Whether the step is an input from a Python or NumPy number."""
        if self.operation is not None or not isinstance(self.key, tuple):
            return False
        return self.key[1] is HOST or type(self.key[1]) is Constant

    @property
    def constant(self) -> Constant | None:
        """The literal number of the step; None for other steps."""
        if self.operation is not None or not isinstance(self.key, tuple):
            return None
        held = self.key[1]
        return held if type(held) is Constant else None

    @property
    def get_constant_variant(self) -> State | None:
        """The state that :attr:`constant_variant` refers to; None without one."""
        return self.constant_variant() if self.constant_variant is not None else None

    def remember(self, key: Hashable, edge: Any, end: State | None) -> None:
        """Keeps ``edge`` under ``key`` until its ``end`` is pruned."""
        self.recent = None
        if len(self.edges) >= MAX_EDGES:
            self.edges.clear()
        self.edges[key] = edge
        if end is not None:
            end.edge_sources.add(self)

    def forget(self, end: State) -> None:
        self.recent = None
        for key, edge in list(self.edges.items()):
            left = (None if edge[1] is end else edge) if type(edge) is tuple else edge.without(end)
            if left is None:
                del self.edges[key]
            else:
                self.edges[key] = left

    def path(self) -> list[State]:
        """Returns the steps from the root to this state, without the root."""
        steps: list[State] = []
        state = self
        while state.parent is not None:
            steps.append(state)
            state = state.parent
        steps.reverse()
        return steps

    def __repr__(self) -> str:
        return f"State(depth={self.depth}, {self.operation or 'input'})"


def detached_step(parent: State, step: State, key: Hashable, operands: tuple[int, ...]) -> State:
    """Returns a copy of ``step`` after ``parent`` that is in no trie."""
    state = State(parent, key, step.operation, operands, step.avals, step.devices)
    state.program, state.call = step.program, step.call
    return state


def needs_own_program(operation: Operation, state: State) -> bool:
    """Whether ``operation`` or an operation of ``state`` needs its own program."""
    return state.has_own_program or (operation.weight >= OWN_PROGRAM_WEIGHT and state.operations > 0)


class Root(State):
    """The start of all traces that are opened under one configuration of JAX.

    Attributes:
      placement: :func:`lazynb.jax_compat.placement_context` of the traces (64-bit mode, default device,
        mesh).
      config: the configuration, restored to compile a trace under another one.
      loops: starts of the pieces of divided loops, by content of a piece.
    """

    __slots__ = ("config", "loops", "placement")

    def __init__(self, placement: Hashable, config: Any):
        super().__init__(None, None, None, (), (), None)
        self.placement = placement
        self.config = config
        self.loops: dict[Hashable, LoopStart] = {}

    def loop(self, content: tuple[Hashable, ...], length: int) -> LoopStart:
        """Returns the start of loop pieces with ``content`` and ``length`` operations."""
        known = self.loops.get(content)
        if known is not None:
            return known
        if len(self.loops) >= MAX_LOOPS:
            for start in self.loops.values():
                start.is_kept = False
            self.loops.clear()
        return self.loops.setdefault(content, LoopStart(self, content, length))


MAX_LOOPS = 64
"""Number of loops that a root keeps."""


class LoopStart(State):
    """The start of the pieces of a divided loop (:mod:`lazynb.recording.loops`).

    It is separate from the root, so other traces are not cut where the pieces end.

    Attributes:
      root, is_kept: its root, and whether the root still keeps it.
      content, length: the content of each piece, and its number of operations.
      ends: known ends of pieces, at which recording continues in the next piece.
    """

    __slots__ = ("content", "ends", "is_kept", "length", "root")

    def __init__(self, root: Root, content: tuple[Hashable, ...], length: int):
        super().__init__(None, None, None, (), (), None)
        self.root = root
        self.is_kept = True
        self.content = content
        self.length = length
        self.ends: weakref.WeakSet[State] = weakref.WeakSet()


class Trie:
    """All recorded traces, by root.

    Attributes:
      roots: the roots, by identity of JAX's configuration.
      size: number of states, without the roots.
      pending_ends: a function that returns the ends of pending traces, which are not pruned.
      kept: the last paths that were recorded but run as another path, see
        :meth:`lazynb.recording.pending_trace.PendingTrace.resolve_shardings`.
      divided: division plans of the last full traces by their ends
        (:class:`lazynb.recording.loops.division_plan.DivisionPlan`); None for a trace that cannot be divided.
        Their paths are kept, so the code is recorded and divided quickly when it runs again.
    """

    def __init__(self, pending_ends: Callable[[], Iterable[State]] = tuple) -> None:
        self.divided: collections.OrderedDict[State, Any] = collections.OrderedDict()
        self.kept: collections.OrderedDict[State, None] = collections.OrderedDict()
        self.roots: dict[Hashable, Root] = {}
        self.size = 0
        self.pending_ends = pending_ends

    def root(self, identity: Hashable, placement: Hashable, config: Any) -> Root:
        """Returns the root of the configuration ``identity``; ``config`` returns that configuration, for a
        new root."""
        root = self.roots.get(identity)
        if root is None:
            root = self.roots[identity] = Root(placement, config())
        return root

    def extend(
        self,
        parent: State,
        key: Hashable,
        operation: Operation | None,
        operands: tuple[int, ...],
        avals: tuple[Any, ...],
        devices: tuple[Any, ...] | None,
    ) -> State:
        """Adds a step after ``parent``."""
        state = State(parent, key, operation, operands, avals, devices)
        parent.children[key] = state
        self.size += 1
        twin = parent.get_constant_variant
        if twin is not None and key in twin.children:
            state.constant_variant = weakref.ref(twin.children[key])
        return state

    def copy(self, root: Root, steps: Sequence[State]) -> tuple[State, dict[int, int]]:
        """Adds the path of ``steps`` alone.

        Each input comes directly before its first use. Names of jitted functions are dropped. Returns the end
        of the path, and the new slots by the old ones.
        """
        state, moved = self._follow(root, steps, self.step_like)
        assert state is not None
        return state, moved

    def find(self, root: Root, steps: Sequence[State]) -> tuple[State | None, dict[int, int]]:
        """Looks the path up as :meth:`copy` does, but adds nothing; the end is None if it does not exist."""
        return self._follow(root, steps, lambda parent, step, key, operands: parent.children.get(key))

    @staticmethod
    def _follow(
        root: Root,
        steps: Sequence[State],
        after: Callable[[State, State, Hashable, tuple[int, ...]], State | None],
    ) -> tuple[State | None, dict[int, int]]:
        """Returns the end of the path of ``steps`` alone, and the new slots by the old ones. ``after``
        returns the next state, for a step with its new key and operands."""
        state: State = root
        moved: dict[int, int] = {}
        inputs = {step.first: step for step in steps if step.operation is None}
        for step in steps:
            if step.operation is None:
                continue
            for slot in step.operands:
                if slot not in moved:
                    moved[slot] = state.slots
                    following = after(state, inputs[slot], inputs[slot].key, ())
                    if following is None:
                        return None, moved
                    state = following
            operands = tuple([moved[slot] for slot in step.operands])
            moved.update(
                (slot, state.slots + result) for result, slot in enumerate(range(step.first, step.slots))
            )
            following = after(state, step, (step.operation.canonical, operands), operands)
            if following is None:
                return None, moved
            state = following
        return state, moved

    def step_like(self, parent: State, step: State, key: Any, operands: tuple[int, ...]) -> State:
        """Returns the state after ``parent`` for the same step as ``step``."""
        state = parent.children.get(key)
        if state is None:
            operation = key[0] if step.operation is not None else None
            state = self.extend(parent, key, operation, operands, step.avals, step.devices)
            state.program, state.call = step.program, step.call
        return state

    def prune(self, state: State) -> None:
        """Removes ``state`` and then each parent that only it needed.

        A state stays if it is in use, has children or holds an executable.
        """
        ends: Iterable[State] | None = None
        while state.parent is not None and not (state.children or state.executables):
            if ends is None:  # called once, and only if a state may be removed
                ends = self.pending_ends()
            if state in ends or state in self.divided or state in self.kept:
                return
            parent = state.parent
            for start in state.edge_sources:
                start.forget(state)
            if parent.children.get(state.key) is state:
                del parent.children[state.key]
                self.size = max(0, self.size - 1)
            state = parent

    def keep_path(self, end: State) -> None:
        """Keeps the path to ``end`` instead of the oldest kept path, so that its code is recorded quickly."""
        self.kept.pop(end, None)
        self.kept[end] = None
        if len(self.kept) > MAX_DIVIDED:
            oldest, _ = self.kept.popitem(last=False)
            self.prune(oldest)

    def keep_divided(self, end: State, plan: Any) -> None:
        """Keeps the path of a trace divided by ``plan`` instead of the oldest one."""
        self.divided.pop(end, None)
        self.divided[end] = plan
        if len(self.divided) > MAX_DIVIDED:
            oldest, _ = self.divided.popitem(last=False)
            self.prune(oldest)

    def clear(self) -> None:
        """Drops all traces. A pending trace keeps its path."""
        self.roots.clear()
        self.divided.clear()
        self.kept.clear()
        self.size = 0
