"""The pending traces of one thread: one open trace for each set of devices, and the sealed traces."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from lazynb import jax_compat as jc
from lazynb.jax_compat import fork_locks
from lazynb.recording.input_protection import restore_lost_donation
from lazynb.recording.loops.trace_division import Division
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trace_registry import trie
from lazynb.recording.trie import Root
from lazynb.recording.value_placement import committed_devices

if TYPE_CHECKING:
    from lazynb.recording.argument_donation import DonatedArguments
    from lazynb.recording.lazy_trace import LazyTrace

_MIN_SEALED_TO_SWEEP = 8
"""The minimal number of sealed traces at which dead ones are searched."""


class _ConfigTokens:
    """Maps JAX's configuration, a tuple of fifty settings, to a small token."""

    __slots__ = ("full", "token")

    _known: dict[Any, int] = {}  # shared by all threads, because they share the operations
    _by_context: dict[Any, int] = {}  # by JAX's own tuple, so a mode that comes and goes costs one look-up
    _tokens = itertools.count()

    def __init__(self) -> None:
        self.full: Any = None
        self.token: Any = None

    def now(self) -> Any:
        """Returns the token of the current configuration. Equal configurations have the same token."""
        full = jc.context()
        if full != self.full:
            token = self._by_context.get(full)
            if token is None:
                token = self._known.setdefault(jc.canonical_context(full), next(self._tokens))
                self._by_context[full] = token
            self.full, self.token = full, token
        return self.token


