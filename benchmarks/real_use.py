"""Notebooks on other people's libraries: each cell lazily beside eagerly, three times each.

    python -m benchmarks.real_use [PROGRAM ...]

A program has a cell that imports and defines, and one that computes and runs three times. Each way has a
process of its own. The table says what the last cell gives, how many trace breaks it had, how many programs
XLA compiled, and how many seconds it took, each time. Programs whose libraries are not installed are left
out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

TIMES = 3

CNN = (
    """
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
from sklearn.datasets import load_digits
digits = load_digits()
images = jnp.asarray(digits.images[:512, :, :, None] / 16, jnp.float32)
labels = jnp.asarray(digits.target[:512])

class CNN(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Conv(1, 8, (3, 3), rngs=rngs)
        self.second = nnx.Conv(8, 16, (3, 3), rngs=rngs)
        self.out = nnx.Linear(64, 10, rngs=rngs)
    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.first(x)), (2, 2), (2, 2))
        x = nnx.avg_pool(nnx.relu(self.second(x)), (2, 2), (2, 2))
        return self.out(x.reshape(x.shape[0], -1))

def loss_of(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()
""",
    """
model = CNN(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)

@nnx.jit
def step(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(loss_of)(model, x, y)
    optimizer.update(model, grads)
    return loss

losses = []
for epoch in range(5):
    for start in range(0, 512, 64):
        losses.append(step(model, optimizer, images[start:start + 64], labels[start:start + 64]))
    losses[-1] = float(losses[-1])
accuracy = (jnp.argmax(model(images), -1) == labels).mean()
value = [losses[-1], float(accuracy)]
""",
)

POLICY = (
    """
import chex, gymnax, haiku as hk, jax, jax.numpy as jnp, optax
env, env_params = gymnax.make("CartPole-v1")
network = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([32, env.num_actions])(x)))
optimizer = optax.adam(1e-2)

def rollout(params, key, length=100):
    key, start = jax.random.split(key)
    observation, state = env.reset(start, env_params)
    def one(carry, key):
        observation, state = carry
        act, move = jax.random.split(key)
        action = jax.random.categorical(act, network.apply(params, observation))
        after, state, reward, *ended, _ = env.step(move, state, action, env_params)
        return (after, state), (observation, action, reward, jnp.stack(ended).any())
    return jax.lax.scan(one, (observation, state), jax.random.split(key, length))[1]

def returns_of(rewards, done):
    def one(after, at):
        reward, done = at
        total = reward + 0.99 * after * (1 - done)
        return total, total
    return jax.lax.scan(one, 0.0, (rewards, done), reverse=True)[1]
""",
    """
@jax.jit
def update(params, state, key):
    observations, actions, rewards, done = jax.vmap(rollout, (None, 0))(params, jax.random.split(key, 8))
    returns = jax.vmap(returns_of)(rewards, done.astype(jnp.float32))
    def loss(params):
        logits = jax.nn.log_softmax(network.apply(params, observations))
        chosen = jnp.take_along_axis(logits, actions[..., None], -1)
        return -(chosen[..., 0] * (returns - returns.mean())).mean()
    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value, rewards.sum() / (done.sum() + 8)

key = jax.random.key(0)
params = network.init(key, jnp.zeros(4))
state = optimizer.init(params)
for n in range(20):
    key, now = jax.random.split(key)
    before = params
    params, state, loss, length = update(params, state, now)
    chex.assert_trees_all_equal_shapes_and_dtypes(before, params)
    chex.assert_tree_all_finite(params)
    chex.assert_scalar_positive(float(length))
value = [float(loss), float(length)]
""",
)

BAYES = (
    """
import jax, jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from sklearn.datasets import load_diabetes
data = load_diabetes()
x, y = jnp.asarray(data.data[:, :4], jnp.float32) * 20, jnp.asarray(data.target / 100, jnp.float32)
""",
    """
