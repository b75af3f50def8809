"""What is JAX's own, and whether it still is, or looks so while substitutes rest."""

from __future__ import annotations

import types

from jax._src import core

from lazynb.recording.lazy_blocks import blocks, patches
from lazynb.recording.lazy_trace import thread_trace


def changed() -> list[str]:
    """What is not as JAX made it: names, the current trace of this thread, strictness. Where substitutes rest,
    the names are those that a program finds in public modules."""
    resting, left = patches.rest.on, patches.rest.left
    patches.rest.left = 1_000_000  # a look is no use
    found = [
        f"{getattr(owner, '__name__', owner)}.{name}"
        for owner, names, plain in patches._replaced
        for name in names
        if (getattr(owner, name) if resting else vars(owner).get(name)) is names[name]
        and not (resting and may_rest(owner))
    ]
    patches.rest.left = left
    if core.trace_ctx.trace is not core.eval_trace:
        found.append(f"the current trace is {core.trace_ctx.trace}")
    if thread_trace().strict:
        found.append("strict")
    return found


def may_rest(owner: object) -> bool:
    """Whether a substitute may be seen in ``owner`` at rest: in a class, and in a private module of JAX's."""
    return not isinstance(owner, types.ModuleType) or "._" in owner.__name__


def assert_own() -> None:
    """No block is open, and everything is JAX's own as far as a program sees."""
    assert not changed(), changed()[:5]
    assert patches.on is False and not blocks.of(thread_trace())


def assert_put_back() -> None:
    """Everything is JAX's own: no substitute rests."""
    assert not patches.rest.on
    assert_own()
