"""Random programs with one random edit, or none, or two, and what is told of it.

The truth is made with the edit, from the text alone; nothing of lazynb's is asked for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import hypothesis

st = hypothesis.strategies

DATA = "x = jnp.linspace(0.1, 0.9, 9).reshape(3, 3)\nz = x.T * 0.5 + 0.25\n"
UNARY = ("sin", "cos", "tanh", "exp", "square", "arctan")
BINARY = {"+": "add", "-": "subtract", "*": "multiply"}
REDUCTIONS = ("sum", "mean", "max", "min")
ACTIVATIONS = ("relu", "softplus", "silu", "sigmoid")
NEW = ("new", "nothing like it was compiled before")
SHOWN = 4
"""Operations that a list of them names."""

Told = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program before and after an edit.

    Attributes:
      before, after: their cells.
      misses: of the cells after it, the causes of each; their order is another matter.
      raised: the exceptions of its cells.
    """

    before: Sequence[str]
    after: Sequence[str]
    misses: Sequence[frozenset[Told]] = ()
    raised: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Line:
    """A statement of a program.

    Attributes:
      kind: what form it has.
      target, sources: the variables that it sets and reads.
      choice: the function, operator or argument in it.
    """

    kind: str
    target: str
    sources: tuple[str, ...]
    choice: str

    @property
    def text(self) -> str:
        a, b = self.sources
        return f"{self.target} = " + FORMS[self.kind].format(a=a, b=b, choice=self.choice)

    def choices(self) -> tuple[str, ...]:
        """What may stand in place of its choice."""
        return CHOICES.get(self.kind, UNARY)

    def cause(self, other: str, line: int, cell: int = 3) -> Told:
        """What is told if ``other`` takes the place of the choice."""
        at = f": cell {cell}, line {line}"
        if self.kind == "data":
            return "constant", f"the number {self.choice} at cell {cell}, line {line} is now {other}"
        if self.kind in PARAMETERS:
            name = PARAMETERS[self.kind]
            return "parameter", f"`{name[0]}` of `{name[1]}` was {self.choice}, now {other}{at}"
        before, now = BINARY.get(self.choice, self.choice), BINARY.get(other, other)
        return "replaced", f"`{now}` in place of `{before}`{at}"


FORMS = {
    "function": "jnp.{choice}({a})",
    "operator": "{a} {choice} {b}",
    "activation": "jax.nn.{choice}({a})",
    "roll": "jnp.roll({a}, {choice}, axis=0)",
    "power": "{a} ** {choice}",
    "softmax": "jax.nn.softmax({a}, axis={choice}) + {b}",
    "nested": "jnp.tanh(jnp.{choice}({a}) * {b})",
    "jitted": "jax.jit(lambda t: jnp.{choice}(t) + 1)({a})",
    "vmap": "jax.vmap(jnp.{choice})({a}) - {b}",
    "grad": "jax.grad(lambda t: jnp.{choice}(t).sum())({a})",
    "cumsum": "jnp.cumsum({a}, axis={choice}) * {b}",
    "keepdims": "jnp.sum({a}, axis=0, keepdims={choice}) + {b}",
    "gelu": "jax.nn.gelu({a}, approximate={choice})",
    "flip": "jnp.flip({a}, axis={choice}) - {b}",
    "sort": "jnp.sort({a}, descending={choice})",
    "in_axes": "jax.vmap(lambda p, q: jnp.dot(p, q) + p, in_axes={choice})({a}, {b})",
    "row": "{a}[{choice}] * {b}",
    "data": "jax.nn.leaky_relu({a}, {choice}) + {b}",
}
NUMBERS = ("0", "1")
CHOICES = {
    "operator": tuple(BINARY),
    "activation": ACTIVATIONS,
    "roll": ("1", "2", "3"),
    "power": ("2", "3", "4"),
    "softmax": NUMBERS,
    "cumsum": NUMBERS,
    "flip": NUMBERS,
    "keepdims": ("True", "False"),
    "gelu": ("True", "False"),
    "sort": ("True", "False"),
    "in_axes": ("(0, 0)", "(1, 1)", "(0, 1)"),
    "row": ("0", "1", "2"),
    "data": ("0.1", "0.2", "0.3"),
}
PARAMETERS = {
    "roll": ("shift", "roll"),
    "power": ("exponent", "power"),
    "softmax": ("axis", "softmax"),
    "vmap": ("fun", "vmap"),
    "cumsum": ("axis", "cumsum"),
    "keepdims": ("keepdims", "sum"),
    "gelu": ("approximate", "gelu"),
    "flip": ("axis", "flip"),
    "sort": ("descending", "sort"),
    "in_axes": ("in_axes", "vmap"),
    "row": ("index", "indexing"),
}
PLAIN = ("function", "operator", "roll", "activation")
"""Kinds of lines that are one operation."""


