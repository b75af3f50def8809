"""The one oracle: a call gives the same lazily as eagerly.

    assert_same(fn, *args, **kwargs)      one call
    assert_all_same([Call(...), ...])     many calls, recorded together: one compilation for all of them

Each call runs eagerly, then lazily with *given* values (arrays made eagerly before) and with *pending* ones
(arrays that are themselves still pending when the call gets them), each twice: what was recorded through JAX
the first time is recalled the second time. NumPy arrays among the arguments become JAX arrays first, and a
`Make` becomes what it makes (a random key, a weakly typed scalar), eagerly.

What must be the same:
- a raising call: the exception's type and its message (without memory addresses and the name of the array's
  class), raised by the call itself and not when a value is needed, and the line of the last frame that
  belongs to neither JAX nor lazynb;
- the result's pytree structure, and each leaf that is not an array (type and ==);
- each array leaf: shape, dtype, weak type, sharding, committed or not, and the values.

Values of integers, booleans and keys (their key data) are the same bit for bit, and so are floats where the
call only moves data (`exact=True`). Other floats agree within a tolerance, because a pending program is
compiled as one: XLA contracts a product and a sum into one fused multiply-add, orders sums differently, and
keeps bfloat16 intermediates in float32, none of which happens between operations run one at a time. NaN and
infinities stand in the same places.

The tolerance is RTOL[dtype] * loose * (|eager value| + largest finite |eager value| of the leaf). The second
term is there for sums that cancel. `loose` is 1 unless a sample gives a greater one, and its reason.
"""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lazynb

# About 50 units in the last place for the wide types, 1 to 4 for the narrow ones: fused intermediates are
# kept wider.
RTOL = {
    "float64": 1e-14,
    "complex128": 1e-14,
    "float32": 5e-6,
    "complex64": 5e-6,
    "float16": 2**-9,
    "bfloat16": 2**-6,
}
RTOL_FLOAT8 = 2**-2  # and narrower


@dataclass(frozen=True)
class Make:
    """An argument made by calling `make` eagerly, fresh for each run."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class Call:
    """One call to compare.

    Attributes:
      raises: eager JAX is meant to raise. Checked, so that no test passes because its sample is broken.
      exact: floats too are the same bit for bit.
      loose: factor on the tolerance of floats.
    """

    fn: Callable[..., Any]
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    raises: bool = False
    exact: bool = False
    loose: float = 1.0

    @property
    def name(self) -> str:
        return getattr(self.fn, "__name__", str(self.fn))

    def __str__(self) -> str:
        shown = [_show(a) for a in self.args] + [f"{k}={_show(v)}" for k, v in self.kwargs.items()]
        return f"{self.name}({', '.join(shown)})"


@dataclass
class Outcome:
    """What a call came to: its result, or the exception and the user's line that raised it.

    The exception is kept without its traceback: the frames in there would keep lazy tensors alive, and what
    is alive is part of the next program.
    """

    result: Any = None
    error: Exception | None = None
    where: str | None = None
    trace: str = ""


class Different(AssertionError):
    """Lazy is not what eager is."""


def assert_same(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Runs `fn` eagerly and lazily, with values given and pending, and fails where they differ. Both may
    raise."""
    call = Call(fn, args, kwargs)
    eager = _run(call, _arguments(call))
    problems = [p for pending in (False, True) for p in _compare_alone(call, eager, pending)]
    if problems:
        raise Different("\n".join(problems))


def assert_all_same(calls: Sequence[Call], given: slice = slice(None)) -> None:
    """The same for many calls, recorded together; and each call raises eagerly if and only if it is meant to.

    All get pending values, and those of the slice `given` get given ones too.
    """
    eager = [_run(call, _arguments(call)) for call in calls]
    for call, outcome in zip(calls, eager):
        if call.raises and outcome.error is None:
            raise AssertionError(f"{call}: meant to raise, but eager JAX gives {_show(outcome.result)}")
        if not call.raises and outcome.error is not None:
            raise AssertionError(f"{call}: broken sample, eager JAX raises\n{outcome.trace}")
    if problems := _compare_together(calls, eager, given):
        raise Different(f"{len(problems)} differences\n" + "\n".join(problems))


