"""``%%compile --as-jit``: beside the cell's own program, the one that ``jax.jit`` of the cell would run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from IPython.core.error import UsageError

from lazynb.notebook.frontend_requests import RequestHandler
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.source_data import file_key
from lazynb.xla.compile_entry import last_compilation
from lazynb.xla.targets.compiler_packages import compiler_of
from tests.xla.test_as_jit import without_names

CHAIN = """
a = jnp.tanh(x) * 0.1
b = a + w
c = jnp.exp(b) - 2.0
loss = (c * c).mean()
loss"""


@pytest.fixture
def arrays(notebook):
    notebook.run(
        "x, w = jnp.full((64, 32), 0.5), jnp.arange(32.0)\nlazynb = __import__('lazynb')\nlazynb.sync()"
    )
    return notebook


def test_both_programs_stand_side_by_side(arrays):
    out = arrays.run("%%compile both --as-jit" + CHAIN)
    lazy, jitted = arrays["both"].compilations
    assert lazy.form is None and jitted.form.results == ("loss",)
    assert (jitted.form.arguments, jitted.form.constants) == (2, 2)

    def function(x, w):
        a = jnp.tanh(x) * 0.1
        b = a + w
        c = jnp.exp(b) - 2.0
        return (c * c).mean()

    x, w = jnp.full((64, 32), 0.5), jnp.arange(32.0)
    truth = jax.jit(function).lower(x, w).compile()
    assert without_names(jitted.traces[0].text) == without_names(truth.as_text())
    assert len(jitted.clusters) < len(lazy.clusters)
    table = repr(arrays["both"])
    assert "this machine, as jax.jit" in table
    assert "These 3 arrays are written (24 KiB) because they are still in reach: a, b, c." in table
    assert "Under jax.jit they are no results." in table
    assert float(out.result) == pytest.approx(float(function(x, w)))
    assert len(out.outputs) == 2  # the table, and one inspector of both
    assert "as jax.jit (returns `loss`" in out.outputs[1].data["text/plain"]
    assert lazy.counterpart.compilation is jitted


def test_the_stored_table_says_of_no_file_where_it_lies(arrays):
    arrays.run("%%compile both --as-jit" + CHAIN)
    both = arrays["both"]
    (file,) = {node.place.file for node in both[0].snapshot.nodes if node.kind == "op"}
    html = both.to_html()
    assert 'data-lazynb-line="2"' in html and f'data-lazynb-file="{file_key(file)}"' in html
    assert file not in html


def test_no_run_compiles_both_programs_and_runs_neither(arrays):
    arrays.run("%%compile both --as-jit --no-run" + CHAIN)
    assert arrays.run("loss._pending is not None").result
    assert "not run" in repr(arrays["both"][1]) and "as jax.jit" in repr(arrays["both"][1])


def test_returns_names_the_results_of_the_jit_program(arrays):
    arrays.run("%%compile both --as-jit --returns c,loss" + CHAIN)
    lazy, jitted = arrays["both"].compilations
    assert jitted.form.results == ("c", "loss")
    assert "These 2 arrays are written (16 KiB) because they are still in reach: a, b." in repr(
        arrays["both"]
    )


def test_results_may_be_named_without_a_last_expression(arrays):
    arrays.run("%%compile both --returns tree\ntree = {'u': x * 2, 'v': [x + 1]}")
    assert arrays["both"][1].form.results == ("tree['u']", "tree['v'][0]")


@pytest.mark.parametrize(
    "options, cell, words",
    [
        ("--as-jit", "y = x * 2", "the cell ends in no expression"),
        ("--as-jit --returns nope", "y = x * 2\ny", "there is no nope; the cell gave y"),
        ("--returns text", "y, text = x * 2, 'a'\ny", "text is no array, but str; the cell gave y"),
        ("--returns jnp", "y = x * 2\ny", "jnp is no array, but module; the cell gave y"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(arrays, options, cell, words):
    assert words in str(arrays.run(f"%%compile {options}\n{cell}", error=UsageError).error)


@pytest.mark.parametrize(
    "cell, words",
    [
        ("y = x * 2\nn = float(y[0, 0])\ny + n", "line 3 needed a value before the cell's end"),
        ("y = x * 2\n'text'", "it gives something of type str"),
        ("y = x * 2\nNone", "it gives no array"),
        ("1 + 2", "nothing of it was pending"),
    ],
)
def test_a_cell_that_jit_cannot_compile_shows_its_own_program_and_the_reason(arrays, cell, words):
    out = arrays.run(f"%%compile both --as-jit\n{cell}")
    [lazy] = arrays["both"].compilations
    assert lazy.form is None
    assert words in arrays["both"].refused["this machine, as jax.jit"]
    assert words in out.outputs[0].data["text/plain"].replace("\n", " ")


def test_arrays_made_in_the_cell_are_constants_and_earlier_ones_arguments(arrays):
    arrays.run("host = np.arange(32, dtype='float32')\nkey = jax.random.key(0)")
    arrays.run(
        "%%compile both --as-jit\n"
        "table = jnp.array([1.0, 2.0])\n"
        "noise = jax.random.normal(key, (32,)) + jax.random.normal(jax.random.key(1), (32,))\n"
        "(x + host).sum() * table + noise[:2] + jnp.ones(2)"
    )
    form = arrays["both"][1].form
    assert form.arguments == 3  # x, host, key
    inputs = {node.names[:1] for node in arrays["both"][1].snapshot.nodes if node.kind == "input"}
    assert ("x",) in inputs and ("key",) in inputs


# What is beside each cell holds because XLA:CPU never fuses a dot, a matmul of YNNPACK or a reduce-window.
WRITTEN_ANYWAY = [
    ("s = jnp.exp(x) @ w\nm = jnp.sin(s)\nt = m.sum() + m\nt * 2", "2 of them", ": s, m."),
    ("p = jnp.tanh(x) @ w\njnp.exp(p)", "it", "."),
    ("k = 0.25\nh = jnp.tanh(x * k)\n(h @ jnp.ones((32, 32))).sum()", "it", "."),
    ("s = x @ w\nr = jnp.sin(s)\nr.sum()", "all of them", "."),
    ("s = x * 2\nt = (s + w).sum()\nu = s * t\nu", "1 of them", ": t."),
]


@pytest.mark.parametrize("cell, them, names", WRITTEN_ANYWAY)
def test_arrays_that_jit_also_writes_are_listed(arrays, cell, them, names):
    arrays.run(f"%%compile both --as-jit\n{cell}")
    assert (
        f"The program of jax.jit writes {them} to memory all the same, because one of its kernels reads what "
        f"another gives{names}\n"
    ) in repr(arrays["both"])


@pytest.mark.parametrize("cell", [CHAIN, "\np = jax.nn.softmax(x)\n(p * p).sum(axis=1)"])
def test_arrays_that_jit_does_not_write_are_not_listed(arrays, cell):
    arrays.run(f"%%compile both --as-jit{cell}")
    assert "still in reach" in repr(arrays["both"])
    assert "all the same" not in repr(arrays["both"])


def test_an_array_that_is_copied_when_it_is_recorded_is_an_argument(arrays):
    """JAX shares the memory of ``host``, which somebody could write: the trace holds a copy of ``shared``."""
    arrays.run("%lazy off\nraw = np.zeros(64 * 1024 + 16, 'float32')\nat = -raw.ctypes.data % 64 // 4")
    arrays.run("%lazy off\nhost = raw[at : at + 64 * 1024]\nshared = jax.device_put(host)\n%lazy on")
    assert arrays["shared"].unsafe_buffer_pointer() == arrays["host"].ctypes.data
    arrays.run("%%compile both --as-jit\n(shared + 1, shared)")
    assert (arrays["both"][1].form.arguments, arrays["both"][1].form.constants) == (1, 1)
    arrays.run("%%compile\n(shared + 1, shared)")
    assert str(last_compilation().counterpart.compile().form) == str(arrays["both"][1].form)


def test_both_programs_are_compiled_for_another_chip(arrays):
    if not compiler_of("tpu").is_installed:
        pytest.skip("lazynb targets install tpu: not done here")
    arrays.run("%%compile both --for cpu,v5e --as-jit" + CHAIN)
    titles = [row["target"] for row in arrays["both"].to_dicts()]
    assert titles == ["this machine", "this machine, as jax.jit", "TPU v5e", "TPU v5e, as jax.jit"]


def test_an_unchanged_array_is_an_argument_and_a_result(arrays):
    arrays.run("%%compile both --as-jit\n(x, x + 1, 3, np.arange(3))")
    jitted = arrays["both"][1]
    assert (jitted.form.arguments, jitted.form.constants) == (1, 3)  # x; 1, 3 and what NumPy gave
    results = jitted.traces[0].compiled(jnp.ones((64, 32)))
    assert np.asarray(results[2]) == 3 and np.array_equal(results[3], np.arange(3))


def test_values_pending_before_the_call_are_kept_alive_and_not_returned(arrays):
    arrays.run("h = jnp.tanh(x)\ny = jnp.exp(h * 2.0)")
    made = arrays.run("lazynb.compile(lambda: (y.sum(), y))").result
    codes = [{one.code for one in trace.boundaries} for trace in made.traces]
    assert len(codes) == 2 and "kept-alive" in codes[0] and "returned" not in codes[0]


# ---- when somebody asks later ------------------------------------------------------------------------------


def asked(cell, notebook):
    """The cell's compilation, and what the kernel answers to the switch after it ran."""
    notebook.run(cell)
    compilation = last_compilation()
    given = inspection(compilation, live=True)
    assert given["other"]["inspection"] is None and given["other"]["figures"] == ""
    answers = RequestHandler(compilation, given)
    answer = answers.answer({"type": "other", "id": 7})
    assert answer["id"] == 7
    return compilation, answers, answer["other"]


