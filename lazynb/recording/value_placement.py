"""Placement of pending values: devices, shardings, meshes, and the moves that are recorded instead of run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.runtime_interface import runtime

# ---- ``shard_map`` outside of a jitted function ------------------------------------------------------------
# It is recorded as a call of the jitted function. Eager JAX runs its operations one by one over all devices
# of the mesh. A function that JAX cannot trace (it branches on a value) or that eager JAX rejects runs so.


class EagerOnlyError(Exception):
    """Eager JAX rejects the call, although a jitted function may make it."""


def record_shard_map(
    trace: Any, primitive: Any, fun: Any, args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Returns the results of a ``shard_map`` in the form that JAX's traces return.

    Arguments:
      trace: the trace that records the call.
      fun: JAX's wrapper of the user's function.
      params: the parameters of the call.

    Raises:
      EagerOnlyError: eager JAX rejects the call. Errors of tracing the function pass through.
    """
    form: list[Any] = []

    def shard_map(*values: Any) -> list[Any]:
        results = primitive.bind(*values, subfuns=(fun,), **params)
        flat: list[Any] = []
        form.append(results.map(lambda value: flat.append(value)))
        return flat

    mesh = jc.eager_shard_map_mesh(params["mesh"], [arg for arg in args if _tells_its_sharding(arg)])
    with jc.set_current_trace(_ShardMapTrace(trace, mesh)):
        results = iter(jax.jit(shard_map)(*args))
    return form[-1].map(lambda _: next(results))


def _tells_its_sharding(arg: Any) -> bool:
    return type(arg) is not LazyTensor or not arg.is_pending or arg._known_sharding() is not None


class _ShardMapTrace(jc.Trace):
    """Forwards the call of a jitted ``shard_map``, with the ``out_shardings`` of eager JAX. They are known
    when the function is traced. It is traced once, as eager JAX runs it once."""

    def __init__(self, trace: Any, mesh: Any):
        super().__init__()
        self._trace, self._mesh = trace, mesh

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        (mapped,) = [eqn for eqn in params["jaxpr"].eqns if eqn.primitive.name == "shard_map"]
        if any(map(jc.eager_shard_map_refuses, mapped.params["jaxpr"].eqns)):
            raise EagerOnlyError
        shardings = jc.eager_shard_map_shardings(mapped, self._mesh)
        if shardings is not None:
            params = {**params, "out_shardings": tuple(shardings)}
        return self._trace.process_primitive(primitive, tracers, params)


def single_device(target: Any) -> Any:
    """Returns the single device of ``target``, a device or a sharding in the default memory, else None."""
    if isinstance(target, jax.Device):
        return target
    if isinstance(target, jax.sharding.SingleDeviceSharding):
        (device,) = target.device_set
        if target == jc.uncommitted_sharding(device):
            return device
    return None


def stays_on_device(value: Any, target: Any, trace: Any) -> bool:
    """Whether ``value`` is pending in ``trace`` and will be on ``target``, a device or sharding."""
    if not isinstance(value, LazyTensor) or value._pending is None:
        return False
    if value._trace is not trace or jc.is_key(value.aval):
        return False
    device = single_device(target)
    return device is not None and value._known_devices() == (device,)


def committed_to(
    primitive: Any, params: dict[str, Any], devices: set[tuple[Any, ...]]
) -> set[tuple[Any, ...]]:
    """Returns the sets of devices to which an operation commits its results. More than one set is an error.

    This is JAX's rule (``pxla.lower_sharding_computation``): a program runs on the devices of its arguments,
    of the shardings in it and of the current mesh (``jax.set_mesh``), and each of these commits the results.

    Arguments:
      devices: the sets to which the operands are committed.
    """
    if primitive is jc.numpy_array_p:
        return set()
    if primitive.name == "device_put":
        device = single_device(params["devices"][0])
        if devices or device is None:
            return devices
        return {(device,)}
    shardings, moves = jc.named_placement(primitive, params)
    named = {jc.device_assignment(sharding) for sharding in shardings if jc.is_concrete_sharding(sharding)}
    committed = devices | named | jc.current_mesh_devices()
    if moves and not committed:
        return {(jc.default_device(),)}
    return committed


