"""Operations that JAX refuses only when it lowers them: as eager JAX does so at the call, the first recording
finds out.

Lowering each operation on its own would take a millisecond each. Few can be refused:
:func:`lazynb._jax.may_be_refused` says which.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from lazynb import _jax as jc

_accepted: set[Any] = set()
_sound: weakref.WeakSet[Any] = weakref.WeakSet()  # jaxprs in which nothing is refused


def check(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Raises what lowering the operation raises, or one inside of it."""
    if jc.may_be_refused(primitive, avals, params):
        key = (primitive, tuple([aval.dtype for aval in avals]), params.get("precision"))
        if key not in _accepted:
            jc.lower_alone(primitive, avals, params)
            if "exported" not in params:  # each such function is another
                _accepted.add(key)
    for jaxpr in jc.jaxprs_in(params):
        if jaxpr not in _sound:
            for eqn in jaxpr.eqns:
                check(eqn.primitive, [var.aval for var in eqn.invars], eqn.params)
            _sound.add(jaxpr)
