"""Why it was no cache hit: a table of pairs of programs, each with the true cause, and nothing else told."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import itertools
import re
import sys
import time

import jax
import jax.experimental.xla_metadata
import jax.numpy as jnp
import numpy as np
import pytest
from execute.pairs import DATA, PAIRS

import lazynb
from lazynb.compare.misses.compilation_causes import causes_of, difference_of, times_made
from lazynb.compare.misses.edit_description import moved_wrappers
from lazynb.compare.misses.miss_causes import CAUSES
from lazynb.compare.misses.source_pair import UserEdit
from lazynb.compare.misses.tree_edit import Edit
from lazynb.config import config
from lazynb.running.miss_log import miss_log
from lazynb.user_code import call_stack

SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl")


class Cells:
    """Runs cells in one namespace, as a notebook does."""

    sessions = itertools.count()

    def __init__(self):
        self.session = next(self.sessions)  # no two have a cell of one file name
        self.namespace = {"jax": jax, "jnp": jnp, "np": np, "lazynb": lazynb, "__name__": "__main__"}
        self.number = 0

    def run(self, text):
        """Runs a cell; the misses in it."""
        self.number += 1
        file = f"<cell {self.session}-{self.number}>"
        call_stack.register_cell(file, self.number, text)
        before = miss_log.total
        with contextlib.redirect_stdout(io.StringIO()), lazynb.lazy():
            exec(compile(text, file, "exec"), self.namespace)
        return [miss for miss in miss_log.misses if miss.number >= before]

    def run_all(self, texts):
        """Runs cells, each of which may raise; the misses in them, and the names of the exceptions."""
        misses, raised = [], []
        for text in texts:
            before = miss_log.total
            try:
                self.run(text)
            except Exception as error:
                raised.append(type(error).__name__)
            misses += [miss for miss in miss_log.misses if miss.number >= before]
        return misses, raised

    def outside(self, text):
        """Runs code outside lazy mode."""
        exec(text, self.namespace)


@pytest.fixture
def cells(clean, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = {name: getattr(jax.config, name) for name in SETTINGS}
    found = Cells()
    found.number = 1
    found.outside(DATA + "s = jnp.float32(2.0)\ns_ = 2\nwidths = [2]\nstarts = [0.0]\nstart = lambda: 0.0\n")
    yield found
    for name, value in kept.items():
        jax.config.update(name, value)
    sys.modules.pop("helper", None)


def told(miss):
    return tuple((cause.kind, cause.text) for cause in causes_of(miss))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_each_pair_is_explained_by_its_true_causes(pair, cells, tmp_path):
    if any("flax" in text for text in pair.after):
        linen = pytest.importorskip("flax.linen")
        linen.Dense(1).init(jax.random.key(0), jnp.ones((1, 1)))  # it imports what brings settings of its own

    def module(text):
        (tmp_path / "helper.py").write_text(text)
        sys.modules.pop("helper", None)
        importlib.invalidate_caches()
        for cached in tmp_path.glob("__pycache__/*"):
            cached.unlink()

    if pair.module is not None:
        module(pair.module[0])
    cells.number = 1
    raised = cells.run_all(pair.before)[1]
    if pair.between:
        cells.outside(pair.between)
    if pair.module is not None:
        module(pair.module[1])
    found, others = cells.run_all(pair.after)
    assert tuple(map(told, found)) == pair.told and raised + others == pair.raised
    for miss in found:
        for cause in causes_of(miss):
            assert cause.code == CAUSES[cause.kind].code
            if cause.place is not None:
                assert cause.place.label in cause.text and cause.place.text


def test_the_table_has_340_pairs_and_covers_every_cause():
    assert len(PAIRS) >= 340 and len({pair.name for pair in PAIRS}) == len(PAIRS)
    kinds = {kind for pair in PAIRS for miss in pair.told for kind, _ in miss}
    elsewhere = {
        "forgotten",
        "context",
        "goes_on",
        "donated",
        "input_added",
        "input_removed",
        "returns",
        "literal",
        "unknown",
        "more",
        "closed_over",
        "cell_split",
        "cell_merged",
        "divided",
    }  # tested below, or only within another
    assert set(CAUSES) == kinds | elsewhere


def test_codes_are_unique_and_well_formed():
    codes = [kind.code for kind in CAUSES.values()]
    assert len(set(codes)) == len(codes) and all(re.fullmatch(r"LNB4\d\d", code) for code in codes)
    assert codes == sorted(codes)


# ---- what needs more than two cells ------------------------------------------------------------------------


def only(misses):
    (miss,) = misses
    return told(miss)


def test_a_program_evicted_by_max_executables_is_explained_as_forgotten(cells, monkeypatch):
    monkeypatch.setattr(config, "max_executables", 1)
    one, other = "float(jnp.sin(x).sum())", "float(jnp.exp(z).mean())"
    cells.run(one)
    cells.run(other)
    (miss,) = cells.run(one)
    ((kind, text),) = told(miss)
    assert kind == "forgotten" and text.endswith(
        "compiled before and forgotten when lazynb.config.max_executables was 1"
    )
    assert causes_of(miss)[0].cure == "raise lazynb.config.max_executables" and times_made(miss) == 2
    cells.run(other)
    (miss,) = cells.run(one)
    assert times_made(miss) == 3 and lazynb.cache_info()[0].misses == 3


def test_a_program_evicted_by_max_recorded_is_explained_as_forgotten(cells, monkeypatch):
    monkeypatch.setattr(config, "max_recorded", 4)
    cells.run("float(jnp.sin(x).sum())")
    cells.run("float(jnp.exp(z).mean())")
    cause = only(cells.run("float(jnp.sin(x).sum())"))[0]
    assert cause == (
        "forgotten",
        "the same program was compiled before and forgotten when lazynb.config.max_recorded was 4",
    )


@pytest.mark.parametrize("later", [1, 2, 1024, None])
@pytest.mark.parametrize("setting, limit", [("max_executables", 1), ("max_recorded", 4)])
def test_an_eviction_is_told_with_the_limit_at_that_time(setting, limit, later, cells, monkeypatch):
    default = getattr(config, setting)
    monkeypatch.setattr(config, setting, limit)
    cells.run("float(jnp.sin(x).sum())")
    cells.run("float(jnp.exp(z).mean())")
    monkeypatch.setattr(config, setting, default if later is None else limit * later)
    (miss,) = cells.run("float(jnp.sin(x).sum())")
    (cause,) = causes_of(miss)
    assert cause.text.endswith(f"and forgotten when lazynb.config.{setting} was {limit}")
    assert cause.cure == (f"raise lazynb.config.{setting}" if later == 1 else "")


def test_an_evicted_program_is_not_compared_with_a_new_one(cells, monkeypatch):
    monkeypatch.setattr(config, "max_executables", 2)
    for text in (
        "y = jnp.sin(x)\nfloat(y.sum())",
        "float(jnp.exp(z).mean())",
        "q = jnp.linalg.norm(z)\nfloat(q + 1)",
    ):
        cells.run(text)
    assert only(cells.run("y = jnp.cos(x)\nfloat(y.sum())"))[0][0] == "new", "the program with sin is gone"


def test_a_trace_without_its_former_break_is_explained(cells):
    cells.run("h = jnp.sin(x)\nif h[0, 0] > -9:\n    y = h * 2\nfloat(y.sum())")
    assert only(cells.run("h = jnp.sin(x)\nif True:\n    y = h * 2\nfloat(y.sum())"))[0][0] in (
        "goes_on",
        "begins_earlier",
    )


def test_newly_donated_memory_is_explained_as_the_cause(cells):
    start = "state = jnp.zeros((600, 600))\nlazynb.sync()\n"
    cells.run(start + "old = state\nstate = state + 1\nlazynb.sync()")
    cells.outside("old = None")
    ((kind, text),) = only(cells.run(start + "state = state + 1\nlazynb.sync()"))
    assert kind == "donated" and "is used for a result now" in text


def test_many_differences_are_truncated_with_a_count(cells):
    names = [f"v{number}" for number in range(20)]
    cells.outside("\n".join(f"{name} = jnp.ones(({number + 2},))" for number, name in enumerate(names)))
    text = "float(" + " + ".join(f"{name}.sum()" for name in names) + ")"
    cells.run(text)
    cells.outside("\n".join(f"{name} = jnp.ones(({number + 40},))" for number, name in enumerate(names)))
    causes = only(cells.run(text))
    assert len(causes) == 8 and causes[-1] == ("more", "and 13 differences more")


def test_an_unnamed_configuration_is_explained_as_context(cells):
    cells.run("float(jnp.sin(x).sum())")
    with jax.experimental.xla_metadata.set_xla_metadata(mark="a"):
        kinds = {kind for miss in cells.run("float(jnp.sin(x).sum())") for kind, _ in told(miss)}
    assert kinds <= {"context"}


def test_an_operand_replaced_by_an_outside_input_is_explained(cells):
    cells.run("h = jnp.sin(x)\ny = jnp.cos(z)\nfloat((h * y).sum())")
    assert only(cells.run("h = jnp.sin(x)\ny = jnp.cos(z)\nfloat((h * z).sum())")) == (
        (
            "input_added",
            "`multiply` takes `z`, which comes from outside the trace; it took `y`: cell 3, line 3",
        ),
    )
    assert only(cells.run("h = jnp.sin(x)\ny = jnp.cos(z)\nfloat((h * h).sum())"))[0][0] in (
        "input_removed",
        "operand",
    )


def test_reordered_results_of_a_jitted_function_are_explained(cells):
    text = "@jax.jit\ndef two(a):\n    b = a * 2\n    c = a * 3\n    return {}\nfloat(two(x)[0].sum())"
    cells.run(text.format("b, c"))
    assert only(cells.run(text.format("c, b"))) == (
        (
            "nested",
            "in `two`: it returns others, or the same in another order, returned 2 results: cell 3, line 6",
        ),
    )


CURED = {
    "grows": (
        "xs = jnp.zeros((8,))\nlazynb.sync()\nfor i in range(5):\n    xs = xs.at[i].set(1.)\n    "
        "lazynb.sync()",
        2,
    ),
    "counter": ("for i in range(1, 6):\n    float(jnp.where(jnp.arange(4) < i, x[:, 0], 0.).sum())", 1),
    "varies": (
        "for k in (4, 6, 5):\n    b = np.zeros((6, 2), np.float32)\n    b[:k] = 1\n    "
        "float(jnp.sin(b).sum())",
        1,
    ),
    "longer": (
        "total = jnp.zeros(())\nlazynb.sync()\nfor s in range(5):\n    total = total + jnp.sin(x).sum()\n"
        "    float(total)",
        2,
    ),
    "divided": (
        "total = jnp.zeros(())\nlazynb.sync()\nfor s in range(20):\n    total = total + (x * s).sum()\n"
        "    if s % 10 == 9:\n        lazynb.sync()\nfloat(total)",
        2,  # the second takes what the first gave
    ),
    "begins_later": (
        "p = jnp.zeros(3)\nlazynb.sync()\nfor s in range(4):\n    loss = ((p - 1) ** 2).sum()\n"
        "    p = p - 0.1 * loss\n    float(loss)",
        2,
    ),
    "repeats": (
        "@jax.jit\ndef run(y, count):\n    return jax.lax.fori_loop(0, count, lambda i, y: jnp.sin(y), y)\n"
        "for count in (3, 5):\n    float(run(x, count).sum())",
        1,
    ),
    "literal": (
        "@jax.jit\ndef step(a, k):\n    return jnp.sin(a) * k\nfor k in (2., 3.):\n    float(step(x, "
        "k).sum())",
        1,
    ),
}


@pytest.mark.parametrize("kind", sorted(CURED))
def test_applying_the_suggested_cure_bounds_the_programs_of_a_loop(kind, cells):
    text, programs = CURED[kind]
    assert CAUSES[kind].cure and len(cells.run(text)) <= programs


# ---- cells -------------------------------------------------------------------------------------------------


WHOLE = "h = jnp.sin(x)\ny = jnp.cos(h) * 2\nfloat(y.sum())"
FIRST, SECOND = "h = jnp.sin(x)", "y = jnp.cos(h) * 2\nfloat(y.sum())"


def test_a_split_cell_is_explained_as_split(cells):
    cells.run(WHOLE)
    first = cells.run(FIRST)
    second = cells.run(SECOND)
    assert [told(miss) for miss in (*first, *second)] == [
        (("cell_split", "`cos`, `multiply` and `sum` stand in another cell now: cell 4, line 1"),),
        (("cell_split", "`sin` stands in another cell now: cell 3, line 1"),),
    ]


def test_merged_cells_are_explained_as_merged(cells):
    cells.run(FIRST)
    cells.run(SECOND)
    assert only(cells.run(WHOLE)) == (("cell_merged", "`sin` stood in another cell: cell 2, line 1"),)


DEFINED = {
    "a function": ("def loss(p):\n    return (jnp.tanh(x @ p) ** 2).mean()", "tanh", "sin",
        "float(jax.grad(loss)(w).sum())", ("replaced", "`sin` in place of `tanh`: cell 4, line 2")),
    "argnums": ("g = jax.grad(lambda a, b: (a @ b).var(), 0)", "0)", "1)",
        "float(g(x, w).sum())", ("parameter", "`argnums` of `grad` was 0, now 1: cell 4, line 1")),
    "a flag": ("flag = True", "True", "False",
        "y = jnp.sin(x) if flag else jnp.cos(x)\nfloat(y.sum())", ("variable", "`flag` was True, now False: cell 4, line 1")),
    "turns": ("n = 2", "2", "4",
        "y = x\nfor i in range(n):\n    y = jnp.sin(y)\nfloat(y.sum())", ("variable", "`n` was 2, now 4: cell 4, line 1")),
    "an axis": ("axis = 0", "0", "1",
        "float(x.sum(axis=axis)[0])", ("parameter", "`axis` of `sum` was 0, now 1: cell 5, line 1")),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFINED)
def test_a_redefinition_in_another_cell_is_explained_as_the_cause(name, cells):
    definition, before, now, use, cause = DEFINED[name]
    for text in (definition, use, definition.replace(before, now)):
        cells.run(text)
    assert only(cells.run(use)) == (cause,)


# ---- the log -----------------------------------------------------------------------------------------------


def test_the_log_is_bounded_and_says_so(cells, monkeypatch):
    monkeypatch.setattr(config, "max_explained", 12)
    for name in ("sin", "cos", "exp", "tanh", "log1p"):
        cells.run(f"float(jnp.{name}(x)[0, 0])")
    assert len(miss_log.misses) < 5 and miss_log.total == 5
    ((kind, text),) = only(cells.run("float(jnp.linalg.norm(z @ z.T))"))
    assert kind == "new" and text.endswith("programs remembered")


def test_the_log_holds_no_value(cells):
    import gc
    import weakref

    cells.run("big = jnp.sin(x) * 2\nfloat(big.sum())")
    for miss in miss_log.misses:
        assert causes_of(miss) and difference_of(miss) is not None
    kept = weakref.ref(cells.namespace["big"])
    del cells.namespace["big"]
    gc.collect()
    assert kept() is None


def test_cache_info_lists_each_executable_and_miss_with_its_cause(cells):
    cells.run("y = jnp.sin(x)\nfloat(y.sum())")
    cells.run("y = jnp.sin(x)\nfloat(y.sum())")
    cells.run("y = jnp.sin(x)\ny = y * 2\nfloat(y.sum())")
    info = lazynb.cache_info()
    first, second = info
    assert (first.hits, first.misses, first.operations, first.results) == (1, 1, 2, 2)
    assert first.lines == "cell 2, lines 1–2" and first.location.text == "float(y.sum())"
    assert second.reason == "`multiply` was added: cell 4, line 2" == info.missed[1].cause
    assert [one.number for one in info.missed] == [0, 1] and info.missed[1].kinds == ("added",)
    text = repr(info)
    assert "what to do" in text and "`multiply` was added" in text and "cell 2, lines 1–2" in text
    assert "Why it was no hit" in info._repr_html_()
    assert (
        info.to_dicts()[1]["reason"] == second.reason and info.missed.to_dicts()[1]["cause"] == second.reason
    )
    assert lazynb.events()[-1].reason == second.reason and [e.reason for e in lazynb.events()][1] == ""


def test_reading_the_counts_explains_nothing(cells, monkeypatch):
    from lazynb.compare.misses import miss_explanation

    cells.run("float(jnp.sin(x).sum())")
    monkeypatch.setattr(miss_explanation, "difference", None)
    info = lazynb.cache_info()
    assert (info.hits, info.misses, len(info), len(info.missed)) == (0, 1, 1, 1)


# ---- time --------------------------------------------------------------------------------------------------


def test_two_traces_of_two_thousand_operations_are_compared_within_a_second(cells, monkeypatch):
    text = "y = x\nfor i in range(480):\n    y = jnp.sin(y) * 2\n    y = y + z\n    y = jnp.cos(y)\n{}float(y.sum())"
    monkeypatch.setattr(lazynb.running.trace_executable.Executable, "compile", compiled_later)
    cells.run(text.format(""))
    for extra in ("y = jnp.tanh(y)\n", "y = y.T\n"):
        cells.run(text.format(extra))
    miss = miss_log.misses[-1]
    assert miss.summary.end.operations > 1_900
    assert causes_of(miss)[0].kind in ("added", "replaced")
    start = time.perf_counter()
    assert difference_of(miss).causes
    assert time.perf_counter() - start < 1.0  # 0.1 s of a quiet machine


def compiled_later(self, inputs):
    """In place of XLA's work on a long program, which is none of this test's matter."""
    with lazynb.eager():
        results = [jnp.zeros(aval.shape, aval.dtype) for aval in self._jaxpr.out_avals]
    self.compiled = self.call = lambda *_: results
    self.origin = "compiled"


def test_a_changed_setting_without_operation_evidence_is_labelled_inferred(cells):
    # JAX's own functions read such a setting while they record: the operations only follow from it.
    text = "y = jnp.sin(x) if jax.config.jax_log_checkpoint_residuals else jnp.cos(x)\nfloat(y.sum())"
    kept = jax.config.jax_log_checkpoint_residuals
    cells.run(text)
    try:
        jax.config.update("jax_log_checkpoint_residuals", not kept)
        ((kind, told_text),) = only(cells.run(text))
    finally:
        jax.config.update("jax_log_checkpoint_residuals", kept)
    assert (
        kind == "configuration" and "jax_log_checkpoint_residuals" in told_text and "is inferred" in told_text
    )


def test_calls_around_no_expression_are_no_wrapper_that_moved():
    """A removed statement ``f()`` and an added ``g()`` wrap nothing that could have moved."""
    one, other = (ast.parse(text, mode="eval").body for text in ("f()", "g()"))
    edits = [
        UserEdit(Edit("removed", one, None), ("cell 1", ""), ()),
        UserEdit(Edit("added", None, other), ("", "cell 2"), ()),
    ]
    assert moved_wrappers(edits) == {}


def test_del_is_a_cure_only_where_both_programs_are_of_one_place(cells):
    """A cell that is only new has nothing to drop: its variable is what it is for."""
    cells.run("t = jnp.sin(x) * 2\ns = t.sum()\ndel t\nfloat(s)")
    [miss] = cells.run("t = jnp.sin(x) * 2\ns = t.sum()\nfloat(s)")
    assert [(one.kind, one.cure) for one in causes_of(miss)] == [("alive", "")]
    cells.run(
        "def f(v, keep):\n    t = jnp.cos(v) * 3\n    s = t.sum()\n    if not keep:\n        del t\n    return float(s)"
    )
    cells.run("f(x, False)")
    [miss] = cells.run("f(x, True)")
    [cause] = causes_of(miss)
    assert cause.kind == "alive" and "del" in cause.cure