def matches_in_shardings(args: Sequence[Any], shardings: Sequence[Any]) -> bool:
    """Whether the committed arguments of a jitted function have the shardings of its ``in_shardings``.

    By JAX's rule (``pjit._resolve_in_shardings``) another sharding is an error; the argument is not moved. An
    argument whose sharding is unknown before a run is computed.
    """
    if shardings.count(jc.UNSPECIFIED) == len(shardings):
        return True
    for arg, sharding in zip(args, shardings, strict=True):
        if sharding is jc.UNSPECIFIED or not _is_committed(arg):
            continue
        pending = type(arg) is LazyTensor and arg._value is None
        there = arg._equivalent_sharding() if pending else arg.sharding
        if there is None:
            there = arg._force("sharding", "in_shardings").sharding
        if not sharding.is_equivalent_to(there, arg.ndim):
            return False
    return True


def _is_committed(arg: Any) -> bool:
    if isinstance(arg, jc.Tracer):
        return False
    return isinstance(arg, jax.Array) and jc.is_committed(arg)


def fits_mesh(
    operation: Any, results: Sequence[Any], devices: tuple[Any, ...] | None, program: tuple[Any, ...]
) -> bool:
    """Whether the meshes of an operation and of the avals of its results consist of its devices.

    Arguments:
      devices: the devices to which it commits its results; None if JAX may move them.
      program: the devices on which it runs.
    """
    meshes = [aval.sharding.mesh for aval in results if jc.is_on_mesh(aval) and not jc.is_auto(aval)]
    if devices is None and meshes:
        return False
    sizes = {mesh.size for mesh in meshes} | jc.abstract_mesh_sizes(operation.primitive, operation.params)
    return sizes <= {len(program)}


def has_sharding(value: Any, sharding: Any) -> bool:
    """Whether a lazy tensor is known to have ``sharding``, without a run. None fits each tensor."""
    if sharding is None:
        return True
    if isinstance(value._value, jax.Array):
        known = value._value.sharding
    else:
        known = value._known_sharding()
    return known is not None and bool(known == sharding)


# ---- Recorded moves to another sharding --------------------------------------------------------------------
# A move is a call of an identity with ``out_shardings``, as eager JAX does for a sharding constraint
# (``pjit._sharding_constraint_impl``). XLA may drop a constraint inside of a program, but a result has the
# sharding that was requested.


def can_move_in_program(value: Any, target: Any, trace: Any) -> bool:
    """Whether ``value`` is pending in ``trace`` and a program can move it to ``target``.

    A program runs on one set of devices, so a committed value stays on its devices and ``target`` gives its
    layout there. On a mesh of one device the value is computed first: JAX names shardings of derived values
    by the mesh in the aval, which a pending value on Auto axes does not have, and XLA's choice for one device
    does not show it.
    """
    if not isinstance(value, LazyTensor) or value._pending is None or value._trace is not trace:
        return False
    if not jc.is_plain_named_sharding(target) or jc.is_key(value.aval) or target.num_devices == 1:
        return False
    committed = value._pending.owner(value._slot).devices
    return committed is None or committed == jc.device_assignment(target)


def move_to_sharding(value: LazyTensor, target: Any, name: str) -> Any:
    """Returns ``value`` with the sharding ``target``; ``value`` itself if it is known to have it.

    Arguments:
      name: the name of the function that moves it, for the graph.

    Raises JAX's error if the sharding does not fit.
    """
    if value._known_sharding() == target and value._committed:
        return value
    return _move(name, target)(value)


def replicate_on_mesh(value: LazyTensor, mesh: Any) -> Any:
    """Returns ``value``, whose aval has no mesh, replicated on the current Explicit ``mesh``."""
    return _typed("on_mesh", NamedSharding(mesh, PartitionSpec()))(value)


def with_sharding_type(value: LazyTensor, target: Any) -> Any:
    """Returns ``value`` with an aval and a sharding that are spelled as ``target``, on Explicit axes.

    An aval names all its axes, and to JAX ``P('data')`` and ``P('data', None)`` are two shardings.
    """
    return _typed("out_shardings", target)(value)


@functools.lru_cache(maxsize=64)
def _typed(name: str, target: Any) -> Callable[[Any], Any]:
    def reshard(value: Any) -> Any:
        return jax.sharding.reshard(value, target)

    reshard.__name__ = reshard.__qualname__ = name
    return jax.jit(reshard, out_shardings=target)


