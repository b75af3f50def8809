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
      is_hlo: whether ``module`` is the text of a module of HLO instead.
    """

    module: bytes
    spread_inputs: tuple[bool, ...]
    spread_results: tuple[bool, ...]
    is_hlo: bool = False


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


def kept_arguments(lowered: jax.stages.Lowered) -> list[int]:
    """The positions of the arguments that the module of ``lowered`` takes: those that nothing reads are left
    out of it."""
    known: Any = lowered._lowering
    return sorted(known.compile_args["kept_var_idx"])


def lowering_of_hlo(text: str) -> Lowering:
    """That of a module of HLO, which :func:`compile_for` reads. The layouts of its arguments and results are
    for the compiler to choose."""
    return Lowering(text.encode(), (), (), is_hlo=True)


def _read_hlo(text: str) -> Lowering:
    """Raises ValueError, or an error of XLA's, if ``text`` is no module, or has what StableHLO has not."""
    from jaxlib import _hlo, _jax

    module = _hlo.hlo_module_from_text(text)
    code = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    with _mlir.make_ir_context():
        parsed: Any = _ir.Module.parse(code)
        [main] = [each for each in parsed.body.operations if each.attributes["sym_name"].value == "main"]
        free = _ir.DictAttr.get({"mhlo.layout_mode": _ir.StringAttr.get("auto")})
        inputs, results = len(main.type.inputs), len(main.type.results)
        main.attributes["arg_attrs"] = _ir.ArrayAttr.get([free] * inputs)
        main.attributes["res_attrs"] = _ir.ArrayAttr.get([free] * results)
        buffer = io.BytesIO()
        parsed.operation.write_bytecode(buffer)
    return Lowering(buffer.getvalue(), (False,) * inputs, (False,) * results)


def compile_for(devices: Sequence[Any], lowering: Lowering, options: Mapping[str, Any]) -> Any:
    """The executable that XLA makes of ``lowering`` for ``devices`` of a topology; it cannot run.

    Raises the compiler's own error.
    """
    if lowering.is_hlo:
        lowering = _read_hlo(lowering.module.decode())
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
