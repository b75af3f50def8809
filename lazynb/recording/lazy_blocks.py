"""Open blocks: the stretches of program that record or run at once, of all threads, in the order of entry.

Everything else follows from the list of them:

- JAX's names are substituted if a block of a living thread records. When none does, the substitutes rest.
- When a block ends, the current trace of its thread is the one from before the block, or from before the
  blocks that ended in between.
- The newest block that has the setting says whether trace breaks are errors.

Bodies of generators and of asyncio's tasks end in any order. A block may be left in another thread. It may
also never be left, because its thread has ended, or because an interrupt came between the body and the
block's end. So the list holds weak references, and each step can be done again. Each entry and exit of a
block also completes an earlier one that was interrupted.
"""

from __future__ import annotations

import atexit
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.recording.runtime_interface import runtime


def _concrete(leaf: Any) -> Any:
    return leaf._force("compiled") if isinstance(leaf, LazyTensor) else leaf


patches = jc.JaxPatches(lambda trace: isinstance(trace, LazyTrace), _concrete)


class _Thread:
    """A thread. The object is freed when the thread ends.

    Attributes:
      recorder: the recorder of the thread.
      needs_trace_reset: whether the current trace must be set again, because one of the blocks ended outside
      the thread.
    """

    def __init__(self) -> None:
        self.recorder = thread_trace()
        self.needs_trace_reset = False


class _ThreadLocalRef(threading.local):
    def __init__(self) -> None:
        self.thread = _Thread()
        self.reference = weakref.ref(self.thread)
        _threads.add(weakref.ref(self.thread, _ended))


def _ended(thread: weakref.ref[_Thread]) -> None:
    _threads.discard(thread)
    if not sys.is_finalizing():
        blocks.substitute()


_threads: set[weakref.ref[_Thread]] = set()
_here = _ThreadLocalRef()


def current_thread_ref() -> weakref.ref[_Thread]:
    """A reference to this thread."""
    return _here.reference


def _no_task() -> None:
    return None


class Block:
    """A stretch of program. It is open as long as it is in :data:`blocks`.

    Attributes:
      trace: the current trace in it; None inside a transformation of JAX's (``jit``, ``grad``), which has a
        trace of its own.
      before: the current trace after it.
      strict: whether trace breaks are errors in it; None to keep the setting around it.
      owner: the thread that entered it.
      task: gives asyncio's task that entered it, if any.
      key: its key in the list; 0 if it was never entered.
    """

    __slots__ = ("__weakref__", "before", "key", "owner", "strict", "task", "trace")

    def __init__(self, trace: Any, strict: bool | None = None):
        self.trace = trace
        self.strict = strict
        self.before: Any = jc.eval_trace
        self.owner = _here.reference
        self.task: Any = _no_task
        self.key = 0

    def suspended(self) -> bool:
        """Whether it belongs to a task that waits and will continue in it."""
        task = self.task()
        return task is not None and not task.done() and task is not current_task()