def _compare_together(calls: Sequence[Call], eager: Sequence[Outcome], given: slice) -> list[str]:
    """What differs when all calls, in both variants, are one program; each call alone if that cannot be
    run."""
    some = range(len(calls))[given]
    variants = [(calls[n], eager[n], False) for n in some] * 2 + [
        (c, e, True) for c, e in zip(calls, eager)
    ] * 2
    outcomes = [
        outcome for again in range(2) for outcome in _run_lazily([calls[n] for n in some], pending=False)
    ]
    outcomes += [outcome for again in range(2) for outcome in _run_lazily(calls, pending=True)]
    runs = [(*variant, outcome) for variant, outcome in zip(variants, outcomes)]
    outcomes.clear()
    try:
        _read([lazy.result for *_, lazy in runs])
    except Exception as error:
        together = f"all together: reading the values raised {_describe(_without_frames(error))}"
        runs.clear()
        alone = [p for variant in variants for p in _compare_alone(*variant)]
        return alone or [together]
    problems = [(c, pending, _difference(c, e, lazy)) for c, e, pending, lazy in runs]
    return [f"{call} ({_variant(pending)}): {problem}" for call, pending, problem in problems if problem]


def _compare_alone(call: Call, eager: Outcome, pending: bool) -> list[str]:
    problems = []
    for again in ("", ", recalled"):
        [lazy] = _run_lazily([call], pending)
        try:
            problem = _difference(call, eager, lazy)
        except Exception as error:
            problem = f"reading the value raised {_describe(_without_frames(error))}"
        if problem:
            problems.append(f"{call} ({_variant(pending)}{again}): {problem}")
    return problems


def _run_lazily(calls: Sequence[Call], pending: bool) -> list[Outcome]:
    arguments = [_arguments(call) for call in calls]
    with lazynb.lazy():
        if pending:
            arguments = _make_pending(arguments)
        return [_run(call, a) for call, a in zip(calls, arguments)]


def _make_pending(tree: Any) -> Any:
    """The same tree, its arrays results of one pending operation.

    A barrier is the operation that changes nothing of any array (weak type and keys included) and that JAX
    never leaves out. That it is one for all of them makes what is computed from them one program.
    """
    leaves, structure = jax.tree.flatten(tree)
    arrays = [n for n, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    for n, leaf in zip(arrays, jax.lax.optimization_barrier([leaves[n] for n in arrays])):
        leaves[n] = leaf
    return jax.tree.unflatten(structure, leaves)


def _arguments(call: Call) -> tuple[tuple, dict[str, Any]]:
    """The call's arguments with their arrays made, eagerly."""
    return jax.tree.map(_make, (call.args, call.kwargs), is_leaf=lambda x: isinstance(x, Make))


def _make(leaf: Any) -> Any:
    if isinstance(leaf, Make):
        return leaf.make()
    return jnp.array(leaf) if isinstance(leaf, np.ndarray) else leaf


# The tables hold functions as they are outside lazy mode; a user's code looks them up by name while lazy.
_MODULES = (jnp, jnp.linalg, jax.nn, jax.lax, jax.random)
_NAMES = {id(fn): (module, name) for module in _MODULES for name, fn in vars(module).items() if callable(fn)}


def _by_name(fn: Callable[..., Any]) -> Callable[..., Any]:
    return getattr(*_NAMES[id(fn)]) if id(fn) in _NAMES else fn


def _run(call: Call, arguments: tuple[tuple, dict[str, Any]]) -> Outcome:
    args, kwargs = arguments
    fn = _by_name(call.fn)
    try:
        return Outcome(result=fn(*args, **kwargs))
    except Exception as error:
        where, trace = user_line(error), "".join(traceback.format_exception(error)[-12:])
        return Outcome(error=_without_frames(error), where=where, trace=trace)


def _without_frames(error: BaseException) -> Any:
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
    return error


def _read(tree: Any) -> None:
    lazynb.sync()  # one program for all that is pending; a tensor read on its own would be one of its own
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array):
            _values(leaf)


def _difference(call: Call, eager: Outcome, lazy: Outcome) -> str | None:
    """The first thing in which the outcomes differ."""
    if eager.error is not None or lazy.error is not None:
        return _error_difference(eager, lazy)
    expected, structure = jax.tree.flatten(eager.result)
    found, found_structure = jax.tree.flatten(lazy.result)
    if structure != found_structure:
        return f"the result is a {found_structure}, eagerly a {structure}"
    for number, (e, g) in enumerate(zip(expected, found)):
        if problem := _leaf_difference(e, g, call.exact, call.loose):
            return f"leaf {number} of {len(expected)}: {problem}" if len(expected) > 1 else problem
    return None


def _error_difference(eager: Outcome, lazy: Outcome) -> str | None:
    if lazy.error is None:
        return f"raises nothing; eagerly {_describe(eager.error)}"
    if eager.error is None:
        return f"raises {_describe(lazy.error)}\n{lazy.trace}"
    if type(eager.error) is not type(lazy.error) or _message(eager.error) != _message(lazy.error):
        return f"raises {_describe(lazy.error)}\n  eagerly {_describe(eager.error)}"
    if eager.where != lazy.where:
        return f"raises at {lazy.where}, eagerly at {eager.where}"
    return None


