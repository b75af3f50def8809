"""An operator with NumPy's array or scalar on one side gives what it gives of any ``jax.Array``, whoever
calls it.

The forms are ways to call an operator, NumPy's operands and the operators themselves, all with all, against
eager JAX.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math  # noqa: F401 - for the programs that are text
import operator
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiers

import lazynb
from tests.meaning.exceptions import is_exception
from tests.oracle import Call, Different, assert_all_same, assert_same

SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
NAMES = [*SYMBOLS, *COMPARISONS, "divmod"]
FUNCTIONS = {name: getattr(operator, name, None) or getattr(operator, f"{name}_", divmod) for name in NAMES}


class Tall(np.ndarray):
    """Keeps operators to itself."""

    __array_priority__ = 500


class Polite(np.ndarray):
    """Asks the method of its base class."""

    def __add__(self, other: Any) -> Any:
        found = super().__add__(other)
        return "not mine" if found is NotImplemented else found


def operands() -> dict[str, Any]:
    """NumPy's operands, made anew: some forms write to them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1, 2, 3], [4, 5, 6]])
    return {
        "float64": np.arange(1.0, 7).reshape(2, 3),
        "float32": np.ones((2, 3), np.float32) * 2,
        "float16": np.ones(3, np.float16),
        "int64": np.arange(1, 7).reshape(2, 3),
        "int32": np.ones(3, np.int32),
        "uint8": np.full((2, 1), 3, np.uint8),
        "bool": np.array([True, False, True]),
        "complex128": np.ones(3) * 2j,
        "0-d": np.array(2.0),
        "0-d int": np.array(2),
        "np.float32": np.float32(2),
        "np.float64": np.float64(2),
        "np.int64": np.int64(2),
        "np.int8": np.int8(2),
        "np.bool": np.bool_(True),
        "np.complex64": np.complex64(1j),
        "object": np.array([1, 2, None], object),
        "str": np.array(["a", "b", "c"]),
        "np.str_": np.str_("a"),
        "void": np.zeros(3, [("a", int)]),
        "datetime": np.datetime64("2020"),
        "masked": np.ma.array([1.0, 2, 3], mask=[0, 1, 0]),
        "matrix": matrix,
        "other shape": np.ones(4),
        "tall": np.ones(3).view(Tall),
        "list": [1.0, 2.0, 3.0],
        "float": 2.0,
        "int": 2,
    }


def _syntax(symbol: str, left: Any, right: Any) -> Any:
    return eval(f"left {symbol} right", {"left": left, "right": right})


def _statement(symbol: str, left: Any, right: Any) -> Any:
    names = {"left": left, "right": right}
    exec(f"left {symbol}= right", names)
    return names["left"]


def _symbol(name: str) -> str | None:
    return (SYMBOLS | COMPARISONS).get(name)


def ways(name: str) -> dict[str, Callable[[Any, Any], Any]]:
    """The ways to call the operator ``name`` of two operands."""
    function, symbol = FUNCTIONS[name], _symbol(name)
    found: dict[str, Callable[[Any, Any], Any]] = {
        "function": function,
        "reversed": lambda a, b: function(b, a),
        "map": lambda a, b: next(map(function, [a], [b])),
        "starmap in a list": lambda a, b: [*itertools.starmap(function, [(a, b)])],
        "reduce": lambda a, b: functools.reduce(function, [a, b]),
        "accumulate": lambda a, b: list(itertools.accumulate([a, b], function))[1],
        "partial": lambda a, b: functools.partial(function, a)(b),
        "key of a call": lambda a, b: function(*(a, b)),
        "jax.tree.map": lambda a, b: jax.tree.map(function, {"x": a}, {"x": b}),
        "method": lambda a, b: getattr(a, f"__{name}__")(b) is NotImplemented,
    }
    if symbol is not None:
        found |= {
            "syntax": lambda a, b: _syntax(symbol, a, b),
            "generator": lambda a, b: next(_syntax(symbol, one, b) for one in [a]),
            "method by name": lambda a, b: eval(f"a.__{name}__(b)", {"a": a, "b": b}),
            "reflected method by name": lambda a, b: eval(f"a.__r{name}__(b)", {"a": a, "b": b}),
            "method of the class": lambda a, b: eval(f"type(a).__{name}__(a, b)", {"a": a, "b": b}),
            "in jit": lambda a, b: jax.jit(lambda: _syntax(symbol, a, b))(),
            "function in jit": lambda a, b: jax.jit(lambda: function(a, b))(),
            "in vmap": lambda a, b: jax.vmap(lambda one: one + function(a, b).sum())(b),
            "in grad": lambda a, b: jax.grad(lambda c: (function(a, b) * function(a, c)).astype(float).sum())(
                b.astype(float)
            ),
        }
    if name in SYMBOLS:
        in_place = getattr(operator, f"i{name}")
        found |= {
            "in place": lambda a, b: _statement(SYMBOLS[name], a, b),
            "in-place function": in_place,
            "in-place map": lambda a, b: next(map(in_place, [a], [b])),
            "in-place method": lambda a, b: eval(f"a.__i{name}__(b)", {"a": a, "b": b}),
            "what is written to": lambda a, b: (in_place(a, b), a)[1],
        }
    return found


