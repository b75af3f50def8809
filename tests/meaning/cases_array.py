"""Calls of what an array itself offers, methods, properties and operators: attribute name -> samples of `via(None, x, ...)`."""

# ruff: noqa: E501 (one line a function, however many samples it has)
# fmt: off

from __future__ import annotations

import copy
import dataclasses
import operator
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .samples import KEY, WEAK, E, R, S, Sample, V, b, c, f, h, i, u


def _get(name: str, *arrays: Any) -> list[Sample]:
    return [V(lambda _, x: getattr(x, name), x) for x in arrays]


def _do(name: str, x: Any, *args: Any, **kwargs: Any) -> Sample:
    return V(lambda _, x, *a, **k: getattr(x, name)(*a, **k), x, *args, **kwargs)


def _with(use: Callable[..., Any], *samples: Sample) -> list[Sample]:
    return [dataclasses.replace(s, via=lambda _, *a: use(*a)) for s in samples]


ANY = (f(2, 3), i(3), b(), c(2), h(0, 3), WEAK)

ARRAY: dict[str, list[Sample]] = {
    **{name: _get(name, *ANY, KEY) for name in "shape dtype ndim size nbytes itemsize sharding committed".split()},
    "weak_type": _get("weak_type", *ANY),
    **{name: _get(name, f(2, 3)) for name in "is_fully_addressable is_fully_replicated device format aval".split()},
    **{name: E(*_get(name, f(2, 3), c(2, 3, 2))) for name in ("T", "mT")},
    **{name: _get(name, f(3), c(2, 3), i(2)) for name in ("real", "imag")},
    **{name: [_do(name, f(2, 3)), _do(name, f(2, 3), axis=1), _do(name, i(3), keepdims=True)] for name in "sum mean prod std var max min all any ptp argmax argmin".split()},
    **{name: [_do(name, f(2, 3)), _do(name, i(2, 3), axis=0)] for name in ("cumsum", "cumprod")},
    **{name: E(_do(name, f(2, 3)), _do(name, i(3))) for name in ("flatten", "ravel", "copy", "tolist", "nonzero")},
    **{name: [_do(name, c(3)), _do(name, f(3))] for name in ("conj", "conjugate")},
    "argsort": [_do("argsort", f(5)), _do("argsort", f(2, 3), axis=0)],
    "sort": E(_do("sort", f(5)), _do("sort", f(2, 3), axis=0, descending=True)),
    "argpartition": [_do("argpartition", f(5), 2)],
    "astype": [_do("astype", f(3), t) for t in (jnp.int32, jnp.bfloat16, bool, "float16")] + [R(_do("astype", f(3), "no"))],
    "at": E(
        *_with(lambda x: x.at[1].set(9.0), S(f(3)), S(f(3, 2))),
        *_with(lambda x, y: x.at[1:].set(y), S(f(3), f(2)), S(i(3), i())),
        *_with(lambda x, y: x.at[y].get(), S(f(3), np.array([0, -1]))),
        *_with(lambda x: x.at[9].get(mode="fill", fill_value=7.0), S(f(3))),
        *_with(lambda x: [x.at[0].add(1), x.at[0].multiply(2), x.at[0].min(0), x.at[0].max(0), x.at[0].subtract(1)], S(f(3)), S(i(3))),
        R(_with(lambda x, y: x.at[:2].set(y), S(f(3), f(3)))[0]),
    )
    + _with(lambda x: [x.at[0].divide(3), x.at[0].power(2), x.at[0].apply(jnp.sin)], S(f(3))),
    "byteswap": E(_do("byteswap", i(3))),
    "choose": E(_do("choose", np.array([0, 1]), [f(2), f(2)])),
    "clip": E(_do("clip", f(3), -0.5, 0.5), _do("clip", i(3), min=0)),
    "compress": E(_do("compress", f(3), np.array([True, False, True]))),
    "diagonal": E(_do("diagonal", f(3, 4), 1)),
    "dot": [_do("dot", f(2, 3), f(3))],
    "flat": _with(lambda x: x.flat, R(S(f(2, 2)))),
    "platform": [_do("platform", f(3))],
    "item": [_do("item", f()), _do("item", i(1)), _do("item", b()), _do("item", f(3), 1), _do("item", c()), R(_do("item", f(3)))],
    "repeat": E(_do("repeat", f(3), 2)),
    "reshape": E(_do("reshape", f(2, 3), 3, 2), _do("reshape", f(2, 3), (-1,)), R(_do("reshape", f(3), 2))),
    "round": [_do("round", f(3), 1)],
    "searchsorted": [_do("searchsorted", np.arange(4.0), f(3))],
    "squeeze": E(_do("squeeze", f(1, 3)), R(_do("squeeze", f(2), 0))),
    "swapaxes": E(_do("swapaxes", f(2, 3), 0, 1)),
    "take": E(_do("take", f(3), np.array([2, 0]))),
    "trace": [_do("trace", f(3, 3))],
    "transpose": E(_do("transpose", f(2, 3)), _do("transpose", f(2, 3, 4), 2, 0, 1), _do("transpose", f(2, 3), (1, 0))),
    "view": E(_do("view", f(3), jnp.int32), _do("view", u(4), jnp.float32), _do("view", i(2), jnp.uint8), R(_do("view", u(3), jnp.int32))),
    "to_device": E(V(lambda _, x: x.to_device(jax.devices()[0]), f(3))),
    "devices": [_do("devices", f(3))],
    "is_deleted": [_do("is_deleted", f(3))],
    "is_ready": [V(lambda _, x: jax.block_until_ready(x).is_ready(), f(3))],
    "block_until_ready": E(_do("block_until_ready", f(3))),
    "copy_to_host_async": [_do("copy_to_host_async", f(3))],
    "delete": [V(lambda _, x: (y := x + 1, y.delete(), y.is_deleted())[2], f(3))],
    "clone": E(_do("clone", f(3))),
    "tobytes": [_do("tobytes", i(3))],
    "addressable_data": E(_do("addressable_data", f(3), 0)),
    "addressable_shards": E(V(lambda _, x: [(s.data, s.index, s.replica_id) for s in x.addressable_shards], f(3))),
    "global_shards": E(V(lambda _, x: [s.data for s in x.global_shards], f(3))),
    "on_device_size_in_bytes": [_do("on_device_size_in_bytes", f(3))],
}

