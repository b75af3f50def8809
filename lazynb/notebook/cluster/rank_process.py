"""What runs in each process of a cluster, beside the user's cells. Called from the notebook through
ipyparallel, which imports this module there."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
import threading
from typing import Any, NamedTuple

import jax
from IPython import get_ipython

from lazynb.notebook.inspection_display import StaticForm
from lazynb.report.inspection.inspection_file import Entry, entry_from_json, entry_to_json, inspection_entry
from lazynb.running.break_log import Breaks, TraceBreak
from lazynb.user_code.call_stack import Place
from lazynb.version import __version__

# ---- Cells with ``await`` on ipyparallel's engines --------------------------------------------------------
# ipykernel 7 takes the messages of its cells from a thread of their own, and asks that thread's object who
# runs a cell that awaits. The kernel of an engine has no such thread (ipyparallel 9.2), so it would begin
# such a cell, raise an AttributeError and never say that the cell has ended.


class _NoThread:
    """No thread, as far as ipykernel looks; but its cells run in the main one."""

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


def allow_await(kernel: Any) -> None:
    """Cells of this engine may await. Does nothing to a kernel that can do so already."""
    if getattr(kernel, "shell_channel_thread", _NoThread) is not None:
        return

    class Engine(type(kernel)):  # type: ignore[misc]
        _supports_kernel_subshells = False  # ipykernel's property asks whether the thread is None

    kernel.__class__ = Engine
    kernel.shell_channel_thread = _NoThread()


# ---- What a process of a cluster sends to the notebook as plain data beside the forms for reading: an -----
# inspection, for which the notebook makes a widget, and trace breaks, which it merges.

INSPECTION = "application/vnd.lazynb.inspection+json"
BREAKS = "application/vnd.lazynb.breaks+json"

joined_cluster: list[bool] = []
"""Holds something while this process is one of a cluster."""


def written_inspection(static: StaticForm) -> dict[str, Any]:
    """What is displayed of a compilation, with its inspection."""
    forms = static._repr_mimebundle_()
    if static.compilation is None or not static.compilation.traces:
        return forms
    form = entry_to_json(inspection_entry(static.compilation, ran=static.ran))
    return {**forms, INSPECTION: json.loads(json.dumps({**form, "show": list(static.opened)}))}


def marked_inspection(static: StaticForm) -> dict[str, Any]:
    """What is displayed of a compilation, marked as one: a rank whose output is not shown sends no more."""
    return {**static._repr_mimebundle_(), INSPECTION: {}}


def inspection_of(data: dict[str, Any]) -> Entry:
    """The inspection that another process sent."""
    return entry_from_json(data)


def written_breaks(breaks: Breaks) -> dict[str, Any]:
    """Trace breaks as JSON; the forms for reading come as they do anywhere."""
    return {BREAKS: json.loads(json.dumps(breaks.to_dicts()))}


def breaks_of(data: list[dict[str, Any]]) -> list[TraceBreak]:
    """The trace breaks that another process sent."""
    return [_break(one) for one in data]


def _break(data: dict[str, Any]) -> TraceBreak:
    library = data["library"]
    return dataclasses.replace(
        TraceBreak(**data),
        location=Place(**data["location"]),
        library=Place(**library) if library is not None else None,
        callers=tuple(Place(**caller) for caller in data["callers"]),
    )


class ProcessInfo(NamedTuple):
    """A process before it joins the others.

    Attributes:
      identity: what ipyparallel addresses it by.
      host: name of its machine.
      address: of its machine.
      port: one that is free there.
      pid: its number.
      versions: of JAX and lazynb.
      joined: its number and the count of processes, if it is one of several already.
    """

    identity: str
    host: str
    address: str
    port: int
    pid: int
    versions: tuple[str, str]
    joined: tuple[int, int] | None


def process_info() -> ProcessInfo:
    """This process."""
    host, joined = socket.gethostname(), jax.distributed.is_initialized()
    return ProcessInfo(
        _shell().kernel.ident,
        host,
        _address(host),
        _free_port(),
        os.getpid(),
        (jax.__version__, __version__),
        (jax.process_index(), jax.process_count()) if joined else None,
    )


def _shell() -> Any:
    return get_ipython()  # type: ignore[no-untyped-call]


def _address(host: str) -> str:
    """One by which other machines find this one: a name may stand for the loopback interface on its own."""
    try:
        found = socket.gethostbyname(host)
    except OSError:
        return host
    return host if found.startswith("127.") else found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def join(coordinator: str, count: int, number: int, path: list[str] | None) -> tuple[int, int]:
    """Makes this process number ``number`` of ``count``, in which cells run lazily.

    Arguments:
      coordinator: address and port of rank 0.
      path: where Python looks for modules, as in the notebook; None leaves it as it is.

    Returns:
      The number of devices here, and of all.
    """
    if path is not None:
        sys.path[:] = path
    if not jax.distributed.is_initialized():
        jax.config.update("jax_cpu_collectives_implementation", "gloo")  # for CPUs alone
        jax.distributed.initialize(coordinator, count, number)
    shell = _shell()
    formatter = shell.display_formatter.mimebundle_formatter
    formatter.for_type(StaticForm, written_inspection if number == 0 else marked_inspection)
    formatter.for_type(Breaks, written_breaks)
    allow_await(shell.kernel)
    joined_cluster.append(True)
    shell.run_line_magic("load_ext", "lazynb")
    return jax.local_device_count(), jax.device_count()


def begin(number: int) -> None:
    """The next cell has this number, as in the notebook."""
    _shell().execution_count = number


def leave() -> None:
    """Cells run as they did before. The process stays joined to the others: JAX allows that once."""
    shell = _shell()
    for type_ in (StaticForm, Breaks):
        shell.display_formatter.mimebundle_formatter.pop(type_, None)
    joined_cluster.clear()
    shell.run_line_magic("unload_ext", "lazynb")
