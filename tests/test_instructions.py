"""What a function is doing now, on each Python: its instructions differ."""

from __future__ import annotations

import functools
import operator
import sys

import numpy as np
import pytest

from lazynb.recording import array_ufunc
from lazynb.user_code.instructions import called_function, current_instruction


class Probe:
    """Notes what the function that calls it is doing."""

    def __init__(self):
        self.seen = None
        self.function = None

    def __call__(self, *args, **kwargs):
        frame = sys._getframe(1)
        self.seen = current_instruction(frame)
        self.function = called_function(frame, self.seen) if self.seen.called else None
        return self

    method = __mod__ = __matmul__ = __call__

    def __format__(self, spec):
        self.seen = current_instruction(sys._getframe(1))
        return spec


CALLS = {
    "p(1)": ("p", False),
    "p()": ("p", False),
    "p('a', (1, 2), sep=': ')": ("p", False),
    "p(sep=1)": ("p", False),
    "p(*[1], **{'a': 2})": ("p", False),
    "p(*[1], sep=2)": ("p", False),
    "p(\n    1,\n    sep=2,\n)": ("p", False),
    "p.method(1)": ("method", True),
    "p.method(1, sep=2)": ("method", True),
    "p.method(p, *[1], **{'a': 2})": ("method", True),
    "box.p(1)": ("p", True),
    "box.p(1, sep=2)": ("p", True),
    "box.inner.p(1, a=2, b=3)": ("p", True),
    "(p)(1)": ("", False),
    "[p][0](1)": ("", False),
    "(lambda: p)()(1)": ("", False),
}


class Box:
    pass


@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize("where", ["module", "function", "argument"])
def test_the_name_of_the_called_function_is_found(text, where):
    probe, box = Probe(), Box()
    box.p, box.inner = probe, Box()
    box.inner.p = probe
    variables = {"p": probe, "box": box}
    if where == "module":
        exec(text, variables)
    elif where == "function":
        exec(f"def run():\n    return ({text})\nrun()", variables)
    else:
        exec(f"def run(p, box):\n    return ({text})\nrun(p, box)", variables)
    called, is_method = CALLS[text]
    assert (probe.seen.called, probe.seen.is_method) == (called, is_method), probe.seen
    assert probe.function is (probe if called == "p" and not is_method else None)


def test_a_partial_application_stands_for_its_function():
    probe = Probe()
    exec("say('a', sep='')", {"say": functools.partial(probe, 1)})
    assert probe.function is probe


@pytest.mark.parametrize(("text", "names"), [("p % 1", ("BINARY_OP", "%")), ("p @ 1", ("BINARY_OP", "@"))])
def test_the_opcode_and_symbol_of_an_operator_are_found(text, names):
    probe = Probe()
    exec(text, {"p": probe})
    assert (probe.seen.opname, probe.seen.text) == names


@pytest.mark.parametrize("text", ['f"{p}"', 'f"{p:>3}"', 'f"a {p} b"', "f'''{p\n}'''"])
def test_formatting_is_found_as_a_format_instruction(text):
    probe = Probe()
    exec(f"({text})", {"p": probe})
    assert probe.seen.opname.startswith("FORMAT_"), probe.seen


CALLEES = {
    "operator.add(ask, 1)": operator.add,
    "np.add(ask, 1)": np.add,
    "np.add(ask, 1, dtype=None)": np.add,
    "np.add(*[ask], **{'b': 1})": np.add,
    "sum([ask], start=ask)": sum,
    "other(ask)": None,
}


@pytest.mark.parametrize("text", CALLEES)
def test_the_dotted_name_of_a_call_is_found(text):
    """As far as global names tell."""
    code = compile(text, "<call>", "eval", dont_inherit=True)
    names = [one for one in array_ufunc._calls(code).values() if one]
    found = [".".join(one) for one in names]
    expected = text.partition("(")[0]
    assert set(found) == {expected}
    if CALLEES[text] is not None:
        value = eval(expected, {"operator": operator, "np": np})
        assert value is CALLEES[text]
