"""Lazy mode: ``lazynb.lazy()``, ``lazynb.eager()``, the test whether this thread records, and abstract
arguments."""

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
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.tensor_placement import DeletedValue
from lazynb.recording.trace_registry import trie
from lazynb.user_code import tracebacks
from lazynb.user_code.tracebacks import hook, trim_unless_debugging


class Region:
    """A context manager and decorator, each of whose bodies is a block.

    It may be entered again while it is open. A decorated generator or coroutine runs each step in its own
    block, so code that runs while it waits is outside of the block.
    """

    __slots__ = ("__weakref__", "_make", "_missed", "_open", "_text")

    def __init__(self, make: Callable[[], Block], text: str):
        self._make = make
        self._text = text  # the call that made it
        self._open: list[Block] = []
        self._missed = 0  # ``id`` of the frame of an interrupted ``__exit__`` whose block was closed later

    def __repr__(self) -> str:
        return f"{self._text}: a context manager and decorator"

    # A class, not a generator function: an interrupted step can be repeated, and the blocks of an abandoned
    # object are freed with it.
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
        if over():  # at interpreter exit with an open generator, this module and its blocks may be freed
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
        """Returns the block to leave: the latest of this thread, or of any thread if this one has none."""
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
        return _decorated(function, lambda: Region(self._make, self._text))

    def interrupted_block(self, end: FrameType) -> Block | None:
        """Returns the block that an interrupt kept ``end``, the frame of an :meth:`__exit__`, from closing.

        Returns None if that call had found its block, or if the block was returned before.
        """
        if "block" in end.f_locals or self._missed == id(end) or not self._open:
            return None
        self._missed = id(end)
        block = self._last()
        self._forget(block)
        return block


def _interrupted_exits() -> list[Block]:
    """Returns the blocks whose ``__exit__`` was interrupted at its first instruction. They are searched in
    the exception being handled, whose traceback keeps them alive."""
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

    Each body has its own trace, so its programs do not depend on operations that were pending before.

    Arguments:
      strict: whether a trace break in the body raises :class:`lazynb.TraceBreakError`. Then nothing runs and
        nothing is lost. Explicit barriers (``lazynb.sync``, ``block_until_ready``) are allowed. The default
        is the setting around the body, or that of the cell. The setting holds in this thread until the body
        ends, in ``lazynb.eager()`` too.

    If the thread already records (in a lazy cell or another such body), or inside of a JAX transformation
    (``jit``, ``grad``, ``vmap``), only ``strict`` has an effect.

    Lazy mode belongs to the thread. While a body waits (``await``, ``yield``), other code of the thread is
    recorded too. A decorated generator, coroutine or asynchronous generator function is lazy only while its
    own code runs. Bodies may end in any order, and in another thread.
    """

    hook.set()

    def block() -> Block:
        now, recorder = jc.trace_state.value, thread_trace()
        if jc.is_eval(now):
            recorder.cut()
        elif not isinstance(now, LazyTrace):
            return Block(None, strict)
        return Block(recorder, strict)

    return Region(block, "lazynb.lazy()" if strict is None else f"lazynb.lazy(strict={strict})")


def eager() -> Region:
    """Runs the operations of its body at once; also a decorator. Pending operands are computed.

    Bodies that wait, and decorated generators and coroutines, behave as for :func:`lazynb.lazy`.
    """

    def block() -> Block:
        now = jc.current_trace()
        if jc.is_eval(now) or isinstance(now, LazyTrace):
            return Block(jc.eval_trace)
        return Block(None)

    return Region(block, "lazynb.eager()")


def recording() -> Region:
    """Records the operations of its body in the open trace of this thread."""
    return Region(lambda: Block(thread_trace()), "recording()")


def is_lazy() -> bool:
    """Whether this thread records."""
    return isinstance(jc.current_trace(), LazyTrace)


# ---- Decorators --------------------------------------------------------------------------------------------


def _decorated(function: Callable[..., Any], region: Callable[[], Region]) -> Callable[..., Any]:
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


# ---- Tensors without values, to compile a function without a run -------------------------------------------


class AbstractArguments:
    """The abstract arguments of one call.

    Attributes:
      types: the aval of each tensor made, by ``id`` of the tensor.
    """

    def __init__(self) -> None:
        self._recorder = thread_trace()
        # a trace without operations, whose inputs they are
        self._given = PendingTrace(self._recorder, trie, self._recorder.seal().root, None)
        self.types: dict[int, jax.ShapeDtypeStruct] = {}

    def tensor(self, type_: jax.ShapeDtypeStruct) -> LazyTensor:
        """Returns a tensor of that type."""
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
        """Replaces the tensors among the inputs of ``traces`` by their avals, and ends recording in these
        traces.

        Returns the traces with operations, in the same order.
        """
        computing = [pending for pending in traces if pending is not self._given]
        for pending in computing:
            pending.seal()
            pending.inputs[:] = [self.types.get(id(value), value) for value in pending.inputs]
        return computing

    def close(self) -> None:
        """Deletes the tensors, which have no value."""
        _discard(self._given)


@contextlib.contextmanager
def forbid_runs() -> Iterator[None]:
    """Records the body as a trace of its own, whose pending operations are dropped at the end.

    A run of a pending operation, also at an explicit barrier, raises :class:`lazynb.TraceBreakError`.
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
    for tensor in pending.records:
        tensor._value, tensor._pending = DeletedValue(), None
    pending.close()
