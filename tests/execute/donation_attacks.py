"""Programs over 8 devices in which it would be wrong to give memory away, each eagerly and lazily.

A process of its own runs them (``python tests/execute/donation_attacks.py``) and writes one line of JSON for
each: its name, the largest difference from eager JAX, and whether the first step took the memory of the array.
"""

from __future__ import annotations

import gc
import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from held_memory import BOTH, KEEP, MESH, ONE, ROWS, SAME, SHAPE, aligned, kept, places, put, ramp, steps
from jax.sharding import NamedSharding, PartitionSpec as P

import lazynb


def parts_of_mine(taken):
    """The whole is dead, and the parts it was put together of are not."""
    rows = [
        jax.device_put(ramp()[at * 128 :][:128], device) + 0 for at, device in enumerate(MESH.devices.flat)
    ]
    mesh = jax.sharding.Mesh(MESH.devices.reshape(-1), "d")
    lazynb.sync()
    x = jax.make_array_from_single_device_arrays(SHAPE, NamedSharding(mesh, P("d")), rows)
    boxed = [x]
    del x
    return [steps(boxed.pop(), taken), *map(np.array, rows)]


def whole_of_mine(taken):
    """A part is dead, and the whole it is in is not. Another part of that is still being computed."""
    big = (256, 1024)
    mesh = jax.sharding.Mesh(MESH.devices.reshape(-1)[:2], "d")
    first = jax.device_put(np.full(big, 3, np.float32), jax.devices()[0]) + 0
    lazynb.sync()
    jax.block_until_ready(first)
    slow = jax.device_put(np.full(big, 1 / 512, np.float32), jax.devices()[1])
    with lazynb.eager():
        for _ in range(20):
            slow = (slow @ slow.T @ slow) * 1.5
    whole = jax.make_array_from_single_device_arrays((512, 1024), NamedSharding(mesh, P("d")), [first, slow])
    del slow
    boxed = [first]
    del first
    return [steps(boxed.pop(), taken), np.array(whole)[:256]]


def numpy_sharded(taken):
    """Memory of NumPy's, which is written after the step was recorded and after it ran."""
    mine = aligned()
    x = jax.device_put(mine, ROWS)
    y = x * 0.5 + 1
    del x
    mine[:512] = 7
    lazynb.sync()
    z = np.array(y)
    mine[512:] = 8
    return [z, np.array(y), mine]


def numpy_replicated(taken):
    """Memory of NumPy's that is each of 8 parts."""
    mine = aligned()
    x = jax.device_put(mine, ONE)
    boxed = [x]
    del x
    return [steps(boxed.pop(), taken), mine]


def two_that_share(taken):
    """Two dead inputs of one memory, and two results."""
    x = put(ROWS)
    y = jax.device_put(x, SAME)
    a, b = x + 1, y * 3
    del x, y
    lazynb.sync()
    return [np.array(a), np.array(b)]


def two_traces(taken):
    x = put(ROWS) * 1
    lazynb.sync()
    with lazynb.lazy():
        later = x + 2
    boxed = [x]
    del x
    return [steps(boxed.pop(), taken), np.array(later)]


def part_zero_of_one(taken):
    """An array on one device whose memory is a part of one on 8."""
    x = jnp.asarray(ramp()) * 1
    lazynb.sync()
    everywhere = jax.device_put(x, ONE)
    boxed = [x]
    del x
    return [steps(boxed.pop(), taken), *[np.array(shard.data) for shard in everywhere.addressable_shards]]


def whole_of_one(taken):
    """An array on 8 devices is dead, and one on a single device has a part of its memory."""
    x = jnp.asarray(ramp()) * 1
    lazynb.sync()
    everywhere = jax.device_put(x, ONE)
    boxed = [everywhere]
    del everywhere
    return [steps(boxed.pop(), taken), np.array(x)]


def part_deleted(taken):
    """Someone deleted a part of another array."""
    x, other = put(ROWS), put(ROWS)
    other.addressable_shards[2].data.delete()
    boxed = [x]
    del x
    return [steps(boxed.pop(), taken), np.array(other.addressable_shards[1].data)]


def deleted_meanwhile(taken):
    """Its holder deletes an array, or a part of it, while a step that needs it is pending."""
    x, z = put(ROWS), put(ROWS)
    y, w = x + 1, z + 2
    x.delete()
    z.addressable_shards[2].data.delete()
    lazynb.sync()
    return [np.array(y), np.array(w)]


def given_away(taken):
    """The user gives the memory of an array away of which another one has a view."""
    x = put(ROWS)
    view = np.asarray(x.addressable_shards[1].data)
    step = jax.jit(lambda x: x * 0.5 + 1, donate_argnums=0)
    y = step(x)
    lazynb.sync()
    z = step(y)
    return [np.array(z), view]


