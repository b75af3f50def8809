"""The placement of pending values: a move to the device where a value will be anyway runs nothing."""

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

# ---- A ``shard_map`` outside of a jitted function: recorded as a call of the jitted one -------------------
# Eager JAX runs its operations one by one, each over all devices of the mesh. A function that JAX cannot
# trace (it branches on a value), or that eager JAX alone refuses, still runs so.


class EagerOnlyError(Exception):
    """Eager JAX refuses the call; a jitted function may make it."""


def record_shard_map(
    trace: Any, primitive: Any, fun: Any, args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The results of a ``shard_map``, in the form in which JAX's traces give them.

    Arguments:
      trace: that which records the call.
      fun: what JAX gives its traces for the user's function.
      params: the parameters of the call.

    Raises NotAsJitted, and whatever tracing the function raises.
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
    return arg.__class__ is not LazyTensor or not arg.is_pending or arg._known_sharding() is not None


class _ShardMapTrace(jc.Trace):
    """Hands a call of a jitted ``shard_map`` on, with the ``out_shardings`` that eager JAX gives it.

    They are known when the function is traced, and it is traced once, as eager JAX runs it once.
    """

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
    """The single device of ``target``, a device or a sharding in the usual memory.

    Returns None for any other target.
    """
    if isinstance(target, jax.Device):
        return target
    if isinstance(target, jax.sharding.SingleDeviceSharding):
        (device,) = target.device_set
        if target == jc.uncommitted_sharding(device):
            return device
    return None


def stays_on_device(value: Any, target: Any, trace: Any) -> bool:
    """Whether ``value`` is pending in ``trace`` and will be at ``target``, a device or sharding."""
    if not isinstance(value, LazyTensor) or value._pending is None:
        return False
    if value._trace is not trace or jc.is_key(value.aval):
        return False
    device = single_device(target)
    return device is not None and value._known_devices() == (device,)


def committed_to(
    primitive: Any, params: dict[str, Any], devices: set[tuple[Any, ...]]
) -> set[tuple[Any, ...]]:
    """The sets of devices to which an operation commits its results. More than one set is an error.

    It is JAX's rule (``pxla.lower_sharding_computation``): a program runs on the devices of its arguments, of
    the shardings that it names, and of the mesh in force (``jax.set_mesh``), and any of them commits what it
    gives.

    Arguments:
      devices: the sets to which its operands are committed.
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
    """Whether the committed arguments of a jitted function are where its ``in_shardings`` say.

    JAX's rule (``pjit._resolve_in_shardings``): one that is elsewhere is an error, and is not moved. One of
    which only a run can tell where it is runs.
    """
    if shardings.count(jc.UNSPECIFIED) == len(shardings):
        return True
    for arg, sharding in zip(args, shardings, strict=True):
        if sharding is jc.UNSPECIFIED or not _is_committed(arg):
            continue
        pending = arg.__class__ is LazyTensor and arg._value is None
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
    """Whether the meshes that an operation and the types of its results name are of its devices.

    Arguments:
      devices: those to which it commits its results; None if JAX may move them.
      program: those on which it runs.
    """
    meshes = [aval.sharding.mesh for aval in results if jc.is_on_mesh(aval) and not jc.is_auto(aval)]
    if devices is None and meshes:
        return False
    sizes = {mesh.size for mesh in meshes} | jc.abstract_mesh_sizes(operation.primitive, operation.params)
    return sizes <= {len(program)}


def has_sharding(value: Any, sharding: Any) -> bool:
    """Whether a lazy tensor is known to have ``sharding``; None fits each tensor. Runs nothing."""
    if sharding is None:
        return True
    if isinstance(value._value, jax.Array):
        known = value._value.sharding
    else:
        known = value._known_sharding()
    return known is not None and bool(known == sharding)


# ---- Moves of pending values to another sharding: recorded as calls of an identity with ``out_shardings``
# Eager JAX does so itself for a sharding constraint (``pjit._sharding_constraint_impl``). In a program XLA
# may remove what it does not need; a result of the program has the sharding that was asked for.


def can_move_in_program(value: Any, target: Any, trace: Any) -> bool:
    """Whether ``value`` is pending in ``trace`` and a program can put it at ``target``.

    A program runs on one set of devices, so a committed value stays on its own; ``target`` says how it lies
    there. On a mesh of one device it is computed first: JAX names what comes of it by the mesh in its type,
    which a pending value's does not have on Auto axes, and XLA's answer for one device does not tell.
    """
    if not isinstance(value, LazyTensor) or value._pending is None or value._trace is not trace:
        return False
    if not jc.is_plain_named_sharding(target) or jc.is_key(value.aval) or target.num_devices == 1:
        return False
    committed = value._pending.owner(value._slot).devices
    return committed is None or committed == jc.device_assignment(target)


def move_to_sharding(value: LazyTensor, target: Any, name: str) -> Any:
    """``value`` at the sharding ``target``; ``value`` itself if it is known to be there.

    Arguments:
      name: that of the function which moves it, for the graph.

    Raises JAX's error if the sharding does not fit.
    """
    if value._known_sharding() == target and value._committed:
        return value
    return _move(name, target)(value)


def replicate_on_mesh(value: LazyTensor, mesh: Any) -> Any:
    """``value``, whose type is on no mesh, whole on each device of the Explicit ``mesh`` in force."""
    return _typed("on_mesh", NamedSharding(mesh, PartitionSpec()))(value)


def with_sharding_type(value: LazyTensor, target: Any) -> Any:
    """``value`` with a type that lies as ``target``, on Explicit axes, and with a sharding that is spelled as
    that: a type has all its axes, and ``P('data')`` and ``P('data', None)`` are two shardings to JAX."""
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


# ---- The sharding of a pending value on Auto axes: told without a run, as eager JAX has it, and kept so
# A program leaves it to XLA. Code that asks for it (Flax compares that of a variable with that of its next
# value) gets what eager JAX would give, and a move to it is recorded, so that the program does the same.

_ORIGIN = ("_slot", "_edge", "_code", "_lasti", "_scope")


def query_sharding(tensor: LazyTensor, trace: Any, frame: FrameType) -> Any:
    """The sharding that the pending ``tensor`` of ``trace`` has from now on; None if only a run can tell it.

    Arguments:
      frame: who asks. Code of JAX's may be recorded as a call, and recalled as a whole: a move in the middle
        of it is no part of that.
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
    """Makes ``tensor`` the result that ``moved`` is, and the other way round."""
    records = pending.records
    at, other = _place(records, tensor), _place(records, moved)
    records[at], records[other] = moved, tensor
    for name in _ORIGIN:
        mine, its = getattr(tensor, name, None), getattr(moved, name, None)
        setattr(tensor, name, its)
        setattr(moved, name, mine)


def _place(records: list[LazyTensor], tensor: LazyTensor) -> int:
    return next(at for at in reversed(range(len(records))) if records[at] is tensor)
