"""Random calls of remembered functions, in C and in Python, and what is seen of each."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np

import lazynb
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.replay import array_functions, native_replay, python_replay as pure
from lazynb.recording.trie import State
from lazynb.user_code.source_lines import Origin

fast = native_replay._fast

FUNCTIONS = {
    "sin": (jnp.sin, False),
    "add": (jnp.add, True),
    "maximum": (jnp.maximum, True),
    "where": (jnp.where, False),
    "sum": (jnp.sum, False),
    "concatenate": (jnp.concatenate, False),
    "split": (jnp.split, False),
    "expand_dims": (jnp.expand_dims, False),
    "full_like": (jnp.full_like, False),
    "asarray": (jnp.asarray, False),
}


def forms(make, binary):
    """The remembered operators, methods and functions, by name."""
    made = {}
    for name, (plain, alike) in array_functions._table().items():
        made[name] = binary(name, plain) if alike else make(name, plain, False)
    for name, (function, alike) in FUNCTIONS.items():
        plain = getattr(function, "__wrapped__", function)
        made[name] = make(f"{plain.__module__}.{name}", plain, alike)
    return made


PURE = forms(pure.replaying_function, pure.replaying_operator)
FAST = forms(native_replay.replaying_function, native_replay.replaying_operator) if fast is not None else {}

# ---- random programs ---------------------------------------------------------------------------------------

NUMBERS = [1, 2.0, 0.1, -3, True, 1j, 2**70, np.float32(3), np.int64(2), 0, -0.0, float("nan")]
OTHERS = [
    None,
    "axis",
    (0, 1),
    [1],
    slice(0, 1),
    slice(None),
    ...,
    jnp.float32,
    np.dtype("int32"),
    object(),
    {},
]
TWO = [
    "__add__",
    "__rsub__",
    "__mul__",
    "__truediv__",
    "__lt__",
    "__eq__",
    "__and__",
    "__matmul__",
    "__pow__",
]
TWO += ["__getitem__", "add", "maximum", "astype", "reshape", "sum", "__radd__"]
ONE = ["__neg__", "__abs__", "sin", "sum", "mean", "max", "transpose", "ravel", "asarray", "nonzero"]
WORDS = [
    {},
    {},
    {},
    {"axis": 0},
    {"axis": (0,)},
    {"axis": 0, "keepdims": True},
    {"dtype": jnp.float32},
    {"x": 1},
]
AROUND = ["", "", "", "", "scope", "precision", "x64", "grad", "read", "delete", "eager", "forget"]


class Run:
    """One run of a program with the calls of one form, and what was seen after each step."""

    def __init__(self):
        self.pool = [jnp.arange(4.0).reshape(2, 2), jnp.ones((2, 2)), jnp.arange(2), jnp.float32(2.5)]
        self.pool += [*NUMBERS, *OTHERS]
        self.results = []
        self.seen = []

    def step(self, calls, step):
        name, picks, words, around = step
        # What was computed last is taken most often; the first operand is mostly a tensor.
        values = self.results[::-1] + self.pool
        args = [
            values[pick % (len(self.results) + 4 if at == 0 else len(values))]
            for at, pick in enumerate(picks)
        ]
        if name == "concatenate":
            args = [args]
        if name.startswith("__") and not isinstance(args[0], LazyTensor):
            return
        with contextlib.ExitStack() as stack:
            if around == "scope":
                stack.enter_context(jax.named_scope("block"))
            elif around == "precision":
                stack.enter_context(jax.default_matmul_precision("highest"))
            elif around == "x64":
                stack.enter_context(jax.enable_x64(True))
            elif around == "eager":
                stack.enter_context(lazynb.eager())
            try:
                result = self._call(calls[name], args, words, around == "grad")
            except Exception as error:
                text = "" if " argument" in str(error) else str(error).partition("0x")[0][:200]
                self.seen.append((type(error), text))
                return
        self._keep(result)
        if around == "read":
            self.seen.append(np.asarray(self.results[-1]).tolist() if self.results else None)
        elif around == "delete" and self.results and self.results[-1].ndim:
            self.results[-1].delete()
        elif around == "forget":
            self.results.clear()
        self._note(result)

    def _call(self, call, args, words, differentiated):
        if not differentiated:
            return call(*args, **words)
        return jax.grad(lambda x: call(x, *args[1:], **words).sum())(args[0])

    def _keep(self, result):
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, jax.Array):
                self.results.append(one)

    def _note(self, result):
        pending = thread_trace().pending
        noted = [type(result)]
        for one in result if isinstance(result, tuple | list) else [result]:
            noted.append(told(one))
        if pending is not None:
            state = pending.state
            noted.append(
                (state.depth, state.slots, len(pending.inputs), len(pending.records), pending.sealed)
            )
            noted.append([told(record) for record in pending.records[-2:]])
        self.seen.append(noted)


def told(value):
    """What is to be the same of a result."""
    if not isinstance(value, LazyTensor):
        return (type(value), getattr(value, "shape", None), getattr(value, "dtype", None))
    edge, code = value._edge, value._code
    line = None
    if isinstance(code, Origin):
        line = (code.code.co_name, code.lasti, code.callee, str(code.context.name_stack))
    elif code is not None:
        line = (code.co_name, value._lasti, str(value._scope.name_stack))
    where = None
    if edge is not None:
        end = edge if isinstance(edge, State) else edge.end
        where = (type(edge), end.depth, str(end.operation))
    return (str(value.aval), value.aval.weak_type, value._slot, value._pending is None, where, line)
