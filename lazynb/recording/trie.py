"""The trie of recorded traces.

A pending trace is a path from a root. Each state stands for the steps that lead to it, and it remembers the
avals of the results. So a trace seen before costs one dictionary look-up for each operation, and no graph is
hashed or walked. Values are numbered in the order in which they appear (*slots*: inputs and results alike).
Operands are slots, which makes the key of a step canonical. The key of an operation needs no avals, because
the path determines them.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from lazynb.recording.operation import Operation

HOST = "host"
"""In the key of an input that is a number from Python, this takes the place of the sharding."""


class Constant:
    """A number that is written in the code; in the key of an input it takes the place of the sharding.

    Two are equal if they are the same to the bit, so that a step with it is right for whoever brings it.

    Attributes:
      value: the number, as a scalar of NumPy's.
      is_own: whether JAX's code brought it first, and no line of the user's.
    """

    __slots__ = ("_content", "is_own", "value")

    def __init__(self, value: Any, is_own: bool = False):
        self.value = value
        self.is_own = is_own
        self._content = (value.dtype.name, value.tobytes())

    def __hash__(self) -> int:
        return hash(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and other._content == self._content

    def __repr__(self) -> str:
        return f"Constant({self.value})"


class UnresolvedSharding(NamedTuple):
    """In the key of a pending input on several devices, this takes the place of the sharding, which XLA
    chooses with the program that computes it; see
    :meth:`lazynb.recording.pending_trace.PendingTrace.resolve_shardings`."""

    devices: tuple[Any, ...]


MAX_DIVIDED = 16
"""The number of divided traces whose paths are kept."""

MAX_EDGES = 256
"""The number of edges that a state keeps. A number that enters by its value has an edge for each value."""


OWN_PROGRAM_WEIGHT = 200
"""Weight of an operation that has a program of its own: a step of training under ``jax.jit``. It is compiled
once, as by eager JAX, whatever comes before and after it. One program with that saves a launch or two."""


class State:
    """One step of a recorded trace: an input or an operation.

    Attributes:
      parent: the state before; None at a root.
      key: the step's key in ``parent.children``.
      operation: the recorded operation; None for an input.
      operands: slots of its operands.
      avals: types of its results.
      first: slot of its first result.
      slots: number of slots after this step.
      depth: number of steps up to this one; the canonical number of the step is ``depth - 1``.
      operations: number of operations (not inputs) up to this one.
      inputs: number of inputs up to this one.
      devices: devices to which its results are committed; None if JAX may move them.
      program: devices on which the operations so far run; None before the first. One program runs on one set.
      call: the call of the user's that recorded the operation first: the same for others of that call.
      children: steps recorded after this one, by their keys.
      executables: the bindings of the trace that ends here, by the wanted slots, or by those and the donated
        inputs.
      large: the inputs that are worth donating, by the wanted slots.
      edges: the user's calls that were recorded from here before, see
      :mod:`lazynb.recording.replay.call_replay`. recent: the last of them that was made, for the accelerator:
      the edge and the parts of its key. None if
        the edges have changed since.
      edge_sources: states from which an edge leads here.
      weight: of the operations of the path, see :class:`lazynb.recording.operation.Operation`.
      has_own_program: whether one of them weighs much (:data:`HEAVY`). It is the only one.
      numbers: the constants that were seen here, by the place at which they are written; None at a place
        where a second value was seen, which is an input from then on. None if there are none.
      twin: a reference to the state that would be here had no number become an input; None if there is none.
      fingerprint: see :mod:`lazynb.recording.fingerprint`; not set until it is asked for.
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
        """Whether the step is an input that comes as a number from Python or NumPy."""
        if self.operation is not None or not isinstance(self.key, tuple):
            return False
        return self.key[1] is HOST or self.key[1].__class__ is Constant

    @property
    def constant(self) -> Constant | None:
        """The number that the step is, if it is written in the code."""
        if self.operation is not None or not isinstance(self.key, tuple):
            return None
        held = self.key[1]
        return held if held.__class__ is Constant else None

    @property
    def get_constant_variant(self) -> State | None:
        """The state that would be here had no number become an input; None if there is none."""
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
        """Removes the edges that lead to ``end``."""
        self.recent = None
        for key, edge in list(self.edges.items()):
            left = (None if edge[1] is end else edge) if type(edge) is tuple else edge.without(end)
            if left is None:
                del self.edges[key]
            else:
                self.edges[key] = left

    def path(self) -> list[State]:
        """The steps from the root to this state, without the root."""
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
    """The same step as ``step`` after ``parent``, in no trie."""
    state = State(parent, key, step.operation, operands, step.avals, step.devices)
    state.program, state.call = step.program, step.call
    return state


def needs_own_program(operation: Operation, state: State) -> bool:
    """Whether ``operation``, or what is recorded at ``state`` already, has a program of its own."""
    return state.has_own_program or (operation.weight >= OWN_PROGRAM_WEIGHT and state.operations > 0)


