"""What JAX compiles by itself beside lazynb's programs: helpers of tens of milliseconds, such as
``jit(stage)``, which makes an array of a number, and what runs eagerly."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from lazynb.source import Spot, here

_LOWERING = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILING = "/jax/core/compile/backend_compile_duration"
_OWN = "jit(lazynb)"  # every program that lazynb makes (``_jax.building.closed_jaxpr``)


class JaxCompilation(NamedTuple):
    """A program that JAX compiled by itself.

    Attributes:
      name: as JAX calls it: ``jit(stage)``.
      spot: the user's line that ran.
      seconds: lowering and compiling, or loading from JAX's own cache.
    """

    name: str
    spot: Spot
    seconds: float


class _Listener:
    """Makes JAX's events into compilations. A program's lowering and its compilation are two events, one
    after the other in one thread."""

    def __init__(self, tell: Callable[[JaxCompilation], None]):
        self._tell = tell
        self._lowered = threading.local()

    def __call__(self, event: str, duration_secs: float, **about: Any) -> None:
        if event == _LOWERING:
            self._lowered.last = about.get("fun_name"), duration_secs
        elif event == _COMPILING and about.get("fun_name") != _OWN:
            name = str(about.get("fun_name", ""))
            lowered, seconds = getattr(self._lowered, "last", ("", 0.0))
            if lowered != name:
                seconds = 0.0
            self._lowered.last = "", 0.0
            self._tell(JaxCompilation(name, here(), seconds + duration_secs))


def listen(tell: Callable[[JaxCompilation], None]) -> None:
    """Calls ``tell`` with each program that JAX compiles by itself from here on, in the thread that waits for
    it."""
    jax.monitoring.register_event_duration_secs_listener(_Listener(tell))
