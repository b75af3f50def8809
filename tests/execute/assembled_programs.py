"""Programs over 8 devices that put arrays together of lazy ones, and save them, each eagerly and lazily.

A process of its own runs them (``python tests/execute/assembled_programs.py``) and writes one line of JSON for
each: its name, and what differs from eager JAX (nothing: an empty text). Those of Orbax take twenty seconds,
so they run only when they are named (``... Orbax``).
"""

from __future__ import annotations

import functools
import json
import os
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import make_array_from_callback, make_array_from_single_device_arrays
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

import lazynb

MESH = jax.make_mesh((4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
ROWS, BOTH, ONE = (NamedSharding(MESH, spec) for spec in (P("a"), P("a", "b"), P()))
SHAPE = (8, 16)


def x():
    return jax.device_put(jnp.arange(128.0).reshape(SHAPE), ROWS)


def parts_put(taken_before=None):
    """By JAX's function as it is in lazy mode, or as somebody took it before."""
    how = taken_before or jax.make_array_from_single_device_arrays
    whole = jnp.arange(128.0).reshape(SHAPE) * 2
    where = BOTH.addressable_devices_indices_map(SHAPE)
    return how(SHAPE, BOTH, [jax.device_put(whole[index], device) for device, index in where.items()])


def parts_computed():
    """The parts are pending, each on its device."""
    where = BOTH.addressable_devices_indices_map(SHAPE)
    parts = []
    for at, device in enumerate(where):
        with jax.default_device(device):
            parts.append(jax.device_put(jnp.full((2, 8), float(at)), device) + 1)
    return make_array_from_single_device_arrays(SHAPE, BOTH, parts) * 2


def parts_of_a_lazy_one():
    y = x() + 1
    return make_array_from_single_device_arrays(y.shape, ROWS, [shard.data for shard in y.addressable_shards])


def callback_of_jnp():
    return make_array_from_callback(SHAPE, BOTH, lambda index: jnp.arange(128.0).reshape(SHAPE)[index] + 1)


def callback_of_lazy():
    y = x() * 3
    return jax.make_array_from_callback(SHAPE, BOTH, lambda index: y[index])


def callback_of_keys():
    keys = jax.random.split(jax.random.key(0), 8)
    made = jax.make_array_from_callback((8,), NamedSharding(MESH, P("a")), lambda index: keys[index])
    return jax.random.key_data(made)


def callback_of_numpy():
    return jax.make_array_from_callback(SHAPE, ROWS, lambda index: np.ones(SHAPE, np.float32)[index]) + x()


def wrong_parts():
    try:
        make_array_from_single_device_arrays(SHAPE, BOTH, [jnp.ones((2, 8)) * 2])
    except ValueError as error:
        return str(error)


def local_data():
    return jax.make_array_from_process_local_data(ROWS, np.asarray(x() * 2))


def pmapped():
    return jax.pmap(lambda x: x + 1)(jnp.arange(16.0).reshape(8, 2) * 2)


def gathered(tiled):
    return multihost_utils.process_allgather({"w": x() * 2, "n": jnp.float32(3) + 1, "m": np.ones(3)}, tiled)


def saved(save):
    """What a checkpoint of lazy state gives back, with its sharding."""
    state = {"w": x() * 2, "step": jnp.int32(3) + 1, "b": {"v": jnp.ones((4, 8)) / 3}, "n": np.ones(3)}
    with tempfile.TemporaryDirectory() as folder:
        return save(os.path.join(folder, "one"), state)


def shapes(state):
    def one(leaf):
        if not isinstance(leaf, jax.Array):
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)

    return jax.tree.map(one, state)


def standard(folder, state):
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, state)
        checkpointer.wait_until_finished()
        return checkpointer.restore(folder, shapes(state))


def by_type(folder, state):
    import orbax.checkpoint as ocp

    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(folder, state)
        return checkpointer.restore(folder, args=ocp.args.PyTreeRestore(state))


