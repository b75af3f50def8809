"""What is JAX's own, and whether it still is."""

from __future__ import annotations

from jax._src import api, core

from lazynb.record.blocks import blocks, patches
from lazynb.record.trace import thread_trace

DEVICE_GET = api._device_get


def changed() -> list[str]:
    """What is not as JAX made it: names, the current trace of this thread, strictness."""
    found = [
        f"{getattr(owner, '__name__', owner)}.{name}"
        for owner, names, plain in patches._replaced
        for name in names
        if vars(owner).get(name) is names[name]
    ]
    if core.trace_ctx.trace is not core.eval_trace:
        found.append(f"the current trace is {core.trace_ctx.trace}")
    if api._device_get is not DEVICE_GET:
        found.append("jax.device_get")
    if thread_trace().strict:
        found.append("strict")
    return found


def assert_own() -> None:
    """No block is open, and everything is JAX's own."""
    assert not changed(), changed()[:5]
    assert patches.on is False and not blocks.of(thread_trace())
