"""Faults: programs in which one host does something else than the others.

Started as a rank by ``tests/hosts/ranks.py``, with the names of cases. Each case reports what this host was
told, and how long after it began; of a fault between two steps, after the first. The last host is the one
that is at fault.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
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
from lazynb.running.executable_cache import executables
from lazynb.running.hosts import host_agreement
from lazynb.running.hosts.host_proposal import agreed_constants


class Data:
    """Arrays that are spread over all hosts."""

    def __init__(self) -> None:
        self.mesh = jax.make_mesh((jax.process_count(),), ("data",), axis_types=(AxisType.Auto,))
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


def one_more_later(data: Data, odd: bool) -> None:
    w = data.w
    for number in range(10):
        w, loss = step(w, data.x)
        if odd and number == 7:
            w = w - 0.0
        float(loss)


def other_type(data: Data, odd: bool) -> None:
    x = data.put(np.ones((8, 4), np.int32 if odd else np.float32), P("data"))
    float((x * 2).sum())


def other_inside(data: Data, odd: bool) -> None:
    """The operations have the same names and types, and differ inside."""
    times = 3 if odd else 2
    half = jax.jit(lambda w: jax.lax.fori_loop(0, times, lambda _, w: w * 0.5, w))
    float(half(data.w).sum())


def prints(data: Data, odd: bool) -> None:
    """One host alone prints, in a function that others call."""
    w = data.w
    for _ in range(3):
        w, loss = step(w, data.x)
        if odd:
            show(loss)
    np.asarray(w)


def show(value: jax.Array) -> None:
    print(f"the loss is {value}")


def cannot_make(data: Data, odd: bool) -> None:
    """One host alone cannot compile what all are about to run."""
    make = executables.make
    if odd:
        executables.make = no_room
    try:
        float((jnp.sinh(data.x) * 2).sum())
    except MemoryError as error:
        report(case="cannot_make", own=str(error))
    finally:
        executables.make = make


def no_room(request: object) -> None:
    raise MemoryError("no room to compile")


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


def profiles(data: Data, odd: bool) -> None:
    """No fault: what would repeat a program of several hosts says that it does not."""
    y = (data.x * 6).sum()
    compilation = lazynb.compile(y)
    try:
        compilation.profile()
    except lazynb.LazynbError as error:
        report(case="profiles", own=type(error).__name__)
    float(y)


def own(data: Data, odd: bool) -> None:
    """No fault: what each host does with its own devices is its own affair."""
    before = [group.turn for group in host_agreement._groups.values()]
    for number in range(3 if odd else 1):
        float((jnp.arange(4.0) * number).sum())
    mine = jax.device_put(np.ones(3, np.float32), jax.local_devices()[0])
    float((jnp.sin(mine) if odd else jnp.cos(mine)).sum())
    assert [group.turn for group in host_agreement._groups.values()] == before


def other_memory(data: Data, odd: bool) -> None:
    """No fault: the others have forgotten that there was another number at the place, where this host takes
    all as inputs since."""
    float(scaled(data.x).sum())
    if not odd:
        lazynb.clear_cache()
    settled, agreed_constants.take = (
        [],
        lambda *given: settled.append(given) or type(agreed_constants).take(agreed_constants, *given),
    )
    try:
        for _ in range(3):
            assert float(scaled_again(data.x).sum()) == 8 * 4 * 3 * 31 / 64
    finally:
        del agreed_constants.take
    assert len(settled) == len(agreed_constants._ends) == (not odd)  # the next runs knew it


def scaled(x: jax.Array) -> jax.Array:
    return x * 5.0


def scaled_again(x: jax.Array) -> jax.Array:
    return x * 3.0


scaled_again.__code__ = scaled_again.__code__.replace(co_name="scaled")


def interrupted(data: Data, odd: bool) -> None:
    """No fault: the user interrupts a host that waits, which asks again."""
    w, loss = step(data.w, data.x)
    if odd:
        time.sleep(0.6)  # the first host is still at the barrier, or is not
    elif number == 0:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        float(loss)
    except KeyboardInterrupt:
        report(case="interrupted", own="interrupted")
        float(loss)


def crosses(data: Data, odd: bool) -> None:
    """The first host and the last wait for each other with programs of different groups of hosts."""
    float((data.x + 1).sum())
    if number in (0, count - 1):
        mesh = jax.sharding.Mesh(np.array([jax.devices()[0], jax.devices()[-1]]), ("data",))
        where = NamedSharding(mesh, P())
        v = jax.make_array_from_callback((4,), where, lambda index: np.ones(4, np.float32)[index])
        if odd:
            float((v * 2).sum())
    float((data.x * 2).sum())
    if number == 0:
        float((v * 2).sum())


def between_steps(data: Data, odd: bool, fault: Callable[[], object]) -> None:
    """Two steps of which each is read, and what one host does in between."""
    global began
    w, loss = step(data.w, data.x)
    float(loss)
    began = time.monotonic()
    if odd:
        fault()
    w, loss = step(w, data.x)
    float(loss)


def stops(data: Data, odd: bool) -> None:
    between_steps(data, odd, lambda: signal.raise_signal(signal.SIGINT))


def raises(data: Data, odd: bool) -> None:
    def fault() -> None:
        raise ValueError("no such file")

    between_steps(data, odd, fault)


def killed(data: Data, odd: bool) -> None:
    between_steps(data, odd, lambda: os.kill(os.getpid(), signal.SIGKILL))


def sleeps(data: Data, odd: bool) -> None:
    between_steps(data, odd, lambda: time.sleep(1000))


def late(data: Data, odd: bool) -> None:
    """No fault: one host comes later."""
    between_steps(data, odd, lambda: time.sleep(1))


def exits(data: Data, odd: bool) -> None:
    between_steps(data, odd, lambda: sys.exit(0))


def never_reads(data: Data, odd: bool) -> None:
    """No fault: one host alone reads the last value; the others run it when their program ends."""
    global last
    w, last = step(data.w, data.x)
    if odd:
        float(last)


def attempt(case: str, data: Data, odd: bool, **more: object) -> None:
    """Runs a case, and reports what this host was told."""
    global began
    began = time.monotonic()
    try:
        with lazynb.lazy():
            globals()[case](data, odd)
    except lazynb.LazynbError as error:
        took = time.monotonic() - began
        parts = {
            name: getattr(error, name, None) for name in ("lines", "step", "recorded", "missing", "line")
        }
        report(case=case, error=type(error).__name__, said=str(error), seconds=took, **parts, **more)
        if case in ENDING:
            raise
    else:
        report(case=case, error=None, seconds=time.monotonic() - began, **more)


ENDING = ("raises", "killed", "sleeps", "exits", "stops", "crosses")
"""Cases after which a host is not there any more."""


def main() -> None:
    data, odd = Data(), number == count - 1
    for place, name in enumerate(arguments):
        attempt(name, data, odd)
        if place + 1 < len(arguments):
            attempt("same", data, odd)  # they are in step again


if __name__ == "__main__":
    main()
