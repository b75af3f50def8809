"""Open blocks: the stretches of program that record or run at once, of all threads, in the order in which
they were entered.

Everything else follows from the list of them: which names of JAX's are substituted (some block of a living
thread records), what the current trace of a thread is when one of its blocks ends (what was current before
it, or before those that ended in between), and whether trace breaks are errors. Bodies of generators and of
asyncio's tasks end in any order; a block may be left in another thread, or never: its owner is gone, or an
interrupt came between the body and the block's end. So the list holds weak references, each step can be done
again, and whoever enters or leaves a block mends what an earlier one left half done.
"""

from __future__ import annotations

import atexit
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lazynb import _jax_compat as jc
from lazynb.config import config
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace, thread_trace


def _concrete(leaf: Any) -> Any:
    return leaf._force("compiled") if isinstance(leaf, LazyTensor) else leaf


patches = jc.AmbientPatches(lambda trace: isinstance(trace, LazyTrace), _concrete)


class _Thread:
    """Stands for a thread, and dies with it.

    Attributes:
      recorder: its trace.
      due: whether another thread ended one of its blocks.
    """

    def __init__(self) -> None:
        self.recorder = thread_trace()
        self.due = False


class _Here(threading.local):
    def __init__(self) -> None:
        self.thread = _Thread()
        _threads.add(weakref.ref(self.thread, _ended))


def _ended(thread: weakref.ref[_Thread]) -> None:
    _threads.discard(thread)
    if not sys.is_finalizing():
        blocks.substitute()


_threads: set[weakref.ref[_Thread]] = set()
_here = _Here()


def here() -> weakref.ref[_Thread]:
    """This thread."""
    return weakref.ref(_here.thread)


class Block:
    """A stretch of program. It is open as long as it is in :data:`blocks`.

    Attributes:
      trace: which trace is current in it; None where a transformation of JAX's goes on (``jit``, ``grad``):
        that has its own.
      before: which trace is current after it.
      strict: whether trace breaks are errors in it; None if it says nothing of that.
      owner: the thread that entered it.
      task: asyncio's task that entered it, if any.
    """

    __slots__ = ("__weakref__", "before", "owner", "strict", "task", "trace")

    def __init__(self, trace: Any, strict: bool | None = None):
        self.trace = trace
        self.strict = strict
        self.before: Any = jc.eval_trace
        self.owner = here()
        self.task: Any = lambda: None

    def suspended(self) -> bool:
        """Whether it belongs to a task that waits and will go on in it."""
        task = self.task()
        return task is not None and not task.done() and task is not current_task()


