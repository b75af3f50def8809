"""Why a pending trace had to run: a table of data, one entry for each way in which Python can force a value.

The caller that forces a value states its kind (LazyTensor's ``__float__`` says ``"float"``); nothing is guessed
from stack frames. Torchy (Lopes 2023) records a flush reason in the same way. Codes are stable: they are
never reused for something else.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One kind of trace break.

    Attributes:
      code: stable identifier, such as ``LNB101``.
      kind: short name, such as ``bool``.
      text: what Python needed.
      hint: how to avoid the break.
    """

    code: str
    kind: str
    text: str
    hint: str


_STAY = "stay in JAX: keep the value as an array until the end"
_TABLE = (
    Reason("LNB101", "bool", "a Python branch needed the truth of a value",
           "use jnp.where or jax.lax.cond, or test less often"),
    Reason("LNB102", "int", "int() needed a value", _STAY),
    Reason("LNB103", "float", "float() needed a value",
           "collect the tensors and convert them after the loop"),
    Reason("LNB104", "complex", "complex() needed a value", _STAY),
    Reason("LNB105", "index", "a shape, range or Python index needed a value",
           "index with the tensor itself, or take the number from .shape"),
    Reason("LNB106", "item", ".item() needed a value", "collect the tensors and convert them after the loop"),
    Reason("LNB107", "tolist", ".tolist() needed the values", _STAY),
    Reason("LNB108", "print", "print, str() or a format string needed the values",
           "print after the loop, or use jax.debug.print inside jax.jit"),
    Reason("LNB110", "asarray", "NumPy needed the values", "use jax.numpy, or convert once at the end"),
    Reason("LNB111", "dlpack", "another library took the memory of the value (DLPack, CUDA array interface, buffer)",
           "hand values over once at the end"),
    Reason("LNB112", "pickle", "pickle or copy needed the values", "save after the loop"),
    Reason("LNB113", "bytes", ".tobytes() needed the values", _STAY),
    Reason("LNB114", "attribute", "an attribute that only a computed value has was read",
           "read .shape, .dtype and .sharding of inputs instead"),
    Reason("LNB115", "buffer", "the device memory of a value was asked for", _STAY),
    Reason("LNB201", "sync", "a barrier: lazynb.sync()", "remove the barrier, or place it where a step ends"),
    Reason("LNB202", "block", "block_until_ready() waits for the value", "wait once at the end"),
    Reason("LNB203", "compile", "%%compile ran what was pending", "none needed: you asked for it"),
    Reason("LNB204", "limit", "more operations were pending than lazynb.config.max_pending",
           "place lazynb.sync() where a step ends"),
    Reason("LNB301", "effect", "an operation with a side effect runs in order with what was pending",
           "put the effect into the function that you jax.jit, or take it out of the loop"),
    Reason("LNB302", "unrecordable", "an operation that cannot be recorded", "run it once, before the loop"),
    Reason("LNB303", "eager", "a pending value was handed to code that runs eagerly",
           "keep that code lazy, or leave lazy mode when the loop is done"),
    Reason("LNB304", "thread", "a pending value was used in another thread",
           "call lazynb.sync() before handing it over"),
    Reason("LNB305", "device_put", "a pending value was moved to a device or sharding",
           "move the inputs before computing with them"),
    Reason("LNB306", "devices", "one operation combined values of different devices",
           "move the inputs to one device first"),
    Reason("LNB307", "compiled", "an executable compiled ahead of time was called with a pending value",
           "call the jax.jit-ed function itself"),
    Reason("LNB308", "delete", "the memory of a pending value was given back", "delete inputs after lazynb.sync()"),
)

REASONS: dict[str, Reason] = {reason.kind: reason for reason in _TABLE}
