"""The memory of arrays: what holds it, and how an array is made of it without a copy."""

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
    """The plain arrays, one a device, that a concrete array (or an array of random keys) consists of.

    Other values have none. Neither have strings, as no other code can read the memory where XLA keeps them.
    """
    plain = base_array(value)
    if type(plain) is not ArrayImpl or isinstance(plain.dtype, np.dtypes.StringDType):
        return []
    return [plain] if len(plain.sharding.device_set) == 1 else list(plain._arrays)


def live_arrays_on_backend(array: Any) -> list[Any]:
    """The arrays that exist in the backend of the plain array ``array``; ``jax.live_arrays`` asks the default
    one alone. The arrays of an array on several devices are among them once anybody asked for them."""
    return next(iter(array.sharding.device_set)).client.live_arrays()


def device_parts(array: Any) -> Sequence[Any]:
    """The arrays, one a device of this process, that a plain array consists of: itself if it is on one."""
    return array._arrays or ()


def address(part: Any) -> int | None:
    """Where a plain array on one device lies; None if it is deleted, not computed yet or has failed.

    A deleted array must not be asked whether it is ready: the process would end (0.10).
    """
    if part.is_deleted() or not part.is_ready():
        return None
    try:
        return part.unsafe_buffer_pointer()
    except RuntimeError:
        return None


def has_deleted_part(array: Any) -> bool:
    """Whether a concrete array, or a part of it on one device, is deleted. An array itself does not say so of
    a part (0.10, 0.12)."""
    return array.is_deleted() or any(part.is_deleted() for part in device_parts(base_array(array)))


def clear_shard_cache(array: Any) -> None:
    """Frees the list of shards that a plain array keeps when somebody asked for ``addressable_shards``."""
    vars(array).pop("addressable_shards", None)


def with_buffers(value: Any, parts: Sequence[Any]) -> Any:
    """An array of ``parts`` with the type, placement and commitment of ``value``, which may be deleted."""
    plain = base_array(value)
    made = ArrayImpl(plain.aval, plain.sharding, list(parts), committed=plain._committed, _skip_checks=True)
    return made if plain is value else type(value)(value._impl, made)


def replace_buffers(value: Any, others: Sequence[Any]) -> None:
    """Puts the arrays ``others``, which are like its :func:`buffers`, in place of the memory of ``value``."""
    plain = base_array(value)
    plain._replace_with(with_buffers(plain, others))


def restore_buffers(value: Any, taken: Any) -> bool:
    """Puts the memory of ``taken`` in place of that of ``value``; False if that is deleted, which lasts."""
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
    copies). A DLPack capsule would do the same, but with one, deleting an array that is still being computed
    aborts the process (0.10, 0.12).
    """
    try:
        return memoryview(buffer)
    except BufferError:
        # Python's protocol lacks the type. ``buffer`` itself would keep its view for good, so another array
        # is asked for one.
        return np.asarray(with_buffers(buffer, [buffer]))


def place_host_array(host: np.ndarray, buffer: Any) -> Any:
    """The NumPy array ``host`` as an array of JAX's where ``buffer`` is, without a copy if its address allows
    that. A guard of the user's against transfers does not count here: this transfer is lazynb's."""
    return _put(host, buffer.aval, buffer.sharding, list(buffer.sharding.device_set), buffer._committed)


def _put(host: np.ndarray, aval: Any, sharding: Any, devices: list[Any], committed: bool) -> Any:
    if guards_transfers():
        with _config.transfer_guard_host_to_device("allow"):
            return _batched_device_put(aval, sharding, [host], devices, committed, _WIDE)
    return _batched_device_put(aval, sharding, [host], devices, committed, _WIDE)


_batched_device_put = _pxla.batched_device_put


def array_from_host_copy(host: np.ndarray, aval: Any, device: Any) -> Any:
    """The NumPy array ``host``, of the type ``aval``, as an uncommitted array of JAX's on ``device``.

    Its memory is copied before this returns. A guard of the user's against transfers does not count, as in
    :func:`put`."""
    if guards_transfers():
        with _config.transfer_guard_host_to_device("allow"):
            return _copied_in(host, aval, device)
    return _copied_in(host, aval, device)


def _copied_in(host: np.ndarray, aval: Any, device: Any) -> Any:
    sharding = uncommitted_sharding(device)
    return _xla_client.batched_device_put(aval, sharding, [host], [device], False, False, _DURING_CALL, _WIDE)


def array_type(host: np.ndarray) -> Any:
    """The type of an array of JAX's like ``host``."""
    return _array_type(host.shape, host.dtype)


@functools.lru_cache(1024)
def _array_type(shape: tuple[int, ...], dtype: Any) -> Any:
    return _core.ShapedArray(shape, dtype)


_WIDE = True
"""What puts memory halves 64-bit elements in 32-bit mode, whatever the type says, if it is not told this."""

_DURING_CALL = _xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL


def watch_memory(borrowed: Callable[[Any, Any], None], shared: Callable[[Any], None]) -> None:
    """Reports arrays whose memory other code may write.

    JAX takes over memory of NumPy arrays where it puts an array together from shards. 0.12 does that in C++
    for arguments that it moves to devices. Nothing that the user sees is replaced.

    Arguments:
      borrowed: is called with an array just made of memory of the host's, and the source of that memory; the
        source is None for DLPack.
      shared: is called with an array that is handed out by DLPack.
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
    """The arrays that exist. There are none if JAX was not used yet; asking it would start its backends."""
    return jax.live_arrays() if _xla_bridge.backends_are_initialized() else []


def out_of_memory(size: int) -> Exception:
    """Returns the error that eager JAX raises if ``size`` bytes cannot be allocated."""
    return jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: Out of memory allocating {size} bytes.")


def deleted_array_error() -> Exception:
    """Returns the error that eager JAX raises if a program waits for a deleted array."""
    return jax.errors.JaxRuntimeError(
        "INVALID_ARGUMENT: BlockHostUntilReady() called on deleted or donated buffer"
    )


@functools.cache
def deleted_array() -> jax.Array:
    """A deleted array, which says itself what eager JAX says of one."""
    with set_current_trace(eval_trace):
        array = jax.device_put(np.zeros((), np.float32))
    array.delete()
    return array
