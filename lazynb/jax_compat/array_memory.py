"""The memory of arrays: buffers, addresses, references, and arrays that share memory with other code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import config as _config, core as _core, dlpack as _dlpack, xla_bridge as _xla_bridge
from jax._src.interpreters import pxla as _pxla
from jax._src.lib import xla_client as _xla_client

from lazynb.jax_compat.jax_arrays import ArrayImpl, base_array, is_host_array, uncommitted_sharding
from lazynb.jax_compat.jax_config import guards_transfers
from lazynb.jax_compat.tracers import eval_trace, set_current_trace


def buffers(value: Any) -> list[Any]:
    """The plain arrays, one per device, of a concrete array (or of an array of random keys). Other values
    have none. Arrays of strings have none either, because no other code can read XLA's memory for them."""
    plain = base_array(value)
    if type(plain) is not ArrayImpl or isinstance(plain.dtype, np.dtypes.StringDType):
        return []
    return [plain] if len(plain.sharding.device_set) == 1 else list(plain._arrays)


def live_arrays_on_backend(array: Any) -> list[Any]:
    """The arrays in the backend of the plain array ``array``; ``jax.live_arrays`` returns those of the
    default backend. They include the single-device parts of an array after a request for these."""
    return next(iter(array.sharding.device_set)).client.live_arrays()


def device_parts(array: Any) -> Sequence[Any]:
    """The single-device arrays of a plain array in this process; the array itself if it is on one device."""
    return array._arrays or ()


def address(part: Any) -> int | None:
    """The address of a plain array on one device; None if it is deleted, not computed yet or has failed.
    ``is_ready`` of a deleted array ends the process (0.10)."""
    if part.is_deleted() or not part.is_ready():
        return None
    try:
        return part.unsafe_buffer_pointer()
    except RuntimeError:
        return None


def has_deleted_part(array: Any) -> bool:
    """Whether a concrete array, or a part of it on one device, is deleted. The array itself does not report a
    deleted part (0.10, 0.12)."""
    return array.is_deleted() or any(part.is_deleted() for part in device_parts(base_array(array)))


def clear_shard_cache(array: Any) -> None:
    """Drops the list of shards that a plain array keeps after a read of ``addressable_shards``."""
    vars(array).pop("addressable_shards", None)


def with_buffers(value: Any, parts: Sequence[Any]) -> Any:
    """An array of ``parts`` with the type, placement and commitment of ``value``, which may be deleted."""
    plain = base_array(value)
    made = ArrayImpl(plain.aval, plain.sharding, list(parts), committed=plain._committed, _skip_checks=True)
    return made if plain is value else type(value)(value._impl, made)


def alias(value: Any) -> Any:
    """Another array with the memory of ``value``; ``value`` itself if it has no buffers to share."""
    parts = buffers(value)
    return with_buffers(value, parts) if parts else value


def replace_buffers(value: Any, others: Sequence[Any]) -> None:
    """Replaces the buffers of ``value`` by the arrays ``others``, which match its :func:`buffers`."""
    plain = base_array(value)
    plain._replace_with(with_buffers(plain, others))


def restore_buffers(value: Any, taken: Any) -> bool:
    """Replaces the buffers of ``value`` by those of ``taken``; returns False if the latter are deleted."""
    if has_deleted_part(value):
        return False
    replace_buffers(value, buffers(taken))
    return True


def on_host(buffer: Any) -> bool:
    """Whether a plain array on one device lies in memory that Python code can reach."""
    return next(iter(buffer.sharding.device_set)).platform == "cpu"


def host_view(buffer: Any) -> Any:
    """An object that holds the memory of a plain array on one device of the host. Waits for the array.

    While the object lives the memory keeps its content, even if the array is deleted or donated (XLA then
    copies). A DLPack capsule would do the same, but deleting an array with a capsule while it is computed
    aborts the process (0.10, 0.12).
    """
    try:
        return memoryview(buffer)
    except BufferError:
        # The protocol has no type in Python. ``buffer`` would keep its view forever, so a second array
        # exports it.
        return np.asarray(with_buffers(buffer, [buffer]))


def place_host_array(host: np.ndarray, buffer: Any) -> Any:
    """The NumPy array ``host`` as a JAX array on the device of ``buffer``, without a copy if its address
    allows that. The user's transfer guards do not apply to this transfer of lazynb."""
    return _put(host, buffer.aval, buffer.sharding, list(buffer.sharding.device_set), buffer._committed)


