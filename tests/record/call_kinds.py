"""Each kind of what the accelerator does: short programs that make calls of it, by the kind's name.

A program is called in a lazy block again and again with the remembered calls by their names (``random_calls``),
and returns the tensors that it has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from random_calls import AROUND, ONE, TWO, WORDS, Run

import lazynb
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.replay import native_replay
from lazynb.running.trace_executable import Executable

Program = Callable[[dict[str, Any]], Any]

KINDS: dict[str, Program] = {}


def kind(program: Program) -> Program:
    KINDS[program.__name__] = program
    return program


X, Y = jnp.arange(4.0).reshape(2, 2), jnp.ones((2, 2))
INDEX, HALF = jnp.arange(2), jnp.float32(0.5)
PUT = jax.device_put(jnp.zeros((2, 2)), jax.devices()[0])
"""An array that is committed to its device, so that JAX records it each time."""


@contextlib.contextmanager
def fails(*errors: type[BaseException]) -> Iterator[None]:
    """The body has to raise one of ``errors``."""
    try:
        yield
    except errors:
        return
    raise AssertionError("nothing was raised")


@kind
def arrays(c):
    t = c["__mul__"](c["sin"](X), Y)
    for one in (X, Y, HALF, PUT, INDEX):
        t = c["__add__"](t, one)
    return c["maximum"](t, X)


@kind
def numbers(c):
    t = c["sin"](X)
    for one in (2.0, 3, True, 1j):
        t = c["__add__"](t, one)
        t = c["add"](one, t)
    for _ in range(5):
        t = c["__mul__"](t, random.random())  # noqa: S311
    return t


@kind
def numbers_of_numpy(c):
    t = c["sin"](X)
    for one in (np.float32(2), np.int64(3), np.True_, np.ones(2, np.float32)):
        t = c["__add__"](t, one)
        t = c["add"](t, one)
    return t


@kind
def tensors(c):
    t, u = c["sin"](X), c["__neg__"](c["sin"](Y))
    t = c["__add__"](t, u)
    return c["__lt__"](c["__sub__"](t, t), c["maximum"](u, c["__truediv__"](t, 2.0)))


@kind
def words_and_values(c):
    t = c["sum"](c["sin"](X), axis=0, keepdims=True)
    t = c["__mul__"](t, c["mean"](t, (0, 1), dtype=jnp.float32))
    t = c["reshape"](c["astype"](t, np.dtype("int32")), [-1])
    t = c["where"](c["__lt__"](t, 1), t, t)
    for index in (slice(None), ..., None, (None, slice(0, 1)), slice(0, None, None)):
        t = c["__getitem__"](t, index)
    return c["full_like"](c["expand_dims"](t, (0,)), 2.0)


@kind
def lists(c):
    t = c["sin"](X)
    both = c["concatenate"]([t, X, Y])
    parts = c["split"](both, 3)
    parts += c["split"](both, [1, 2])
    return [c["concatenate"]((parts[0], parts[1]), axis=1), *parts]


@kind
def argument_returned(c):
    t = c["sin"](X)
    return [c["asarray"](t) for _ in range(3)]


@kind
def wrong_arguments(c):
    t = c["sin"](X)
    inside = []
    inside.append(inside)
    cases = [
        ("__add__", (t, jnp.ones(3))),
        ("__mul__", (t, object())),
        ("__mul__", (t, [1, 2])),
        ("__add__", (t,)),
        ("__add__", (t, 1, 2)),
        ("__mul__", (t, 2**70)),
        ("sin", ("no number",)),
        ("sum", (t, 5)),
        ("sum", (t, {})),
        ("reshape", (t, inside)),
        ("reshape", (t, [[3]])),
        ("where", (t,) * 30),
        ("concatenate", ([t, object()],)),
    ]
    for name, args in cases:
        with contextlib.suppress(Exception):
            c[name](*args)
    with fails(TypeError):
        c["sum"](t, nothing=3)
    with fails(TypeError):
        c["add"](t, y=object())
    return t


class Unhashable(type):
    """The class of classes that have no hash, or one that raises."""

    def __hash__(cls):
        raise RuntimeError("no hash")


OTHER = Unhashable("Other", (), {})


@kind
def failing_hashes(c):
    t = c["sin"](X)
    for name, args in [("__add__", (t, OTHER())), ("add", (t, OTHER())), ("astype", (t, OTHER))]:
        with fails(RuntimeError):
            c[name](*args)
    return t


@kind
def failing_functions(c):
    def plain(t, number):
        if number > 1:
            raise ZeroDivisionError
        return t + number

    call = native_replay.replaying_function("failing", plain, False)
    t = c["sin"](X)
    with fails(ZeroDivisionError):
        call(t, 2)
    with fails(ZeroDivisionError):
        call(t, number=2)
    return call(t, 1)


@kind
def deleted(c):
    gone = jnp.ones((2, 2)) * 1
    t = c["__add__"](c["sin"](X), gone)
    lost = c["__add__"](t, 1.0)
    gone.delete()
    lost.delete()
    for one in (gone, lost):
        with fails(RuntimeError):
            c["__add__"](t, one)
        with fails(RuntimeError):
            c["add"](one, t)
        with fails(RuntimeError):
            c["concatenate"]([t, one])
    return t


given_away = jax.jit(lambda x: x + 1, donate_argnums=0)


@kind
def donated(c):
    t = c["__add__"](c["sin"](X), 1.0)
    u = given_away(t)
    with fails(RuntimeError):
        c["__add__"](u, t).block_until_ready()
    return c["__add__"](u, 1.0)


@kind
def sealed_between(c):
    t = c["__add__"](c["sin"](X), Y)
    with thread_trace().lock:
        thread_trace().seal()
    t = c["__add__"](c["__add__"](t, X), 2.0)
    with thread_trace().lock:
        thread_trace().seal()
    return c["sum"](t, axis=0)


@kind
def of_another_thread(c):
    made = []

    def work():
        with lazynb.lazy():
            t = c["__add__"](c["sin"](X), 3.0)
            made.append(t)
            made.append(c["__mul__"](t, Y).block_until_ready())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    t = c["sin"](X)
    for one in made:
        t = c["add"](one, c["__add__"](t, one))
    return t


def squared(c, x):
    return c["sum"](c["__mul__"](c["sin"](x), 2.0) if isinstance(x, lazynb.LazyTensor) else c["sin"](x))


@kind
def under_transformations(c):
    t = c["sin"](X)
    if "squared" not in c:
        c["squared"] = functools.partial(squared, c)  # the same each time, for JAX's caches
        c["squared jitted"] = jax.jit(c["squared"])
    return [jax.grad(c["squared"])(t), jax.vmap(c["squared"])(t), c["squared jitted"](t)]


@kind
def from_other_frames(c):
    def each(t):
        for _ in range(3):
            t = c["__add__"](t, 1.0)
            yield t

    async def later(t):
        await asyncio.sleep(0)
        return c["__mul__"](t, Y)

    t = list(each(c["sin"](X)))[-1]
    coroutine = later(t)
    with contextlib.suppress(StopIteration):
        while True:
            coroutine.send(None)
    t = [*map(c["sum"], [t, t])][0]
    return LIBRARY(c["__add__"], t, 2.0)


LIBRARY = eval(compile("lambda function, *args: function(*args)", jax.__file__, "eval"))
"""Calls a function from code that is not the user's."""