def operation(line: Line) -> str:
    """What the one operation of a plain line is called."""
    return "roll" if line.kind == "roll" else BINARY.get(line.choice, line.choice)


def listed(names: Sequence[str]) -> str:
    """Operations in words, each once."""
    words = [f"`{name}`" for name in dict.fromkeys(names)]
    if len(words) > SHOWN:
        return f"{', '.join(words[:SHOWN])} and {len(words) - SHOWN} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


@st.composite
def lines_of(draw, kinds=tuple(FORMS), least=2):
    """Some lines, each of which the result needs."""
    lines: list[Line] = []
    known = ["x", "z"]
    for number in range(draw(st.integers(least, 6))):
        kind = draw(st.sampled_from(kinds))
        sources = (known[-1], draw(st.sampled_from(known)))
        line = Line(kind, f"v{number}", sources, "")
        lines.append(dataclasses.replace(line, choice=draw(st.sampled_from(line.choices()))))
        known.append(line.target)
    return lines


def written(lines: Sequence[Line], reduction: str, name: str = "run") -> str:
    """The program as a function, so that no variable but the result is alive. Its first line is line 2."""
    body = "".join(f"    {line.text}\n" for line in lines)
    return f"def {name}(x, z):\n{body}    return {lines[-1].target}\nfloat({name}(x, z).{reduction}())\n"


def edited(draw, lines, at):
    """``lines`` with another choice in the line ``at``, and that choice."""
    line = lines[at]
    other = draw(st.sampled_from([choice for choice in line.choices() if choice != line.choice]))
    return [*lines[:at], dataclasses.replace(line, choice=other), *lines[at + 1 :]], other


def one_miss(before: str, after: str, *told: Told | None) -> Case:
    causes = frozenset(cause for cause in told if cause is not None)
    return Case([before], [after], [causes] if causes else [])


# ---- kinds of edits ----------------------------------------------------------------------------------------


@st.composite
def nothing(draw):
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    text = written(lines, reduction)
    return one_miss(text, text)


@st.composite
def layout(draw):
    """Names, comments, white space, brackets and line breaks."""
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    text = now = written(lines, reduction)
    for change in draw(
        st.sets(st.sampled_from(("names", "function", "comment", "space", "brackets", "break")), min_size=1)
    ):
        expression = lines[0].text.partition(" = ")[2]
        now = {
            "names": lambda: now.replace("v0", "value").replace("v1", "other"),
            "function": lambda: now.replace("run(", "model("),
            "comment": lambda: (
                "# what it is\n" + now.replace("    return", "    # the end\n    return") + "# that was it\n"
            ),
            "space": lambda: now.replace("\n    return", "\n\n    return").replace(", ", ",  "),
            "brackets": lambda: now.replace(f"= {expression}\n", f"= ({expression})\n"),
            "break": lambda: now.replace("float(", "float(\n    ").replace("())\n", "()\n)\n"),
        }[change]()
    return one_miss(text, now)


@st.composite
def choice(draw):
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    at = draw(st.integers(0, len(lines) - 1))
    now, other = edited(draw, lines, at)
    return one_miss(written(lines, reduction), written(now, reduction), lines[at].cause(other, at + 2))


