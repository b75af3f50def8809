"""``%load_ext``, ``%unload_ext``, ``%lazy`` and the magics."""

from __future__ import annotations

import re

import jax
import pytest
from IPython.core.error import UsageError
from jax._src import core, sharding_impls, stages

import lazynb
from lazynb.recording.lazy_blocks import blocks, patches
from lazynb.recording.replay.native_replay import describe


def html_of(captured, index=-1):
    return captured.outputs[index].data["text/html"]


def test_cells_run_lazily(notebook):
    notebook.run("y = jnp.ones(3) + 1")
    assert isinstance(notebook["y"], lazynb.LazyTensor) and notebook["y"].is_pending


def test_unload_puts_everything_back(notebook):
    blocks.put_back()
    call, clean_core = stages.Compiled.__call__, sharding_impls.core
    magics = set(notebook.shell.magics_manager.magics["line"]) | set(
        notebook.shell.magics_manager.magics["cell"]
    )
    assert {"lazy", "graph", "breaks", "cache", "compile", "eager"} <= magics
    notebook.run("y = jnp.ones(3) + 1")
    notebook.run("%unload_ext lazynb")
    notebook.run("z = y + 1")
    assert not isinstance(notebook["z"], lazynb.LazyTensor)
    assert core.trace_ctx.trace is core.eval_trace and core.trace_state_clean()
    assert stages.Compiled.__call__ is call and sharding_impls.core is clean_core is core
    left = set(notebook.shell.magics_manager.magics["line"]) | set(
        notebook.shell.magics_manager.magics["cell"]
    )
    assert not {"lazy", "graph", "breaks", "cache", "compile", "eager"} & left
    assert "cache" not in vars(notebook.shell.compile) or notebook.shell.compile.cache.__name__ == "cache"
    notebook.run("%load_ext lazynb")
    notebook.run("w = z + 1")
    assert isinstance(notebook["w"], lazynb.LazyTensor)


@pytest.mark.parametrize("cell", ["%lazy off", "%lazy off\nz = jnp.ones(3) + 1", "%unload_ext lazynb"])
def test_lazy_off_and_unload_remove_resting_substitutes(notebook, cell):
    notebook.run("y = jnp.ones(3) + 1")
    assert patches.rest.on
    notebook.run(cell)
    assert not patches.rest.on and sharding_impls.core is core and not patches.on
    notebook.run("%load_ext lazynb\n%lazy on")


def test_cells_stay_lazy_after_loading_the_extension_twice(notebook):
    notebook.run("%load_ext lazynb")
    notebook.run("%reload_ext lazynb")
    notebook.run("y = jnp.ones(3) + 1")
    assert isinstance(notebook["y"], lazynb.LazyTensor)


def test_lazy_reports_mode_pending_operations_and_counts(notebook):
    notebook.run("y = jnp.ones(3) + 1")
    said = notebook.run("%lazy").stdout
    assert (
        said
        == f"lazy mode is on, {describe()} · 3 operations pending · 0 executables · 0 hits · 0 misses · 0 trace breaks\n"
    )
    notebook.run("float(y.sum())")
    said = notebook.run("%lazy").stdout
    assert re.fullmatch(
        rf"lazy mode is on, {re.escape(describe())} · 0 operations pending · 2 executables( \([\d.]+ [KM]iB of heap, measured\))? · 0 hits · "
        r"2 misses · 1 trace break \([\d.]+ m?s lost\)\n",
        said,
    )


def test_lazy_off_and_on_switch_recording(notebook):
    notebook.run("%lazy off\nz = jnp.ones(3) + 1")
    assert not isinstance(notebook["z"], lazynb.LazyTensor)
    notebook.run("z = jnp.ones(3) + 1")
    assert not isinstance(notebook["z"], lazynb.LazyTensor)
    notebook.run("%lazy on\nz = jnp.ones(3) + 1")
    assert isinstance(notebook["z"], lazynb.LazyTensor)
    notebook.run("%lazy maybe", error=UsageError)


def test_a_tensor_shows_its_graph(notebook):
    shown = notebook.run("x = jnp.ones((4, 3))\ny = jax.nn.softmax(x @ jnp.ones((3, 2)))\ny")
    text = shown.shown["text/plain"]
    assert "softmax" in text and "f32[4,2]" in text and "y" in text and "line 2" in text
    assert "<img" in shown.shown["text/html"] or "<pre" in shown.shown["text/html"]
    assert notebook["y"].is_pending


def test_compile_shows_the_value_and_the_inspector(notebook):
    shown = notebook.run("%%compile made\nx = jnp.arange(4.0)\ny = jnp.sin(x) * 2\ny.sum()")
    (inspector,) = shown.outputs
    assert "Array(" in shown.stdout
    assert "4 operations → " in inspector.data["text/plain"] and "kernel" in inspector.data["text/plain"]
    assert "compiled in" in inspector.data["text/plain"]
    assert not notebook["y"].is_pending
    assert notebook["made"].operations == 4 and "HloModule" in notebook["made"].hlo.after
    again = notebook.run("%%compile made\nx = jnp.arange(4.0)\ny = jnp.sin(x) * 2\ny.sum()")
    assert "cache hit, nothing compiled" in again.outputs[0].data["text/plain"]