def _put(host: np.ndarray, aval: Any, sharding: Any, devices: list[Any], committed: bool) -> Any:
    if guards_transfers():
        with _config.transfer_guard_host_to_device("allow"):
            return _batched_device_put(aval, sharding, [host], devices, committed, _WIDE)
    return _batched_device_put(aval, sharding, [host], devices, committed, _WIDE)


_batched_device_put = _pxla.batched_device_put


def array_from_host_copy(host: np.ndarray, aval: Any, device: Any) -> Any:
    """The NumPy array ``host``, of the type ``aval``, as an uncommitted JAX array on ``device``. Its memory
    is copied before the function returns. The user's transfer guards do not apply."""
    if guards_transfers():
        with _config.transfer_guard_host_to_device("allow"):
            return _copied_in(host, aval, device)
    return _copied_in(host, aval, device)


def _copied_in(host: np.ndarray, aval: Any, device: Any) -> Any:
    sharding = uncommitted_sharding(device)
    return _xla_client.batched_device_put(aval, sharding, [host], [device], False, False, _DURING_CALL, _WIDE)


def array_type(host: np.ndarray) -> Any:
    """The type of a JAX array with the content of ``host``."""
    return _array_type(host.shape, host.dtype)


@functools.lru_cache(1024)
def _array_type(shape: tuple[int, ...], dtype: Any) -> Any:
    return _core.ShapedArray(shape, dtype)


_WIDE = True  # JAX halves 64-bit elements in 32-bit mode, whatever the type is, without this setting

_DURING_CALL = _xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL


def watch_memory(borrowed: Callable[[Any, Any], None], shared: Callable[[Any], None]) -> None:
    """Reports arrays whose memory other code may write.

    JAX aliases the memory of NumPy arrays when it assembles an array from shards. 0.12 does that in C++ for
    arguments that it moves to devices. No public object is replaced.

    Arguments:
      borrowed: called with a new array in host memory, and the source of that memory; the source is None for
        DLPack.
      shared: called with an array that is exported by DLPack.
    """

    def watched(handler: Callable[..., Any]) -> Callable[..., Any]:
        def shard(args: Sequence[Any], *rest: Any) -> Any:
            made = handler(args, *rest)
            for array, arg in zip(made, args):
                borrowed(array, arg)
            return made

        return shard

    def put_shards(aval: Any, sharding: Any, xs: Sequence[Any], *rest: Any, **more: Any) -> Any:
        made = _batched_device_put(aval, sharding, xs, *rest, **more)
        for x in xs:
            if is_host_array(x):
                borrowed(made, x)
        return made

    def place(array: Any, *rest: Any) -> Any:
        borrowed(array, None)
        return _place_array(array, *rest)

    def export(x: Any, *rest: Any, **more: Any) -> Any:
        shared(x)
        return _to_dlpack(x, *rest, **more)

    handlers = _pxla.shard_arg_handlers
    for cls, handler in list(handlers.items()) if hasattr(_config, "use_cpp_shard_args") else ():
        if isinstance(cls, type) and issubclass(cls, np.ndarray) and not issubclass(cls, np.ma.MaskedArray):
            handlers[cls] = watched(handler)
    _pxla.batched_device_put = put_shards
    _dlpack._place_array = place
    _dlpack._to_dlpack = export


_place_array, _to_dlpack = _dlpack._place_array, _dlpack._to_dlpack


def existing_arrays() -> list[Any]:
    """All arrays; none if JAX has no backend yet, because a query would start one."""
    return jax.live_arrays() if _xla_bridge.backends_are_initialized() else []


def out_of_memory(size: int) -> Exception:
    """The error that eager JAX raises if ``size`` bytes cannot be allocated."""
    return jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: Out of memory allocating {size} bytes.")


def deleted_array_error() -> Exception:
    """The error that eager JAX raises if a program waits for a deleted array."""
    return jax.errors.JaxRuntimeError(
        "INVALID_ARGUMENT: BlockHostUntilReady() called on deleted or donated buffer"
    )


@functools.cache
def deleted_array() -> jax.Array:
    """A deleted array, which raises the errors of eager JAX."""
    with set_current_trace(eval_trace):
        array = jax.device_put(np.zeros((), np.float32))
    array.delete()
    return array
