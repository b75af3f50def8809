"""How inputs lie on a mesh: whole trees, and arrays that are spread over devices already."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P

import lazynb
from lazynb.xla.targets.target_mesh import BadMesh

TYPE = jax.ShapeDtypeStruct
MESH = AbstractMesh((2, 2), ("data", "model"))


def sharded(*axes):
    return TYPE((8, 8), jnp.float32, sharding=NamedSharding(MESH, P(*axes)))


PARAMS = {"w": TYPE((64, 32), jnp.float32), "layers": [{"w": TYPE((32, 32), jnp.float32), "b": np.ones(32)}]}


def by_path(path, leaf):
    return P(None, "model") if path.endswith("w") else None


@pytest.mark.parametrize(
    "like, axes",
    [
        (P("model"), [("model",)] * 3),
        (sharded("data"), [("data",)] * 3),
        (NamedSharding(MESH, P(("data", "model"))), [(("data", "model"),)] * 3),
        (by_path, [(), (None, "model"), (None, "model")]),
        ({"w": P("data"), "layers": P("model")}, [("model",), ("model",), ("data",)]),
        (
            {"w": None, "layers": [{"w": sharded(None, "model"), "b": P()}]},
            [(), (None, "model"), ()],
        ),
        (lambda path, leaf: "data,." if leaf.ndim > 1 else None, [(), ("data", None), ("data", None)]),
    ],
)
def test_shard_like_takes_the_axes_of_its_example(like, axes):
    found = lazynb.shard_like(PARAMS, like)
    assert [one for _, one in found.said()] == axes
    assert [name for name, _ in found.said()] == ["layers/0/b", "layers/0/w", "w"]
    assert found.of(PARAMS["w"]) == axes[2] and found.of(np.ones(32)) is None


@pytest.mark.parametrize(
    "arrays, like, words",
    [
        (PARAMS, TYPE((8,), jnp.float32), "lies on no mesh"),
        (PARAMS, None, "lies on no mesh"),
        (PARAMS, {"w": P()}, "a tree of another structure"),
        (PARAMS, lambda path, leaf: 3, "int does not say how layers/0/b lies"),
        (PARAMS, {"w": P(), "layers": 3}, "int does not say how layers/0/b lies"),
        ({"w": "text"}, P(), "w is no array, but str"),
        (7, P(), "what it was given is no array, but int"),
    ],
)
def test_an_example_without_shardings_is_refused(arrays, like, words):
    with pytest.raises(BadMesh) as raised:
        lazynb.shard_like(arrays, like)
    assert words in str(raised.value)


def layer(params, x):
    return jnp.tanh(x @ params["w"]) @ params["layers"][0]["w"] + params["layers"][0]["b"]


def test_a_tree_of_types_is_sharded(needs):
    needs("v5e")
    x = TYPE((128, 64), jnp.float32)

    def arguments(*shard):
        made = lazynb.compile(layer, PARAMS, x, target="v5e:2x2", mesh="data=2,model=2", shard=list(shard))
        module = made.traces[0].module
        shapes = [each.shape for each in module.computations[module.entry].parameters]
        return sorted(shape.partition("{")[0] for shape in shapes)

    tree = lazynb.shard_like(PARAMS, by_path)
    whole = ["f32[128,64]", "f32[32,32]", "f32[32]", "f32[64,32]"]
    assert arguments() == whole
    assert arguments(tree) == ["f32[128,64]", "f32[32,16]", "f32[32]", "f32[64,16]"]
    assert arguments(tree, "x=data,.") == ["f32[32,16]", "f32[32]", "f32[64,16]", "f32[64,64]"]
    assert arguments(tree, {"params": P()}) == whole  # a name says more than a tree


def test_a_tree_of_arrays_shards_the_inputs_of_a_pending_value(needs):
    needs("v5e")
    with lazynb.lazy():
        x, w = jnp.ones((64, 256)), jnp.ones((256, 256))
        tree = lazynb.shard_like([x, w], P(None, "model"))  # pending still
        lazynb.sync()
        y = jnp.tanh(x) @ w
        whole = lazynb.compile(y, target="v5e:2x2", mesh="model=4")
        split = lazynb.compile(y, target="v5e:2x2", mesh="model=4", shard=tree)
    assert split.memory.argument_bytes * 3 < whole.memory.argument_bytes


@pytest.mark.parametrize(
    "shard, words",
    [
        ("q=data", "reads no 'q' that could be sharded: its inputs are"),
        (
            lazynb.shard_like([TYPE((4,), jnp.float32)], P("data")),
            "none of the arrays that lazynb.shard_like",
        ),
        (lazynb.shard_like([TYPE((4,), jnp.float32)], P("batch")), "sharded on 'batch'; the mesh has data"),
        ("x=data,data", "x is sharded on 'data' twice"),
        (3, "3 is no sharding"),
    ],
)
def test_a_shard_of_no_input_is_refused(shard, words):
    x = TYPE((64, 64), jnp.float32)
    with pytest.raises(BadMesh) as raised:
        lazynb.compile(lambda x: x + 1, x, target="v5e:2x2", mesh="data=4", shard=shard)
    assert words in str(raised.value)


HERE = """
    import jax, jax.numpy as jnp, lazynb
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.{kind},) * 2)
    x = jax.device_put(jnp.ones((64, 32)), NamedSharding(mesh, P("data")))
    w = jax.device_put(jnp.ones((32, 16)), NamedSharding(mesh, P(None, "model")))

    def said(made):
        collectives = [one.opcode for one in made.clusters if "all-" in one.opcode]
        print(made.target.title, made.memory.argument_bytes, *collectives, sep="|")

    def loss(x, w):
        return jnp.tanh(x @ w).sum() + jnp.zeros(()) * 2

    {body}
"""


def there(kind, body, tmp_path):
    """What a program prints that has eight devices."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(HERE).format(kind=kind, body=body))
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_sharded_arrays_keep_their_shardings(needs, kind, tmp_path):
    """Also where JAX's types name the axes, and where a mesh is in force."""
    needs("v5e")
    body = """
said(lazynb.compile(loss, x, w, target="v5e:4x4", mesh="data=4,model=4"))
said(lazynb.compile(loss, x, w, target="v5e:2x4"))
said(lazynb.compile(loss, x, w, target="v5e"))
with jax.set_mesh(mesh), lazynb.lazy():
    said(lazynb.compile(jnp.tanh(x @ w).sum(), target="v5e:4x4", mesh="data=4,model=4"))
"""
    lines = [line.split("|") for line in there(kind, body, tmp_path)]
    assert [title for title, *_ in lines] == [
        "16 TPU v5e (4x4)",
        "8 TPU v5e (2x4)",
        "TPU v5e",
        "16 TPU v5e (4x4)",
    ]
    assert ["all-reduce" in collectives for _, _, *collectives in lines] == [True, True, False, True]
    assert int(lines[0][1]) < int(lines[2][1])