UNTOLD = {"method"}  # see tests/meaning/exceptions.py


SHARES = 19  # no multiple of the number of ways


def _forms(kind: str) -> list[tuple[str, Callable[[Any], Any]]]:
    """The forms with this operand on the left; all in `make full`, else a share that differs from kind to
    kind."""

    def form(call: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        return lambda x: call(operands()[kind], x)

    found = [
        (f"{name}, {way}", form(call))
        for name in NAMES
        for way, call in ways(name).items()
        if way not in UNTOLD
    ]
    return found if tiers.FULL else found[list(operands()).index(kind) % SHARES :: SHARES]


def _raises(form: Callable[[Any], Any], x: Any) -> bool:
    try:
        form(x)
    except Exception:
        return True
    return False


def _all_of_jax(tree: Any) -> bool:
    return all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree))


def _breaks() -> int:
    return sum(row.count for row in lazynb.breaks())


RIGHT = {"float32": np.array([1, 2, 3], np.float32), "int32": np.array([3, 1, 2], np.int32)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (kind, dtype)
        for number, kind in enumerate(operands())
        for dtype in (RIGHT if tiers.FULL else [list(RIGHT)[number % 2]])
    ],
)
def test_operators_with_numpy_operands_equal_eager_jax(kind, dtype):
    right = RIGHT[dtype]
    calls = []
    for label, form in _forms(kind):
        form.__name__ = f"{kind}: {label}"
        calls.append(Call(form, (right,), raises=_raises(form, jnp.array(right)), loose=4))
    assert_all_same(calls, given=slice(0, None, 3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("computed", [False, True], ids=["pending", "computed"])
@pytest.mark.parametrize("kind", operands())
def test_no_break_where_the_result_is_an_array_of_jax_s(kind, computed, clean):
    if kind == "masked":
        pytest.skip(
            "JAX refuses masked arrays, but for calls that its C++ dispatch has seen with arrays of that type"
        )
    unasked = []
    for label, form in _forms(kind):
        right = jnp.array(RIGHT["float32"])
        # In jit, what needs values gives a constant: the operator alone has to give an array of JAX's too.
        plain = functools.partial(FUNCTIONS[label.partition(",")[0]], operands()[kind])
        if not all(not _raises(one, right) and _all_of_jax(one(right)) for one in (form, plain)):
            continue
        with lazynb.lazy():
            lazy = jnp.array(right) * 1
            if computed:
                lazy.block_until_ready()
            before = _breaks()
            found = form(lazy)
            if _breaks() != before or not any(leaf.is_pending for leaf in jax.tree.leaves(found)):
                unasked.append(label)
    assert not unasked


# ---- what is no operator, and callers that do both ---------------------------------------------------------

N32, N64 = np.arange(3, dtype=np.float32), np.arange(3.0)

UFUNCS = [
    "np.add({})",
    "np.add(*[{}])",
    "f({})",
    "g(f, {})",
    "functools.reduce(np.add, [{}])",
    "functools.partial(np.add, N32)(x)",
    "next(map(np.add, [N32], [x]))",
    "list(itertools.accumulate([{}], np.add))[1]",
    "jax.tree.map(np.add, N32, x)",
    "next(itertools.starmap(np.add, [[{}]]))",
    "getattr(np, 'add')({})",
    "np.add.outer({})",
]


@pytest.mark.parametrize("text", UFUNCS)
def test_an_explicit_ufunc_call_follows_numpy_through_any_caller(text, clean):
    def value(text: str, left: Any) -> Any:
        return eval(
            text.format("left, x"),
            {**globals(), "left": left, "f": np.add, "g": lambda f, *args: f(*args), "x": x},
        )

    with lazynb.lazy():
        x = jnp.ones(3) * 2
        for _ in range(2):  # the same code again: what asked the last time has no part in it
            found = value(text, N32)
            assert found.is_pending and not lazynb.breaks()
        operator.add(N64, x)
        wide = value(text.replace("N32", "left"), N64)
        assert isinstance(wide, np.ndarray) and wide.dtype == np.float64


def test_operators_and_ufuncs_in_one_line_are_told_apart(clean):
    with lazynb.lazy():
        x = jnp.ones(3) * 2
        both = [f(N64, x) for f in (operator.add, np.add, operator.sub, operator.eq, np.equal, np.add)]
        mapped = list(map(lambda f, a: f(a, x), [np.add, operator.add] * 2, [N64] * 4))
    assert [isinstance(one, np.ndarray) for one in both] == [False, True, False, False, True, True]
    assert [isinstance(one, np.ndarray) for one in mapped] == [True, False] * 2


class Answers:
    """Answers NumPy's ufuncs itself."""

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        return "mine"


def test_an_operand_with_its_own_array_ufunc_does_not_affect_later_calls(clean):
    """NumPy asks every operand of a ufunc, and the first answers."""
    with lazynb.lazy():
        x = jnp.ones(3) * 2
        for other in (Answers(), lazynb.numpy.mutable(N64.astype(np.float32))):
            found = [np.add(one, x) for one in (other, N64, other, N64)]
            assert [type(one) is str for one in found] == [type(other) is Answers, False] * 2


class Doubles(np.ndarray):
    """Answers for itself, as NumPy's manual shows it."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [np.asarray(one) if isinstance(one, Doubles) else one for one in inputs]
        return super().__array_ufunc__(ufunc, method, *plain, **kwargs).view(Doubles)


SUBCLASSES = [
    "np.add(np.matrix(N32), x)",
    "np.add(x, np.matrix(N32))",
    "np.maximum(np.ma.array(N32, mask=[0, 1, 0]), x)",
    "np.add(N32.view(Tall), x)",
    "np.add(N32.view(Doubles), x)",
    "np.vstack([np.matrix(N32), x])",
    "np.kron(np.matrix(N32), x)",
    "np.stack([N32.view(Tall), x])",
    "np.ndarray.__array_ufunc__(N32, np.add, '__call__', N32, x)",
    "N32.view(Polite) + x",
    "operator.add(N32.view(Polite), x)",
    "N32.view(Doubles) + x",
    "operator.add(N32.view(Doubles), x)",
    "next(map(operator.add, [N32.view(Polite)], [x]))",
    "list(map(N32.__add__, [x]))[0] is NotImplemented",
    "[f(one, x) for f in [np.add] for one in (Answers(), N64)]",
    "next(map(operator.add, [N32.view(Doubles)], [x]))",
]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("text", SUBCLASSES)
def test_operators_with_ndarray_subclasses_equal_eager_jax(text):
    """NumPy's functions give an object of theirs; who has the operator says its priority."""
    with pytest.raises(Different) if is_exception(text) else contextlib.nullcontext():
        assert_same(lambda x: eval(text, {**globals(), "x": x}), np.ones(3, np.float32))


def test_an_array_of_a_file_is_numpy_s_own(tmp_path, clean):
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=(3,))
    with lazynb.lazy():
        x = jnp.ones(3) * 2
        assert np.add(mapped, x).is_pending and np.stack([mapped, x]).is_pending and (mapped + x).is_pending
    assert not lazynb.breaks()


def test_a_lazy_tensor_has_no_array_ufunc_attribute():
    with lazynb.lazy():
        x = jnp.ones(3) * 2
        assert (
            not hasattr(x, "__array_ufunc__")
            and x.__array_priority__ == jax.device_put(N32).__array_priority__
        )


REDUCTIONS = [
    "sum([N64, x])",
    "sum([x, N64])",
    "sum([np.float64(1), x])",
    "math.prod([N64, x])",
    "N64 in [x[:1]]",
    "[N64[:1]] == [x[:1]]",
    "max([N64[:1], x[:1]])",
    "sorted([np.float64(3), x[1]])",
    "pow(N64, x, 2)",
    "operator.concat(N64, x)",
    "np.polynomial.Polynomial([1, 2.0])(x)",
    "np.poly1d([1.0, 2])(x)",
    "math.fsum(x)",
    "math.hypot(*x)",
    "round(x[0])",
    "jax.tree.map(operator.add, {'a': N64, 'b': [N32]}, {'a': x, 'b': [x]})",
    "jax.tree.reduce(operator.add, [N64, x, N64])",
    "functools.reduce(operator.mul, [np.float64(2), x, N64, x])",
    "list(itertools.accumulate([N64, x, N64]))",
    "max(map(operator.sub, N64, x))",
    "divmod(N64, x)",
    "jax.tree.map(lambda a, b: a @ b, N64, x)",
]


@pytest.mark.parametrize("text", REDUCTIONS)
def test_functions_that_call_operators_equal_eager_jax(text):
    assert_same(lambda x: eval(text, {**globals(), "x": x}), np.ones(3, np.float32) + 1)