class OpenTraces(jc.Trace):
    """The pending traces of one thread.

    Attributes:
      pending: the trace that operations are appended to.
      sealed: the other pending traces with live tensors: sealed ones, and those open for other devices. There
        is one open trace for each set of devices.
      cut_by: the kind and line of the trace break that ended the previous trace; None at the start of a cell
        or body.
      detached: whether the thread has stopped recording. JAX may still use the recorder, because another
        thread ended the thread's last block or JAX made the recorder current again. Operations then run at
        once.
      in_hook: whether a hook of ``sys.setprofile``, ``sys.settrace`` or ``sys.monitoring`` runs, see
        :mod:`lazynb.recording.replay.python_replay`.
      default_devices: where uncommitted operations of the current call are recorded; None for JAX's default
        device.
      donation: the arguments that the last donating call donated.
    """

    detached = False
    in_hook: Callable[[], bool]
    default_devices: tuple[Any, ...] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.lock = fork_locks.reentrant_lock()
        self.pending: PendingTrace | None = None
        self.sealed: list[PendingTrace] = []
        self.cut_by: Any = None
        self.donation: DonatedArguments | None = None
        self._live_after_sweep = _MIN_SEALED_TO_SWEEP
        self._context = _ConfigTokens()
        self._raw: Any = None
        self._recalls = False  # whether calls may be replayed under the last root's configuration
        self._counted = -1  # the value of ``changes.count`` for which ``_recalls`` was set
        self._root_key: Any = None
        self._last_root = Root((), None)  # a root outside of the trie

    @property
    def runs_at_once(self) -> bool:
        """Whether the operations of the running code run at once. Those of a hook do, as it may be called
        within a step of the recorder."""
        return self.detached or self.in_hook()

    def open(self) -> PendingTrace:
        """Returns the trace to append to under the current placement, and begins one if needed."""
        pending = self.pending
        if pending is None or pending.open_state is None or pending.root.placement != jc.placement_context():
            pending = self.seal()
        return pending

    def trace_for_devices(self, args: Sequence[Any], devices: tuple[Any, ...] | None = None) -> PendingTrace:
        """Returns the open trace for an operation on ``args``, and makes it :attr:`pending`.

        Its devices are ``devices``, or those to which one of ``args`` is committed. If the operation names
        other devices itself, recording its step raises
        :class:`~lazynb.recording.operation_step.NeedsOtherTrace`.
        """
        pending = self.open()
        if not jc.has_several_devices():
            return pending
        devices = devices or next(filter(None, (committed_devices(arg, self) for arg in args)), None)
        wanted = devices or next(iter(jc.current_mesh_devices()), None) or (jc.default_device(),)
        program = pending.state.program
        if program == wanted or (program is None and not self.other_open_traces(pending)):
            return pending
        if devices is None and self._open_trace_on(wanted) is None:
            return pending
        return self._switch_to_devices(wanted)

    @contextlib.contextmanager
    def recording_on(self, devices: tuple[Any, ...] | None) -> Iterator[None]:
        """Records uncommitted operations on ``devices``, see :attr:`default_devices`."""
        before, self.default_devices = self.default_devices, devices
        try:
            yield
        finally:
            self.default_devices = before

    def other_open_traces(self, pending: PendingTrace) -> list[PendingTrace]:
        """Returns the other open traces, which run on other devices; none if ``pending`` is sealed."""
        if pending.open_state is None or not (self.sealed or pending is not self.pending):
            return []
        opened = (*self.sealed, self.pending)
        return [
            other
            for other in opened
            if other is not None and other.open_state is not None and other is not pending
        ]

    def _open_trace_on(self, devices: tuple[Any, ...]) -> PendingTrace | None:
        """Returns the open trace on ``devices`` under the current placement, or None."""
        placement = jc.placement_context()
        for other in reversed(self.sealed):
            if (
                other.open_state is not None
                and other.open_state.program == devices
                and other.root.placement == placement
            ):
                return other
        return None

    def _switch_to_devices(self, devices: tuple[Any, ...] | None = None) -> PendingTrace:
        """Makes the open trace on ``devices`` the current one, or begins it. The present trace stays open.
        Without ``devices`` the present trace is sealed and a new one begins."""
        if devices is None:
            return self.seal()
        other, pending = self._open_trace_on(devices), self.pending
        if other is None:
            return self._begin()
        assert pending is not None
        rest = [*(one for one in self.sealed if one is not other), pending]
        self.pending, self.sealed = other, rest  # one statement, so no signal is handled in between
        return other

    def _before_callback(self, pending: PendingTrace) -> PendingTrace:
        """Returns a trace that begins with the callback. Earlier traces run, as it may read their values."""
        if len(pending) or self.other_open_traces(pending):
            self._seal_opened()
            pending = self.seal()
        pending.calls_back = True
        return pending

    def _begin_separate(self) -> PendingTrace:
        """Begins a separate trace for one operation. It is not counted as a trace break."""
        following = self._switch_to_devices()
        following.cut_by = None
        return following

    def seal(self) -> PendingTrace:
        """Seals the current trace, which stays pending, and begins a new one."""
        if self.pending is not None:
            self.pending.seal()
        return self._begin()

    def _seal_opened(self) -> None:
        for pending in self.sealed:
            pending.seal()

    def _begin(self) -> PendingTrace:
        """Begins a trace. The current one is kept, sealed or open for its devices."""
        if self.pending is not None and not self.pending.closed:
            self.sealed.append(self.pending)
        if self.sealed:
            self._close_dead_sealed()
        count = jc.config_changes.count
        root = self._root(count)
        pending = PendingTrace(cast("LazyTrace", self), trie, root, self._raw)
        pending.cut_by = self.cut_by
        if self._recalls and not self.detached:
            pending.config_epoch = count  # the result that ``is_config_unchanged`` would compute
        self.pending = pending
        return pending

    def _close_dead_sealed(self) -> None:
        restore_lost_donation(self)
        live = []
        for earlier in self.sealed:
            if earlier.has_live():
                live.append(earlier)
            else:
                earlier.close()
        self.sealed = live
        self._live_after_sweep = max(len(live), _MIN_SEALED_TO_SWEEP)

    def next_piece(self, pending: PendingTrace) -> None:
        """Begins the next piece of the loop after ``pending``, under the same configuration.

        JAX's current configuration may differ: PyTorch operations are replayed without 64-bit mode.
        """
        loop = pending.loop
        pending.seal()
        if loop is None or not loop.is_kept:
            following = self._begin()
        else:
            following = PendingTrace(cast("LazyTrace", self), trie, pending.root, pending.context, loop)
            following.config_epoch = pending.config_epoch
            self.sealed.append(pending)
            if len(self.sealed) >= 2 * self._live_after_sweep:
                self._close_dead_sealed()
            self.pending = following
        following.cut_by = pending.cut_by

    def install_pieces(self, whole: PendingTrace, division: Division) -> None:
        """Replaces ``whole`` by its pieces and records on in the last one. An interrupt loses nothing."""
        self.sealed += [whole, *division.pieces[:-1]]
        self.pending = division.pieces[-1]
        try:
            division.move_tensors()
        except BaseException:
            division.move_tensors()
            raise
        self.sealed.remove(whole)
        whole.close()

    def _root(self, count: int) -> Root:
        """Returns the root of JAX's configuration, of which there were ``count`` changes. Sets ``_raw`` to
        the configuration if calls may be replayed under it."""
        same = count == self._counted and self._recalls and not self.detached
        if same and trie.roots.get(self._root_key) is self._last_root:
            return self._last_root
        raw = jc.raw_context()
        if self._raw != raw or trie.roots.get(self._root_key) is not self._last_root:
            placement = jc.placement_context()
            self._root_key = (placement, self._context.now())
            self._last_root = trie.root(self._root_key, placement, jc.snapshot_config)
            self._raw = raw if jc.has_no_axis_env() else None
        self._recalls = self._raw is not None and not jc.must_run_eagerly()
        self._counted = count
        return self._last_root

    def resume(self, pending: PendingTrace) -> None:
        """Reopens ``pending``, whose run failed, unless a newer trace has begun."""
        if pending is self.pending:
            pending.unseal()

    def context_token(self) -> Any:
        """Returns the token of JAX's configuration for the key of an operation."""
        return self._context.now()

    def cut(self) -> None:
        """Makes the next operation begin a new trace. Pending operations stay pending.

        Notebook cells are cut from each other, so the programs of a cell depend only on its own text: a cell
        that runs again is a cache hit.
        """
        self.cut_by = None
        if not self.sealed and (self.pending is None or self.pending.closed):
            return
        with self.lock:
            self._seal_opened()
            pending = self.pending
            if pending is None or pending.closed:
                return
            # The new trace gets the root of the current configuration, so the same cell has the same root.
            configured = pending.root in trie.roots.values() and self._raw == jc.raw_context()
            if len(pending) or pending.loop is not None or not configured:
                pending = self.seal()
            pending.seal()  # nothing is recorded until the next operation begins a trace

    def close_dead(self) -> None:
        """Closes traces without live tensors, the newest first, because it may hold results of older ones."""
        if not self.sealed:
            return
        restore_lost_donation(self)
        with self.lock:
            for pending in (self.pending, *reversed(self.sealed)):
                if pending is not None and not pending.has_live():
                    pending.close()

    def all_pending(self) -> list[PendingTrace]:
        """Returns the traces that have operations and live tensors, the oldest first."""
        waiting = []
        for pending in (*self.sealed, self.pending):
            if pending is not None and len(pending) and pending.has_live():
                waiting.append(pending)
        return waiting
