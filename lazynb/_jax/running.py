"""Calls of compiled executables."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax._src import compiler as _compiler
from jax._src.lib import xla_client as _xla_client

from lazynb._jax.caching import executable_in


def capturing_call(compiled: Any) -> Callable[..., Any]:
    """A function that calls an executable with the least Python in between: JAX's C++ dispatch.

    The first call, and a call with arguments of another kind, need JAX's Python. There the results are kept
    as soon as XLA gives them, see :class:`Captured`.
    """
    return _dispatch(compiled, compiled._executable.xla_executable) or compiled


def _dispatch(compiled: Any, loaded: Any) -> Callable[..., Any] | None:
    """JAX's C++ dispatch for ``compiled``, with ``loaded`` as XLA's executable; None if JAX has none."""
    executable, call = copy.copy(compiled._executable), copy.copy(compiled._executable.unsafe_call)
    executable.xla_executable, call.xla_executable = loaded, _Capturing(loaded)
    executable._unsafe_call = call
    found: Callable[..., Any] | None = executable.create_cpp_call(
        compiled._params._replace(executable=executable)
    )
    return found


class Captured(threading.local):
    """The list in which the calls of this thread keep what XLA gave: its object for the results, then the
    arrays made of that.

    JAX runs Python code between the two, and after them. An interrupt may arrive there, when the memory of
    the inputs has been given away already.
    """

    into: list[Any] | None = None


captured = Captured()


def recovered(compiled: Any, kept: Sequence[Any]) -> Sequence[Any] | None:
    """The results that a call of ``compiled`` kept before it was interrupted; None if XLA gave none."""
    if not kept:
        return None
    if len(kept) == 1:
        return kept[0].consume_with_handlers(compiled._executable.unsafe_call.out_handler.handlers)
    return kept[1]


class _Capturing:
    """Stands for XLA's executable in JAX's Python code, and keeps what it returns."""

    def __init__(self, loaded: Any):
        self._loaded = loaded

    def execute_sharded(self, buffers: Any, **more: Any) -> Any:
        into: list[Any] = captured.into if captured.into is not None else []
        if more:
            return self._loaded.execute_sharded(buffers, **more)
        into.clear()
        # ``extend`` and ``map`` are C, so that no signal is handled between the call and the list.
        into.extend(map(self._loaded.execute_sharded, (buffers,)))
        return _CapturingResults(into)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded, name)


class _CapturingResults:
    """Stands for XLA's results in JAX's Python code, and keeps the arrays made of them."""

    def __init__(self, into: list[Any]):
        self._into = into

    def consume_with_handlers(self, handlers: Any, **more: Any) -> Any:
        self._into.extend(map(functools.partial(self._into[0].consume_with_handlers, **more), (handlers,)))
        return self._into[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._into[0], name)


def call_here(compiled: Any, entry: bytes | None) -> Callable[..., Any] | None:
    """A function that runs an executable of XLA:CPU in the thread that calls it: the results are there when
    it returns. Returns None if that is impossible.

    XLA:CPU hands all but the cheapest programs (1,000 floating point operations) to a thread of its own, and
    JAX has no option for anything else. Waking that thread takes longer than many programs run. But XLA:CPU
    runs a program with a host callback in the calling thread. So the machine code is loaded once more, as a
    program that has a callback and never calls it.

    Arguments:
      entry: the entry of the persistent cache from which the executable was loaded, if it was. XLA cannot
        write such an executable down again.
    """
    loaded: Any = compiled._executable.xla_executable
    devices = loaded.local_devices()
    if [device.platform for device in devices] != ["cpu"]:
        return None
    try:
        machine_code = loaded.serialize() if entry is None else executable_in(entry)
        options = _compiler.get_compile_options(1, 1, device_assignment=np.array([[devices[0].id]]))
        again = loaded.client.deserialize_executable(
            machine_code,
            executable_devices=_xla_client.DeviceList(tuple(devices)),
            compile_options=options,
            host_callbacks=[_never_called],
        )
    except Exception:  # a program that XLA cannot write down
        return None
    return _dispatch(compiled, again)


def _never_called(*_: Any) -> None:
    raise AssertionError("no program calls this")
