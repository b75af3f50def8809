"""The processes of one program (JAX calls them processes, lazynb hosts), and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import distributed as _distributed


def coordination() -> Any:
    """The client of JAX's coordination service, with its key-value store and barriers; None if this process
    runs alone.

    A barrier may be used again under its name: the client counts its instances. A barrier that one host left
    in a time-out cannot (``invoked by the task, but the service thinks it is the 1-th instance``).
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
    """Whether some of ``devices`` belong to another host than others or this one."""
    mine = _distributed.global_state.process_id
    return any([device.process_index != mine for device in devices])


def device_numbers(devices: Sequence[Any]) -> list[int]:
    """The numbers of devices, the same on all hosts; of a single one of this host, its local number."""
    if len(devices) == 1 and not spans_hosts(devices):
        return [-1 - getattr(devices[0], "local_hardware_id", 0)]
    return [int(device.id) for device in devices]


def replace_exit_barrier(leave: Callable[[], None]) -> None:
    """Calls ``leave`` where the interpreter's exit would wait for the other hosts.

    JAX's own handler (``api.clean_up``, the first that is registered and so the last that runs) ends with a
    barrier of all hosts, which takes ``shutdown_timeout_seconds``, 300, if one of them is gone. Without it
    the service ends before its client, and that aborts the process.
    """
    _distributed.global_state.shutdown = leave  # type: ignore[method-assign]


def shut_down() -> None:
    """JAX's own end of the service, after :func:`instead_of_waiting`."""
    _distributed.State.shutdown(_distributed.global_state)


RpcError = jax.errors.JaxRuntimeError
"""What the coordination service raises."""
