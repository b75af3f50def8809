"""Random programs in which Python needs values, with the lines where it does and the code of each: they are known
because the lines are written here. A seed gives the same program.

How often a line breaks, and what was pending, follows from running the program with ``shadow``'s values.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Form(NamedTuple):
    """An expression that needs the value of ``s`` or ``t`` (scalars), or ``a`` (an array).

    Attributes:
      codes: of the breaks that it may have.
      through: whether a library asks.
    """

    text: str
    codes: tuple[str, ...]
    through: bool = False


def forms(code: str, *texts: str, through: bool = False) -> list[Form]:
    return [Form(text, (code,), through) for text in texts]


FORMS = [
    *forms("LNB101", "bool({s} > 3)", "1 if {s} > 3 else 2", "not {s}", "1 < {s} < 9", "{s} > 1 and {t} < 5"),
    *forms("LNB101", "{s} < 0 or not {t} > 2", "[{s}] == [{t}]", "({s}, 1) == ({t}, 1)", "{s} in [1.0, 6.0]"),
    *forms("LNB101", "any(v > 5 for v in [{s}, {t}])", "all(v > 0 for v in [{s}, {t}])"),
    *forms("LNB101", "[1 for v in [{s}, {t}] if v > 2]", "list(filter(None, [{s}, {t}]))"),
    *forms("LNB101", "eval('1 if v > 2 else 0', {{'v': {s}}})", "State({s}) == State({t})"),
    *forms("LNB101", "list(map(bool, [{s}, {t}]))", "next((v for v in [1, 2] if {s} > v), 0)"),
    *forms("LNB102", "int({s})", "int({s}) + int({t})", "'%d' % {s}", "list(map(int, [{s}, {t}]))"),
    *forms(
        "LNB103", "float({s})", "math.floor({s})", "math.sqrt(abs({s}))", "'%.2f' % {s}", "np.float64({s})"
    ),
    *forms(
        "LNB103", "[float(v) for v in ({s}, {t})]", "{{n: float(v) for n, v in [('s', {s}), ('t', {t})]}}"
    ),
    *forms("LNB103", "sum(float(v) for v in [{s}, {t}])", "list(map(float, [{s}, {t}]))"),
    *forms("LNB103", "(lambda v: float(v))({s})", "sorted([1, 2], key=lambda n: float({s}) * n)"),
    *forms(
        "LNB103",
        "eval('float(v)', {{'v': {s}}})",
        "struct.pack('f', {s})",
        "max([1.0, 2.0], key=lambda n: float({s}))",
    ),
    *forms("LNB104", "complex({s})"),
    *forms(
        "LNB105", "[10, 20, 30, 40][{a}.argmax()]", "hex({a}.argmax())", "[n for n in range(({a} > 1).sum())]"
    ),
    *forms("LNB105", "[1, 2, 3][:{a}.argmax()]", "'abcd'[{a}.argmax()]", "(1, 2) * {a}.argmax().__index__()"),
    *forms("LNB106", "{s}.item()", "[v.item() for v in ({s}, {t})]", "getattr({s}, 'item')()"),
    *forms("LNB107", "{a}.tolist()"),
    *forms(
        "LNB108",
        "str({a})",
        "'%s' % {a}",
        "', '.join(map(str, [{s}, {t}]))",
        "print({a})",
        "print('s', {s}, {t})",
    ),
    *forms("LNB108", "print([{a}])", "print({{'loss': {s}}})"),
    *forms(
        "LNB109", "f'{{{s}:.2f}}'", "f'{{{s}}} and {{{t}:.1f}}'", "'{{}}'.format({s})", "format({s}, '.1f')"
    ),
    *forms(
        "LNB110",
        "np.asarray({a}).tolist()",
        "np.array([{s}, {t}], ndmin=2).tolist()",
        "jax.device_get({{'a': {a}}})['a'].tolist()",
    ),
    *forms("LNB112", "pickle.loads(pickle.dumps({a})).tolist()"),
    *forms("LNB113", "{a}.tobytes()"),
    *forms("LNB116", "4.0 in {a}", "2.0 not in {a}"),
    *forms("LNB117", "np.save(io.BytesIO(), {a})", through=True),
    *forms("LNB119", "jnp.zeros(({a} > 1).sum() + 1).shape"),
    *forms("LNB202", "({a} * 2).block_until_ready().shape"),
    Form("[float({s}), int({t})]", ("LNB103", "LNB102")),
    Form("float({s}) if {t} > 3 else int({s})", ("LNB103", "LNB101", "LNB102")),
    Form("f'{{{s}:.1f}}' + str(float({t}))", ("LNB109", "LNB103")),
]
CONDITIONS = [
    "{s} > 3",
    "not {s} > 3",
    "{s} > 1 and {t} > 1",
    "{s} == {t}",
    "{s}",
    "({a} > 1).sum() > 1",
    "{s} != 0",
]
LOOKS = [
    "repr({a})",
    "len({a})",
    "{a}.shape",
    "repr([{a}])",
    "{a}.ndim + 1",
    "f'{{{a}!r}}'",
    "isinstance({a}, int)",
    "{a} is None",
]
ARRAYS = [
    "{a} * 2",
    "{a} + {b}",
    "{a} - {b}",
    "-{a}",
    "abs({a})",
    "jnp.minimum({a}, 9)",
    "jnp.where({a} > 2, {a}, {b})",
    "{a} + {s}",
    "{a} * 0.5",
]
SCALARS = [
    "{a}.sum()",
    "{a}.max()",
    "({a} * 2).sum()",
    "{s} + 1",
    "{s} - {t}",
    "jnp.minimum({s}, 9)",
    "jnp.sum({a}) * 0.5",
    "-{s}",
]
IMPORTS = """\
import contextlib
import dataclasses
import functools
import io
import math
import pickle
import struct
import numpy as np
@dataclasses.dataclass
class State:
    loss: object
