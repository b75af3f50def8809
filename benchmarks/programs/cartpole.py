"""Cart-pole (Barto, Sutton and Anderson 1983, as in Gym): 2,048 environments, 1,000 steps, a plain Python
loop.

What is random is drawn beforehand, so that all do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ENVIRONMENTS, STEPS, BLOCK = 2048, 1000, 10

GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5
MASS = CART_MASS + POLE_MASS
MOMENT = POLE_MASS * HALF_LENGTH
FORCE, TAU = 10.0, 0.02
MOST_X, MOST_ANGLE = 2.4, 12 * 2 * np.pi / 360


def start() -> tuple[np.ndarray, ...]:
    """Position, velocity, angle, angular velocity; and how many steps the pole stood, all episodes
    together."""
    state = np.random.default_rng(0).uniform(-0.05, 0.05, (4, ENVIRONMENTS)).astype(np.float32)
    return (*state, np.zeros(ENVIRONMENTS, np.float32))


def each() -> list[tuple[Any, ...]]:
    """For each block of steps: the forces, and the states to begin anew with."""
    rng = np.random.default_rng(1)
    forces = FORCE * rng.choice([-1, 1], (STEPS, ENVIRONMENTS)).astype(np.float32)
    fresh = rng.uniform(-0.05, 0.05, (STEPS, 4, ENVIRONMENTS)).astype(np.float32)
    blocks = [range(at, at + BLOCK) for at in range(0, STEPS, BLOCK)]
    return [([forces[t] for t in block], [tuple(fresh[t]) for t in block]) for block in blocks]


def in_jax() -> Callable[..., Any]:
    """The block of steps."""
    from benchmarks.programs.cartpole_jax import block

    return block


def in_torch() -> Callable[..., Any]:
    """The block of steps."""
    from benchmarks.programs.cartpole_torch import block

    return block
