"""Calls of the user's own jitted functions: constants of their closures, and arguments that they donate."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

from lazynb import _jax as jc


def lift_constants(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Turns the arrays that a jitted function closes over into arguments of its call.

    So the key of the call does not depend on their values. A cell that runs again and closes over a new array
    is a hit.
    """
    jaxpr = params["jaxpr"]
    if not jaxpr.consts:
        return args, params
    lifted, consts = jc.separate_consts(jaxpr)
    front = len(consts)
    unspecified = jc.UNSPECIFIED
    return [*consts, *args], dict(
        params,
        jaxpr=lifted,
        in_shardings=(unspecified,) * front + tuple(params["in_shardings"]),
        in_layouts=(None,) * front + tuple(params["in_layouts"]),
        donated_invars=(False,) * front + tuple(params["donated_invars"]),
    )


def gives_twice(args: Sequence[Any], offered: Sequence[bool]) -> bool:
    """Whether a call donates an argument that it takes in another place too, which eager JAX refuses."""
    if True not in offered:
        return False
    identities = []
    for arg in args:
        value = getattr(arg, "_value", None)
        identities.append(id(arg) if value is None else id(value))
    donated_ids = [identity for identity, offer in zip(identities, offered) if offer]
    return any(identities.count(identity) > 1 for identity in donated_ids)


def donated(args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]) -> list[int]:
    """Numbers of the arguments whose memory a donating call takes: they match a result in type, or in size.

    JAX takes only the memory that it can use (``mlir._set_up_aliases``); the other arguments stay usable.
    """
    left = [jc.typeof(result) for result in results]
    offers = [number for number, offer in enumerate(offered) if offer]
    taken = []
    for measure in (lambda aval: (aval.shape, aval.dtype), lambda aval: aval.size * aval.dtype.itemsize):
        for number in offers:
            size = measure(jc.typeof(args[number]))
            match = next((aval for aval in left if measure(aval) == size), None)
            if number not in taken and match is not None:
                left.remove(match)
                taken.append(number)
    return taken


_looked_at: weakref.WeakSet[Any] = weakref.WeakSet()  # the jaxprs of donating calls


def warn_of_unusable(
    jaxpr: Any, args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]
) -> None:
    """Warns of arguments whose memory a donating call cannot use, once for each jaxpr.

    Eager JAX says so where it lowers the call (``mlir.lower_jaxpr_to_module``).
    """
    if True not in offered or jaxpr in _looked_at:
        return
    _looked_at.add(jaxpr)
    taken = donated(args, offered, results)
    left = [jc.typeof(arg) for number, arg in enumerate(args) if offered[number] and number not in taken]
    if left:
        text = f"Some donated buffers were not usable: {', '.join(map(str, left))}."
        warnings.warn(f"{text}\nThe function that donates them has no result of that type.", stacklevel=2)