@st.composite
def two_choices(draw):
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    first, second = sorted(draw(st.sets(st.integers(0, len(lines) - 1), min_size=2, max_size=2)))
    now, one = edited(draw, lines, first)
    now, two = edited(draw, now, second)
    causes = lines[first].cause(one, first + 2), lines[second].cause(two, second + 2)
    return one_miss(written(lines, reduction), written(now, reduction), *causes)


@st.composite
def choice_and_reduction(draw):
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    at = draw(st.integers(0, len(lines) - 1))
    now, other = edited(draw, lines, at)
    last = draw(st.sampled_from([one for one in REDUCTIONS if one != reduction]))
    told = "replaced", f"`{last}` in place of `{reduction}`: cell 3, line {len(lines) + 3}"
    return one_miss(written(lines, reduction), written(now, last), lines[at].cause(other, at + 2), told)


@st.composite
def wrapped(draw):
    """A function put around an expression, or taken off."""
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    at, around = draw(st.integers(0, len(lines) - 1)), draw(st.sampled_from(UNARY))
    expression = lines[at].text.partition(" = ")[2]
    less = written(lines, reduction)
    more = less.replace(f"{lines[at].text}\n", f"{lines[at].target} = jnp.{around}({expression})\n", 1)
    return more_or_less(draw, less, more, around, at + 2)


@st.composite
def inserted(draw):
    """A line more, or less."""
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    at, name = draw(st.integers(-1, len(lines) - 1)), draw(st.sampled_from(UNARY))
    target = lines[at].target if at >= 0 else "z"
    less = written(lines, reduction)
    before = f"{lines[at].text}\n" if at >= 0 else "(x, z):\n"
    more = less.replace(before, f"{before}    {target} = jnp.{name}({target})\n", 1)
    return more_or_less(draw, less, more, name, at + 3)


def more_or_less(draw, less: str, more: str, name: str, line: int) -> Case:
    if draw(st.booleans()):
        return one_miss(less, more, ("added", f"`{name}` was added: cell 3, line {line}"))
    return one_miss(more, less, ("removed", f"`{name}` was removed: it was at cell 2, line {line}"))


@st.composite
def carried(draw):
    """A function taken off one operand and put around the other."""
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    name, operator = draw(st.sampled_from(UNARY)), draw(st.sampled_from(tuple(BINARY)))
    last = lines[-1].target
    ends = f"jnp.{name}({last}) {operator} z", f"{last} {operator} jnp.{name}(z)"
    text = written(lines, reduction).replace(f"return {last}\n", "return {end}\n")
    told = "carried", f"`{name}` was moved from `{last}` to `z`: cell 3, line {len(lines) + 2}"
    return one_miss(text.replace("{end}", ends[0]), text.replace("{end}", ends[1]), told)


@st.composite
def swapped(draw):
    """Two lines that do not need each other, in the other order."""
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    one, other = draw(st.lists(st.sampled_from(UNARY), min_size=2, max_size=2, unique=True))
    first, second = f"    p = jnp.{one}(x)\n", f"    q = jnp.{other}(z)\n"
    text = written(lines, reduction).replace("(x, z):\n", "(x, z):\n{pair}    z = p * q\n", 1)
    told = "moved", f"`{one}` was moved: it now comes after `{other}`: cell 3, line 3"
    return one_miss(text.replace("{pair}", first + second), text.replace("{pair}", second + first), told)


@st.composite
def split(draw):
    """A cell that becomes two."""
    lines, reduction = draw(lines_of(PLAIN)), draw(st.sampled_from(REDUCTIONS))
    at = draw(st.integers(1, len(lines) - 1))
    texts = [line.text for line in lines]
    end = f"float({lines[-1].target}.{reduction}())"
    names = [*map(operation, lines), reduction]
    stands = "stand" if len(set(names[:at])) > 1 else "stands"
    others = "stand" if len(set(names[at:])) > 1 else "stands"
    told = [
        frozenset([("cell_split", f"{listed(names[at:])} {others} in another cell now: cell 4, line 1")]),
        frozenset([("cell_split", f"{listed(names[:at])} {stands} in another cell now: cell 3, line 1")]),
    ]
    whole = "\n".join([*texts, end])
    return Case([whole], ["\n".join(texts[:at]), "\n".join([*texts[at:], end])], told)


