"""``shard_map`` over eight devices, eagerly and lazily; ``test_eight_devices.py`` runs this in a process of
its own. Prints what differs, and ends with 1 if anything does."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from eight_devices import AUTO, EXPLICIT, array, on
from jax import shard_map
from jax.sharding import AxisType, Mesh, PartitionSpec as P
from oracle import Call, Different, assert_all_same

import lazynb

ROWS = P("data")
X, T = array(on(AUTO, "data")), array(on(AUTO, "data", "model"))
V = array(on(AUTO), (8,))
TWO = Mesh(np.array(jax.devices()[:2]), ("data",), axis_types=(AxisType.Auto,))


def mapped(function, in_specs=ROWS, out_specs=ROWS, mesh=AUTO, **more):
    """A call of ``function`` over the devices of ``mesh``."""
    return lambda *args: shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **more)(*args)


def explicit(call):
    def under(*args):
        with jax.set_mesh(EXPLICIT):
            return call(*args)

    return under


def closes_over(x):
    """Runs at once, for the function branches on what it closes over."""
    scale = jnp.ones(()) * 2

    def inner(v):
        return v * scale if scale > 1 else v

    return shard_map(inner, mesh=AUTO, in_specs=P("data"), out_specs=P("data"))(x * 1)


def new_ref(v):
    return jax.freeze(jax.new_ref(v))


CALLS = [
    Call(mapped(lambda v: v * 2), (X,)),
    Call(mapped(lambda v: v * 2, out_specs=P("data", None)), (X,)),
    Call(mapped(lambda v: v.sum(), out_specs=P(), check_vma=False), (X,)),
    Call(mapped(lambda v: (v, {"whole": v.sum(0)}), out_specs=(P("data"), P(("data", "model")))), (X,)),
    Call(mapped(lambda v: v * 2, P("data", "model"), P("data", "model")), (T,)),
    Call(mapped(lambda v: v * 2, axis_names={"data"}), (V,)),
    Call(mapped(lambda v: v * 2, mesh=AUTO.abstract_mesh), (X,)),
    Call(mapped(lambda v: v + jax.device_put(1)), (X,)),
    Call(mapped(lambda v: v + jax.device_put(1, jax.devices()[0])), (X,), raises=True),
    Call(mapped(new_ref, check_vma=False), (X,), raises=True),
    Call(mapped(jax.jit(new_ref), check_vma=False), (X,)),
    Call(mapped(lambda v: v, mesh=TWO.abstract_mesh), (X,), raises=True),
    Call(closes_over, (X,)),
]
UNPLACED_CALLS = [Call(mapped(lambda v: v, mesh=AUTO.abstract_mesh), (np.ones((8, 4)),), raises=True)]
EXPLICIT_CALLS = [
    Call(explicit(mapped(lambda v: v * 2, mesh=EXPLICIT)), (array(on(EXPLICIT, "data")),)),
    Call(
        explicit(
            mapped(
                lambda v: jax.lax.all_gather(v, "data", tiled=True, to="reduced"),
                out_specs=P(reduced={"data"}),
                mesh=EXPLICIT,
            )
        ),
        (array(on(EXPLICIT, "data"), (8,)),),
    ),
]


def outside():
    """A tensor that outlives lazy mode is closed over outside of it."""
    with lazynb.lazy():
        scale = jnp.ones(()) * 2
    got = shard_map(lambda v: v * scale, mesh=AUTO, in_specs=P("data"), out_specs=P("data"))(jnp.ones(8))
    assert (np.asarray(got) == 2).all()


def traced_once():
    """The user's function runs once, as eagerly, and nothing that it takes is computed."""
    runs = []
    with lazynb.lazy():
        x = X.make() * 2
        mapped(lambda v: runs.append(v) or v + 1)(x)
        assert x.is_pending and len(runs) == 1, runs


def main():
    outside()
    traced_once()
    for calls in (CALLS, UNPLACED_CALLS, EXPLICIT_CALLS):
        try:
            assert_all_same(calls)
        except Different as difference:
            print(difference)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