def model(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([4]).to_event(1))
    offset, spread = numpyro.sample("offset", dist.Normal(0, 3)), numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights + offset, spread), obs=y)

mcmc = MCMC(NUTS(model), num_warmup=200, num_samples=200, progress_bar=False)
mcmc.run(jax.random.key(0), x, y)
svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.02), Trace_ELBO())
found = svi.run(jax.random.key(1), 400, x, y, progress_bar=False)
value = [float(mcmc.get_samples()["offset"].mean()), float(found.losses[-1])]
""",
)

FIT = (
    """
import diffrax, equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax
times = jnp.linspace(0.0, 3.0, 20)
seen = jnp.exp(-0.5 * times)[:, None] * jnp.array([1.0, 2.0])

class Decay(eqx.Module):
    rate: jax.Array
    def __call__(self, t, y, args):
        return -self.rate * y

def solve(model):
    return diffrax.diffeqsolve(diffrax.ODETerm(model), diffrax.Tsit5(), 0.0, 3.0, 0.1, seen[0],
                               saveat=diffrax.SaveAt(ts=times)).ys

optimizer = optax.adam(0.05)

@eqx.filter_jit
def step(model, state):
    loss, grads = eqx.filter_value_and_grad(lambda model: jnp.mean((solve(model) - seen) ** 2))(model)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(model, updates), state, loss
""",
    """
model = Decay(jnp.array([1.0, 1.0]))
state = optimizer.init(model)
for n in range(30):
    model, state, loss = step(model, state)
value = [float(loss), *map(float, model.rate)]
""",
)

PROGRAMS = {
    "flax nnx and optax: a CNN on digits": (("flax", "optax", "sklearn"), CNN),
    "haiku, gymnax, chex: policy gradient": (("haiku", "gymnax", "chex", "optax"), POLICY),
    "numpyro: NUTS and SVI": (("numpyro", "sklearn"), BAYES),
    "diffrax, equinox: a fit": (("diffrax", "equinox", "optax"), FIT),
}


def work(name: str, lazily: bool) -> list[dict[str, Any]]:
    """Runs a program in this process; one row for each time."""
    import jax
    from IPython.core.interactiveshell import InteractiveShell

    compiled: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if "backend_compile" in event else None
    )
    shell = InteractiveShell.instance()
    define, compute = PROGRAMS[name][1]
    if lazily:
        shell.run_cell("%load_ext lazynb").raise_error()
    shell.run_cell(define).raise_error()
    rows = []
    for _ in range(TIMES):
        compiled.clear()
        before, began = _breaks(lazily), time.perf_counter()
        shell.run_cell(compute).raise_error()
        seconds = time.perf_counter() - began
        rows.append(
            {
                "value": shell.user_ns["value"],
                "breaks": _breaks(lazily) - before,
                "compiled": len(compiled),
                "seconds": seconds,
            }
        )
    return rows


def _breaks(lazily: bool) -> int:
    if not lazily:
        return 0
    import lazynb

    return sum(one.count for one in lazynb.breaks())


def _run(name: str, way: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.real_use", "--work", way, name]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out.splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", nargs="*", help="words of their names")
    parser.add_argument("--work", choices=["eager", "lazy"], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        print("\n" + json.dumps(work(options.programs[0], options.work == "lazy")))
        return 0
    for name, (needs, _) in PROGRAMS.items():
        if options.programs and not any(word in name for word in options.programs):
            continue
        missing = [one for one in needs if find_spec(one) is None]
        if missing:
            print(f"{name}: not installed: {', '.join(missing)}")
            continue
        print(name, flush=True)
        for way in ("eager", "lazy"):
            for row in _run(name, way):
                value = ", ".join(f"{one:.6g}" for one in row["value"])
                counts = f"{row['compiled']:3} compiled  {row['breaks']:4} breaks"
                print(f"  {way:5}  {row['seconds']:7.2f} s  {counts}  {value}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
