"""Random programs with one random edit, or none: what is told is the edit that was made.

The truth is made with the edit, from the text alone; nothing of lazynb's is asked for it.
"""

from __future__ import annotations

import dataclasses
import os

import pytest
from execute.test_misses import Cells, told

import lazynb

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

UNARY = ("sin", "cos", "tanh", "exp", "square", "arctan")
BINARY = {"+": "add", "-": "subtract", "*": "multiply"}
REDUCTIONS = ("sum", "mean", "max", "min")
ACTIVATIONS = ("relu", "softplus", "silu", "sigmoid")
COUNT = int(os.environ.get("LAZYNB_PROGRAMS", "40"))


@dataclasses.dataclass(frozen=True)
class Line:
    """A statement of a program.

    Attributes:
      kind: what form it has.
      target, sources: the variables that it sets and reads.
      choice: the function, operator or number in it.
    """

    kind: str
    target: str
    sources: tuple[str, ...]
    choice: str

    @property
    def text(self) -> str:
        a, b = self.sources
        return {
            "function": f"{self.target} = jnp.{self.choice}({a})",
            "operator": f"{self.target} = {a} {self.choice} {b}",
            "activation": f"{self.target} = jax.nn.{self.choice}({a})",
            "roll": f"{self.target} = jnp.roll({a}, {self.choice}, axis=0)",
            "power": f"{self.target} = {a} ** {self.choice}",
            "softmax": f"{self.target} = jax.nn.softmax({a}, axis={self.choice}) + {b}",
            "nested": f"{self.target} = jnp.tanh(jnp.{self.choice}({a}) * {b})",
            "jitted": f"{self.target} = jax.jit(lambda t: jnp.{self.choice}(t) + 1)({a})",
            "vmap": f"{self.target} = jax.vmap(jnp.{self.choice})({a}) - {b}",
            "grad": f"{self.target} = jax.grad(lambda t: jnp.{self.choice}(t).sum())({a})",
        }[self.kind]

    def choices(self) -> tuple[str, ...]:
        """What may stand in place of its choice."""
        tables = {"operator": tuple(BINARY), "activation": ACTIVATIONS}
        numbers = {"roll": ("1", "2", "3"), "power": ("2", "3", "4"), "softmax": ("0", "1")}
        return tables.get(self.kind) or numbers.get(self.kind) or UNARY

    def cause(self, other: str) -> tuple[str, str]:
        """What is told if ``other`` takes the place of the choice, without the line."""
        if self.kind == "operator":
            return "replaced", f"`{BINARY[other]}` in place of `{BINARY[self.choice]}`"
        if self.kind == "roll":
            return "parameter", f"`shift` of `roll` was {self.choice}, now {other}"
        if self.kind == "power":
            return "parameter", f"`exponent` of `power` was {self.choice}, now {other}"
        if self.kind == "softmax":
            return "parameter", f"`axis` of `softmax` was {self.choice}, now {other}"
        if self.kind == "vmap":
            return "parameter", f"`fun` of `vmap` was {self.choice}, now {other}"
        if self.kind == "jitted":
            return "nested", f"in `lambda`: `{other}` in place of `{self.choice}`"
        return "replaced", f"`{other}` in place of `{self.choice}`"


KINDS = ("function", "operator", "activation", "roll", "power", "softmax", "nested", "jitted", "vmap", "grad")


@st.composite
def programs(draw):
    """Some lines, each of which the result needs, and how it is read."""
    lines: list[Line] = []
    known = ["x", "z"]
    for number in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(KINDS))
        sources = (known[-1], draw(st.sampled_from(known)))
        line = Line(kind, f"v{number}", sources, "")
        lines.append(dataclasses.replace(line, choice=draw(st.sampled_from(line.choices()))))
        known.append(line.target)
    return lines, draw(st.sampled_from(REDUCTIONS))


def written(lines, reduction):
    """The program as a function, so that no variable but the result is alive."""
    body = "".join(f"    {line.text}\n" for line in lines)
    return f"def run(x, z):\n{body}    return {lines[-1].target}\nfloat(run(x, z).{reduction}())\n"


@st.composite
def edits(draw, lines, reduction):
    """A program after an edit, and what is told of it: (kind, text without its place, line)."""
    kind = draw(st.sampled_from(("none", "names", "choice", "choice", "choice", "reduction", "wrap", "line")))
    at = draw(st.integers(0, len(lines) - 1))
    line = lines[at]
    place = at + 2
    if kind == "choice":
        other = draw(st.sampled_from([choice for choice in line.choices() if choice != line.choice]))
        changed = [*lines[:at], dataclasses.replace(line, choice=other), *lines[at + 1 :]]
        return written(changed, reduction), (*line.cause(other), place)
    text = written(lines, reduction)
    if kind == "names":
        return "# another comment\n" + text.replace("v0", "value"), None
    if kind == "reduction":
        other = draw(st.sampled_from([one for one in REDUCTIONS if one != reduction]))
        return written(lines, other), ("replaced", f"`{other}` in place of `{reduction}`", len(lines) + 3)
    if kind == "wrap":
        around = draw(st.sampled_from(UNARY))
        expression = line.text.split(" = ", 1)[1]
        changed = text.replace(line.text + "\n", f"{line.target} = jnp.{around}({expression})\n", 1)
        return changed, ("added", f"`{around}` was added", place)
    if kind == "line":
        name = draw(st.sampled_from(UNARY))
        extra = f"{line.target} = jnp.{name}({line.target})"
        changed = text.replace(line.text + "\n", f"{line.text}\n    {extra}\n", 1)
        return changed, ("added", f"`{name}` was added", place + 1)
    return text, None


@st.composite
def cases(draw):
    lines, reduction = draw(programs())
    return (written(lines, reduction), *draw(edits(lines, reduction)))


def run(before, after):
    """What is told of the second program."""
    lazynb.sync()
    lazynb.clear_cache()
    cells = Cells()
    cells.number = 1
    cells.outside("x = jnp.linspace(0.1, 0.9, 9).reshape(3, 3)\nz = x.T * 0.5 + 0.25\n")
    cells.run(before)
    return [told(miss) for miss in cells.run(after)]


@hypothesis.settings(max_examples=COUNT, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(cases())
def test_what_is_told_is_the_edit(case):
    before, after, truth = case
    found = run(before, after)
    if truth is None:
        assert found == []
        return
    kind, text, line = truth
    assert found == [((kind, f"{text}: cell 3, line {line}"),)]