def current_task() -> Any:
    """The task of asyncio's that is running in this thread; None if there is none."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio.current_task() if asyncio is not None else None
    except RuntimeError:  # no loop is running
        return None


def _record(blocks: Sequence[Block]) -> bool:
    """Whether something is recorded in one of ``blocks``."""
    return any([block.trace.__class__ is LazyTrace for block in blocks])


class _Ref(weakref.ref[Block]):
    """A block in the list. The owner is found here when the block is gone."""

    __slots__ = ("owner",)
    owner: weakref.ref[_Thread]


def _ref(block: Block, callback: Any) -> _Ref:
    ref = _Ref(block, callback)
    ref.owner = block.owner
    return ref


_PATIENCE = 2.0
"""Seconds for which a thread waits until another has switched names, which takes 0.1 ms."""


class Blocks:
    """The open blocks."""

    def __init__(self) -> None:
        # No lock protects it: a generator that is collected leaves its block at any time. Each change is one
        # call of C's, and whoever finds something else than what follows from the list puts it right.
        self._refs: dict[int, _Ref] = {}
        self._switching = threading.RLock()
        self.missed: Callable[[], Sequence[Block]] = (
            list  # finds the blocks whose end was interrupted before it began
        )

    # ---- entering and leaving: each may be interrupted anywhere, and done again ----------------------------

    def enter(self, block: Block) -> None:
        """Opens ``block``, in this thread."""
        if jc.current_trace() is not jc.eval_trace or _here.thread.due:
            self._mend()
        task = current_task()
        if task is not None:
            block.task = weakref.ref(task)
        block.before = jc.current_trace()
        ref = _ref(block, self._vanished)
        self._refs[id(ref)] = ref
        self._follow()
        if block.trace is not None:
            jc.set_trace(block.trace)

    def leave(self, block: Block) -> None:
        """Ends ``block``, in whatever order and thread; does nothing if it has ended."""
        owner = block.owner()
        if owner is not None and block in (mine := self.of(owner)):
            later = [one for one in mine[mine.index(block) + 1 :] if one.trace is not None]
            if block.trace is None:
                pass
            elif later:
                if later[0].before is block.trace:
                    later[0].before = block.before
            elif owner is _here.thread:
                self._restore(self._sound(block.before, [one for one in mine if one is not block]))
            else:
                owner.due = True
        self._drop(block)
        if owner is not None:
            self._judge(owner)
        self._mend()

    def end_after(self, block: Block) -> None:
        """Ends ``block`` and what this thread entered since, but for the blocks of tasks that go on in
        them."""
        mine = self.of(_here.thread)
        since = mine[mine.index(block) + 1 :] if block in mine else []
        for one in reversed(since):
            if not one.suspended():
                self.leave(one)
        self.leave(block)

    def reset(self) -> None:
        """To be called between programs, when nothing of JAX's is running: the current trace is what the open
        blocks say, whatever an interrupt left of a transformation."""
        _here.thread.due = True
        self._mend()

    def make_current(self) -> None:
        """Makes the trace current that this thread's open blocks ask for, where no trace is and so nothing
        can be bound.

        ``Primitive.bind`` (JAX 0.12) takes the current trace away, and begins what puts it back one line
        later: an interrupt between the two leaves none.
        """
        mine = self._follow()
        jc.set_trace(
            next((block.trace for block in reversed(mine) if block.trace is not None), jc.eval_trace)
        )

    def end_all(self) -> None:
        """Ends the blocks of all threads: every name of JAX's is JAX's own, and no thread records."""
        if sys.is_finalizing():
            return
        ended = {id(owner): owner for ref in list(self._refs.values()) if (owner := ref.owner()) is not None}
        self._refs.clear()
        for owner in ended.values():
            owner.due = True
            self._judge(owner)
        self._mend()

    def _vanished(self, ref: _Ref) -> None:
        """A block was given up without its end: what held it was collected, or an interrupt came before its
        end began."""
        if not sys.is_finalizing():
            owner = ref.owner()
            if owner is not None:
                owner.due = True
                self._judge(owner)
            self._mend()

    # ---- what follows from the list ------------------------------------------------------------------------

    def of(self, thread: Any) -> list[Block]:
        """The open blocks of a thread, in the order in which they were entered."""
        return [
            block
            for ref in list(self._refs.values())
            if ref.owner() is thread and (block := ref()) is not None
        ]

    def substitute(self) -> None:
        """Substitutes names of JAX's if some thread records, else puts them back."""
        if self._switching.acquire(timeout=_PATIENCE):
            self._switching.release()
        else:
            self._switching = threading.RLock()  # an interrupt left it locked
        with self._switching:
            while True:
                wanted = self._some_record()
                fast = wanted and config.substitute_names
                if patches.on is wanted and patches.fast is fast:
                    break
                patches.switch(wanted, fast)

    def _drop(self, gone: Block | None) -> None:
        """Takes a block out of the list, and those that were given up or whose thread is gone."""
        for key, ref in list(self._refs.items()):
            if (block := ref()) is None or block is gone or ref.owner() is None:
                self._refs.pop(key, None)

    def _some_record(self) -> bool:
        for ref in list(self._refs.values()):
            block = ref()
            if block is not None and block.trace.__class__ is LazyTrace and ref.owner() is not None:
                return True
        return False

    def _mend(self) -> None:
        """Brings about what follows from the list, as far as this thread can."""
        for block in self.missed():
            self.leave(block)
        self._drop(None)
        mine = self._follow()
        now = jc.current_trace()
        if (
            (now.__class__ is LazyTrace and not _record(mine))
            or _here.thread.due
            or (now is None and not jc.at_work())
        ):
            self._restore(
                next((block.trace for block in reversed(mine) if block.trace is not None), jc.eval_trace)
            )
            _here.thread.due = False

    def _follow(self) -> list[Block]:
        """Substitutes names, and tells this thread's recorder how things stand; the open blocks of this
        thread."""
        jc.device_get.done()
        self.substitute()
        jc.changes.count += 1  # nobody counted while no thread was lazy
        return self._judge(_here.thread)

    def _judge(self, thread: _Thread) -> list[Block]:
        """Tells a thread's recorder whether it has to record, and whether trace breaks are errors; the
        thread's open blocks."""
        mine, recorder = self.of(thread), thread.recorder
        strict = False
        for block in mine:
            if block.strict is not None:
                strict = block.strict
        recorder.stray, recorder.strict = not _record(mine), strict
        return mine

    @staticmethod
    def _sound(trace: Any, blocks: list[Block]) -> Any:
        """``trace``, if it may be current where ``blocks`` are open."""
        if trace is None or (trace.__class__ is LazyTrace and not _record(blocks)):
            return jc.eval_trace
        return trace

    @staticmethod
    def _restore(trace: Any) -> None:
        """Makes ``trace`` current, unless a transformation of JAX's is going on: JAX has its own current
        then."""
        now = jc.current_trace()
        if jc.is_eval(now) or now.__class__ is LazyTrace or not jc.at_work():
            jc.set_trace(trace)


blocks = Blocks()
LazyTrace.make_current = staticmethod(blocks.make_current)
atexit.register(blocks.end_all)
