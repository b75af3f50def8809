"""The compiler process: compiles for other chips, and serves requests until its connection closes.

A process of its own, because these compilers take locks, print, and may crash.

    python -m lazynb.xla.targets.compiler_worker ADDRESS      reads the connection's key from standard input
"""

from __future__ import annotations

import os
import sys
import time
from multiprocessing.connection import Client, Connection
from typing import Any

from jax.experimental import topologies

from lazynb import jax_compat as jc
from lazynb.xla.targets.compiler_process import (
    CompileFailure,
    CompileRequest,
    CompileResult,
    CostRequest,
    CostResult,
)


def main(address: str) -> None:
    """Connects to ``address`` and serves requests."""
    key = bytes.fromhex(sys.stdin.readline().strip())
    with Client(address, authkey=key) as connection:
        serve_requests(connection)


def serve_requests(connection: Connection) -> None:
    """Serves requests from ``connection`` until it is closed."""
    known: dict[Any, Any] = {}
    while True:
        try:
            question = connection.recv()
        except EOFError:
            return
        if isinstance(question, CostRequest):
            connection.send(CostResult(tuple(jc.cost_figures(question.texts))))
        else:
            connection.send(compile_program(question, known))


def compile_program(question: CompileRequest, known: dict[Any, Any]) -> CompileResult | CompileFailure:
    """Compiles the program in ``question``.

    Arguments:
      known: devices of earlier requests.
    """
    key = question.topology, question.configuration, question.mesh
    at = "topology"
    try:
        if key not in known:
            topology = _topology(question)
            at = "mesh"
            known[key] = _devices(topology, question.mesh)
        at = "compile"
        start = time.perf_counter()
        executable = jc.compile_for(known[key], question.lowering, question.options)
        seconds = time.perf_counter() - start
        return CompileResult(jc.optimised_text(executable), _memory(executable), _cost(executable), seconds)
    except Exception as error:  # each compiler has its own classes
        return CompileFailure(type(error).__name__, str(error), at)


def _devices(topology: Any, sizes: tuple[int, ...]) -> list[Any]:
    """The devices of the program, in the order of its mesh."""
    if not sizes:
        return [topology.devices[0]]
    names = tuple(f"axis_{number}" for number in range(len(sizes)))
    mesh = topologies.make_mesh(topology, sizes, names)
    return list(mesh.devices.flat)


def _topology(question: CompileRequest) -> Any:
    if question.platform == "tpu":
        single = {"chips_per_host_bounds": [1, 1, 1]} if question.is_single else {}
        return topologies.get_topology_desc(question.topology, "tpu", **single)
    return topologies.get_topology_desc(
        "gpu", question.platform, target_config=question.configuration, topology=question.topology
    )


def _memory(executable: Any) -> dict[str, int]:
    stats = executable.get_compiled_memory_stats()
    names = [name for name in dir(stats) if name.endswith("_in_bytes")]
    return {name: int(getattr(stats, name)) for name in names}


def _cost(executable: Any) -> dict[str, float] | None:
    try:
        cost = executable.cost_analysis()
    except Exception:  # the GPU compiler has none
        return None
    return dict(cost) if cost else None


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main(sys.argv[1])
