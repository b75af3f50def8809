"""Calls of the user's own jitted functions: constants they close over, arguments they donate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazynb import _jax as jc


def lift_constants(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Turns the arrays that a jitted function closes over into arguments of its call.

    So the key of the call does not depend on their values, and a re-run cell that closes over a new array is
    a hit.
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
    """Whether a call donates an argument that it also takes in another place: eager JAX then says what is
    wrong."""
    if True not in offered:
        return False
    given = [
        id(getattr(arg, "_value", None)) if getattr(arg, "_value", None) is not None else id(arg)
        for arg in args
    ]
    return any(offer and given.count(one) > 1 for one, offer in zip(given, offered))


def donated(args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]) -> list[int]:
    """The arguments whose memory a donating call takes: those that match a result in type, then in size.

    JAX takes no more than it can use (``mlir._set_up_aliases``), and the rest stay usable.
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
