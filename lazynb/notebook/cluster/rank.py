"""What runs in each process of a cluster, beside the user's cells. Called from the notebook through
ipyparallel, which imports this module there."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, NamedTuple

import jax
from IPython import get_ipython

from lazynb.execute.breaks import Breaks
from lazynb.notebook.cluster import sent
from lazynb.notebook.cluster.awaiting import let_cells_await
from lazynb.notebook.showing import Static
from lazynb.version import __version__


class About(NamedTuple):
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


def about() -> About:
    """This process."""
    host, joined = socket.gethostname(), jax.distributed.is_initialized()
    return About(
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
    formatter.for_type(Static, sent.written_inspection if number == 0 else sent.marked_inspection)
    formatter.for_type(Breaks, sent.written_breaks)
    let_cells_await(shell.kernel)
    sent.joined.append(True)
    shell.run_line_magic("load_ext", "lazynb")
    return jax.local_device_count(), jax.device_count()


def begin(number: int) -> None:
    """The next cell has this number, as in the notebook."""
    _shell().execution_count = number


def leave() -> None:
    """Cells run as they did before. The process stays joined to the others: JAX allows that once."""
    shell = _shell()
    for type_ in (Static, Breaks):
        shell.display_formatter.mimebundle_formatter.pop(type_, None)
    sent.joined.clear()
    shell.run_line_magic("unload_ext", "lazynb")
