"""Programs for devices that are not there: lowered here, compiled in a process that has their compiler."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import compiler as _compiler
from jax._src.interpreters import mlir as _mlir, pxla as _pxla
from jax._src.lib import xla_client as _xc
from jax._src.lib.mlir import ir as _ir


class Lowering(NamedTuple):
    """What a compiler must be given.

    Attributes:
      module: StableHLO as MLIR's bytecode.
      spread_inputs, spread_results: for each input and result, whether the partitioner chooses its sharding.
    """

    module: bytes
    spread_inputs: tuple[bool, ...]
    spread_results: tuple[bool, ...]


def lowering_of(lowered: jax.stages.Lowered) -> Lowering:
    """What ``lowered`` holds, for another process."""
    buffer = io.BytesIO()
    module: Any = lowered.compiler_ir("stablehlo")
    module.operation.write_bytecode(buffer)
    known: Any = lowered._lowering
    arguments = known.compile_args
    inputs, results = _pxla.get_prop_to_input_output(
        arguments["in_shardings"], arguments["out_shardings"], len(arguments["ordered_effects"])
    )
    return Lowering(buffer.getvalue(), inputs, results)


def compile_for(devices: Sequence[Any], lowering: Lowering, options: Mapping[str, Any]) -> Any:
    """The executable that XLA makes of ``lowering`` for ``devices`` of a topology; it cannot run.

    Raises the compiler's own error.
    """
    backend = devices[0].client
    settings = _compiler.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array(devices).reshape(1, len(devices)),
        env_options_overrides=dict(options),
        backend=backend,
    )
    build = settings.executable_build_options
    build.allow_spmd_sharding_propagation_to_parameters = list(lowering.spread_inputs)
    build.allow_spmd_sharding_propagation_to_output = list(lowering.spread_results)
    with _mlir.make_ir_context():
        module = _ir.Module.parse(lowering.module)
        placed = _xc.DeviceList(tuple(devices))
        return _compiler.backend_compile_and_load(backend, module, placed, settings, [])


def optimised_text(executable: Any) -> str:
    """The optimised HLO of an executable of :func:`compile_for`."""
    return "\n\n".join(module.to_string() for module in executable.hlo_modules())