def _leaf_difference(eager: Any, lazy: Any, exact: bool, loose: float) -> str | None:
    if not isinstance(eager, jax.Array):
        return _plain_difference(eager, lazy)
    if not isinstance(lazy, jax.Array):
        return f"is {_show(lazy)}, eagerly {_show(eager)}"
    key = jnp.issubdtype(eager.dtype, jax.dtypes.extended)  # JAX gives keys no weak_type attribute
    for name in ("shape", "dtype", "sharding", "committed") + ("weak_type",) * (not key):
        a, b = getattr(eager, name), getattr(lazy, name)
        if a != b:
            return f"{name} is {b}, eagerly {a}"
    return _value_difference(_values(eager), _values(lazy), exact, loose)


def _plain_difference(eager: Any, lazy: Any) -> str | None:
    if type(eager) is not type(lazy):
        return f"is {_show(lazy)}, eagerly {_show(eager)}"
    if isinstance(eager, np.ndarray):
        if (eager.dtype, eager.shape) != (lazy.dtype, lazy.shape):
            return f"is {_show(lazy)}, eagerly {_show(eager)}"
        return _value_difference(eager, lazy, exact=False, loose=1.0)
    if isinstance(eager, float | complex):
        eager, lazy = np.asarray(eager, np.complex64), np.asarray(lazy, np.complex64)
        return _value_difference(eager, lazy, exact=False, loose=1.0)
    return None if eager == lazy else f"is {lazy!r}, eagerly {eager!r}"


def _values(array: jax.Array) -> np.ndarray:
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        array = jax.random.key_data(array)
    return np.asarray(array)


def _value_difference(eager: np.ndarray, lazy: np.ndarray, exact: bool, loose: float) -> str | None:
    if eager.dtype != lazy.dtype or eager.shape != lazy.shape:
        return f"holds {lazy.dtype}{lazy.shape}, eagerly {eager.dtype}{eager.shape}"
    inexact = jnp.issubdtype(eager.dtype, np.inexact)
    if exact or not inexact:
        same = eager.tobytes() == lazy.tobytes()
    elif jnp.issubdtype(eager.dtype, np.complexfloating):
        rtol = loose * RTOL[eager.dtype.name]
        largest = np.nanmax(np.abs(np.where(np.isfinite(eager), eager, 0)), initial=0.0)
        same = all(
            _close(getattr(eager, part), getattr(lazy, part), rtol, largest) for part in ("real", "imag")
        )
    else:
        rtol = loose * RTOL.get(eager.dtype.name, RTOL_FLOAT8)
        wide, got = eager.astype(np.float64), lazy.astype(np.float64)
        same = _close(wide, got, rtol, np.max(np.abs(np.where(np.isfinite(wide), wide, 0)), initial=0.0))
    return None if same else f"values are\n{lazy}\n  eagerly\n{eager}"


def _close(eager: np.ndarray, lazy: np.ndarray, rtol: float, largest: float) -> bool:
    finite = np.isfinite(eager)
    if not np.array_equal(finite, np.isfinite(lazy)):
        return False
    if not np.array_equal(eager[~finite], lazy[~finite], equal_nan=True):
        return False
    return bool(np.all(np.abs(eager[finite] - lazy[finite]) <= rtol * (np.abs(eager[finite]) + largest)))


# ---- exceptions

_NOT_THE_USER = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in (
        os.path.dirname(jax.__file__),
        os.path.dirname(lazynb.__file__),
        os.path.dirname(np.__file__),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
    )
) + (os.path.realpath(__file__),)


def user_line(error: BaseException) -> str | None:
    """file:line of the last frame of the traceback that is the caller's own, if it has one."""
    frames = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(error.__traceback__)]
    mine = [
        (name, n)
        for name, n in frames
        if name[0] != "<" and not os.path.realpath(name).startswith(_NOT_THE_USER)
    ]
    return f"{os.path.basename(mine[-1][0])}:{mine[-1][1]}" if mine else None


def _message(error: BaseException | None) -> str:
    text = re.sub(r"0x[0-9a-fA-F]+", "0x", str(error))
    text = re.sub(
        r"np\.int64\((-?\d+)\)", r"\1", text
    )  # JAX's caches decide which of two equal numbers it shows
    return _ARRAY_CLASS.sub("Array", text)


# Python and NumPy write the name of an operand's class into their messages. It is the one word that may
# differ.
_ARRAY_CLASS = re.compile(r"\b((jaxlib\.\w+\.)?ArrayImpl|(lazynb\.[\w.]*)?LazyTensor)\b")


def _describe(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {_message(error)}"


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray | jax.Array):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(_show, value))})"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:80]


def _variant(pending: bool) -> str:
    return "pending arguments" if pending else "given arguments"
