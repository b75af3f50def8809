"""Open blocks of all threads, in the order of entry: regions in which a thread records or runs eagerly.

All other state follows from this list:

- JAX's names are substituted while a block of a living thread records, and inactive otherwise.
- When a block ends, its thread gets the current trace from before the block, or from before the blocks that
  ended in between.
- The newest block with a ``strict`` setting decides whether trace breaks are errors.

Bodies of generators and asyncio tasks end in any order. A block may be left in another thread, or never,
because its thread has ended or an interrupt came between the body and its ``__exit__``. So the list holds
weak references, and each step can be repeated. Each entry and exit of a block also completes an earlier one
that was interrupted.
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
from lazynb.jax_compat import fork_locks
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
      needs_trace_reset: whether the current trace must be set again, because a block ended in another thread.
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
    return _here.reference


def _no_task() -> None:
    return None


class Block:
    """A region of the program, open while it is in :data:`blocks`.

    Attributes:
      trace: the current trace in it; None inside of a JAX transformation (``jit``, ``grad``), which has its
        own.
      before: the current trace after it.
      strict: whether trace breaks are errors in it; None for the setting around it.
      owner: the thread that entered it.
      task: returns the asyncio task that entered it, if any.
      key: its key in the list; 0 before it is entered.
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
        """Whether it belongs to a waiting task that will continue in it."""
        task = self.task()
        return task is not None and not task.done() and task is not current_task()


def current_task() -> Any:
    """Returns the asyncio task that runs in this thread, or None."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    return asyncio.current_task()


def _record(blocks: Sequence[Block]) -> bool:
    return any([type(block.trace) is LazyTrace for block in blocks])


def _trace_for(blocks: Sequence[Block]) -> Any:
    """Returns the trace that must be current while ``blocks`` are open in a thread."""
    for block in reversed(blocks):
        if block.trace is not None:
            return block.trace
    return jc.eval_trace


class _Ref(weakref.ref[Block]):
    """A block in the list. It keeps the owner of a freed block."""

    __slots__ = ("owner",)
    owner: weakref.ref[_Thread]


_ambient = jc.trace_state  # its value is the current trace

_LOCK_TIMEOUT = 2.0
"""Seconds to wait while another thread switches names, which takes 0.1 ms."""


class Blocks:
    """The open blocks."""

    def __init__(self) -> None:
        # Without a lock, because a collected generator leaves its block at any time. Each change is one C
        # call. A thread whose state differs from the list corrects its state.
        self._refs: dict[int, _Ref] = {}
        self._keys = itertools.count(1)
        self._switching = fork_locks.reentrant_lock()
        # Returns the blocks with an interrupted ``__exit__``; set by ``lazy_mode``.
        self.missed: Callable[[], Sequence[Block]] = list

    # ---- Entry and exit of blocks --------------------------------------------------------------------------
    # Each method may be interrupted anywhere and repeated.

    def enter(self, block: Block) -> None:
        """Opens ``block`` in this thread."""
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
        """Whether the state of this thread may differ from that of its open blocks."""
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
        """Whether ``block`` is the only block of this thread that records."""
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
        """Sets the current trace to that of the open blocks, also after an interrupted transformation.

        Call it between programs, when no JAX code runs.
        """
        _here.thread.needs_trace_reset = True
        self._repair()

    def make_current(self) -> None:
        """Makes the trace of this thread's open blocks current. Call it if no trace is current.

        Without a current trace no primitive can be bound. ``Primitive.bind`` (JAX 0.12) removes the current
        trace one line before the ``try`` that restores it: an interrupt in between leaves none.
        """
        jc.set_trace(_trace_for(self._sync_thread()))

    def end_all(self) -> None:
        """Ends the blocks of all threads: all names of JAX are its own again, and no thread records."""
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
        """Notes that a block was freed without an exit, by garbage collection or an early interrupt."""
        if not sys.is_finalizing():
            owner = ref.owner()
            if owner is not None:
                owner.needs_trace_reset = True
                self._update_recorder(owner)
            self._repair()

    # ---- State that follows from the list ------------------------------------------------------------------

    def of(self, thread: Any) -> list[Block]:
        """Returns the open blocks of a thread in the order of entry."""
        if not self._refs:
            return []
        refs = list(self._refs.values())
        return [block for ref in refs if ref.owner() is thread and (block := ref()) is not None]

    def substitute(self) -> None:
        """Substitutes JAX's names if some thread records; otherwise restores them."""
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
        """Restores JAX's names where inactive substitutes are left, unless some thread records."""
        lock = self._locked()
        try:
            if not self._some_record():
                patches.put_back()
        finally:
            lock.release()

    def _locked(self) -> Any:
        """Returns the lock for the switch of names, acquired."""
        lock = self._switching
        if not lock.acquire(False) and not lock.acquire(timeout=_LOCK_TIMEOUT):
            self._switching = lock = fork_locks.reentrant_lock()  # an interrupt left the old lock locked
            lock.acquire()
        return lock

    def _drop_dead(self) -> None:
        """Removes freed blocks and blocks of ended threads from the list."""
        for key, ref in list(self._refs.items()):
            if ref() is None or ref.owner() is None:
                self._refs.pop(key, None)

    def _some_record(self) -> bool:
        if not self._refs:
            return False
        for ref in list(self._refs.values()):
            block = ref()
            if block is not None and type(block.trace) is LazyTrace and ref.owner() is not None:
                return True
        return False

    def _repair(self) -> None:
        self._drop_dead()
        self._apply_state()

    def _apply_state(self) -> None:
        """Updates the state of this thread, and JAX's names, from the list."""
        for block in self.missed():
            self.leave(block)
        mine, thread, trace = self._sync_thread(), _here.thread, _ambient.value
        if (
            thread.needs_trace_reset
            or (trace is None and not jc.jax_is_on_stack())
            or (type(trace) is LazyTrace and thread.recorder.detached)
        ):
            self._restore(_trace_for(mine))
            thread.needs_trace_reset = False

    def _sync_thread(self) -> list[Block]:
        """Substitutes names and updates this thread's recorder. Returns the open blocks of this thread."""
        self.substitute()
        jc.config_changes.count += 1  # changes are not counted while no thread is lazy
        return self._update_recorder(_here.thread)

    def _update_recorder(self, thread: _Thread) -> list[Block]:
        """Sets ``detached`` and ``strict`` of a thread's recorder. Returns the open blocks of the thread."""
        mine, recorder = self.of(thread), thread.recorder
        strict, stray = False, True
        for block in mine:
            if block.strict is not None:
                strict = block.strict
            if type(block.trace) is LazyTrace:
                stray = False
        recorder.detached, recorder.strict = stray, strict
        return mine

    @staticmethod
    def _valid_trace(trace: Any, blocks: list[Block]) -> Any:
        """Returns ``trace`` if it may be current while ``blocks`` are open, else the evaluating trace."""
        if trace is None or (type(trace) is LazyTrace and not _record(blocks)):
            return jc.eval_trace
        return trace

    @staticmethod
    def _restore(trace: Any) -> None:
        """Makes ``trace`` current, unless a JAX transformation runs, which has its own trace."""
        now = _ambient.value
        if type(now) is LazyTrace or jc.is_eval(now) or not jc.jax_is_on_stack():
            jc.set_trace(trace)


blocks = Blocks()
patches.rest.end = blocks.put_back
LazyTrace.make_current = staticmethod(blocks.make_current)
atexit.register(blocks.end_all)