def mixed_results(taken):
    """A dead sharded input, and a result of its type that lies otherwise on the devices."""
    x = put(ROWS) * 1
    lazynb.sync()
    y = jax.jit(lambda x: x * 0.5 + 1, out_shardings=ONE)(x)
    del x
    lazynb.sync()
    z = jax.jit(lambda x: x * 0.5 + 1, out_shardings=BOTH)(y)
    del y
    lazynb.sync()
    return [np.array(z), *[np.array(shard.data) for shard in z.addressable_shards]]


def callback_fails(taken):
    """A program that fails leaves its inputs."""

    def boom(x):
        raise ValueError("boom")

    x = put(ROWS) * 1
    lazynb.sync()
    z = x * 2
    raised = False
    try:
        y = jax.pure_callback(boom, jax.ShapeDtypeStruct((4,), jnp.float32), x[0, :4])
        del x
        jax.block_until_ready(y)
    except Exception:
        raised = True
    assert raised
    y = None
    gc.collect()
    return [np.array(z)]


def key_data(taken):
    """Random keys and their data."""
    keys = jax.random.split(jax.random.key(1), (1024, 128))
    x = jax.device_put(jax.random.key_data(keys), ROWS)
    again = jax.random.wrap_key_data(x)
    y = x + np.uint32(1)
    del x
    lazynb.sync()
    return [np.array(y), np.array(jax.random.key_data(again))]


def pmapped(taken):
    x = jax.pmap(lambda x: x * 2)(ramp().reshape(8, -1))
    part = x[3]
    boxed = [x]
    del x
    return [steps(boxed.pop(), taken), np.array(part)]


# ---- training ----------------------------------------------------------------------------------------------


def loss_of(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean(x * x)


def adam(weights, means, squares, x):
    loss, grads = jax.value_and_grad(loss_of)(weights, x)
    means = [0.9 * mean + 0.1 * grad for mean, grad in zip(means, grads)]
    squares = [0.99 * square + 0.01 * grad * grad for square, grad in zip(squares, grads)]
    pairs = zip(weights, means, squares)
    return [w - 1e-3 * mean / (jnp.sqrt(square) + 1e-8) for w, mean, square in pairs], means, squares, loss


def trained(sharding):
    """Six steps, with the state on each device (data parallel) or spread over them (FSDP)."""

    def program(taken):
        data = NamedSharding(MESH, P(("a", "b")))
        start = [np.random.default_rng(at).normal(size=(512, 512)).astype(np.float32) / 16 for at in range(2)]
        state = [[jax.device_put(w, sharding) + 0 for w in start]]
        state += [[jnp.zeros_like(w) for w in state[0]] for _ in range(2)]
        x = jax.device_put(start[0][:64] * 16, data)
        step = adam if jnp.ones(1).__class__ is lazynb.LazyTensor else jax.jit(adam, donate_argnums=(0, 1, 2))
        losses, found = [], []
        for _ in range(6):
            *state, loss = step(*state, x)
            losses.append(float(loss))
            jax.block_until_ready(state)
            found.append({place for leaf in jax.tree.leaves(state) for place in places(leaf)})
        taken.append(all(one == found[2] for one in found[3:]))
        return [np.array(losses)]

    return program


def programs():
    found = {
        "nothing": kept(lambda x: None, ROWS, False),
        "nothing replicated": kept(lambda x: None, ONE, False),
    }
    found["nothing inside"] = kept(lambda x: None, BOTH, True)
    found["nothing bfloat16"] = kept(lambda x: None, ROWS, False, jnp.bfloat16)
    found["a part, bfloat16"] = kept(KEEP["a shard's data"], ROWS, False, jnp.bfloat16)
    only = {"an equal sharding": ROWS, "one device": ONE}
    for number, (name, keep) in enumerate(KEEP.items()):
        inside, sharding = bool(number % 2), (ROWS, ONE, BOTH)[number % 3]
        found[name] = kept(keep, only.get(name, sharding), inside)
        if "shard" in name:
            found[f"{name}, again"] = kept(keep, only.get(name, sharding), not inside)
    own = (
        parts_of_mine, whole_of_mine, numpy_sharded, numpy_replicated, two_that_share, two_traces,
        part_zero_of_one, whole_of_one, part_deleted, deleted_meanwhile, given_away, mixed_results,
        callback_fails, key_data, pmapped,
    )  # fmt: skip
    found.update({program.__name__: program for program in own})
    return {**found, "data parallel": trained(ONE), "FSDP": trained(NamedSharding(MESH, P(("a", "b"))))}


def difference(one, other):
    pairs = list(zip(one, other, strict=True))
    for a, b in pairs:
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (a.shape, b.shape, a.dtype, b.dtype)
    return max(float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)))) for a, b in pairs)


def run(program):
    wanted = [np.array(one) for one in program([])]
    taken: list[bool] = []
    with lazynb.lazy():
        got = [np.array(one) for one in program(taken)]
    return {"difference": difference(wanted, got), "taken": any(taken)}


def main(names):
    for name, program in programs().items():
        if names and not any(one in name for one in names):
            continue
        try:
            result = run(program)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps({"name": name, **result}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
