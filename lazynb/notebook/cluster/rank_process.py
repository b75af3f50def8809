"""Functions that the notebook calls in each process of a cluster through ipyparallel, and the data formats
for inspections and trace breaks."""

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
from lazynb.user_code.source_lines import Place
from lazynb.version import __version__

# ---- Cells with ``await`` on ipyparallel's engines --------------------------------------------------------
# ipykernel 7 receives shell messages in a separate thread and needs its thread object for cells with
# ``await``. The kernel of an engine has no such thread (ipyparallel 9.2): it would start the cell, raise an
# AttributeError and never report the end of the cell.


class _NoThread:
    """Is false like a missing thread object, but has the main thread as ``parent_thread``."""

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


def allow_await(kernel: Any) -> None:
    """Enables ``await`` in cells of this engine. Does nothing if the kernel supports it."""
    if getattr(kernel, "shell_channel_thread", _NoThread) is not None:
        return

    class Engine(type(kernel)):  # type: ignore[misc]
        _supports_kernel_subshells = False  # ipykernel's property tests whether the thread is None

    kernel.__class__ = Engine
    kernel.shell_channel_thread = _NoThread()


# ---- Data that an engine sends to the notebook ------------------------------------------------------------
# Beside the usual MIME types: an inspection, for which the notebook creates a widget, and trace breaks, which
# the notebook merges.

INSPECTION = "application/vnd.lazynb.inspection+json"
BREAKS = "application/vnd.lazynb.breaks+json"

joined_cluster: list[bool] = []
"""Not empty while this process belongs to a cluster."""


def written_inspection(static: StaticForm) -> dict[str, Any]:
    """The MIME bundle of a compilation with its inspection as data."""
    forms = static._repr_mimebundle_()
    if static.compilation is None or not static.compilation.traces:
        return forms
    form = entry_to_json(inspection_entry(static.compilation, ran=static.ran))
    return {**forms, INSPECTION: json.loads(json.dumps({**form, "show": list(static.opened)}))}


def marked_inspection(static: StaticForm) -> dict[str, Any]:
    """The MIME bundle of a compilation with an empty inspection, for ranks whose output is not shown."""
    return {**static._repr_mimebundle_(), INSPECTION: {}}


def inspection_of(data: dict[str, Any]) -> Entry:
    """Reads an inspection that another process sent."""
    return entry_from_json(data)


def written_breaks(breaks: Breaks) -> dict[str, Any]:
    """Trace breaks as JSON, displayed in addition to the usual MIME types."""
    return {BREAKS: json.loads(json.dumps(breaks.to_dicts()))}


def breaks_of(data: list[dict[str, Any]]) -> list[TraceBreak]:
    """Reads trace breaks that another process sent."""
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
      identity: ZeroMQ identity by which ipyparallel addresses it.
      host: name of its machine.
      address: network address of its machine.
      port: a free port of its machine.
      pid: process id.
      versions: versions of JAX and lazynb.
      joined: ``jax.process_index()`` and ``jax.process_count()`` if ``jax.distributed`` is initialised;
        otherwise None.
    """

    identity: str
    host: str
    address: str
    port: int
    pid: int
    versions: tuple[str, str]
    joined: tuple[int, int] | None


def process_info() -> ProcessInfo:
    """Describes this process."""
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
    """An address for other machines: the host name if it resolves to the loopback interface here."""
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
    """Initialises ``jax.distributed`` in this process and loads lazynb.

    Arguments:
      coordinator: address and port of rank 0.
      count: number of processes.
      number: rank of this process.
      path: the notebook's ``sys.path``; None keeps this process's own.

    Returns:
      The number of devices of this process, and of all processes.
    """
    if path is not None:
        sys.path[:] = path
    if not jax.distributed.is_initialized():
        jax.config.update("jax_cpu_collectives_implementation", "gloo")  # only affects CPUs
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
    """Sets the execution count of the next cell to that in the notebook."""
    _shell().execution_count = number


def leave() -> None:
    """Unloads lazynb. ``jax.distributed`` stays initialised, because JAX allows initialisation only once."""
    shell = _shell()
    for type_ in (StaticForm, Breaks):
        shell.display_formatter.mimebundle_formatter.pop(type_, None)
    joined_cluster.clear()
    shell.run_line_magic("unload_ext", "lazynb")