def managed(folder, state):
    """Saves while a training loop goes on that could take the memory of what is being saved."""
    import orbax.checkpoint as ocp

    wide = jax.device_put(jnp.ones((1024, 512)), ROWS) * 2
    with ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=2)) as manager:
        for step in range(2):
            manager.save(step, args=ocp.args.StandardSave({"wide": wide, **state}))
            for _ in range(3):
                wide = wide + 1
                lazynb.sync()
        manager.wait_until_finished()
        target = {"wide": jax.ShapeDtypeStruct(wide.shape, wide.dtype, sharding=ROWS), **shapes(state)}
        return [manager.restore(step, args=ocp.args.StandardRestore(target)) for step in range(2)]


def dispatched():
    """Libraries choose by the class of a value."""
    kind = functools.singledispatch(lambda value: "other")
    kind.register(jax.Array, lambda value: "array")
    return [kind(x() * 2), kind(3), str(issubclass(type(x() * 2), jax.Array))]


def on_one_device():
    return make_array_from_single_device_arrays(
        (4,), SingleDeviceSharding(jax.devices()[3]), [jax.device_put(jnp.arange(4.0) * 2, jax.devices()[3])]
    )


PROGRAMS = {
    "single_device_arrays of device_put": parts_put,
    "single_device_arrays taken before": functools.partial(parts_put, make_array_from_single_device_arrays),
    "single_device_arrays of pending": parts_computed,
    "single_device_arrays of shards": parts_of_a_lazy_one,
    "single_device_arrays on one device": on_one_device,
    "single_device_arrays of too few": wrong_parts,
    "callback of jnp": callback_of_jnp,
    "callback of lazy": callback_of_lazy,
    "callback of keys": callback_of_keys,
    "callback of numpy": callback_of_numpy,
    "process_local_data": local_data,
    "pmap": pmapped,
    "process_allgather": functools.partial(gathered, False),
    "process_allgather tiled": functools.partial(gathered, True),
    "host_local to global": lambda: multihost_utils.host_local_array_to_global_array(x() * 2, MESH, P("a")),
    "global to host_local": lambda: multihost_utils.global_array_to_host_local_array(x() * 2, MESH, P("a")),
    "broadcast_one_to_all": lambda: multihost_utils.broadcast_one_to_all({"w": jnp.ones(3) * 2}),
    "assert_equal": lambda: multihost_utils.assert_equal(jnp.ones(3) * 2),
    "sync_global_devices": lambda: multihost_utils.sync_global_devices("here"),
    "singledispatch": dispatched,
    "Orbax StandardCheckpointer": functools.partial(saved, standard),
    "Orbax PyTreeCheckpointHandler": functools.partial(saved, by_type),
    "Orbax CheckpointManager": functools.partial(saved, managed),
}


def facts(leaf):
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return leaf
    value = np.asarray(leaf)
    if not isinstance(leaf, jax.Array):
        return str(leaf.dtype), leaf.shape, value.tolist()
    tiles = {device.id: str(index) for device, index in leaf.sharding.devices_indices_map(leaf.shape).items()}
    return str(leaf.dtype), leaf.shape, value.tolist(), tiles, leaf.committed, leaf.weak_type


def difference(program):
    wanted = jax.tree.map(facts, program())
    with lazynb.lazy():
        got = jax.tree.map(facts, program())
    return "" if wanted == got else f"{got} instead of {wanted}"[:900]


def main(names):
    """Runs the programs whose names begin with one of ``names``; without names, all that need no Orbax."""
    for name, program in PROGRAMS.items():
        if not name.startswith(tuple(names)) if names else name.startswith("Orbax"):
            continue
        try:
            differs = difference(program)
        except Exception as error:
            differs = f"{type(error).__name__}: {error}"[:600]
        print(json.dumps({"name": name, "differs": differs}), flush=True)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