LATER = [
    CHAIN,
    "\ntable = jnp.array([1.0, 2.0])\n(x[0, :2] * table + jnp.ones(2)) @ table",
    "\n(host * x, x + 1, 3)",
    "\nk = 3\ny = x * k\ny @ jnp.ones((32, 2)) / k",
]


@pytest.mark.parametrize("cell", LATER)
def test_the_switch_compiles_what_as_jit_compiles_and_runs_nothing(arrays, cell):
    arrays.run("host = np.full((64, 32), 2, 'float32')")
    compilation, answers, other = asked(f"%%compile{cell}", arrays)
    arrays.run(f"%%compile both --as-jit{cell}")
    jitted = arrays["both"][1]
    asked_for = compilation.counterpart.compilation
    assert asked_for.traces[0].text == jitted.traces[0].text
    assert other["inspection"]["form"] == str(jitted.form) and not other["inspection"]["ran"]
    assert other["figures"] == inspection(arrays["both"][0])["other"]["figures"] != ""
    stage = answers.answer({"type": "stage", "program": 0, "which": "after", "of": "other", "id": 8})
    assert stage["stage"]["text"].startswith("HloModule") and stage["id"] == 8


def test_the_switch_forces_nothing_that_is_pending(arrays):
    asked(f"%%compile --no-run{CHAIN}", arrays)
    assert arrays.run("loss._pending is not None and a._pending is not None").result


