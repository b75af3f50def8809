"""Random programs of which parts stand inside of jitted functions, loops and branches. A seed gives the same
program: the steps of ``random_program``, in stretches, each of them inside of something."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
from jax import lax
from xla.random_programs import BINARY, UNARY, RandomProgram, Step, inputs_of, random_program

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.compilation import Compilation


def taken(steps: tuple[Step, ...], found: list) -> list:
    """The values of ``steps``, which follow ``found``."""
    found = list(found)
    before = len(found)
    for step in steps:
        if step.kind in UNARY:
            found.append(UNARY[step.kind](found[step.first]))
        else:
            found.append(BINARY[step.kind](found[step.first], found[step.second]))
    return found[before:]


def _scanned(steps, found):
    def turn(carry, row):
        new = taken(steps, carry)
        return (*carry[:-1], new[-1] + row), new

    _, given = lax.scan(turn, tuple(found), jnp.arange(3.0))
    return [each[-1] for each in given]


def _counted(steps, found):
    def turn(number, carry):
        return (*carry[:-1], taken(steps, carry)[-1] * 0.5 + number)

    last = lax.fori_loop(0, 3, turn, tuple(found))
    return [last[-1] + number for number in range(len(steps))]


def _while(steps, found):
    last = lax.while_loop(
        lambda carry: carry[0] < 3,
        lambda carry: (carry[0] + 1, taken(steps, [*found[:-1], carry[1]])[-1]),
        (0, found[-1]),
    )
    return [last[1] * (number + 1.0) for number in range(len(steps))]


def _branched(steps, found):
    other = [found[-1] * (number + 0.5) for number in range(len(steps))]
    return lax.cond(found[0].sum() > 0.0, lambda: taken(steps, found), lambda: other)


def _differentiated(steps, found):
    given = jax.grad(lambda last: taken(steps, [*found[:-1], last])[-1].sum())(found[-1])
    return [*taken(steps, found)[:-1], given]


def _twice(steps, found):
    inner = jax.jit(lambda *values: taken(steps, values))
    once = inner(*found)
    return [one + other for one, other in zip(once, inner(*found[:-1], once[-1]))]


INSIDE = {
    "nothing": taken,
    "jit": taken,
    "twice": _twice,
    "scan": _scanned,
    "fori": _counted,
    "while": _while,
    "cond": _branched,
    "grad": _differentiated,
    "remat": lambda steps, found: jax.checkpoint(lambda *values: taken(steps, values))(*found),
}


def stretches(seed: int, program: RandomProgram) -> list[tuple[str, bool, tuple[Step, ...]]]:
    """What the steps stand in, whether that is inside of a jitted function, and the steps."""
    chance, found, start = random.Random(seed), [], 0
    while start < len(program.steps):
        stop = start + chance.randint(1, 4)
        kind = chance.choice(sorted(INSIDE))
        found.append((kind, kind == "jit" or chance.random() < 0.6, program.steps[start:stop]))
        start = stop
    return found


def values(seed: int, program: RandomProgram, x, y) -> list:
    """The values that are asked for."""
    found = [x, y]
    for kind, jitted, steps in stretches(seed, program):

        def part(*given, kind=kind, steps=steps):
            return INSIDE[kind](steps, list(given))

        found += (jax.jit(part) if jitted else part)(*found)
    return [found[number] for number in program.wanted]


def compiled(seed: int) -> Compilation:
    """The compilation of a program, as a user makes it who then looks at it."""
    program = random_program(seed)
    lazynb.clear_cache()
    x, y = map(jnp.asarray, inputs_of(program.shape))
    with lazynb.lazy(), record_dumps():
        wanted = values(seed, program, x, y)
        return lazynb.compile(*wanted)
