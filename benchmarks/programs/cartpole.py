"""Cart-pole (Barto, Sutton and Anderson 1983, as in Gym): 2,048 environments, a plain Python loop.

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


def start(steps: int = STEPS, block: int = BLOCK) -> tuple[np.ndarray, ...]:
    """Position, velocity, angle, angular velocity; and how many steps the pole stood, all episodes
    together."""
    state = np.random.default_rng(0).uniform(-0.05, 0.05, (4, ENVIRONMENTS)).astype(np.float32)
    return (*state, np.zeros(ENVIRONMENTS, np.float32))


def each(steps: int = STEPS, block: int = BLOCK) -> list[tuple[Any, ...]]:
    """For each block of steps: the forces, and the states to begin anew with."""
    rng = np.random.default_rng(1)
    forces = FORCE * rng.choice([-1, 1], (steps, ENVIRONMENTS)).astype(np.float32)
    fresh = rng.uniform(-0.05, 0.05, (steps, 4, ENVIRONMENTS)).astype(np.float32)
    blocks = [range(at, at + block) for at in range(0, steps, block)]
    return [([forces[t] for t in times], [tuple(fresh[t]) for t in times]) for times in blocks]


def in_jax(steps: int = STEPS, block: int = BLOCK) -> Callable[..., Any]:
    """The block of steps."""
    from benchmarks.programs import cartpole_jax

    return cartpole_jax.block


def in_torch() -> Callable[..., Any]:
    """The block of steps."""
    from benchmarks.programs.cartpole_torch import block

    return block
