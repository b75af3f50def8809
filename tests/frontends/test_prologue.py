"""The code that converts arguments changes nothing else of a function."""

from __future__ import annotations

import _pydecimal
import argparse
import ast
import asyncio.base_events
import dis
import inspect
import tarfile
import traceback
import types
import typing
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.frontends.numpy.argument_conversion import with_argument_conversion

MODULES = (_pydecimal, argparse, ast, asyncio.base_events, inspect, tarfile, traceback, typing, zipfile)


def functions(module):
    """The functions of ``module`` and of its classes."""
    for value in vars(module).values():
        for part in vars(value).values() if isinstance(value, type) else (value,):
            part = getattr(part, "__func__", part)
            if isinstance(part, types.FunctionType):
                yield part


def instructions(code):
    return [
        (
            one.opname,
            one.argrepr if "JUMP" not in one.opname and "to " not in one.argrepr else "",
            one.positions,
        )
        for one in dis.get_instructions(code)
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_instructions_lines_and_handlers_stay(module):
    for function in functions(module):
        code = function.__code__
        after = with_argument_conversion(code, str)
        old, new = instructions(code), instructions(after)
        resume = [name for name, *_ in old].index("RESUME") + 1
        rest = len(old) - resume
        assert new[len(new) - rest :] == old[resume:]
        assert [one[:2] for one in new[:resume]] == [one[:2] for one in old[:resume]]
        added = len(after.co_code) - len(code.co_code)
        assert added == 0 or inspect.signature(function).parameters
        begin = next(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME") + 2
        moved = [
            (*(place + added if place >= begin else place for place in one[:3]), *one[3:])
            for one in dis._parse_exception_table(code)
        ]
        assert [tuple(one) for one in dis._parse_exception_table(after)] == moved


def sample(a, b=2, *c, d, e=5, **k):
    def inner():
        return a, c

    try:
        for _ in range(3):
            try:
                raise ValueError(b)
            except ValueError as error:
                line = error.__traceback__.tb_lineno - inner.__code__.co_firstlineno
        return inner(), b, d, e, k, line
    finally:
        d = None


def test_each_argument_is_converted_and_a_closure_sees_it():
    expected = sample(1, 2, 3, d=4, q=7)
    seen = []

    def convert(value):
        seen.append(value)
        return value + 10 if isinstance(value, int) else value

    changed = types.FunctionType(
        with_argument_conversion(sample.__code__, convert), globals(), "sample", (2,)
    )
    changed.__kwdefaults__ = sample.__kwdefaults__
    (a, c), b, d, e, k, line = changed(1, 2, 3, d=4, q=7)
    assert (a, b, d, e) == (11, 12, 14, 15) and (c, k, line) == ((3,), {"q": 7}, expected[-1])
    assert seen == [1, 2, 4, 5, (3,), {"q": 7}]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'd'"):
        changed(1)


def generator(a, b):
    got = yield a
    try:
        yield got, b
    finally:
        b = None


def test_a_generator_is_converted():
    changed = types.FunctionType(
        with_argument_conversion(generator.__code__, lambda value: value * 2), globals()
    )
    running = changed(1, 2)
    assert next(running) == 2 and running.send("sent") == ("sent", 4) and list(running) == []


def test_more_constants_than_a_byte_counts():
    text = "def many(x):\n" + "".join(f"    x = x + {number}.5\n" for number in range(300)) + "    return x"
    names: dict = {}
    exec(text, names)
    expected = names["many"](1)
    names["many"].__code__ = with_argument_conversion(names["many"].__code__, lambda value: value + 1)
    assert names["many"](0) == expected


def test_a_frame_of_pandas_is_counted_as_ever(clean):
    """pandas warns of a write to an intermediate result by the references to it."""
    pd = pytest.importorskip("pandas")
    with lazynb.lazy():
        y = np.sin(jnp.arange(3.0) * 1)
        table = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
        table["a"] = y
        taken = inspect.signature(pd.DataFrame.fillna), pd.DataFrame.__getitem__.__name__
        assert "value" in taken[0].parameters and taken[1] == "__getitem__"
        if pd.__version__ >= "3":
            with pytest.warns(pd.errors.ChainedAssignmentError):
                table["a"][0] = 7.0
        assert float(table["a"].max()) == pytest.approx(float(y.max()))


def test_a_library_imported_in_lazy_mode_converts_too(clean):
    image = pytest.importorskip("PIL.Image")
    with lazynb.lazy():
        y = (np.outer(jnp.arange(4.0), jnp.arange(4.0)) * 10).astype(np.uint8)
        assert image.fromarray(y).getpixel((3, 3)) == 90
        assert [row.detail for row in lazynb.breaks()] == ["PIL.Image.fromarray"]
