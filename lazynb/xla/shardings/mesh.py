"""The mesh of a program: on how many devices it runs, and which axes they make."""

from __future__ import annotations

import re

import jax
from jax.sharding import NamedSharding

from lazynb.targets.mesh import Layout
from lazynb.xla.program import CompiledTrace

Mesh = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and sizes of a mesh's axes."""

_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)")


def devices_of(trace: CompiledTrace) -> int:
    """On how many devices a program runs, each with a part of it."""
    count = _PARTITIONS.search(trace.text, 0, max(trace.text.find("\n"), 0))
    return int(count[1]) if count is not None else 1


def mesh_of(trace: CompiledTrace, layout: Layout | None) -> Mesh | None:
    """The mesh of a program; None if its inputs and results lie on none, or on several.

    Arguments:
      layout: the mesh that it was compiled for; None if that is the one on which its arrays lie.
    """
    if layout is not None:
        return tuple(name for name, _ in layout.axes), layout.sizes
    for arrays in ("input_shardings", "output_shardings"):
        given = jax.tree.leaves(getattr(trace.compiled, arrays, None))
        meshes = {one.mesh for one in given if isinstance(one, NamedSharding)}
        shapes = {(tuple(mesh.axis_names), tuple(mesh.axis_sizes)) for mesh in meshes}
        if shapes:
            return shapes.pop() if len(shapes) == 1 else None
    return None
