"""The substitutes for JAX's own functions while some thread is lazy.

The import of this module registers them, once in a process.
"""

from __future__ import annotations

from lazynb import _jax as jc
from lazynb.record import (
    array_creation,
    break_cause,
    closed_over,
    exponents,
    handing,
    indexed,
    listed,
)
from lazynb.record.blocks import patches
from lazynb.record.fast import called, functions, linearize, operators, shapes, transpose
from lazynb.record.tensor import LazyTensor
from lazynb.source import OWN_ROOT

operators.install()
jc.register_own_files(OWN_ROOT)
for _owner, _names in [
    *functions.substitutes(),
    (jc.ArrayImpl, operators.of_arrays(patches.rest.counted)),
    (jc.LinearizeTracer, operators.of_linearized(patches.rest.counted)),
    *called.substitutes(),
    *linearize.substitutes(),
    *shapes.substitutes(),
    *transpose.substitutes(),
]:
    patches.substitute(_owner, _names, for_speed=True)
for _owner, _names in [
    *break_cause.substitutes(LazyTensor),
    *array_creation.substitutes(),
    *closed_over.substitutes(),
    *exponents.substitutes(),
    *handing.substitutes(),
    *indexed.substitutes(),
    *listed.substitutes(),
    *jc.counted_changes(),
]:
    patches.substitute(_owner, _names)