ARRAY_NOT_TESTED = {
    "device_buffer": "removed from JAX, raises",
    "device_buffers": "removed from JAX, raises",
    "traceback": "where the array was made, for debugging",
    "unsafe_buffer_pointer": "an address, different at each run",
    "unsafe_raw_buffer": "an address, different at each run",
}

# ---- operators and protocols: what Python does with an array

_binary = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge".split()
PYTHON: dict[str, list[Sample]] = {
    **{
        name: [
            V(lambda _, x, y, name=name: getattr(operator, name)(x, y), x, y)
            for x, y in (
                [(i(3), i(3, salt=1).clip(1)), (i(3).clip(1), i(3).clip(1)), (b(3), b(3, salt=1))]
                if name in ("and_", "or_", "xor", "lshift", "rshift")
                else [(f(3), f(3, salt=1)), (i(3), i(3, salt=1).clip(1)), (f(3), i(3).clip(1))]
            )
        ]
        + [R(V(lambda _, x, y, name=name: getattr(operator, name)(x, y), f(3), "a"))] * (name not in ("eq", "ne"))
        for name in _binary
    },
    **{
        name + " scalar": [
            V(lambda _, x, name=name, s=s: [getattr(operator, name)(x, s), getattr(operator, name)(s, x)], x)
            for x, s in ([(i(3).clip(0), 2), (b(3), True)] if name in ("and_", "or_", "xor", "lshift", "rshift") else [(f(3), 0.5), (i(3).clip(1), 2), (i(3).clip(1), 1.5), (h(3), True), (WEAK, 2)])
        ]
        for name in _binary
        if name != "matmul"
    },
    "unary": _with(lambda x: [-x, +x, abs(x)], S(f(3)), S(i(3)), S(c(3))) + _with(operator.invert, S(i(3)), S(b(3)), R(S(f(3)))),
    "divmod": _with(divmod, S(f(3), f(3, salt=1)), S(i(3), i(3).clip(1))),
    "round": _with(round, S(f(3)), S(f())) + _with(lambda x: round(x, 1), S(f(3))),
    "getitem": E(
        *[V(lambda _, x, k=k: x[k], f(3, 4)) for k in (0, -1, slice(1, None), (slice(None), 1), (slice(None, None, -1), slice(0, 4, 2)), None, ..., (0, None, 1), (..., 0), np.array([1, 1]), (np.array([0, 1]), np.array([1, 2])), np.array([True, False, True]), True, ())],
        V(lambda _, x, k: x[k], f(3, 4), np.array([2, 0])),
        V(lambda _, x, k: x[k], f(3, 4), i()),
        V(lambda _, x, k: x[k], f(3), b(3)),
        V(lambda _, x, k: x[k, 0], f(3, 4), np.array([0, 9])),
        V(lambda _, x, k: x[k], KEY, None),
        R(V(lambda _, x: x[[0, 2]], f(3))),
        R(V(lambda _, x: x[0, 0], f(3))),
    ),
    "setitem": [R(V(lambda _, x: x.__setitem__(0, 1.0), f(3)))],
    "iter": E(*_with(list, S(f(2, 3)), S(i(3)), S(f(0, 3)))),
    "reversed": E(*_with(lambda x: list(reversed(x)), S(f(3)))),
    "unpacking": E(*_with(lambda x: (lambda first, *rest: (first, rest))(*x), S(f(3)), S(f(2, 3)))),
    "len": _with(len, S(f(2, 3)), S(f(0)), R(S(f()))),
    "contains": _with(lambda x: [1 in x, 99 in x], S(i(5)), S(f(3))),
    "bool": _with(bool, S(f()), S(i(1)), S(b()), R(S(f(3))), R(S(f(0)))),
    "int": _with(int, S(f()), R(S(i(1))), R(S(f(3)))),
    "float": _with(float, S(f()), S(i()), R(S(f(3))), R(S(c()))),
    "complex": _with(complex, S(f()), S(c()), R(S(f(3)))),
    "index": _with(operator.index, S(i()), R(S(b())), R(S(f())), R(S(i(3)))) + _with(lambda x: [10, 20, 30][x], S(i() * 0)),
    "hex": _with(lambda x: [hex(x), oct(x)], S(i())),
    "range": _with(lambda x: list(range(x)), S(np.int32(3) * np.ones((), np.int32))),
    "hash": _with(hash, R(S(f())), R(S(f(3)))),
    "str": _with(str, S(f(3)), S(i(2, 3)), S(b()), S(WEAK), S(KEY)),
    "format": _with(lambda x: [f"{x}", f"{x:.2f}"], S(f())) + _with(lambda x: f"{x}", S(f(3))) + _with(lambda x: f"{x:.2f}", R(S(f(3)))),
    "isinstance": _with(lambda x: [isinstance(x, jax.Array), isinstance(x, np.ndarray), isinstance(x, jax.core.Tracer), callable(x)], S(f(3))),
    "array": [V(lambda _, x: np.asarray(x), x) for x in ANY] + [V(lambda _, x: np.array(x, np.float64), f(3)), V(lambda _, x: np.ones(3) + x, f(3))],
    "ufunc": [V(lambda _, x: np.sin(x), f(3))],
    "math": _with(lambda x: __import__("math").sqrt(abs(x)), S(f())),
    "sum": _with(lambda x: [sum(x), max(x), min(x), sorted(x, key=float)], S(f(3))),
    "any": _with(lambda x: [any(x), all(x)], S(b(3))),
    "copy": E(*_with(lambda x: [copy.copy(x), copy.deepcopy(x)], S(f(3)), S(WEAK))),
    "pickle": E(*_with(lambda x: pickle.loads(pickle.dumps(x)), S(f(3)), S(h(2)), S(WEAK))),
    "dlpack": E(*_with(lambda x: np.from_dlpack(x), S(f(3)))),
    "attribute": [R(V(lambda _, x: x.nothing_of_this_name, f(3))), V(lambda _, x: [hasattr(x, "sum"), hasattr(x, "nope")], f(3))],
    "namespace": _with(lambda x: x.__array_namespace__() is jnp, S(f(3))),
    "inplace operators": [V(lambda _, x: _inplace(x), f(3)), V(lambda _, x: _inplace(x), i(3))],
}


def _inplace(x: jax.Array) -> list[jax.Array]:
    y = x
    y += 1
    y *= 2
    y -= x
    return [x, y]
