"""Programs without the devices that the user's arrays lie on: JAX's types and operations may name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core as _core, mesh as _mesh
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from lazynb._jax.arrays import UNSPECIFIED
from lazynb._jax.building import ClosedJaxpr, Jaxpr, constants, eqn_context, is_jaxpr, new_var
from lazynb._jax.config import without_mesh

_NO_MESH = AbstractMesh((), ())
_OF_JIT = ("in_shardings", "out_shardings")
_MOVES = ("reshard", "mesh_cast")  # the value stays what it is


def unplaced(jaxpr: Any, mesh: AbstractMesh | None = None) -> Any:
    """A closed jaxpr like ``jaxpr`` that does not say on which devices an array lies.

    Arguments:
      mesh: the sharding constraints that name axes of it alone are kept, as ones on it.
    """
    return _Unplaced(mesh).jaxpr(jaxpr)


class _Unplaced:
    def __init__(self, mesh: AbstractMesh | None):
        self._mesh = mesh
        # by the ``id`` of their originals: what is one function stays one
        self._made: dict[int, Any] = {}

    def jaxpr(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._made:
            if ClosedJaxpr is not Jaxpr and isinstance(jaxpr, ClosedJaxpr):
                made = ClosedJaxpr(self.jaxpr(getattr(jaxpr, "jaxpr")), constants(jaxpr))  # noqa: B009 - mypy
            else:
                made = self._open(jaxpr)
            self._made[id(jaxpr)] = made
        return self._made[id(jaxpr)]

    def _open(self, jaxpr: Any) -> Any:
        renamed: dict[Any, Any] = {}

        def new(variables: Sequence[Any]) -> list[Any]:
            return [_renamed(variable, renamed) for variable in variables]

        constvars, invars, eqns = new(jaxpr.constvars), new(jaxpr.invars), []
        for equation in jaxpr.eqns:
            if self._is_no_more(equation):
                renamed[equation.outvars[0]] = new(equation.invars)[0]
            else:
                eqns.append(self._equation(equation, new))
        return jaxpr.replace(constvars=constvars, invars=invars, eqns=eqns, outvars=new(jaxpr.outvars))

    def _is_no_more(self, equation: Any) -> bool:
        """Whether an equation says only where its operand shall lie, on a mesh that is not this one."""
        name = equation.primitive.name
        return name in _MOVES or (name == "sharding_constraint" and self._here(equation.params) is None)

    def _here(self, params: dict[str, Any]) -> NamedSharding | None:
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
            params.update(sharding=self._here(equation.params), context_mesh=_NO_MESH)
        return equation.replace(
            invars=new(equation.invars),
            outvars=new(equation.outvars),
            params=params,
            ctx=_context(equation.ctx),
        )

    def _parameter(self, name: str, value: Any) -> Any:
        if is_jaxpr(value):
            return self.jaxpr(value)
        if name in _OF_JIT:
            return (UNSPECIFIED,) * len(value)
        if name == "ctx_mesh":
            return _NO_MESH if isinstance(value, AbstractMesh) else _mesh.empty_concrete_mesh
        if isinstance(value, NamedSharding | PartitionSpec):
            return None
        if isinstance(value, tuple | list) and any(map(is_jaxpr, value)):
            return type(value)([self._parameter(name, one) for one in value])
        return value


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
    """The settings of an equation, under no mesh."""
    if context.cur_abstract_mesh.empty:
        return context
    with context.manager, without_mesh():
        return eqn_context()
