"""Faults: programs in which one host does something else than the others.

Started as a rank by ``tests/hosts/ranks.py``, with the names of cases. Each case reports what this host was
told, and how long after it began. The last host is the one that is at fault.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from ranks import join, report

if __name__ == "__main__":
    number, count, arguments = join()

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import lazynb


class Data:
    """Arrays that are spread over all hosts."""

    def __init__(self) -> None:
        self.mesh = jax.make_mesh((count,), ("data",), axis_types=(AxisType.Auto,))
        self.x = self.put(np.arange(32.0, dtype=np.float32).reshape(8, 4) / 32, P("data"))
        self.w = self.put(np.ones(4, np.float32), P())

    def put(self, value: np.ndarray, spec: P) -> jax.Array:
        where = NamedSharding(self.mesh, spec)
        return jax.make_array_from_callback(value.shape, where, lambda index: value[index])


def step(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = x @ w
    return w - 0.1 * (x * y[:, None]).mean(0), (y * y).mean()


def same(data: Data, odd: bool) -> None:
    w = data.w
    for _ in range(3):
        w, loss = step(w, data.x)
        float(loss)


def reads(data: Data, odd: bool) -> None:
    """One host alone reads the loss in each step."""
    w = data.w
    for _ in range(3):
        w, loss = step(w, data.x)
        if odd:
            float(loss)
    np.asarray(w)


def reads_once(data: Data, odd: bool) -> None:
    w = data.w
    for number in range(3):
        w, loss = step(w, data.x)
        if odd and number == 1:
            float(loss)
    np.asarray(w)


def other_operation(data: Data, odd: bool) -> None:
    y = data.x @ data.w
    y = jnp.sin(y) if odd else jnp.cos(y)
    float(y.sum())


def scales(data: Data, odd: bool) -> None:
    """Eager JAX gives this host other weights than the others, and says nothing."""
    w, loss = step(data.w, data.x)
    if odd:
        w = w * 1.5
    w, loss = step(w, data.x)
    float(loss)


def other_collective(data: Data, odd: bool) -> None:
    y = data.x * 2
    float(y.max() if odd else y.sum())


def other_shape(data: Data, odd: bool) -> None:
    y = jnp.broadcast_to(data.w, (6 if odd else 4, 4)) * 2
    float(y.sum())


def other_order(data: Data, odd: bool) -> None:
    if odd:
        b, a = jnp.sin(data.x).sum(), jnp.cos(data.x).sum()
    else:
        a, b = jnp.cos(data.x).sum(), jnp.sin(data.x).sum()
    float(a + b)


def other_number(data: Data, odd: bool) -> None:
    y = data.x * 3 if odd else data.x * 4
    float(y.sum())


def once_more(data: Data, odd: bool) -> None:
    """All programs are known to all hosts; one host runs one of them once more."""
    for _ in range(3 if odd else 2):
        float((data.x + 1).sum())
    float((data.x * data.x).sum())


def keeps(data: Data, odd: bool) -> None:
    """No fault: one host alone keeps a value that all have computed."""
    y = data.x * 2
    z = y + 1
    if not odd:
        del y
    float(z.sum())


def unused(data: Data, odd: bool) -> None:
    """No fault: one host alone records something that nobody reads."""
    y = data.x * 2
    if odd:
        (y - 1).sum()
    float(y.sum())


def prints_after(data: Data, odd: bool) -> None:
    """No fault: one host alone reads, after all have run what it reads."""
    w, loss = step(data.w, data.x)
    lazynb.sync()
    if odd:
        float(loss)
    float(step(w, data.x)[1])


def raises(data: Data, odd: bool) -> None:
    w, loss = step(data.w, data.x)
    float(loss)
    if odd:
        raise ValueError("no such file")
    w, loss = step(w, data.x)
    float(loss)


def killed(data: Data, odd: bool) -> None:
    w, loss = step(data.w, data.x)
    float(loss)
    if odd:
        os.kill(os.getpid(), signal.SIGKILL)
    w, loss = step(w, data.x)
    float(loss)


def sleeps(data: Data, odd: bool) -> None:
    w, loss = step(data.w, data.x)
    float(loss)
    if odd:
        time.sleep(1000)
    w, loss = step(w, data.x)
    float(loss)


def late(data: Data, odd: bool) -> None:
    """No fault: one host comes later."""
    w, loss = step(data.w, data.x)
    float(loss)
    if odd:
        time.sleep(1)
    w, loss = step(w, data.x)
    float(loss)


def exits(data: Data, odd: bool) -> None:
    w, loss = step(data.w, data.x)
    float(loss)
    if odd:
        sys.exit(0)
    w, loss = step(w, data.x)
    float(loss)


def never_reads(data: Data, odd: bool) -> None:
    """No fault: one host alone reads the last value; the others run it when their program ends."""
    global last
    w, last = step(data.w, data.x)
    if odd:
        float(last)


def attempt(case: str, data: Data, odd: bool, **more: object) -> None:
    """Runs a case, and reports what this host was told."""
    start = time.monotonic()
    try:
        with lazynb.lazy():
            globals()[case](data, odd)
    except lazynb.LazynbError as error:
        took = time.monotonic() - start
        parts = {
            name: getattr(error, name, None) for name in ("lines", "step", "recorded", "missing", "line")
        }
        report(case=case, error=type(error).__name__, said=str(error), seconds=took, **parts, **more)
        if case in ENDING:
            raise
    else:
        report(case=case, error=None, seconds=time.monotonic() - start, **more)


ENDING = ("raises", "killed", "sleeps", "exits")
"""Cases after which a host is not there any more."""


def main() -> None:
    data, odd = Data(), number == count - 1
    for place, name in enumerate(arguments):
        attempt(name, data, odd)
        if place + 1 < len(arguments):
            attempt("same", data, odd)  # they are in step again


if __name__ == "__main__":
    main()
