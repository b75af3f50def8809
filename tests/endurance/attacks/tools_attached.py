"""Tools attached to a program that records: hooks of ``sys.setprofile``, ``sys.settrace`` and ``sys.monitoring``
that use JAX themselves, at random events in the user's code, in JAX's and in lazynb's."""

from __future__ import annotations

import contextlib
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core

import lazynb
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.replay.native_replay import describe

TOOLS = ["profile", "trace"]
if (
    sys.version_info >= (3, 12) and describe() == "accelerated"
):  # Python code cannot see that such a hook runs
    TOOLS.append("monitoring")
_double = jax.jit(lambda a, n: a * 2 + n)


def program(seed: int) -> list[Any]:
    """Arrays computed in many ways: operators, functions, methods, jitted functions, gradients."""
    held = jnp.arange(6.0)
    x = held + seed
    results = []
    for turn in range(3):
        x = jnp.sin(x) * 2 + x[1:4].sum() - turn
        y = _double(x, 1.5)
        x = x.at[2].set(y[0])
        first, second = jnp.split(x, 2)
        x = jnp.concatenate([jnp.where(first > second, first, 0) ** 2, second]) if turn % 2 else x
        x = -(x + held) / (abs(x) + 1)
        results += [x, x.astype(jnp.int32) % 3, np.arange(6.0) * x, jnp.einsum("i,j->ij", x, x)]
    return [*results, jax.grad(lambda a: (a * x).sum())(x)]


def values(arrays: list[Any]) -> list[Any]:
    return [np.asarray(array).tolist() for array in arrays]


class Tool:
    """A hook that uses JAX, with the probability ``often`` for each event.

    Events within ``Primitive.bind`` are left out: there JAX has no current trace, and fails in eager mode too.
    """

    def __init__(self, seed: int, often: float):
        self.random, self.often = random.Random(seed), often
        self.made: list[tuple[Any, Any]] = []
        self.used = 0
        self.errors: list[str] = []
        self._busy = False

    def __call__(self, *_: Any) -> Any:
        trace = core.trace_ctx.trace
        usable = trace is core.eval_trace or isinstance(trace, LazyTrace)
        if usable and not self._busy and self.random.random() < self.often:
            self._busy = True
            try:
                self.use()
            except RecursionError as error:  # JAX's, in a hook within a function whose results it keeps
                if "Recursively calling" not in str(error):
                    raise
            except BaseException:
                self.errors.append(traceback.format_exc(limit=-6))
            finally:
                self._busy = False
        return self

    def use(self) -> None:
        self.used += 1
        held = np.arange(6.0, dtype=np.float32)
        kind = self.random.randrange(6)
        if kind == 0:
            self.made.append((jnp.ones(3) * 2 + 5, [7.0, 7, 7]))
        elif kind == 1:
            self.made.append((jnp.arange(4)[1:] + 1, [2, 3, 4]))
        elif kind == 2:
            self.made.append((_double(jnp.asarray(held), 2), [2.0, 4, 6, 8, 10, 12]))
        elif kind == 3:
            values_there = [*sys._getframe(2).f_locals.values()]
            with contextlib.suppress(AttributeError):  # an object that is being made
                repr([one for one in values_there if type(one) is lazynb.LazyTensor])
        elif kind == 4:
            assert float(jnp.sum(held)) == 15.0
        elif self.made:
            value, expected = self.made.pop()
            assert np.asarray(value + 0).tolist() == expected

    @contextlib.contextmanager
    def attached(self, way: str) -> Iterator[None]:
        """In its body the hook is called by ``way``, one of :data:`TOOLS`."""
        if way == "monitoring":
            yield from self._monitors()
            return
        switch: Callable[[Any], None] = sys.setprofile if way == "profile" else sys.settrace
        switch(self)
        try:
            yield
        finally:
            switch(None)

    def _monitors(self) -> Iterator[None]:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        events = [monitoring.events.PY_START, monitoring.events.PY_RETURN, monitoring.events.LINE]
        monitoring.use_tool_id(4, "tools_attached")
        try:
            for event in events:
                monitoring.register_callback(4, event, lambda *given: (self(*given), None)[1])
            monitoring.set_events(4, sum(events))
            yield
        finally:
            monitoring.set_events(4, 0)
            for event in events:
                monitoring.register_callback(4, event, None)
            monitoring.free_tool_id(4)


def wrong_with(way: str, seed: int, often: float, read_inside: bool) -> list[str]:
    """Runs a program with a tool; what was wrong."""
    expected = values(program(seed % 4))
    tool = Tool(seed, often)
    wrong = []
    try:
        with lazynb.lazy():
            with tool.attached(way):
                arrays = program(seed % 4)
                found = values(arrays) if read_inside else []
            found = found or values(arrays)
        if found != expected:
            wrong.append(f"the program gave {found}, not {expected}")
    except Exception:
        wrong.append(traceback.format_exc(limit=-6))
    wrong += tool.errors
    wrong += [f"{value} is not {one}" for value, one in tool.made if np.asarray(value).tolist() != one]
    return wrong


def attack(seconds: float, seed: int) -> dict[str, int]:
    """Tries random tools for ``seconds``."""
    end, choose, figures = (
        time.monotonic() + seconds,
        random.Random(seed),
        dict(tries=0, lost=0, wrong=0, hung=0),
    )
    while time.monotonic() < end:
        given = (
            choose.choice(TOOLS),
            choose.randrange(10**6),
            choose.choice((0.0005, 0.002)),
            choose.random() < 0.5,
        )
        figures["tries"] += 1
        wrong = wrong_with(*given)
        if wrong:
            figures["wrong"] += 1
            print(f"tests.endurance.attacks.tools_attached.wrong_with{given}:", *wrong, sep="\n")
    return figures
