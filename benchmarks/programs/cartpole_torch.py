"""Cart-pole in PyTorch."""

from __future__ import annotations

import torch

from benchmarks.programs.cartpole import (
    GRAVITY,
    HALF_LENGTH,
    MASS,
    MOMENT,
    MOST_ANGLE,
    MOST_X,
    POLE_MASS,
    TAU,
)


def step(state, force, fresh):
    """One step of every environment; those whose pole fell begin anew."""
    x, x_dot, theta, theta_dot, stood = state
    cos, sin = torch.cos(theta), torch.sin(theta)
    push = (force + MOMENT * theta_dot**2 * sin) / MASS
    theta_acc = (GRAVITY * sin - cos * push) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos**2 / MASS))
    x_acc = push - MOMENT * theta_acc * cos / MASS
    x = x + TAU * x_dot
    x_dot = x_dot + TAU * x_acc
    theta = theta + TAU * theta_dot
    theta_dot = theta_dot + TAU * theta_acc
    fell = (torch.abs(x) > MOST_X) | (torch.abs(theta) > MOST_ANGLE)
    moved = [torch.where(fell, new, old) for new, old in zip(fresh, (x, x_dot, theta, theta_dot))]
    return (*moved, stood + torch.where(fell, 0.0, 1.0))


def block(state, forces, fresh):
    """Some steps."""
    for force, new in zip(forces, fresh):
        state = step(state, force, new)
    return state
