"""StableHLO modules: reading, changing and compiling them.

Locations are read as text where they are needed, because MLIR's Python bindings cannot take them apart.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import compiler as _compiler
from jax._src.interpreters import mlir as _mlir
from jax._src.lib import xla_client as _xc
from jax._src.lib.mlir import ir as _ir
from jax._src.lib.mlir.dialects import hlo as _hlo_dialect


class StableHlo:
    """A separate StableHLO module, which may be changed.

    Arguments:
      code: its text or MLIR bytecode, also in the portable form that ``jax.export`` writes.

    Raises:
      ValueError: ``code`` is not a module; the message names the place.
    """

    def __init__(self, code: str | bytes):
        self.context = _mlir.make_ir_context()
        with self.context:
            try:
                self.module = _stablehlo_in(_ir.Module.parse(code))
            except _ir.MLIRError as error:
                raise ValueError(str(error).strip()) from None
            attributes = self.module.operation.attributes
            if "sym_name" not in attributes:  # JAX requires it
                attributes["sym_name"] = _ir.StringAttr.get("module")
        self._functions = {_symbol(each): each for each in self.module.body.operations}
        self._copies = 0

    @property
    def main(self) -> Any:
        """The entry function; None if there is none."""
        return self._functions.get("main")

    @property
    def devices(self) -> int:
        """The number of devices on which it runs, as far as the module names it."""
        attributes = self.module.operation.attributes
        names = [name for name in ("mhlo.num_partitions", "mhlo.num_replicas") if name in attributes]
        return int(np.prod([attributes[name].value for name in names], dtype=int))

    def called(self, call: Any, attribute: str = "callee") -> Any:
        """The function that an operation calls; None if it is not in the module."""
        if attribute not in call.attributes:
            return None
        return self._functions.get(call.attributes[attribute].value)

    def specialized_callee(self, call: Any) -> Any:
        """A copy of the function that ``call`` calls, for this call alone."""
        function = self.called(call).operation
        name = f"{_symbol(function)}_{self._copies}"
        while name in self._functions:
            self._copies += 1
            name = f"{_symbol(function)}_{self._copies}"
        with self.context:
            made = function.clone(_ir.InsertionPoint(self.module.body))
            made.attributes["sym_name"] = _ir.StringAttr.get(name)
            call.attributes["callee"] = _ir.FlatSymbolRefAttr.get(name)
        self._functions[name] = made
        return made

    def name(self, operation: Any, name: str) -> None:
        """Wraps the location of an operation, or of a block argument, in ``name``."""
        with self.context:
            location = _ir.Location.name(name, childLoc=operation.location)
            if isinstance(operation, _ir.BlockArgument):
                operation.set_location(location)
            else:
                operation.location = location

    def clear_location(self, operation: Any) -> None:
        """Removes the location of an operation."""
        with self.context:
            operation.location = _ir.Location.unknown()

    def text(self, locations: bool = True) -> str:
        """The module as MLIR prints it, with or without locations."""
        return str(self.module.operation.get_asm(enable_debug_info=locations))

    @property
    def argument_types(self) -> list[tuple[str, tuple[int, ...]]]:
        """Dtype, as JAX names it, and shape of each argument of the entry function.

        Raises:
          ValueError: an argument is not an array.
        """
        with self.context:
            dtypes = {str(make()): dtype.name for dtype, make in _mlir._dtype_to_ir_type.items()}
            dtypes["i1"] = "bool"  # not a 1-bit integer
            return [_array_type(each, dtypes) for each in self.main.type.inputs]


def _stablehlo_in(module: Any) -> Any:
    if not any(each.operation.name.startswith("vhlo.") for each in module.body.operations):
        return module
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return _hlo_dialect.deserialize_portable_artifact(module.context, buffer.getvalue())


def _array_type(type_: Any, dtypes: Mapping[str, str]) -> tuple[str, tuple[int, ...]]:
    if not isinstance(type_, _ir.RankedTensorType):
        raise ValueError(f"an argument is of type {type_}, which is no array")
    return dtypes[str(type_.element_type)], tuple(type_.shape)


def _symbol(operation: Any) -> str:
    attributes = operation.attributes
    return attributes["sym_name"].value if "sym_name" in attributes else ""


def stablehlo_of(lowered: jax.stages.Lowered) -> StableHlo:
    """A copy of the module of ``lowered``."""
    buffer = io.BytesIO()
    module: Any = lowered.compiler_ir("stablehlo")
    module.operation.write_bytecode(buffer)
    return StableHlo(buffer.getvalue())


def stablehlo_of_hlo(text: str) -> StableHlo:
    """An HLO module as StableHLO.

    Raises:
      ValueError: it is not a module, or cannot be converted to StableHLO.
    """
    from jaxlib import _hlo, _jax

    try:
        module = _hlo.hlo_module_from_text(text)
        return StableHlo(_jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto()))
    except Exception as error:  # RuntimeError or one of XLA's own classes, by release
        raise ValueError(_parse_error_line(error)) from None


def full_text(text: str) -> str:
    """An HLO module as XLA prints it in full: a short form leaves types and metadata out.

    Raises:
      ValueError: it is not a module.
    """
    from jaxlib import _hlo

    try:
        return str(_hlo.hlo_module_from_text(text).to_string())
    except Exception as error:  # RuntimeError or one of XLA's own classes, by release
        raise ValueError(_parse_error_line(error)) from None


def _parse_error_line(error: Exception) -> str:
    said = str(error).strip()
    found = re.search(r"^was parsing (\d+):\d+: error: (.*)", said, re.MULTILINE)
    return said.partition("\n")[0] if found is None else f"XLA cannot read line {found[1]}: {found[2]}"


def with_module(lowered: jax.stages.Lowered, changed: StableHlo) -> jax.stages.Lowered:
    """``lowered`` with another module of the same arguments and results."""
    other: Any = copy.copy(lowered)
    other._lowering = copy.copy(other._lowering)
    other._lowering._hlo = changed.module
    other._lowering._executable = None
    return other  # type: ignore[no-any-return]


class CompiledModule(NamedTuple):
    """The properties of an executable.

    Attributes:
      platform: the platform, as JAX names it.
      memory: XLA's memory totals; None if it reports none.
    """

    text: str
    platform: str
    memory: Any


def compile_module(source: StableHlo, options: Mapping[str, Any]) -> CompiledModule:
    """Compiles a module for devices of this machine. Loads it and runs nothing. Raises XLA's error."""
    devices = jax.local_devices()[: source.devices]
    executable = _loaded(source, devices, options)
    text = "\n\n".join(module.to_string() for module in executable.hlo_modules())
    try:
        memory = executable.get_compiled_memory_stats()
    except Exception:  # each backend has its own error for "not implemented"
        memory = None
    return CompiledModule(text, devices[0].platform, memory)


def _loaded(source: StableHlo, devices: Sequence[Any], options: Mapping[str, Any]) -> Any:
    settings = _compiler.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array(devices).reshape(1, len(devices)),
        env_options_overrides=dict(options),
        backend=devices[0].client,
    )
    with source.context:
        placed = _xc.DeviceList(tuple(devices))
        return _compiler.backend_compile_and_load(devices[0].client, source.module, placed, settings, [])


def platform_of(compiled: jax.stages.Compiled) -> str:
    """The platform of ``compiled``, as JAX names it; empty if it is not known."""
    try:
        executable: Any = compiled.runtime_executable()
        return str(executable.local_devices()[0].platform)
    except Exception:  # an executable for devices that this process does not have
        return ""


def platforms_of(lowered: jax.stages.Lowered) -> tuple[str, ...]:
    """The platforms for which ``lowered`` was lowered, as JAX names them."""
    known: Any = lowered._lowering
    return tuple(known._platforms)
