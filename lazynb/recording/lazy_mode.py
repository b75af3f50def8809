"""Lazy mode: ``lazynb.lazy()``, ``lazynb.eager()``, and the test whether this thread records."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Generator, Iterable, Iterator
from types import FrameType
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.lazy_blocks import Block, blocks, current_thread_ref
from lazynb.recording.lazy_tensor import DeletedValue, LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, thread_trace, trie
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.runtime_interface import runtime
from lazynb.user_code import tracebacks
from lazynb.user_code.tracebacks import hook, trim_unless_debugging


class Region:
    """A context manager and decorator whose bodies are blocks.

    It may be entered again, even while it is open. A decorated generator or coroutine runs each of its steps
    in a block of its own, so the code that runs while it waits is outside of the block.
    """

    __slots__ = ("__weakref__", "_make", "_missed", "_open")

    def __init__(self, make: Callable[[], Block]):
        self._make = make
        self._open: list[Block] = []
        self._missed = 0  # the ``id`` of the frame of an interrupted end whose block was closed later

    # A class and not a generator function: an interrupted step can be done again, and the blocks of an
    # abandoned object are freed with it.
    def __enter__(self) -> None:
        block: Any = None
        try:
            block = self._make()
            self._open.append(block)
            blocks.enter(block)
        except BaseException:
            if block is not None:
                self._close(block)
            raise

    def __exit__(
        self,
        _kind: Any = None,
        error: BaseException | None = None,
        *_: Any,
        over: Callable[[], bool] = sys.is_finalizing,
    ) -> None:
        if over():  # Python ends with an open generator: this module and its blocks may be freed already
            return
        block: Any = None
        try:
            if error is not None:
                tracebacks.exception_log.add(error)
            block = self._last()
            before_exit = runtime().before_outermost_exit
            if error is None and before_exit is not None and blocks.is_outermost(block):
                before_exit()
            self._close(block)
            if error is not None:
                trim_unless_debugging(error)
        except BaseException:
            self._close(block or self._last())
            raise

    def _last(self) -> Block:
        """The block to leave: the latest of this thread, or of any thread if this one has entered none."""
        for block in reversed(self._open):
            if block.owner is current_thread_ref():
                return block
        return self._open[-1]

    def _close(self, block: Block) -> None:
        self._forget(block)
        blocks.leave(block)

    def _forget(self, block: Block) -> None:
        if block in self._open:
            self._open.remove(block)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return _decorated(function, lambda: Region(self._make))

    def interrupted_block(self, end: FrameType) -> Block | None:
        """The block that an interrupt kept ``end``, the frame of an :meth:`__exit__`, from closing.

        Returns None if that call had found its block, or if the block was given before.
        """
        if "block" in end.f_locals or self._missed == id(end) or not self._open:
            return None
        self._missed = id(end)
        block = self._last()
        self._forget(block)
        return block


def _interrupted_exits() -> list[Block]:
    """The blocks whose end was interrupted at its first instruction.

    They are searched in the exception that is being handled, because its traceback keeps them alive.
    """
    error, interrupted = sys.exception(), []
    while error is not None:
        traceback, error = error.__traceback__, error.__context__
        while traceback is not None:
            frame, traceback = traceback.tb_frame, traceback.tb_next
            if frame.f_code is Region.__exit__.__code__:
                block = frame.f_locals["self"].interrupted_block(frame)
                if block is not None:
                    interrupted.append(block)
    return interrupted


blocks.missed = _interrupted_exits


def lazy(*, strict: bool | None = None) -> Region:
    """Records the operations of its body instead of running them; also a decorator.

    Each body is a trace of its own, so its programs do not depend on the operations that were pending before.

    Arguments:
      strict: whether a trace break in the body raises :class:`lazynb.TraceBreakError`. Then nothing runs and
        nothing is lost. Explicit barriers (``lazynb.sync``, ``block_until_ready``) are allowed. The default
        is the setting around the body, or that of the cell. The setting holds in this thread until the body
        ends, in ``lazynb.eager()`` too.

    If the thread records already (in a lazy cell, or in another such body), or inside a JAX transformation
    (``jit``, ``grad``, ``vmap``), only ``strict`` has an effect.

    Lazy mode belongs to the thread. While a body waits (``await``, ``yield``), other code that runs in the
    thread is recorded too. A decorated generator, coroutine or asynchronous generator function is lazy only
    while its own code runs. Bodies may end in any order, and in another thread.
    """

    hook.set()

    def block() -> Block:
        now, recorder = jc.trace_state.value, thread_trace()
        if jc.is_eval(now):
            recorder.cut()
        elif not isinstance(now, LazyTrace):
            return Block(None, strict)
        return Block(recorder, strict)

    return Region(block)


def eager() -> Region:
    """Runs the operations of its body at once; also a decorator. Pending values used in it are computed.

    Bodies that wait and decorated generators and coroutines behave as for :func:`lazynb.lazy`.
    """

    def block() -> Block:
        now = jc.current_trace()
        if jc.is_eval(now) or isinstance(now, LazyTrace):
            return Block(jc.eval_trace)
        return Block(None)

    return Region(block)


def recording() -> Region:
    """Records the operations of its body, in the trace of this thread that is open."""
    return Region(lambda: Block(thread_trace()))


def is_lazy() -> bool:
    """Whether this thread records."""
    return isinstance(jc.current_trace(), LazyTrace)


# ---- decorators --------------------------------------------------------------------------------------------


def _decorated(function: Callable[..., Any], region: Callable[[], Region]) -> Callable[..., Any]:
    """``function``, run in a region."""
    call: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await _run_steps(function(*args, **kwargs), region)
    elif inspect.isasyncgenfunction(function):

        def call(*args: Any, **kwargs: Any) -> Any:
            return _run_async_steps(function(*args, **kwargs), region)
    elif inspect.isgeneratorfunction(function):

        def call(*args: Any, **kwargs: Any) -> Any:
            return (yield from _run_steps(function(*args, **kwargs), region))
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            with region():
                return function(*args, **kwargs)

    return functools.wraps(function)(call)


@types.coroutine
def _run_steps(steps: Any, region: Callable[[], Region]) -> Generator[Any, Any, Any]:
    """Runs the steps of a generator or coroutine, each in a region."""
    step, value = steps.send, None
    while True:
        try:
            with region():
                given = step(value)
        except StopIteration as end:
            return end.value
        try:
            step, value = steps.send, (yield given)
        except GeneratorExit:
            with region():
                steps.close()
            raise
        except BaseException as error:
            step, value = steps.throw, error


async def _run_async_steps(steps: Any, region: Callable[[], Region]) -> Any:
    """Runs the steps of an asynchronous generator, each in a region."""
    step, value = steps.asend, None
    while True:
        try:
            given = await _run_steps(step(value), region)
        except StopAsyncIteration:
            return
        try:
            step, value = steps.asend, (yield given)
        except GeneratorExit:
            await _run_steps(steps.aclose(), region)
            raise
        except BaseException as error:
            step, value = steps.athrow, error


# ---- Tensors that have a type and never a value: the arguments of a function that is compiled and not run


class AbstractArguments:
    """The arguments of one call that have a type only.

    Attributes:
      types: by ``id`` of each tensor made, its type.
    """

    def __init__(self) -> None:
        self._recorder = thread_trace()
        # a trace of their own, without operations: they are its inputs
        self._given = PendingTrace(self._recorder, trie, self._recorder.seal().root, None)
        self.types: dict[int, jax.ShapeDtypeStruct] = {}

    def tensor(self, type_: jax.ShapeDtypeStruct) -> LazyTensor:
        """A tensor of that type."""
        aval = jc.ShapedArray(type_.shape, type_.dtype, weak_type=type_.weak_type)
        own = jax.ShapeDtypeStruct(
            type_.shape, type_.dtype, weak_type=type_.weak_type, sharding=type_.sharding
        )
        given = self._given
        given.unseal()
        tensor = LazyTensor(self._recorder, aval, given, given.input(own, aval, own))
        given.seal()
        given.records.append(tensor)
        self.types[id(tensor)] = own
        return tensor

    def put_into(self, traces: Iterable[PendingTrace]) -> list[PendingTrace]:
        """Makes the types inputs of ``traces`` in place of the tensors; they are recorded no further.

        Returns: those that compute something, in the same order.
        """
        computing = [pending for pending in traces if pending is not self._given]
        for pending in computing:
            pending.seal()
            pending.inputs[:] = [self.types.get(id(value), value) for value in pending.inputs]
        return computing

    def close(self) -> None:
        """Deletes the tensors: whoever still holds one finds no value."""
        _discard(self._given)


@contextlib.contextmanager
def forbid_runs() -> Iterator[None]:
    """Records the body as a trace of its own, which ends with it: what it leaves pending is given up.

    What would run a pending operation raises :class:`lazynb.TraceBreakError`, a barrier that was asked for
    too.
    """
    recorder = thread_trace()
    before, others = recorder.forbids_runs, [*recorder.sealed, recorder.pending]
    recorder.seal()
    recorder.forbids_runs = True
    try:
        with lazy(strict=True):
            yield
    finally:
        recorder.forbids_runs = before
        for pending in (*recorder.sealed, recorder.pending):
            if pending is not None and not any(pending is other for other in others):
                _discard(pending)
        recorder.cut()


def _discard(pending: PendingTrace) -> None:
    """Closes a trace that cannot run."""
    for tensor in pending.records:
        tensor._value, tensor._pending = DeletedValue(), None
    pending.close()