def current_task() -> Any:
    """The task of asyncio's that runs in this thread; returns None if no task runs."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    return asyncio.current_task()


def _record(blocks: Sequence[Block]) -> bool:
    """Whether one of ``blocks`` records."""
    return any([block.trace.__class__ is LazyTrace for block in blocks])


def _trace_for(blocks: Sequence[Block]) -> Any:
    """The trace that must be current while ``blocks`` are open in a thread."""
    for block in reversed(blocks):
        if block.trace is not None:
            return block.trace
    return jc.eval_trace


class _Ref(weakref.ref[Block]):
    """A block in the list. It keeps the owner of a block that has been freed."""

    __slots__ = ("owner",)
    owner: weakref.ref[_Thread]


_ambient = jc.trace_state  # its value is the current trace

_LOCK_TIMEOUT = 2.0
"""Seconds to wait while another thread switches names, which takes 0.1 ms."""


class Blocks:
    """The open blocks."""

    def __init__(self) -> None:
        # No lock protects it, because a generator that is collected leaves its block at any time. Each change
        # is one call of C's. A thread whose state differs from what follows from the list corrects it.
        self._refs: dict[int, _Ref] = {}
        self._keys = itertools.count(1)
        self._switching = threading.RLock()
        # Gives the blocks whose end was interrupted before it began; set by the module of the regions.
        self.missed: Callable[[], Sequence[Block]] = list

    # ---- entering and leaving: each may be interrupted anywhere, and done again ----------------------------

    def enter(self, block: Block) -> None:
        """Opens ``block``, in this thread."""
        runtime().on_block_enter()
        if self._may_be_inconsistent():
            self._repair()
        task = current_task()
        if task is not None:
            block.task = weakref.ref(task)
        block.before = _ambient.value
        ref = _Ref(block, self._on_block_freed)
        ref.owner = block.owner
        block.key = next(self._keys)
        self._refs[block.key] = ref
        self._sync_thread()
        if block.trace is not None:
            jc.set_trace(block.trace)

    def leave(self, block: Block) -> None:
        """Ends ``block``, in any order and thread; does nothing if it has ended."""
        owner = block.owner()
        if owner is not None:
            self._leave_trace(block, owner)
        self._refs.pop(block.key, None)
        if owner is not None and owner is not _here.thread:
            self._update_recorder(owner)
        self._apply_state()

    def _may_be_inconsistent(self) -> bool:
        """Whether this thread may be in another state than what its open blocks say."""
        trace, thread = _ambient.value, _here.thread
        if trace is jc.eval_trace:
            return thread.needs_trace_reset
        recorder = thread.recorder
        return (
            trace is not recorder
            or recorder.detached
            or thread.needs_trace_reset
            or sys.exception() is not None
        )

    def _leave_trace(self, block: Block, owner: _Thread) -> None:
        """Makes the trace from before ``block`` current, now or when the later blocks end."""
        mine = self.of(owner)
        if block not in mine or block.trace is None:
            return
        later = [other for other in mine[mine.index(block) + 1 :] if other.trace is not None]
        if later:
            if later[0].before is block.trace:
                later[0].before = block.before
        elif owner is _here.thread:
            before = block.before
            if before is not jc.eval_trace:
                before = self._valid_trace(before, [other for other in mine if other is not block])
            self._restore(before)
        else:
            owner.needs_trace_reset = True

    def is_outermost(self, block: Block) -> bool:
        """Whether no other block of this thread records, and ``block`` does."""
        return [other for other in self.of(_here.thread) if _record([other])] == [block]

    def end_after(self, block: Block) -> None:
        """Ends ``block`` and the later blocks of this thread, except those of tasks that will continue."""
        mine = self.of(_here.thread)
        later = mine[mine.index(block) + 1 :] if block in mine else []
        for other in reversed(later):
            if not other.suspended():
                self.leave(other)
        self.leave(block)

    def reset(self) -> None:
        """Sets the current trace to that of the open blocks, even if an interrupt cut a transformation short.

        To be called between programs, when no code of JAX's runs.
        """
        _here.thread.needs_trace_reset = True
        self._repair()

    def make_current(self) -> None:
        """Makes the trace of this thread's open blocks current. To be called if no trace is current.

        Without a current trace no primitive can be bound. ``Primitive.bind`` (JAX 0.12) takes the current
        trace away, and prepares to put it back one line later: an interrupt between the two leaves none.
        """
        jc.set_trace(_trace_for(self._sync_thread()))

    def end_all(self) -> None:
        """Ends the blocks of all threads: every name of JAX's is JAX's own, and no thread records."""
        if sys.is_finalizing():
            return
        owners: dict[int, _Thread] = {}
        for ref in list(self._refs.values()):
            owner = ref.owner()
            if owner is not None:
                owners[id(owner)] = owner
        self._refs.clear()
        for owner in owners.values():
            owner.needs_trace_reset = True
            self._update_recorder(owner)
        self._repair()
        self.put_back()

    def _on_block_freed(self, ref: _Ref) -> None:
        """Notes that a block was freed without its end.

        Its holder was collected, or an interrupt came before its end began.
        """
        if not sys.is_finalizing():
            owner = ref.owner()
            if owner is not None:
                owner.needs_trace_reset = True
                self._update_recorder(owner)
            self._repair()

    # ---- the consequences of the list ----------------------------------------------------------------------

    def of(self, thread: Any) -> list[Block]:
        """The open blocks of a thread, in the order of entry."""
        if not self._refs:
            return []
        refs = list(self._refs.values())
        return [block for ref in refs if ref.owner() is thread and (block := ref()) is not None]

    def substitute(self) -> None:
        """Substitutes JAX's names if some thread records, otherwise JAX's own are there."""
        lock = self._locked()
        try:
            while True:
                wanted = self._some_record()
                fast = wanted and config.substitute_names
                if patches.on is wanted and patches.fast is fast:
                    break
                patches.switch(wanted, fast)
        finally:
            lock.release()

    def put_back(self) -> None:
        """Puts JAX's own names back where substitutes rest, unless some thread records."""
        lock = self._locked()
        try:
            if not self._some_record():
                patches.put_back()
        finally:
            lock.release()

    def _locked(self) -> Any:
        """The lock under which names are switched, taken."""
        lock = self._switching
        if not lock.acquire(False) and not lock.acquire(timeout=_LOCK_TIMEOUT):
            self._switching = lock = threading.RLock()  # an interrupt left the other one locked
            lock.acquire()
        return lock

    def _drop_dead(self) -> None:
        """Takes the blocks that were freed or whose thread has ended out of the list."""
        for key, ref in list(self._refs.items()):
            if ref() is None or ref.owner() is None:
                self._refs.pop(key, None)

    def _some_record(self) -> bool:
        if not self._refs:
            return False
        for ref in list(self._refs.values()):
            block = ref()
            if block is not None and block.trace.__class__ is LazyTrace and ref.owner() is not None:
                return True
        return False

    def _repair(self) -> None:
        """Drops what has ended, and settles the rest."""
        self._drop_dead()
        self._apply_state()

    def _apply_state(self) -> None:
        """Makes the state of this thread, and that of JAX's names, follow from the list."""
        for block in self.missed():
            self.leave(block)
        mine, thread, trace = self._sync_thread(), _here.thread, _ambient.value
        if (
            thread.needs_trace_reset
            or (trace is None and not jc.jax_is_on_stack())
            or (trace.__class__ is LazyTrace and thread.recorder.detached)
        ):
            self._restore(_trace_for(mine))
            thread.needs_trace_reset = False

    def _sync_thread(self) -> list[Block]:
        """Substitutes names, and sets up this thread's recorder. Returns the open blocks of this thread."""
        self.substitute()
        jc.config_changes.count += 1  # changes are not counted while no thread is lazy
        return self._update_recorder(_here.thread)

    def _update_recorder(self, thread: _Thread) -> list[Block]:
        """Sets whether a thread's recorder records, and whether trace breaks are errors in it.

        Returns the open blocks of the thread.
        """
        mine, recorder = self.of(thread), thread.recorder
        strict, stray = False, True
        for block in mine:
            if block.strict is not None:
                strict = block.strict
            if block.trace.__class__ is LazyTrace:
                stray = False
        recorder.detached, recorder.strict = stray, strict
        return mine

    @staticmethod
    def _valid_trace(trace: Any, blocks: list[Block]) -> Any:
        """``trace``, if it may be current while ``blocks`` are open; otherwise the evaluating trace."""
        if trace is None or (trace.__class__ is LazyTrace and not _record(blocks)):
            return jc.eval_trace
        return trace

    @staticmethod
    def _restore(trace: Any) -> None:
        """Makes ``trace`` current, unless a transformation of JAX's runs, which has its own."""
        now = _ambient.value
        if now.__class__ is LazyTrace or jc.is_eval(now) or not jc.jax_is_on_stack():
            jc.set_trace(trace)


blocks = Blocks()
patches.rest.end = blocks.put_back
LazyTrace.make_current = staticmethod(blocks.make_current)
atexit.register(blocks.end_all)