@pytest.mark.parametrize(
    "cell, words",
    [
        ("y = x * 2", "the cell ends in no expression"),
        ("y = x * 2\nn = float(y[0, 0])\ny + n", "line 3 needed a value before the cell's end"),
        ("y = x * 2\n'text'", "it gives something of type str"),
    ],
)
def test_the_reason_for_a_missing_jit_program_is_shown(arrays, cell, words):
    _, answers, other = asked(f"%%compile\n{cell}", arrays)
    assert words in other["why"] and other["inspection"] is None
    about = answers.answer({"type": "ask", "of": "other", "id": 1})
    assert (about["type"], about["message"]) == ("error", "the other program is not compiled")


def test_no_large_array_is_kept_for_the_switch(arrays):
    arrays.run("big, other = jnp.ones((512, 1024)), jnp.ones((512, 1024))\nlazynb.sync()")
    arrays.run(
        "%%compile --no-run\n(big * x[0, 0] + jnp.array(np.arange(524288.0, dtype='float32')).sum()).sum()"
    )
    arrays.run("lazynb.sync()\ngone = __import__('weakref').ref(big)\ndel big\n__import__('gc').collect()")
    assert arrays["gone"]() is None
    counterpart = last_compilation().counterpart
    assert counterpart.compile() is None and "is gone by now" in counterpart.why
