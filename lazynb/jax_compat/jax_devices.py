"""The processes of one program (JAX calls them processes, lazynb hosts), and JAX's coordination service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import distributed as _distributed


def coordination() -> Any:
    """The client of JAX's coordination service, with its key-value store and barriers; None if this process
    runs alone.

    The name of a barrier can be reused, because the client counts its instances. This fails for a barrier
    that one host left by a time-out (``invoked by the task, but the service thinks it is the 1-th
    instance``).
    """
    state = _distributed.global_state
    return state.client if state.num_processes > 1 else None


def host_count() -> int:
    """The number of hosts of the program; 1 if ``jax.distributed`` was not initialised."""
    return int(_distributed.global_state.num_processes)


def host_index() -> int:
    """The number of this host, from 0."""
    return int(_distributed.global_state.process_id)


def spans_hosts(devices: Sequence[Any]) -> bool:
    """Whether some of ``devices`` belong to different hosts, or to another host than this one."""
    mine = _distributed.global_state.process_id
    return any([device.process_index != mine for device in devices])


def device_numbers(devices: Sequence[Any]) -> list[int]:
    """The numbers of devices, equal on all hosts; for a single device of this host, its local number."""
    if len(devices) == 1 and not spans_hosts(devices):
        return [-1 - getattr(devices[0], "local_hardware_id", 0)]
    return [int(device.id) for device in devices]


def replace_exit_barrier(leave: Callable[[], None]) -> None:
    """Calls ``leave`` where the exit of the interpreter would wait for the other hosts.

    JAX's own handler (``api.clean_up``, registered first and so run last) ends with a barrier of all hosts,
    which takes ``shutdown_timeout_seconds``, 300, if one of them is missing. Without the barrier the service
    ends before its client, and that aborts the process.
    """
    _distributed.global_state.shutdown = leave  # type: ignore[method-assign]


def shut_down() -> None:
    """Shuts the service down as JAX does, after :func:`replace_exit_barrier`."""
    _distributed.State.shutdown(_distributed.global_state)


RpcError = jax.errors.JaxRuntimeError
"""The error of the coordination service."""