@kind
def other_configurations(c):
    t = c["sin"](X)
    with jax.default_matmul_precision("highest"):
        t = c["__matmul__"](t, Y)
    t = c["__matmul__"](t, Y)
    with jax.named_scope("block"):
        t = c["__add__"](t, Y)
    with jax.enable_x64(True):
        t = c["__add__"](t, 1.0)
    with lazynb.eager():
        c["add"](X, 1.0)
    return c["__add__"](t, 1.0)


@kind
def forgotten_paths(c):
    t = c["sin"](X)
    for number in range(3):
        t = c["__getitem__"](c["expand_dims"](t, 0), 0)
        t = c["__pow__"](t, number)
    lazynb.clear_cache()
    t = c["__add__"](c["sin"](X), 1.0)
    lazynb.clear_cache()
    return t


@kind
def random_calls(c):
    draw = random.Random(7)  # noqa: S311
    run = Run()
    for _ in range(25):
        names = [*TWO, *ONE, "where", "concatenate", "split", "expand_dims", "full_like"]
        picks = [draw.randrange(41) for _ in range(draw.randint(1, 3))]
        around = draw.choice([name for name in AROUND if name not in ("read", "delete")])
        run.step(c, (draw.choice(names), picks, draw.choice(WORDS), around))
    return [one for one in run.results if not one.is_deleted()]


class Late(Exception):
    """What the handler of a signal raises."""


@kind
def interrupted(c):
    def handler(*_):
        raise Late

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with contextlib.suppress(Late, ValueError):  # JAX makes one of what is raised while it compares keys
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 1e-3))  # noqa: S311
            t = c["sin"](X)
            for _ in range(60):
                t = c["__add__"](c["__mul__"](t, 2.0), Y)
                t = c["split"](c["concatenate"]([t, X]), 2)[0]
    finally:
        with contextlib.suppress(Late):
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@kind
def calls_themselves(c):
    if native_replay._fast is None:
        return
    for _ in range(3):
        call = native_replay.replaying_function("itself", lambda t: t, False)
        call.itself = call  # a cycle
        repr(call), call.__get__(None, object), call.__get__(X, type(X))()
        with fails(TypeError):
            native_replay._fast.Call(1, print, True)
        native_replay._fast.Call("deep", native_replay._fast.Call("er", print, True), True)


@kind
def configured_again(c):
    if native_replay._fast is None:
        return
    parts = native_replay._configuration()
    native_replay._fast.configure(parts)
    with fails(TypeError):
        native_replay._fast.configure({**parts, "LazyTensor": object})
    with fails(KeyError):
        native_replay._fast.configure({})


@kind
def handed_over(c):
    t = c["sin"](X)
    kept = [c["__add__"](t, 1.0), c["__mul__"](t, Y)]
    np.asarray(kept[0])
    t = c["__add__"](kept[1], jnp.float32(2))
    float(t[0, 0])
    return t


@kind
def handed_over_with_an_error(c):
    t = c["__mul__"](c["sin"](X), 3.0)
    np.asarray(t)
    t = c["__mul__"](c["sin"](X), 3.0)
    start = Executable.start
    Executable.start = failing_start
    try:
        with fails(jax.errors.JaxRuntimeError):
            np.asarray(t)
    finally:
        Executable.start = start
    return t


def failing_start(*_):
    raise jax.errors.JaxRuntimeError("no memory")


@jax.jit
def both(x, y):
    return {"sum": x + y, "product": [x * y, x]}


@kind
def jitted(c):
    t = c["sin"](X)
    for one in (Y, t, HALF, 2.0):
        t = both(t, one)["product"][0]
    return t


@jax.jit
def many(*arrays):
    return sum(arrays)


@kind
def of_many_arguments(c):
    t = c["sin"](X)
    for count in (23, 24, 25, 60):
        t = many(*[t] * count, Y)
    return many(*[2.0] * 30, t)


@kind
def places(c):
    def ask(depth):
        return native_replay.here(1) if depth == 0 else ask(depth - 1)

    for depth in (0, 1, 5, 90):
        assert ask(depth).code is ask.__code__
