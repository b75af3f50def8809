"""Lines of breaks and operations under cell magics, of cells that ran again, and of modules that were edited.

The truth is where the lines are written.
"""

from __future__ import annotations

import os
import random
import sys

import pytest

import lazynb

OWN_MAGICS = """
from IPython.core.magic import register_cell_magic

@register_cell_magic
def as_cell(line, cell):
    get_ipython().run_cell(cell)

@register_cell_magic
def through_ex(line, cell):
    get_ipython().ex(cell)

@register_cell_magic
def through_exec(line, cell):
    exec(cell, get_ipython().user_ns)

@register_cell_magic
def named(line, cell):
    exec(compile(cell, "<mine>", "exec"), get_ipython().user_ns)

@register_cell_magic
def transformed(line, cell):
    exec(get_ipython().transform_cell(cell), get_ipython().user_ns)
"""
MAGICS = [
    "%%time",
    "%%timeit -n1 -r1",
    "%%timeit -n2 -r1 spare = x + 3",
    "%%capture",
    "%%capture shown",
    "%%prun -q",
    "%%as_cell",
    "%%through_ex",
    "%%through_exec",
    "%%named",
    "%%transformed",
    "%%compile",
    "%%numerics",
    "%%explain",
    "%%capture\n%%time",
    "%%time\n%%compile",
    "%%capture\n%%capture\n%%prun -q",
]


@pytest.fixture
def cells(notebook):
    notebook.run(OWN_MAGICS)
    notebook.run("import lazynb\nx = jnp.ones(4)\nlazynb.sync(x)")
    lazynb.clear_cache()
    return notebook


def told():
    return sorted((one.code, one.location.label, one.location.text) for one in lazynb.breaks())


BODY = """
y = x * 2

def read(v):
    return float(v.sum())

read(y)
print(y + 1)
[int(v) for v in (y[0],)]
"""


@pytest.mark.parametrize("magic", MAGICS)
def test_breaks_under_a_magic_are_at_the_lines_of_the_cell(cells, magic):
    number = cells.shell.execution_count
    cells.run(f"{magic}\n{BODY}")
    lines = f"{magic}\n{BODY}".splitlines()
    expected = []
    for code, text in (
        ("LNB103", "return float(v.sum())"),
        ("LNB108", "print(y + 1)"),
        ("LNB102", "[int(v) for v in (y[0],)]"),
    ):
        at = next(at for at, line in enumerate(lines, 1) if line.strip() == text)
        expected.append((code, f"cell {number}, line {at}", text))
    assert told() == sorted(expected)
    called = next(at for at, line in enumerate(lines, 1) if line == "read(y)")
    [read] = [one for one in lazynb.breaks() if one.code == "LNB103"]
    assert [place.label for place in read.callers] == [f"cell {number}, line {called}"]


@pytest.mark.parametrize("magic", MAGICS)
def test_operations_under_a_magic_are_at_the_lines_of_the_cell(cells, magic):
    number = cells.shell.execution_count
    kept = []
    cells.shell.user_ns["keep"] = lambda value: kept.append(value) or value
    cells.run(f"{magic}\n\na = keep(jnp.sin(x))\n\nb = keep(a * 3)\nc = keep(lazynb.compile(b))\n")
    compilation = next(one for one in kept if isinstance(one, lazynb.Compilation))
    before = magic.count("\n")
    places = {node.name: node.place.label for node in compilation.snapshot.nodes if node.kind == "op"}
    assert places["sin"] == f"cell {number}, line {3 + before}"
    assert places["multiply"] == f"cell {number}, line {5 + before}"


STATEMENTS = [
    "z = x + 1",
    "pass",
    "",
    "# note",
    "z = [x,\n     x]",
    "if True:\n    z = x",
    "z = 'a\\n'; w = 2",
]
BREAKS = [
    "float(x[0] + 1)",
    "v = int(x[0] * 1)",
    "bool(x[0] + 1)",
    "if x[0] * 1 > 0:\n    z = x",
    "str(x * 1)",
]


def planted(seed: int) -> tuple[str, list[int]]:
    """A random cell, and the lines of its breaks."""
    draw = random.Random(seed)
    lines, breaks = draw.choice(MAGICS).split("\n"), []
    for _ in range(draw.randint(1, 3)):
        for _ in range(draw.randint(0, 3)):
            lines += draw.choice(STATEMENTS).split("\n")
        breaks.append(len(lines) + 1)
        lines += draw.choice(BREAKS).split("\n")
    return "\n".join(lines), breaks


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_random_cells_under_magics(cells, first):
    for seed in range(first, first + 30):
        cell, lines = planted(seed)
        number = cells.shell.execution_count
        cells.run(cell)
        own = {one.location.line for one in lazynb.breaks() if one.location.cell == number}
        assert own == set(lines), cell


def test_a_function_of_a_timed_cell_is_at_its_lines_in_later_cells(cells):
    number = cells.shell.execution_count
    cells.run("%%time\n\ndef later(v):\n    return float(v.sum())")
    cells.run("later(x * 2)")
    assert told() == [("LNB103", f"cell {number}, line 4", "return float(v.sum())")]


def test_a_line_magic_and_generated_code_keep_their_line(cells):
    number = cells.shell.execution_count
    cells.run(
        "%%time\nimport dataclasses\n\n@dataclasses.dataclass\nclass Read:\n    a: float\n"
        "    def __post_init__(self):\n        float(self.a)\nr = Read(x[0] * 3)\neval('int(v)', {'v': x[1] * 2})"
    )
    assert {one[:2] for one in told()} == {
        ("LNB103", f"cell {number}, line 8"),
        ("LNB102", f"cell {number}, line 10"),
    }
    lazynb.clear_cache()
    cells.run("z = 1\n%timeit -n1 -r1 float(x.sum())\n%time int(x.sum())")
    assert {one[1] for one in told()} == {f"cell {number + 1}, line 2", f"cell {number + 1}, line 3"}