"""


@dataclasses.dataclass
class File:
    """One file of a program, while it is written.

    Attributes:
      lines: of it.
      codes: by line, those of the breaks that it may have.
      through: the lines where a library asks.
    """

    name: str
    lines: list[str] = dataclasses.field(default_factory=list)
    codes: dict[int, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    through: set[int] = dataclasses.field(default_factory=set)

    def add(self, indent: int, text: str, codes: tuple[str, ...] = (), through: bool = False) -> None:
        self.lines.append("    " * indent + text)
        if codes:
            self.codes[len(self.lines)] = codes
        if through:
            self.through.add(len(self.lines))

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclasses.dataclass
class Scope:
    """Where the next line is written, and what has a name there."""

    file: File
    indent: int
    arrays: list[str]
    scalars: list[str]
    depth: int = 0
    looping: int = 0

    def inner(self, *, function: bool = False, loop: bool = False, **names: list[str]) -> Scope:
        """A block within; what is named there is not known after it."""
        arrays, scalars = names.get("arrays", self.arrays), names.get("scalars", self.scalars)
        looping = self.looping + loop
        return Scope(self.file, self.indent + 1, [*arrays], [*scalars], self.depth + 1, looping)


class Writer:
    """Writes a program.

    Attributes:
      files: the helpers' and the program's own, which imports that.
    """

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.files = [File(f"random_helpers_{seed}.py"), File(f"random_program_{seed}.py")]
        self.numbers: Iterator[int] = iter(range(10_000))
        self.helpers: list[str] = []  # of (array, scalar), to an array
        helpers, main = self.files
        for file in self.files:
            for line in IMPORTS.splitlines():
                file.add(0, line)
        if self.chance.random() < 0.6:
            self._helper(Scope(helpers, 0, [], []))
            main.add(0, f"from {helpers.name.removesuffix('.py')} import {self.helpers[0]}")
        scope = Scope(main, 0, ["x", "y"], [])
        self._scalar(scope)
        self._array(scope)
        for _ in range(self.chance.randint(3, 9)):
            self.statement(scope)

    def name(self, what: str) -> str:
        return f"{what}{next(self.numbers)}"

    def filled(self, text: str, scope: Scope) -> str:
        arrays = scope.arrays[-4:]
        if " in {a}" in text:  # of an array that is not lazy, Python asks each element
            arrays = [name for name in arrays if name not in "xy"]
        names = {key: self.chance.choice(arrays) for key in "ab"}
        names |= {key: self.chance.choice(scope.scalars[-4:]) for key in "st"}
        return text.format(**names)

    def statement(self, scope: Scope) -> None:
        """One statement, simple or with others in it."""
        simple: list[Callable[[Scope], None]] = [
            self._array,
            self._scalar,
            self._force,
            self._force,
            self._look,
        ]
        simple += [self._over_lines, self._sync, self._statement_in_exec]
        nested = [self._if, self._for, self._while, self._try, self._function, self._with, self._class]
        nested += [self._generator, self._recursion, self._decorated, self._iteration, self._lambda]
        if self.helpers:
            simple.append(self._call)
        several = simple + (nested if scope.depth < 2 else [])
        self.chance.choice(several)(scope)

    def block(self, scope: Scope, most: int = 3) -> None:
        for _ in range(self.chance.randint(1, most)):
            self.statement(scope)

    # ---- simple statements ---------------------------------------------------------------------------------

    def _array(self, scope: Scope) -> None:
        name = self.name("a")
        scope.file.add(scope.indent, f"{name} = {self.filled(self.chance.choice(ARRAYS), scope)}")
        scope.arrays.append(name)

    def _scalar(self, scope: Scope) -> None:
        name = self.name("s")
        forms = SCALARS if scope.scalars else [form for form in SCALARS if "{s}" not in form]
        text = self.filled(
            self.chance.choice(forms), dataclasses.replace(scope, scalars=scope.scalars or ["s"])
        )
        scope.file.add(scope.indent, f"{name} = {text}")
        scope.scalars.append(name)

    def _force(self, scope: Scope) -> None:
        form = self.chance.choice(FORMS)
        text = self.filled(form.text, scope)
        scope.file.add(scope.indent, f"out.append({text})", form.codes, form.through)

    def _look(self, scope: Scope) -> None:
        name = self.name("look")
        scope.file.add(scope.indent, f"{name} = {self.filled(self.chance.choice(LOOKS), scope)}")

    def _over_lines(self, scope: Scope) -> None:
        """A statement over several lines; the breaks are on two of them."""
        one, other = (self.chance.choice([form for form in FORMS if not form.through]) for _ in range(2))
        scope.file.add(scope.indent, f"{self.name('r')} = [")
        for form in (one, other):
            scope.file.add(scope.indent + 1, f"{self.filled(form.text, scope)},", form.codes)
        scope.file.add(scope.indent + 1, "float(", ("LNB103",))
        scope.file.add(scope.indent + 2, self.filled("{s}", scope))
        scope.file.add(scope.indent + 1, "),")
        scope.file.add(scope.indent, "]")

    def _sync(self, scope: Scope) -> None:
        scope.file.add(scope.indent, "lazynb.sync()", ("LNB201",))

    def _statement_in_exec(self, scope: Scope) -> None:
        """Code that nobody wrote: its break is on the line that runs it."""
        value = self.filled("{s}", scope)
        texts = ["r = float(v)", "r = 1 if v > 2 else 0", "r = 0\nfor n in range(2):\n    r = float(v * 2)"]
        text = self.chance.choice(texts)
        code = "LNB101" if " if " in text else "LNB103"
        scope.file.add(scope.indent, f"exec({text!r}, {{'v': {value}}})", (code,))

    def _call(self, scope: Scope) -> None:
        name = self.name("a")
        array, scalar = self.chance.choice(scope.arrays[-4:]), self.chance.choice(scope.scalars[-4:])
        scope.file.add(scope.indent, f"{name} = {self.chance.choice(self.helpers)}({array}, {scalar})")
        scope.arrays.append(name)

    # ---- statements with others in them --------------------------------------------------------------------

    def _if(self, scope: Scope) -> None:
        scope.file.add(scope.indent, f"if {self.filled(self.chance.choice(CONDITIONS), scope)}:", ("LNB101",))
        self.block(scope.inner())
        if self.chance.random() < 0.4:
            condition = self.filled(self.chance.choice(CONDITIONS), scope)
            scope.file.add(scope.indent, f"elif {condition}:", ("LNB101",))
            self.block(scope.inner(), 1)
        if self.chance.random() < 0.4:
            scope.file.add(scope.indent, "else:")
            self.block(scope.inner(), 2)

    def _for(self, scope: Scope) -> None:
        if scope.looping:
            return self._scalar(scope)
        carried = self.name("a")
        scope.file.add(scope.indent, f"{carried} = {self.chance.choice(scope.arrays)} * 1")
        scope.file.add(scope.indent, f"for {self.name('n')} in range({self.chance.randint(1, 4)}):")
        inner = scope.inner(loop=True, arrays=[*scope.arrays, carried])
        scope.file.add(inner.indent, f"{carried} = {carried} * 0.5")
        self.block(inner)
        if self.chance.random() < 0.3:
            condition = self.filled("{s} > 4", inner)
            scope.file.add(inner.indent, f"if {condition}:", ("LNB101",))
            scope.file.add(inner.indent + 1, self.chance.choice(["break", "continue"]))
        scope.arrays.append(carried)

    def _while(self, scope: Scope) -> None:
        if scope.looping:
            return self._array(scope)
        carried = self.name("s")
        scope.file.add(
            scope.indent, f"{carried} = jnp.maximum(jnp.minimum({self.chance.choice(scope.scalars)}, 9), 1)"
        )
        scope.file.add(scope.indent, f"while {carried} < {self.chance.choice([5, 20])}:", ("LNB101",))
        inner = scope.inner(loop=True, scalars=[*scope.scalars, carried])
        self.block(inner, 2)
        scope.file.add(inner.indent, f"{carried} = {carried} + 4")
        scope.scalars.append(carried)

    def _try(self, scope: Scope) -> None:
        scope.file.add(scope.indent, "try:")
        inner = scope.inner()
        self.block(inner, 2)
        if self.chance.random() < 0.6:
            scope.file.add(inner.indent, f"assert {self.filled('{s} > 3', inner)}", ("LNB101",))
        else:
            scope.file.add(inner.indent, "raise AssertionError")
        scope.file.add(scope.indent, "except AssertionError:")
        self.block(scope.inner(), 2)
        if self.chance.random() < 0.4:
            scope.file.add(scope.indent, "finally:")
            self.block(scope.inner(), 1)

    def _helper(self, scope: Scope) -> None:
        name = self.name("helper")
        scope.file.add(scope.indent, f"def {name}(q, t):")
        inner = scope.inner(arrays=["q"], scalars=["t"])
        scope.file.add(inner.indent, "q = q * 1")
        self.block(inner)
        scope.file.add(inner.indent, f"return {self.filled('{a} * 2', inner)}")
        self.helpers.append(name)

    def _function(self, scope: Scope) -> None:
        if scope.depth:
            return self._force(scope)
        self._helper(scope)
        self._call(scope)
        self._call(scope)

    def _lambda(self, scope: Scope) -> None:
        form = self.chance.choice([form for form in FORMS if not form.through and "lambda" not in form.text])
        name = self.name("f")
        text = form.text.replace("{t}", "{s}").format(a="q", s="t")
        scope.file.add(scope.indent, f"{name} = lambda q, t: {text}", form.codes)
        for _ in range(self.chance.randint(1, 2)):
            scope.file.add(scope.indent, self.filled(f"out.append({name}({{a}} * 2, {{s}} + 1))", scope))

    def _with(self, scope: Scope) -> None:
        name = self.name("block")
        scope.file.add(scope.indent, "@contextlib.contextmanager")
        scope.file.add(scope.indent, f"def {name}(t):")
        for text in ("", "yield", ""):
            if text:
                scope.file.add(scope.indent + 1, text)
            else:
                scope.file.add(scope.indent + 1, "out.append(float(t * 2))", ("LNB103",))
        scope.file.add(scope.indent, f"with {name}({self.chance.choice(scope.scalars)}):")
        self.block(scope.inner(), 2)

    def _class(self, scope: Scope) -> None:
        name, file, indent = self.name("Meter"), scope.file, scope.indent
        file.add(indent, f"class {name}:")
        file.add(indent + 1, "def __init__(self, value):")
        file.add(indent + 2, "self.value = value + 1")
        kind = self.chance.choice(["property", "method", "bool", "comparison"])
        if kind == "property":
            file.add(indent + 1, "@property")
            file.add(indent + 1, "def mean(self):")
            file.add(indent + 2, "return self.value.item() / 3", ("LNB106",))
            use = "out.append({}.mean)"
        elif kind == "method":
            file.add(indent + 1, "def read(self, scale=2):")
            file.add(indent + 2, "return float(")
            file.codes[len(file.lines)] = ("LNB103",)
            file.add(indent + 3, "self.value * scale")
            file.add(indent + 2, ")")
            use = "out.append({}.read())"
        elif kind == "bool":
            file.add(indent + 1, "def __bool__(self):")
            file.add(indent + 2, "return bool(self.value > 5)", ("LNB101",))
            use = "out.append(1 if {} else 2)"
        else:
            file.add(indent + 1, "def __lt__(self, other):")
            file.add(indent + 2, "return bool(self.value < other)", ("LNB101",))
            use = "out.append({} < 4)"
        meter = self.name("meter")
        file.add(indent, f"{meter} = {name}({self.chance.choice(scope.scalars)})")
        for _ in range(self.chance.randint(1, 2)):
            file.add(indent, use.format(meter))

    def _generator(self, scope: Scope) -> None:
        name = self.name("values")
        scope.file.add(scope.indent, f"def {name}(t):")
        scope.file.add(scope.indent + 1, f"for n in range({self.chance.randint(1, 3)}):")
        scope.file.add(scope.indent + 2, "t = t * 0.5")
        if self.chance.random() < 0.5:
            scope.file.add(scope.indent + 2, "out.append(int(t))", ("LNB102",))
        scope.file.add(scope.indent + 2, "yield t")
        scalar = self.chance.choice(scope.scalars)
        if self.chance.random() < 0.5:
            scope.file.add(scope.indent, f"out.append([float(v) for v in {name}({scalar})])", ("LNB103",))
            return
        scope.file.add(scope.indent, f"for s_of_it in {name}({scalar}):")
        scope.file.add(scope.indent + 1, "out.append(s_of_it.item())", ("LNB106",))

    def _recursion(self, scope: Scope) -> None:
        name = self.name("halved")
        scope.file.add(scope.indent, f"def {name}(t, left):")
        scope.file.add(scope.indent + 1, "if left == 0 or t < 1:", ("LNB101",))
        scope.file.add(scope.indent + 2, "return t")
        scope.file.add(scope.indent + 1, f"return {name}(t * 0.5, left - 1)")
        value = self.name("s")
        scope.file.add(
            scope.indent,
            f"{value} = {name}({self.chance.choice(scope.scalars)}, {self.chance.randint(0, 3)})",
        )
        scope.scalars.append(value)

    def _decorated(self, scope: Scope) -> None:
        logged, name, file, indent = self.name("logged"), self.name("step"), scope.file, scope.indent
        file.add(indent, f"def {logged}(function):")
        file.add(indent + 1, "@functools.wraps(function)")
        file.add(indent + 1, "def call(*args):")
        file.add(indent + 2, "result = function(*args)")
        file.add(indent + 2, "print(result)", ("LNB108",))
        file.add(indent + 2, "return result")
        file.add(indent + 1, "return call")
        file.add(indent, f"@{logged}")
        file.add(indent, f"def {name}(q):")
        file.add(indent + 1, "return q * 2")
        value = self.name("a")
        file.add(indent, f"{value} = {name}({name}({self.chance.choice(scope.arrays)}))")
        scope.arrays.append(value)

    def _iteration(self, scope: Scope) -> None:
        """An array has a length: its elements need no value until they are asked for."""
        lazy = [
            name for name in scope.arrays if name not in "xy"
        ]  # another JAX array gives its elements computed
        array, element = self.chance.choice(lazy), self.name("s")
        scope.file.add(scope.indent, f"for {element} in {array}:")
        self.block(scope.inner(loop=True, scalars=[*scope.scalars, element]), 2)