@st.composite
def exception(draw):
    """An exception half-way, and a cell that reads what there is."""
    lines, reduction = draw(lines_of(PLAIN)), draw(st.sampled_from(REDUCTIONS))
    at = draw(st.integers(1, len(lines)))
    raising, error = draw(
        st.sampled_from(
            (("1 / 0", "ZeroDivisionError"), ("[][1]", "IndexError"), ("assert not 1", "AssertionError"))
        )
    )
    texts = [line.text for line in lines] + [f"float({lines[-1].target}.{reduction}())"]
    names = [*map(operation, lines), reduction][at:]
    was = "were" if len(set(names)) > 1 else "was"
    told = (
        "not_reached",
        f"{listed(names)} {was} not reached: cell 3, line {at + 1} raised {error}: cell 3, line {at + 2}",
    )
    broken = "\n".join([*texts[:at], raising, *texts[at:]])
    return Case(["\n".join(texts)], [broken, "lazynb.sync()"], [frozenset([told])], [error])


@st.composite
def growing(draw):
    """A loop whose shapes change with each turn."""
    name, reduction = draw(st.sampled_from(UNARY)), draw(st.sampled_from(REDUCTIONS))
    part, shape = draw(st.sampled_from((("x[:i]", "({}, 3)"), ("x[:, :i]", "(3, {})"), ("z[:i]", "({}, 3)"))))
    above = draw(st.integers(0, 2))
    text = "# a loop\n" * above + f"for i in range(1, 4):\n    float(jnp.{name}({part}).{reduction}())\n"
    at, series = f": cell 3, line {above + 2}", ", ".join(map(shape.format, (1, 2, 3)))
    told = [
        NEW,
        ("parameter", f"`end` of `indexing` was 1, now 2{at}"),
        ("counter", f"the shape of `indexing` takes a new value at each step: {series}{at}"),
    ]
    return Case([], [text], [frozenset([cause]) for cause in told])


@st.composite
def terms(draw):
    """Terms of one expression in another order."""
    lines, reduction = draw(lines_of()), draw(st.sampled_from(REDUCTIONS))
    operator, count = draw(st.sampled_from(("+", "-", "*"))), draw(st.integers(2, 3))
    count = 2 if operator == "-" else count
    functions = draw(st.lists(st.sampled_from(UNARY), min_size=count, max_size=count, unique=True))
    values = draw(st.lists(st.sampled_from(("x", "z", lines[0].target)), min_size=count, max_size=count))
    written_terms = [f"jnp.{name}({value})" for name, value in zip(functions, values, strict=True)]
    if draw(st.booleans()):
        written_terms[0] = lines[-1].target
    order = draw(st.permutations(range(count)).filter(lambda order: order != list(range(count))))
    ends = [f" {operator} ".join(each) for each in (written_terms, [written_terms[n] for n in order])]
    text = written(lines, reduction).replace(
        f"return {lines[-1].target}\n", f"return ({{}}) + {lines[-1].target}\n"
    )
    told = "swapped", f"the operands of `{BINARY[operator]}` changed places: cell 3, line {len(lines) + 2}"
    return one_miss(text.format(ends[0]), text.format(ends[1]), told)


STACKED = {
    "vstack": "jnp.vstack([h, z[0]])",
    "concatenate": "jnp.concatenate([h, z[:1]])",
    "append": "jnp.append(h, z[:1], axis=0)",
    "pad": "jnp.pad(h, ((0, 1), (0, 0)))",
    "insert": "jnp.insert(h, 0, 1.0, axis=0)",
}