# ---- cells that ran again --------------------------------------------------------------------------------

AGAIN = "y = x * 2\nfor i in range(2):\n    float(y[i])\ndef f(v):\n    return int(v.sum())\nf(y)\nfloat(y[1])\nfloat(y[1])"


@pytest.mark.parametrize("identity", ["a", None])
@pytest.mark.parametrize("magic", ["", "%%time\n", "%%compile\n", "%%capture\n"])
def test_a_cell_that_ran_again_has_its_breaks_once(cells, identity, magic):
    for _ in range(3):
        number = cells.shell.execution_count
        cells.shell.run_cell(magic + AGAIN, store_history=True, cell_id=identity)
    lines = sorted((one.location.cell, one.location.line, one.count) for one in lazynb.breaks())
    more = len(magic.splitlines())
    expected = [(3, 6), (5, 3), (7, 3), (8, 3)]
    assert lines == [(number, line + more, count) for line, count in expected]
    assert [row.location.cell for row in lazynb.breaks().timeline.rows if row.kind != "compile"] == [
        number
    ] * 4
    assert lazynb.breaks().total == 15
    [called] = [one.callers for one in lazynb.breaks() if one.code == "LNB102"]
    assert [place.label for place in called] == [f"cell {number}, line {6 + more}"]
    hints = {one.location.line - more: one.hint for one in lazynb.breaks()}
    assert "after the loop" in hints[3] and "loop" not in hints[7]  # once in each run


def test_an_edited_cell_has_the_newest_place_of_each_line(cells):
    def run(cell, identity):
        cells.shell.run_cell(cell, store_history=True, cell_id=identity)

    run("y = x * 2\nfloat(y[0])\nint(y[1])", "a")
    run("# moved\ny = x * 2\nfloat(y[0])\nint(y[2])", "a")
    run("y = x * 2\nfloat(y[0])\n", "b")
    found = {(one.location.text, one.location.line, one.count, one.gone_since) for one in lazynb.breaks()}
    newest = cells.shell.execution_count - 2
    assert found == {
        ("float(y[0])", 3, 2, None),
        ("int(y[1])", 3, 1, newest),
        ("int(y[2])", 4, 1, None),
        ("float(y[0])", 2, 1, None),
    }


# ---- modules that were edited ----------------------------------------------------------------------------

OLD = """\
import jax.numpy as jnp

def f(x):
    y = jnp.sin(x)
    return y + 1

class Model:
    def read(self, x):
        return float(x.sum())
"""
NEW = """\
import jax.numpy as jnp
# longer


def f(x):
    '''Documented.'''
    y = jnp.cos(  # the cosine
        x
    ) * 2

    return y - 1


class Model:
    rate = 2

    def read(self, x):
        # below
        z = x.sum()
        return float(z)
"""


@pytest.fixture
def module(cells, tmp_path, monkeypatch):
    """A function that writes the text of the module ``edited``."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text, seconds=[0]):  # noqa: B006
        seconds[0] += 10
        path = tmp_path / "edited.py"
        path.write_text(text)
        os.utime(path, (path.stat().st_mtime + seconds[0],) * 2)

    write(OLD)
    yield write
    sys.modules.pop("edited", None)


def operations(compilation):
    found = [node for node in compilation.snapshot.nodes if node.kind == "op"]
    return [(node.name, node.place.line, node.place.text) for node in found]


SIN = [("sin", 4, "y = jnp.sin(x)"), ("add", 5, "return y + 1")]
COS = [
    ("cos", 7, "y = jnp.cos(  # the cosine"),
    ("multiply", 7, "y = jnp.cos(  # the cosine"),
    ("subtract", 11, "return y - 1"),
]


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_operations_stand_beside_the_text_that_ran(cells, module, mode):
    cells.run(f"%load_ext autoreload\n%autoreload {min(mode, 2)}\n%aimport edited\nimport edited")
    cells.run("model = edited.Model()\nmodel.read(x)\nold = edited.f(x)\nk = lazynb.compile(old)")
    assert operations(cells["k"]) == SIN
    module(NEW)
    if mode == 3:
        cells.run("%autoreload 0\nimport importlib\nimportlib.reload(edited)\nmodel = edited.Model()")
    cells.run("model.read(x)\nnew = edited.f(x)\nk = lazynb.compile(new)\nboth = lazynb.compile(old, new)")
    assert sorted(operations(cells["both"])) == sorted(SIN + COS)
    assert [one for one in operations(cells["k"]) if one not in SIN] == COS
    reads = {(one.location.line, one.location.text) for one in lazynb.breaks()}
    assert reads == {(9, "return float(x.sum())"), (20, "return float(z)")}


def test_an_edited_module_that_was_not_reloaded_has_its_old_text(cells, module):
    cells.run("import edited\nk = lazynb.compile(edited.f(x))")
    module("# one more\n" + OLD)
    cells.run("k = lazynb.compile(edited.f(x))\nedited.Model().read(x)")
    assert operations(cells["k"])[-2:] == SIN
    assert [(one.location.line, one.location.text) for one in lazynb.breaks()] == [
        (9, "return float(x.sum())")
    ]


def test_text_that_is_gone_is_not_told(cells, module):
    cells.run("import edited")  # the text was never seen
    module("# one more\n" + OLD)
    cells.run("k = lazynb.compile(edited.f(x))")
    assert [(line, text) for _, line, text in operations(cells["k"])] == [(4, ""), (5, "")]
