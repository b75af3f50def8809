"""A donated input gives its memory to the result that it becomes: nothing of the state is copied in a step."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import lazynb
from lazynb.running import donation
from lazynb.running.donation import donation_order
from lazynb.running.executable_cache import executables

SIDE = 512
NAMES = "dabc"  # the forward pass meets them in another order than a tree does


def weights():
    keys = jax.random.split(jax.random.key(0), len(NAMES))
    return {name: jax.random.normal(key, (SIDE, SIDE)) / SIDE**0.5 for name, key in zip(NAMES, keys)}


def loss_of(w, x):
    for name in NAMES:
        x = jnp.tanh(x @ w[name])
    return (x**2).mean()


def adam():
    return optax.adam(1e-3), False


def adam_with_gradients_kept():
    return optax.adam(1e-3), True


def momentum():
    return optax.sgd(1e-2, momentum=0.9), True


def averaged():
    return optax.chain(optax.adamw(1e-3), optax.ema(0.99)), False


def copies_of(text: str) -> int:
    """How many copies of a whole matrix the entry computation has."""
    entry = text[text.index("\nENTRY") :]
    return len(re.findall(rf"= f32\[{SIDE},{SIDE}\]\S* copy\(", entry))


def trained(optimizer, keeps: bool, step):
    """A state after some steps. With ``keeps`` the gradients are still in reach when the step is run."""
    w, x = weights(), jax.random.normal(jax.random.key(1), (4, SIDE))
    state = optimizer.init(w)
    for _ in range(5):
        w, state, loss, gradients = step(w, state, x)
        if not keeps:
            del gradients
        jax.block_until_ready(loss)
    return w, state


@pytest.mark.parametrize("make", [adam, adam_with_gradients_kept, momentum, averaged])
def test_a_step_copies_no_more_of_the_state_than_under_jit(make):
    optimizer, keeps = make()

    def step(w, state, x):
        loss, gradients = jax.value_and_grad(loss_of)(w, x)
        updates, state = optimizer.update(gradients, state, w)
        return optax.apply_updates(w, updates), state, loss, gradients

    lazynb.clear_cache()
    with lazynb.lazy():
        lazily = trained(optimizer, keeps, step)
    last = next(reversed(executables.order))
    assert len(last.donated) >= 2 * len(NAMES) and last.runs > 1
    jitted = jax.jit(step, donate_argnums=(0, 1))
    under = trained(optimizer, keeps, jitted)
    w = weights()
    text = jitted.lower(w, optimizer.init(w), jnp.ones((4, SIDE))).compile().as_text()
    assert copies_of(last.compiled.as_text()) <= copies_of(text)
    for one, other in zip(jax.tree.leaves(lazily), jax.tree.leaves(under), strict=True):
        apart = np.linalg.norm(np.asarray(one) - np.asarray(other))  # Adam makes much of a rounding
        assert apart <= 1e-3 * np.linalg.norm(np.asarray(other))


def test_reordered_results_reach_their_own_tensors():
    """The order of XLA's results is another one, and each tensor has its own."""
    a, b = jnp.full((SIDE, SIDE), 2.0), jnp.full((SIDE, SIDE), 3.0)
    lazynb.clear_cache()
    with lazynb.lazy():
        for _ in range(3):
            b, total, a = b + 1, (a * b).sum(), a * 2
            lazynb.sync()
        last = next(reversed(executables.order))
        assert last.order != sorted(last.order)
        assert float(a[0, 0]) == 16 and float(b[0, 0]) == 6 and float(total) == 8 * 5 * SIDE**2


def of_pending(tensor):
    pending = tensor._pending
    return pending.state.path(), tuple([one._slot for one in pending.live()])


def test_a_donated_input_is_paired_with_its_nearest_result_then_with_the_rest():
    with lazynb.lazy():
        x, y, z = (jnp.full((SIDE, SIDE), float(number)) for number in range(3))
        lazynb.sync()
        other = x @ y @ z
        first, second, third = z * 0.9 + x, x + y, jnp.exp(other)
        path, wanted = of_pending(third)
        # The inputs in the order of their use are x, y, z; ``other`` comes one operation after z alone.
        assert len(wanted) == 4
        order = donation_order(path, wanted, (0, 1, 2))
        assert [wanted[at] for at in order] == [one._slot for one in (first, second, other, third)]
        assert donation_order(path, wanted, ()) == [0, 1, 2, 3]
        lazynb.sync()


def test_a_donated_input_without_an_update_is_paired_with_a_remaining_result():
    with lazynb.lazy():
        x, y = jnp.ones((SIDE, SIDE)), jnp.zeros((SIDE, SIDE))
        lazynb.sync()
        small = y.sum()
        result = x * small
        path, wanted = of_pending(result)
        order = donation_order(path, wanted, (0,))  # the first input is y, of which ``result`` is no update
        assert wanted[order[0]] == result._slot
        lazynb.sync()
    assert donation.is_large(result.aval)
