"""What is in place of JAX's own while some thread is lazy. Importing this module arranges it, once a process."""

from __future__ import annotations

from lazynb import _jax_compat as jc
from lazynb.record import functions, linearize, operators, transpose
from lazynb.record.mode import patches

operators.install()
for _owner, _names in [*functions.substitutes(), (jc.ArrayImpl, operators.of_arrays()),
                       (jc.LinearizeTracer, operators.of_linearized()), *linearize.substitutes(), *transpose.substitutes(),
                       *jc.counted_changes()]:
    patches.substitute(_owner, _names)
