"""Programs without devices: lowered here, compiled in a process with the compiler for other devices.

JAX's types and operations may name the devices of the user's arrays, so these names are removed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import compiler as _compiler, core as _core, mesh as _mesh
from jax._src.interpreters import mlir as _mlir, pxla as _pxla
from jax._src.lib import xla_client as _xc
from jax._src.lib.mlir import ir as _ir
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from lazynb.jax_compat.jax_arrays import UNSPECIFIED
from lazynb.jax_compat.jax_config import without_mesh
from lazynb.jax_compat.jaxprs import ClosedJaxpr, Jaxpr, constants, eqn_context, map_jaxprs, new_var

# ---- Serialized lowerings -------------------------------------------------------------------------------


class SerializedLowering(NamedTuple):
    """The input of a compiler.

    Attributes:
      module: StableHLO as MLIR bytecode.
      propagate_input_shardings, propagate_result_shardings: for each input and result, whether the
        partitioner chooses its sharding.
      is_hlo: whether ``module`` is the text of an HLO module instead.
    """

    module: bytes
    propagate_input_shardings: tuple[bool, ...]
    propagate_result_shardings: tuple[bool, ...]
    is_hlo: bool = False


def lowering_of(lowered: jax.stages.Lowered) -> SerializedLowering:
    """The serialized form of ``lowered``."""
    buffer = io.BytesIO()
    module: Any = lowered.compiler_ir("stablehlo")
    module.operation.write_bytecode(buffer)
    known: Any = lowered._lowering
    arguments = known.compile_args
    inputs, results = _pxla.get_prop_to_input_output(
        arguments["in_shardings"], arguments["out_shardings"], len(arguments["ordered_effects"])
    )
    return SerializedLowering(buffer.getvalue(), inputs, results)


def kept_arguments(lowered: jax.stages.Lowered) -> list[int]:
    """The positions of the arguments that the module of ``lowered`` takes; unused ones are removed from
    it."""
    known: Any = lowered._lowering
    return sorted(known.compile_args["kept_var_idx"])


def lowering_of_hlo(text: str) -> SerializedLowering:
    """The serialized form of an HLO module for :func:`compile_for`. The compiler chooses its layouts."""
    return SerializedLowering(text.encode(), (), (), is_hlo=True)


def _read_hlo(text: str) -> SerializedLowering:
    """Raises ValueError, or XLA's error, if ``text`` is not a module, or cannot be converted to StableHLO."""
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
    return SerializedLowering(buffer.getvalue(), (False,) * inputs, (False,) * results)


def compile_for(devices: Sequence[Any], lowering: SerializedLowering, options: Mapping[str, Any]) -> Any:
    """Compiles ``lowering`` for ``devices`` of a topology; the executable cannot run. Raises compiler
    errors."""
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
    build.allow_spmd_sharding_propagation_to_parameters = list(lowering.propagate_input_shardings)
    build.allow_spmd_sharding_propagation_to_output = list(lowering.propagate_result_shardings)
    with _mlir.make_ir_context():
        module = _ir.Module.parse(lowering.module)
        placed = _xc.DeviceList(tuple(devices))
        return _compiler.backend_compile_and_load(backend, module, placed, settings, [])


def optimised_text(executable: Any) -> str:
    """The optimised HLO of an executable from :func:`compile_for`."""
    return "\n\n".join(module.to_string() for module in executable.hlo_modules())


_NO_MESH = AbstractMesh((), ())
_OF_JIT = ("in_shardings", "out_shardings")
_MOVES = ("reshard", "mesh_cast")  # they do not change values


def without_devices(jaxpr: Any, mesh: AbstractMesh | None = None) -> Any:
    """A copy of a closed jaxpr that names no devices of arrays.

    Arguments:
      mesh: sharding constraints that name only its axes are kept, as constraints on it.
    """
    return _DeviceRemover(mesh).jaxpr(jaxpr)


class _DeviceRemover:
    def __init__(self, mesh: AbstractMesh | None):
        self._mesh = mesh
        # By the ``id`` of the originals, so that equal functions stay one function.
        self._made: dict[int, Any] = {}

    def jaxpr(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._made:
            if ClosedJaxpr is not Jaxpr and isinstance(jaxpr, ClosedJaxpr):
                made = ClosedJaxpr(self.jaxpr(getattr(jaxpr, "jaxpr")), constants(jaxpr))  # noqa: B009 - mypy
            else:
                made = self._open_jaxpr(jaxpr)
            self._made[id(jaxpr)] = made
        return self._made[id(jaxpr)]

    def _open_jaxpr(self, jaxpr: Any) -> Any:
        renamed: dict[Any, Any] = {}

        def new(variables: Sequence[Any]) -> list[Any]:
            return [_renamed(variable, renamed) for variable in variables]

        constvars, invars, eqns = new(jaxpr.constvars), new(jaxpr.invars), []
        for equation in jaxpr.eqns:
            if self._is_dropped(equation):
                renamed[equation.outvars[0]] = new(equation.invars)[0]
            else:
                eqns.append(self._equation(equation, new))
        return jaxpr.replace(constvars=constvars, invars=invars, eqns=eqns, outvars=new(jaxpr.outvars))

    def _is_dropped(self, equation: Any) -> bool:
        """Whether an equation only places its operand on another mesh than this one."""
        name = equation.primitive.name
        return name in _MOVES or (
            name == "sharding_constraint" and self._sharding_on_mesh(equation.params) is None
        )

    def _sharding_on_mesh(self, params: dict[str, Any]) -> NamedSharding | None:
        """The sharding of a constraint on this mesh; None if there is none."""
        asked = params["sharding"]
        if self._mesh is None or not isinstance(asked, NamedSharding):
            return None
        axes = {axis for part in asked.spec for axis in (part if isinstance(part, tuple) else (part,))}
        known = {None, PartitionSpec.UNCONSTRAINED, *self._mesh.axis_names}
        return NamedSharding(self._mesh, asked.spec) if axes <= known else None

    def _equation(self, equation: Any, new: Callable[[Sequence[Any]], list[Any]]) -> Any:
        params = {name: self._parameter(name, value) for name, value in equation.params.items()}
        if equation.primitive.name == "sharding_constraint":
            params.update(sharding=self._sharding_on_mesh(equation.params), context_mesh=_NO_MESH)
        return equation.replace(
            invars=new(equation.invars),
            outvars=new(equation.outvars),
            params=params,
            ctx=_context(equation.ctx),
        )

    def _parameter(self, name: str, value: Any) -> Any:
        if name in _OF_JIT:
            return (UNSPECIFIED,) * len(value)
        if name == "ctx_mesh":
            return _NO_MESH if isinstance(value, AbstractMesh) else _mesh.empty_concrete_mesh
        if isinstance(value, NamedSharding | PartitionSpec):
            return None
        return map_jaxprs(self.jaxpr, value)


def _renamed(variable: Any, renamed: dict[Any, Any]) -> Any:
    if isinstance(variable, _core.Literal):
        return variable
    if variable not in renamed:
        aval = _type(variable.aval)
        renamed[variable] = _core.DropVar(aval) if isinstance(variable, _core.DropVar) else new_var(aval)
    return renamed[variable]


def _type(aval: Any) -> Any:
    if not isinstance(aval, _core.ShapedArray):
        return aval
    return aval.update(sharding=NamedSharding(_NO_MESH, PartitionSpec(*[None] * aval.ndim)))


def _context(context: Any) -> Any:
    if context.cur_abstract_mesh.empty:
        return context
    with context.manager, without_mesh():
        return eqn_context()
