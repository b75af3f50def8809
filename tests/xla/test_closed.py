"""What cannot be opened is one operation with its line, and what stands around it is as anywhere else; what is mapped
over devices is opened."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas
from xla.statements import wrong_marks

import lazynb
from lazynb.running.compiler_dump import record_dumps


def pallas_call(v):
    def kernel(read, written):
        written[...] = read[...] * 2.0

    shape = jax.ShapeDtypeStruct(v.shape, v.dtype)
    return jnp.tanh(pallas.pallas_call(kernel, out_shape=shape, interpret=True)(v + 1.0))


def custom_linear_solve(v):
    return lax.custom_linear_solve(lambda u: u * 2.0, v, lambda _, b: b / 2.0) + 1.0


def doubled(v):
    return v * 2.0


def pure_callback(v):
    shape = jax.ShapeDtypeStruct(v.shape, v.dtype)
    return jax.pure_callback(lambda given: np.asarray(given) * 2.0, shape, v + 1.0) - 1.0


@pytest.mark.parametrize("function", [pallas_call, custom_linear_solve, pure_callback])
def test_a_closed_call_is_one_operation_with_its_line(function):
    with lazynb.lazy(), record_dumps():
        y = jax.jit(function)(jnp.ones((8, 8)))
        graph = lazynb.graph(y)
        assert str(graph) and graph.to_json()
        made = lazynb.compile(y)
        made.fates
    [node] = [node for node in made.snapshot.nodes if node.name == function.__name__]
    assert function.__name__ in node.place.text and not list(wrong_marks(made))
    assert made.snapshot.operations() > 1 and all(fate.kind != "lost" for fate in made.fates.values())


def test_a_function_with_compiler_options_is_a_break(clean):
    """A function with compiler options of its own runs at once."""
    with_options = jax.jit(doubled, compiler_options={"xla_embed_ir_in_executable": True})
    before = len(lazynb.breaks())
    with lazynb.lazy():
        y = with_options(jnp.ones((8, 8)))
        assert len(lazynb.graph(y)) == 0
    told = lazynb.breaks()[before:]
    assert [one.code for one in told] == ["LNB302"] and "with_options" in told[0].text + told[0].location.text
    assert jnp.array_equal(y, with_options(jnp.ones((8, 8))))


def test_a_shard_map_shows_shard_shapes_inside_and_the_whole_shape_outside():
    """Its lines are those of the function that it maps; XLA's collective belongs to the line that asks for it."""
    mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec

    def body(v):
        part = jnp.sin(v)
        total = lax.psum(part, "rows")
        return part * total

    def mapped(v):
        return jax.shard_map(body, mesh=mesh, in_specs=spec("rows"), out_specs=spec("rows"))(v)

    x = jax.device_put(np.ones((8, 8), np.float32), jax.sharding.NamedSharding(mesh, spec("rows")))
    for function in (mapped, jax.jit(mapped)):
        with lazynb.lazy(), record_dumps():
            y = function(x)
            made = lazynb.compile(y)
        nodes = {node.name: node for node in made.snapshot.nodes}
        assert (
            nodes["sin"].place.text == "part = jnp.sin(v)" and nodes["sin"].avals[0] == "float32[4,8]{V:rows}"
        )
        assert nodes["mul"].place.text == "return part * total"
        assert nodes["shard_map"].avals[0] == "float32[8,8]"
        [collective] = made.collectives
        assert [place.text for place in collective.places] == ['total = lax.psum(part, "rows")']
        assert not list(wrong_marks(made))
        assert all(fate.kind != "lost" for fate in made.fates.values())
