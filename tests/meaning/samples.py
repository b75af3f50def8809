"""How the tables of cases say which calls to try: small arrays that are always the same, and samples of
calls."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from oracle import Call, Make

# ---- arrays: one letter a dtype. The oracle turns them into JAX arrays.


def f(*shape: int, salt: int = 0) -> np.ndarray:
    """float32, normal."""
    return np.asarray(_rng("f", shape, salt).normal(size=shape), np.float32)


def i(*shape: int, salt: int = 0) -> np.ndarray:
    """int32, -3 to 5."""
    return np.asarray(_rng("i", shape, salt).integers(-3, 6, size=shape), np.int32)


def b(*shape: int, salt: int = 0) -> np.ndarray:
    """bool."""
    return np.asarray(_rng("b", shape, salt).random(size=shape) > 0.5)


def c(*shape: int, salt: int = 0) -> np.ndarray:
    """complex64."""
    return np.asarray(f(*shape, salt=salt + 1) + 1j * f(*shape, salt=salt + 2), np.complex64)


def h(*shape: int, salt: int = 0) -> np.ndarray:
    """bfloat16."""
    return np.asarray(f(*shape, salt=salt), ml_dtypes.bfloat16)


def u(*shape: int, salt: int = 0) -> np.ndarray:
    """uint8."""
    return np.asarray(_rng("u", shape, salt).integers(0, 256, size=shape), np.uint8)


def p(*shape: int, salt: int = 0) -> np.ndarray:
    """float32 between 0.1 and 0.9: probabilities, concentrations, distances."""
    return np.asarray(_rng("p", shape, salt).uniform(0.1, 0.9, size=shape), np.float32)


def spd(n: int) -> np.ndarray:
    """float32, symmetric and positive definite."""
    a = f(n, n)
    return (a @ a.T + n * np.eye(n)).astype(np.float32)


def _rng(kind: str, shape: tuple[int, ...], salt: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(kind.encode()), salt, *shape])


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], np.float32)
KEY = Make(lambda: jax.random.key(7))
KEYS = Make(lambda: jax.random.split(jax.random.key(7), 3))
RAW_KEY = Make(lambda: jax.random.PRNGKey(7))
WEAK = Make(lambda: jnp.asarray(1.5))  # a scalar array of weak type
MAKERS = {"f": f, "i": i, "b": b, "c": c, "h": h, "u": u}


# ---- samples of calls


@dataclass(frozen=True)
class Sample:
    """The arguments of a call of the function that the table is about. `via(fn, *args)` makes the call, if
    given."""

    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    via: Callable[..., Any] | None = None
    raises: bool = False
    exact: bool = False
    loose: float = 1.0

    def call(self, fn: Callable[..., Any]) -> Call:
        made_by = fn if self.via is None else _Via(self.via, fn)
        return Call(made_by, self.args, self.kwargs, raises=self.raises, exact=self.exact, loose=self.loose)


class _Via:
    """`via` with the function filled in, called like it."""

    def __init__(self, via: Callable[..., Any], fn: Callable[..., Any]) -> None:
        self.via, self.fn = via, fn
        self.__name__ = getattr(fn, "__name__", str(fn))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.via(self.fn, *args, **kwargs)


def S(*args: Any, **kwargs: Any) -> Sample:
    """fn(*args, **kwargs) must work."""
    return Sample(args, kwargs)


def V(via: Callable[..., Any], *args: Any, **kwargs: Any) -> Sample:
    """via(fn, *args, **kwargs) must work: for what needs code around the function."""
    return Sample(args, kwargs, via=via)


def R(sample: Sample) -> Sample:
    """The same sample, meant to raise."""
    return dataclasses.replace(sample, raises=True)


def E(*samples: Sample) -> list[Sample]:
    """The same samples, their floats exact: the function only moves data."""
    return [dataclasses.replace(s, exact=True) for s in samples]


def L(loose: float, *samples: Sample) -> list[Sample]:
    """The same samples with a greater tolerance."""
    return [dataclasses.replace(s, loose=loose) for s in samples]


# ---- what most functions take

SHAPES = ((2, 3), (0, 3))


def unary(dtypes: str, refused: str | None = None, shapes: tuple = SHAPES, **kwargs: Any) -> list[Sample]:
    """x of each dtype, the shapes spread over them, and the special values. Those of `refused` are meant to
    raise."""
    refused = _rest(dtypes) if refused is None else refused
    samples = [S(MAKERS[dtypes[0]](*shape), **kwargs) for shape in shapes]
    if shapes is SHAPES:  # any shape is fine
        samples += [S(MAKERS[d](*((3,) if n else ())), **kwargs) for n, d in enumerate(dtypes[1:])]
        samples += [S(SPECIAL, **kwargs)] if dtypes[0] == "f" else []
    else:
        samples += [S(MAKERS[d](*shapes[0]), **kwargs) for d in dtypes[1:]]
    return samples + [R(S(MAKERS[d](2, 3), **kwargs)) for d in refused]


def binary(dtypes: str, refused: str | None = None, scalar: Any = 2, mixed: bool = True) -> list[Sample]:
    """x, y of each dtype, broadcast, with a Python scalar on either side, and of two dtypes."""
    refused = _rest(dtypes) if refused is None else refused
    first = MAKERS[dtypes[0]]
    samples = [S(first(0, 3), first(0, 3))]
    samples += [S(MAKERS[d](3), MAKERS[d](3, salt=9)) for d in dtypes[1:]]
    samples += [S(first(2, 1), first(3)), S(first(3), scalar), S(scalar, first(3))]
    if mixed and len(dtypes) > 1:
        samples.append(S(MAKERS[dtypes[1]](2, 3), first(3)))
    if dtypes[0] == "f":
        samples += [S(SPECIAL[:, None], SPECIAL), S(f(), WEAK)]
    samples.append(R(S(first(2, 3), first(2))))
    return samples + [R(S(MAKERS[d](2, 3), MAKERS[d](2, 3, salt=9))) for d in refused]


def reduction(
    dtypes: str, refused: str | None = None, empty: bool = True, where: bool = False
) -> list[Sample]:
    """Over all, one and several axes, kept or not, of nothing (meant to raise unless `empty`), masked if
    `where`."""
    refused = _rest(dtypes) if refused is None else refused
    first = MAKERS[dtypes[0]]
    samples = [S(first()), S(first(2, 3)), S(first(2, 3), axis=-1, keepdims=True)]
    samples += [S(first(2, 3, 2), axis=(0, 2)), S(first(0, 3), axis=1), R(S(first(2, 3), axis=2))]
    samples += [S(MAKERS[d](2, 3), axis=1) for d in dtypes[1:]]
    samples += [S(SPECIAL)] if dtypes[0] == "f" else []
    samples.append(S(first(0, 3)) if empty else R(S(first(0, 3))))
    samples += [S(first(2, 3), axis=1, where=np.array([True, False, True]))] if where else []
    return samples + [R(S(MAKERS[d](2, 3))) for d in refused]


def _rest(dtypes: str) -> str:
    return "".join(d for d in "fibch" if d not in dtypes)
