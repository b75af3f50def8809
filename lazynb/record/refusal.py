"""Operations that JAX refuses only when it lowers them: the first recording checks for that.

Eager JAX refuses such an operation at the call. To lower each operation on its own would take a millisecond.
Only few can be refused, see :func:`lazynb._jax.may_be_refused`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from lazynb import _jax as jc

_accepted: set[Any] = set()
_sound: weakref.WeakSet[Any] = weakref.WeakSet()  # jaxprs without a refused operation


def check(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Raises JAX's error if the operation, or one inside of it, cannot be lowered."""
    if jc.may_be_refused(primitive, avals, params):
        key = (primitive, tuple([aval.dtype for aval in avals]), params.get("precision"))
        if key not in _accepted:
            jc.lower_alone(primitive, avals, params)
            if "exported" not in params:  # an exported function is no part of the key
                _accepted.add(key)
    for jaxpr in jc.jaxprs_in(params):
        if jaxpr not in _sound:
            for eqn in jaxpr.eqns:
                check(eqn.primitive, [var.aval for var in eqn.invars], eqn.params)
            _sound.add(jaxpr)