@pytest.mark.parametrize("magic", ["", "%%compile", "%%compile --no-run"])
def test_lines_carry_the_number_of_their_cell(magic, notebook):
    lines = [magic, "a = jnp.ones(3)", "b = jnp.sin(a)"]
    notebook.run("\n".join(filter(None, lines)))
    number = notebook.shell.execution_count - 1
    notebook.run("float(b.sum())")
    row = next(row for row in lazynb.cache_info() if "jnp.sin" in row.location.text)
    assert row.location.label == f"cell {number}, line {3 if magic else 2}"


def test_compile_no_run_compiles_and_leaves_the_value_pending(notebook):
    shown = notebook.run("%%compile --no-run\ny = jnp.ones(3) * 2\ny")
    assert "1 operation pending" in shown.stdout or "operations pending" in shown.stdout
    assert "not run" in shown.outputs[0].data["text/plain"]
    assert notebook["y"].is_pending and not lazynb.events()
    notebook.run("np.asarray(y)")
    assert lazynb.cache_info().misses == 1


def test_compile_show_opens_the_named_sections(notebook):
    shown = notebook.run("%%compile --show hlo,cache\njnp.ones(3) * 2")
    opened = re.findall(r"<details open[^>]*><summary[^>]*>([^<]*)", html_of(shown))
    assert "HloModule" in html_of(shown) and {
        "Optimised HLO",
        "Cache: 1 executable, 0 hits, 1 miss",
    } <= set(opened)
    notebook.run("%%compile --show nonsense\n1", error=UsageError)
    notebook.run("%%compile not-a-name\n1", error=UsageError)


def test_compile_of_a_cell_without_operations_reports_nothing_pending(notebook):
    shown = notebook.run("%%compile\nz = 3")
    assert shown.outputs[-1].data["text/plain"] == "Nothing was pending"


def test_errors_in_a_compiled_cell_name_the_users_line(notebook):
    failed = notebook.run("%%compile\nx = jnp.ones(3)\n\nz = x + jnp.ones(4)", error=TypeError)
    assert "----> 4" in failed.stdout or "line 4" in failed.stdout
    assert lazynb.graph().nodes is not None
    assert notebook.run("float(x.sum())").result == 3.0


def test_compile_raises_the_syntax_error_of_its_cell(notebook):
    notebook.run("%%compile\nx = = 3", error=SyntaxError)


def test_an_eager_cell_gives_concrete_arrays(notebook):
    shown = notebook.run("%%eager\nz = jnp.ones(3) + 1\nz")
    assert not isinstance(notebook["z"], lazynb.LazyTensor)
    assert "Array(" in shown.stdout
    notebook.run("w = z + 1")
    assert isinstance(notebook["w"], lazynb.LazyTensor)


def test_graph_shows_everything_pending_or_the_named_part(notebook):
    notebook.run("x = jnp.ones(3)\na = {'first': jnp.sin(x), 'second': [jnp.cos(x)]}")
    everything = notebook.run("%graph").result
    part = notebook.run("%graph a['first']").result
    assert (len(everything), len(part)) == (4, 3)
    assert "a['first']" in str(part)
    assert [node.names for node in notebook.run("%graph a").result.outputs] == [
        ("x",),
        ("a['first']",),
        ("a['second'][0]",),
    ]
    assert len(notebook.run("%graph 3").result) == 0
    notebook.run("%graph no_such_name", error=NameError)
    assert notebook["a"]["first"].is_pending


def test_breaks_and_cache_return_their_tables(notebook):
    notebook.run("y = jnp.ones(3) * 2")
    notebook.run("if y.sum() > 0:\n    print('positive')")
    breaks = notebook.run("%breaks").result
    assert [b.code for b in breaks] == ["LNB101"]
    assert breaks[0].location.label.endswith("line 1") and breaks[0].location.text == "if y.sum() > 0:"
    assert breaks.to_dicts()[0]["kind"] == "bool"
    assert "<table" in breaks._repr_html_()
    assert len(notebook.run("%cache").result) == 2
    notebook.run("%cache clear")
    assert len(lazynb.cache_info()) == 0


@pytest.mark.parametrize(
    "magic", ["%lazy", "%graph", "%breaks", "%cache", "%inspect", "%%compile", "%%eager"]
)
def test_every_magic_has_help(magic, notebook):
    text = notebook.shell.find_line_magic(magic.strip("%")) or notebook.shell.find_cell_magic(
        magic.strip("%")
    )
    assert len(text.__doc__) > 40


def test_a_value_recorded_over_two_cells_keeps_both_labels(notebook):
    notebook.run("h = jnp.sin(jnp.ones(3))")
    notebook.run("y = h * 2")
    graph = notebook.run("%graph y").result
    assert [node.place.label for node in graph.nodes if node.kind == "op"] == ["cell 3, line 1"] * 3 + [
        "cell 4, line 1"
    ]
    assert float(notebook["y"][0]) == pytest.approx(1.6829419)


def test_grad_and_vmap_in_a_cell_stay_pending(notebook):
    notebook.run("""
        g = jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2))(jnp.arange(3.0))
        v = jax.vmap(lambda a: a * 2)(jnp.arange(3))
    """)
    assert jax.tree.all(jax.tree.map(lambda t: t.is_pending, (notebook["g"], notebook["v"])))
