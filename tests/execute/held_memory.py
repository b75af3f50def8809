"""Ways in which a user holds (a part of) the memory of an array over 8 devices, while a loop goes on with it.

The process must have 8 devices.
"""

from __future__ import annotations

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P

import lazynb

MESH = jax.make_mesh((4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
SHAPE = (1024, 512)  # 2 MB
ROWS, BOTH, ONE = (NamedSharding(MESH, spec) for spec in (P("a"), P("a", "b"), P()))
SAME = NamedSharding(MESH, P("a", None))  # as ROWS, written otherwise


class Node:
    """Something that can be part of a cycle."""


def ramp(dtype=np.float32):
    return np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE).astype(dtype) / 1024


def aligned():
    """A NumPy array whose memory JAX takes without a copy."""
    memory = np.empty(SHAPE[0] * SHAPE[1] + 64, np.float32)
    start = -memory.ctypes.data % 64 // 4
    array = memory[start : start + SHAPE[0] * SHAPE[1]].reshape(SHAPE)
    array[...] = ramp()
    return array


def put(sharding, dtype=np.float32):
    """An array that was made outside of lazynb, and shares memory with nothing."""
    with lazynb.eager():
        return jax.block_until_ready(jax.device_put(jnp.asarray(ramp(dtype)), sharding) + 0)


def in_cycle(x):
    node = Node()
    node.me, node.x = node, x
    return node


def in_thread(x):
    """Another thread holds it."""
    go, seen = threading.Event(), []

    def work(x):
        go.wait()
        seen.append(np.array(x))

    thread = threading.Thread(target=work, args=(x,))
    thread.start()

    def read():
        go.set()
        thread.join()
        return seen

    return read


def eagerly(function):
    def call(x):
        with lazynb.eager():
            return function(x)

    return call


KEEP = {
    "a list": lambda x: [x],
    "a cycle": in_cycle,
    "a thread": in_thread,
    "a shard's data": lambda x: x.addressable_shards[3].data,
    "a shard": lambda x: x.addressable_shards[5],
    "all shards": lambda x: x.addressable_shards,
    "global shards": lambda x: x.global_shards[1],
    "addressable_data": lambda x: x.addressable_data(2),
    "JAX's list of parts": lambda x: x._arrays,
    "a view of the whole": np.asarray,
    "a view of a part": lambda x: np.asarray(x.addressable_shards[1].data),
    "a memoryview of a part": lambda x: memoryview(x.addressable_shards[1].data),
    "DLPack of a part": lambda x: np.from_dlpack(x.addressable_shards[1].data),
    "JAX's DLPack of a part": lambda x: jax.dlpack.from_dlpack(x.addressable_shards[1].data),
    "the same sharding": lambda x: jax.device_put(x, x.sharding),
    "an equal sharding": lambda x: jax.device_put(x, SAME),
    "one device": lambda x: jax.device_put(x, jax.devices()[3]),
    "a copy": copy.copy,
    "a pickle": pickle.dumps,
    "an eager identity": eagerly(jax.jit(lambda x: x)),
    "a closure": lambda x: (lambda f: lambda: f())(jax.jit(lambda: x + 1)),
    "an array of its parts": lambda x: jax.make_array_from_single_device_arrays(
        x.shape, x.sharding, [shard.data for shard in x.addressable_shards]
    ),
    "a local array": lambda x: multihost_utils.global_array_to_host_local_array(x, MESH, x.sharding.spec),
    "a pending value": lambda x: x * 2,
    "a host copy under way": lambda x: (x.copy_to_host_async(), x.addressable_data(1))[1],
}


def read(kept):
    """What a user finds in ``kept`` in the end."""
    if isinstance(kept, Node):
        return [np.array(kept.x)]
    if callable(kept):
        kept = kept()
    if isinstance(kept, bytes):
        kept = pickle.loads(kept)
    found = []
    for leaf in kept if isinstance(kept, list | tuple) else [kept]:
        found.append(np.array(getattr(leaf, "data", leaf) if hasattr(leaf, "replica_id") else leaf))
    return found


def places(x):
    """Where the parts of a computed array lie. Looking hands nothing out."""
    value = getattr(x, "_value", x) if isinstance(x, lazynb.LazyTensor) else x
    return [part.unsafe_buffer_pointer() for part in value._arrays]


def steps(x, taken):
    """Three steps of a loop that refers to its last state alone."""
    before = places(x) if x.is_ready() else None
    for _ in range(3):
        y = x * 0.5 + 1
        del x
        lazynb.sync()
        x = y
        del y
        if before is not None:
            taken.append(before == places(x))
            before = None
    return np.array(x)


def kept(keep, sharding, inside, dtype=np.float32):
    def program(taken):
        x = put(sharding, dtype)
        if inside:
            x = x * 1
            lazynb.sync()
            jax.block_until_ready(x)
        held = keep(x)
        boxed = [x]
        del x
        return [steps(boxed.pop(), taken), *read(held)]

    return program