@st.composite
def stacked(draw):
    """An array that gets one more row with each turn of a loop."""
    name, reduction = draw(st.sampled_from(tuple(STACKED))), draw(st.sampled_from(REDUCTIONS))
    around, above = draw(st.sampled_from((None, *UNARY))), draw(st.integers(0, 2))
    grown = STACKED[name] if around is None else f"jnp.{around}({STACKED[name]})"
    turns = draw(st.integers(2, 4))
    text = "# a loop\n" * above + f"h = x[:1]\nlazynb.sync()\nfor i in range({turns}):\n    h = {grown}\n"
    text += f"    float(h.{reduction}())\n"
    at, array = f": cell 3, line {above + 4}", f"an array that `{name}` takes"
    told = [NEW, NEW, ("shape", f"{array} is (2, 3), was (1, 3){at}")]
    for turn in range(3, turns + 1):
        series = ", ".join(f"({rows}, 3)" for rows in range(1, turn + 1))
        told.append(("grows", f"{array} grows at each step: {series}{at}"))
    return Case([], [text], [frozenset([cause]) for cause in told])


@st.composite
def listed_rows(draw):
    """A list that gets one more array with each turn of a loop."""
    name = draw(st.sampled_from(("stack", "vstack", "hstack", "concatenate", "column_stack")))
    function, reduction = draw(st.sampled_from(UNARY)), draw(st.sampled_from(REDUCTIONS))
    turns = draw(st.integers(2, 4))
    text = f"rows = []\nfor i in range({turns}):\n    rows.append(jnp.{function}(z[:, 0]))\n"
    text += f"    print(jnp.{name}(rows).{reduction}())\n"
    first = 1
    told = [NEW, ("operand", f"`{name}` takes 2 arrays, took 1: cell 3, line 4")]
    if name == "concatenate":  # of one array JAX makes nothing
        first = 2
        told[1] = (
            "not_run",
            "only this program runs `concatenate`, although both sources contain it: cell 3, line 4",
        )
    for turn in range(3, turns + 1):
        series = ", ".join(map(str, range(first, turn + 1)))
        grows = f"the number of arrays that `{name}` takes grows at each step: {series}: cell 3, line 4"
        fewer = f"`{name}` takes 3 arrays, took 2: cell 3, line 4"
        told.append(("grows", grows) if turn > first + 1 else ("operand", fewer))
    return Case([], [text], [frozenset([cause]) for cause in told])


@st.composite
def logged(draw):
    """A loop that reads its value in fewer turns."""
    function, operator = draw(st.sampled_from(UNARY)), draw(st.sampled_from(tuple(BINARY)))
    reduction, every = draw(st.sampled_from(REDUCTIONS)), draw(st.integers(2, 6))
    reads = draw(st.sampled_from(("print({})", "float({})"))).format(f"p.{reduction}()")
    text = f"p = x\nfor s in range(12):\n    p = jnp.{function}(p) {operator} z\n{{}}"
    told = (
        "repeats",
        f"`{function}` and `{BINARY[operator]}` run {every} times, ran once: cell 3, line 3",
    )
    fewer = f"    if s % {every} == {every - 1}:\n        {reads}\n"
    return one_miss(text.format(f"    {reads}\n"), text.format(fewer), told)


@st.composite
def two_lines(draw):
    """Two programs of one text that have nothing to do with each other."""
    names = draw(st.lists(st.sampled_from(UNARY), min_size=4, max_size=4, unique=True))
    first, last = draw(st.lists(st.sampled_from(REDUCTIONS), min_size=2, max_size=2, unique=True))
    text = (
        f"def one(v):\n    return float(jnp.{names[0]}(jnp.{names[1]}(v) @ v).{first}())\n"
        f"def other(v):\n    return bool(jnp.{names[2]}(v * jnp.{names[3]}(v)).{last}() > 0)\n"
        "one(x)\nother(x)\n"
    )
    return Case([], [text], [frozenset([NEW]), frozenset([NEW])])


CASES = {
    "nothing": nothing(), "layout": layout(), "choice": choice(), "two choices": two_choices(),
    "choice and reduction": choice_and_reduction(), "wrapped": wrapped(), "inserted": inserted(),
    "carried": carried(), "swapped": swapped(), "split": split(), "exception": exception(), "growing": growing(),
    "terms": terms(), "stacked": stacked(), "listed rows": listed_rows(), "logged": logged(), "two lines": two_lines(),
}  # fmt: skip
WEIGHTS = {"choice": 3, "two choices": 3}

cases = st.one_of(*[case for name, case in CASES.items() for _ in range(WEIGHTS.get(name, 1))])
