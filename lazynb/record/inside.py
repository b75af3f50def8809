"""The inside of an operation: the equations of the user's functions that it calls, each with its position.

A jitted function, a loop, a branch is one operation of the trace. Its equations are operations too, known by
where they stand: number of the jaxpr among the operation's, number of the equation in it, and so on inwards.
A library's jitted function (``jnp.where``) stays closed: nothing in it is the user's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from lazynb import _jax as jc
from lazynb.record.structure import Content
from lazynb.source import is_user_code

POSITION = "i{}.{}"
"""The name scope of an equation: which jaxpr of those of its call, and which equation of that."""

Path = tuple[int, ...]
"""The position of an equation inside of an operation: two numbers for each call around it."""

_opened: weakref.WeakKeyDictionary[Any, Content | None] = weakref.WeakKeyDictionary()


def opened(primitive: Any, params: dict[str, Any]) -> Hashable:
    """Which functions of the user's an operation, or an equation, calls: equal if the same equations are
    shown with what is inside; None if it calls none, and is shown closed."""
    if primitive.name not in jc.CALLING:
        return None
    bodies = tuple([_opened_in(jaxpr) for jaxpr in jc.jaxprs_in(params)])
    return bodies if any(body is not None for body in bodies) else None


def _opened_in(jaxpr: Any) -> Content | None:
    """What is opened in ``jaxpr``; None if none of its equations, or inside of these, was traced on a line of
    the user's."""
    if jaxpr not in _opened:
        calls = [eqn for eqn in jaxpr.eqns if eqn.primitive.name in jc.CALLING]
        inner = tuple([opened(eqn.primitive, eqn.params) for eqn in calls])
        is_users = any(one is not None for one in inner) or _is_written(jaxpr)
        _opened[jaxpr] = Content(inner) if is_users else None
    return _opened[jaxpr]


def _is_written(jaxpr: Any) -> bool:
    """Whether an equation was traced on a line of the user's.

    JAX traces its own functions once, and the equations of one that was first called in a backward pass have
    the traceback of what that differentiates (JAX 0.12): the user's lines count where they stand within the
    function.
    """
    own = jc.own_function(jaxpr)
    for eqn in jaxpr.eqns:
        codes = [code for code, _ in jc.instructions(eqn)]
        if own is not None:
            within = [number for number, code in enumerate(codes) if (code.co_name, code.co_filename) == own]
            del codes[within[-1] if within else 0 :]
        if any(map(is_user_code, codes)):
            return True
    return False


def positioned(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """``params`` with each equation inside under the scope of its position.

    Positions are the same whenever the operation is recorded again, so the program's cache keys are too.
    """
    return _positioned(primitive, params, {})


def _positioned(primitive: Any, params: dict[str, Any], known: dict[tuple[int, int], Any]) -> dict[str, Any]:
    """As :func:`positioned`. A function that is called twice stays one, as JAX lowers it once.

    Arguments:
      known: what was made of jaxprs, by their ids and numbers; they live as long as ``params``.
    """
    if opened(primitive, params) is None:
        return params
    numbers: Iterator[int] = iter(range(len(jc.jaxprs_in(params))))

    def made(jaxpr: Any) -> Any:
        key = (id(jaxpr), next(numbers))
        if key not in known:
            known[key] = _with_positions(jaxpr, key[1], known)
        return known[key]

    return {name: _exchanged(value, made) for name, value in params.items()}


def _exchanged(value: Any, made: Callable[[Any], Any]) -> Any:
    """A parameter with what is made of its jaxprs in their place."""
    if jc.is_jaxpr(value):
        return made(value)
    if jc.jaxprs_of(value):
        return type(value)(made(each) if jc.is_jaxpr(each) else each for each in value)
    return value


def _with_positions(jaxpr: Any, number: int, known: dict[tuple[int, int], Any]) -> Any:
    eqns = []
    for place, eqn in enumerate(jaxpr.eqns):
        params = _positioned(eqn.primitive, eqn.params, known)
        eqns.append(jc.under(eqn, POSITION.format(number, place), params))
    return jc.with_eqns(jaxpr, eqns)
