"""A process that has imported a world and forks it on demand: a new one takes milliseconds, and one that
crashes or hangs is alone lost. Nothing runs on JAX here before a fork, so there is no thread of JAX's that a
fork would lose.

    python -m tests.endurance.zygote eager|lazy ADDRESS
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from multiprocessing.connection import Listener
from typing import Any


def _world(name: str) -> Any:
    if name == "eager":
        from . import stand_in

        stand_in.install()
        from .world import EagerWorld

        return EagerWorld()
    from .lazy_world import LazyWorld
    from .plants import plant

    plant()
    return LazyWorld()


def _serve(world: Any, connection: Any, log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    connection.send(os.getpid())
    world.serve(connection)


def main() -> None:
    """Forks a world for each connection; the first message says where its output goes."""
    name, address = sys.argv[1:]
    world = _world(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child is waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the campaign's
    gc.collect()
    gc.freeze()  # the collector of a world looks at what its programs make
    with Listener(address, "AF_UNIX") as listener:
        print("ready", flush=True)
        while True:
            connection = listener.accept()
            log = connection.recv()
            if not log:
                return
            if os.fork() == 0:
                try:
                    _serve(world, connection, log)
                except BaseException as error:
                    sys.excepthook(type(error), error, error.__traceback__)
                finally:
                    sys.stderr.flush()
                    os._exit(0)
            connection.close()


if __name__ == "__main__":
    main()