class Root(State):
    """The start of all traces that are opened under one configuration of JAX.

    Attributes:
      placement: :func:`lazynb.jax_compat.placement_context` under which the traces are recorded (64-bit mode,
        default device, mesh).
      config: that configuration, restored when a trace is compiled under another one.
      loops: by content of a piece, the start of the pieces of a loop that was divided.
    """

    __slots__ = ("config", "loops", "placement")

    def __init__(self, placement: Hashable, config: Any):
        super().__init__(None, None, None, (), (), None)
        self.placement = placement
        self.config = config
        self.loops: dict[Hashable, LoopStart] = {}

    def loop(self, content: Hashable, length: int) -> LoopStart:
        """The start of the pieces of ``length`` operations that have ``content``."""
        known = self.loops.get(content)
        if known is not None:
            return known
        if len(self.loops) >= MAX_LOOPS:
            for start in self.loops.values():
                start.is_kept = False
            self.loops.clear()
        return self.loops.setdefault(content, LoopStart(self, content, length))


MAX_LOOPS = 64
"""The number of loops that a root keeps."""


class LoopStart(State):
    """The start of the pieces of a divided loop (:mod:`lazynb.record.loops`).

    They have a start of their own, so that other traces are never cut where they end.

    Attributes:
      root: under which it is kept.
      is_kept: whether it is kept still.
      content: what each piece does.
      length: number of operations in each.
      ends: the known ends of pieces, at which recording goes on in the next.
    """

    __slots__ = ("content", "ends", "is_kept", "length", "root")

    def __init__(self, root: Root, content: Hashable, length: int):
        super().__init__(None, None, None, (), (), None)
        self.root = root
        self.is_kept = True
        self.content = content
        self.length = length
        self.ends: weakref.WeakSet[State] = weakref.WeakSet()


class Trie:
    """All recorded traces, by root.

    Attributes:
      roots: the roots, by the identity of the configuration under which the traces were opened.
      size: number of states, without the roots.
      ends: a function that gives the present ends of pending traces; these states are kept.
      kept: the last paths that were recorded and not run as they are, see
        :meth:`lazynb.recording.pending_trace.PendingTrace.resolve_shardings`.
      divided: how the last traces that were full were divided, by their ends (a
        :class:`lazynb.recording.loops.division_plan.DivisionPlan`), or None if they could not be. Their paths
        are kept, so that their code records and divides them quickly when it runs again.
    """

    def __init__(self) -> None:
        self.divided: collections.OrderedDict[State, Any] = collections.OrderedDict()
        self.kept: collections.OrderedDict[State, None] = collections.OrderedDict()
        self.roots: dict[Hashable, Root] = {}
        self.size = 0
        self.pending_ends: Callable[[], Iterable[State]] = tuple

    def root(self, identity: Hashable, placement: Hashable, config: Any) -> Root:
        """The root of the configuration ``identity``.

        Arguments:
          config: a function that gives the configuration; called if the root is new.
        """
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
        """The path of ``steps`` alone, as if nothing else had been recorded.

        Each input comes directly before the first step that uses it, and what jitted functions are called
        is left out. Returns the end of the path, and the new
        slots by the old ones.
        """
        state, moved = self._follow(root, steps, self.step_like)
        assert state is not None
        return state, moved

    def find(self, root: Root, steps: Sequence[State]) -> tuple[State | None, dict[int, int]]:
        """As :meth:`copy`, but adds nothing: the end is None if the path does not exist."""
        return self._follow(root, steps, lambda parent, step, key, operands: parent.children.get(key))

    @staticmethod
    def _follow(
        root: Root,
        steps: Sequence[State],
        after: Callable[[State, State, Hashable, tuple[int, ...]], State | None],
    ) -> tuple[State | None, dict[int, int]]:
        """The end of the path of ``steps`` alone, and the new slots by the old ones.

        Arguments:
          after: gives the state after another one, for a step with its new key and operands.
        """
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
        """The state after ``parent`` for the same step as ``step``."""
        state = parent.children.get(key)
        if state is None:
            operation = key[0] if step.operation is not None else None
            state = self.extend(parent, key, operation, operands, step.avals, step.devices)
            state.program, state.call = step.program, step.call
        return state

    def prune(self, state: State) -> None:
        """Removes ``state``, and then each parent that only it needed.

        A state stays if it is in use, has children or holds an executable.
        """
        ends: Iterable[State] | None = None
        while state.parent is not None and not (state.children or state.executables):
            ends = (
                self.pending_ends() if ends is None else ends
            )  # called once, and only if a state may be removed
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
        """Keeps the path to ``end``, in the place of the oldest one, so that its code records quickly."""
        self.kept.pop(end, None)
        self.kept[end] = None
        if len(self.kept) > MAX_DIVIDED:
            oldest, _ = self.kept.popitem(last=False)
            self.prune(oldest)

    def keep_divided(self, end: State, plan: Any) -> None:
        """Keeps the path of a trace that was divided by ``plan``, in the place of the oldest one."""
        self.divided.pop(end, None)
        self.divided[end] = plan
        if len(self.divided) > MAX_DIVIDED:
            oldest, _ = self.divided.popitem(last=False)
            self.prune(oldest)

    def clear(self) -> None:
        """Forgets all traces; a pending trace keeps its path."""
        self.roots.clear()
        self.divided.clear()
        self.kept.clear()
        self.size = 0