@functools.lru_cache(maxsize=256)
def _move(name: str, target: Any) -> Callable[[Any], Any]:
    def identity(value: Any) -> Any:
        return value

    identity.__name__ = identity.__qualname__ = name
    return jax.jit(identity, out_shardings=target)


# ---- Shardings of pending values on Auto axes --------------------------------------------------------------
# A program leaves them to XLA. Code that reads one (Flax compares the sharding of a variable with that of its
# next value) gets the sharding of eager JAX without a run, and a move to it is recorded, so that the program
# produces it.

_ORIGIN = ("_slot", "_edge", "_code", "_lasti", "_scope")


def query_sharding(tensor: LazyTensor, trace: Any, frame: FrameType) -> Any:
    """Fixes and returns the sharding of the pending ``tensor`` of ``trace``; None if only a run shows it.

    Arguments:
      frame: the frame that reads it. JAX's code may be recorded as one call and replayed as a whole, without
        a move in the middle.
    """
    pending = tensor._pending
    if pending is None or pending is not trace.pending or _is_jax(frame):
        return None
    target = runtime().execution.eager_sharding(tensor)
    if target is None or not can_move_in_program(tensor, target, trace):
        return None
    with trace.lock, jc.set_current_trace(trace):
        moved = move_to_sharding(tensor, target, "sharding")
        if not isinstance(moved, LazyTensor) or moved._pending is not pending:
            return None
        _swap_results(pending, tensor, moved)
    return target


def _is_jax(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in ("jax", "lazynb")


def _swap_results(pending: PendingTrace, tensor: LazyTensor, moved: LazyTensor) -> None:
    """Exchanges the results that ``tensor`` and ``moved`` stand for."""
    records = pending.records
    at, other = _place(records, tensor), _place(records, moved)
    records[at], records[other] = moved, tensor
    for name in _ORIGIN:
        mine, its = getattr(tensor, name, None), getattr(moved, name, None)
        setattr(tensor, name, its)
        setattr(moved, name, mine)


def _place(records: list[LazyTensor], tensor: LazyTensor) -> int:
    return next(at for at in reversed(range(len(records))) if records[at] is tensor)


def committed_devices(arg: Any, trace: Any) -> tuple[Any, ...] | None:
    """Returns the devices to which an operand is committed; None if JAX may move it. Runs nothing.

    Returns None for a value that is pending in another thread, because that trace is not locked. It is
    computed before it is recorded here.
    """
    if type(arg) is LazyTensor:
        pending = arg._pending
        if pending is not None:
            return pending.owner(arg._slot).devices if arg._trace is trace else None
        arg = arg._value
    if issubclass(type(arg), jax.Array) and not isinstance(arg, jc.Tracer) and jc.is_committed(arg):
        return jc.device_assignment(arg.sharding)
    return None


def is_noop_conversion(arg: Any, params: dict[str, Any]) -> bool:
    """Whether a conversion is to the type of ``arg``, so that eager JAX returns ``arg`` itself."""
    return (
        isinstance(arg, LazyTensor)
        and arg.dtype == params["new_dtype"]
        and arg.weak_type == params["weak_type"]
        and has_sharding(arg, params["sharding"])
    )


def reshard_results(trace: Any, results: list[LazyTensor], shardings: Sequence[Any]) -> list[LazyTensor]:
    """Returns the results of a call with ``out_shardings``, with the avals of eager JAX.

    JAX puts a requested sharding into the aval of a result when it lowers the outermost call. In a program
    the result has the aval that it has inside of the function.
    """
    asked = [jc.requested_out_sharding(one.aval, of) for one, of in zip(results, shardings, strict=True)]
    if not any(asked):
        return results
    with jc.set_current_trace(trace):
        return [
            one if sharding is None else with_sharding_type(one, sharding)
            for one, sharding in zip(results, asked, strict=True)
        ]


def place_on_mesh(trace: Any, results: list[LazyTensor], mesh: Any) -> list[LazyTensor]:
    """Returns the results under a mesh with Explicit axes, each with an aval on that mesh.

    The result of constants alone has an aval without a mesh. Eager JAX runs it on the mesh and gets a
    replicated array with a fitting aval.
    """
    with jc.set_current_trace(trace):
        return [one if jc.is_on_mesh(one.aval) else replicate_on_mesh(one, mesh) for one in results]
