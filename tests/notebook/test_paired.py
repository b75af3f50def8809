"""A comparison in a notebook: the report, and both inspectors under it with what corresponds in them."""

from __future__ import annotations

import pytest

import lazynb
from lazynb.notebook import inspection_display
from lazynb.report.comparison_report import comparison_data


@pytest.fixture
def difference(notebook):
    notebook.run("import lazynb")
    notebook.run("x = jnp.linspace(0, 1, 64 * 64).reshape(64, 64)\nlazynb.sync(x)")
    notebook.run("%%compile before\nh = jnp.tanh(x) * 2\ns = h.sum()\ndel h\ns")
    notebook.run("%%compile after\n# the same with h alive\n\nh = jnp.tanh(x) * 2\ns = h.sum()\ns")
    return lazynb.diff(notebook["before"], notebook["after"])


def test_corresponding_lines_and_operations_are_paired(difference):
    data = comparison_data(difference)
    lines = [(one["before_line"], one["now_line"]) for one in data["lines"]]
    assert sorted(lines) == [(2, 4), (3, 5)]
    names = [(data["before"]["nodes"][a]["name"], data["now"]["nodes"][b]["name"]) for a, b in data["nodes"]]
    assert {"tanh", "multiply", "reduce_sum"} <= {a for a, _ in names} and all(a == b for a, b in names)
    assert data["names"] == ["before", "now"]


def test_without_a_page_only_the_report_is_shown(notebook, difference):
    notebook.shell.user_ns["d"] = difference
    shown = notebook.run("d").shown
    assert "two kernels instead of one" in shown["text/plain"] and "lazynb-comparison" in shown["text/html"]
    assert "application/vnd.jupyter.widget-view+json" not in shown


def test_with_a_page_both_inspectors_are_shown_under_the_report(difference, monkeypatch):
    displayed = []
    monkeypatch.setattr(inspection_display, "may_show_widgets", lambda: True)
    monkeypatch.setattr(inspection_display, "display", lambda obj, **_: displayed.append(obj))
    inspection_display.show(difference)
    report, widget = displayed
    assert "lazynb-comparison" in report["text/html"]
    assert widget.data == comparison_data(difference)
    widget.close()


def test_unloading_the_extension_removes_the_display_hook(notebook, difference):
    formatter = notebook.shell.display_formatter.ipython_display_formatter
    assert formatter.lookup(difference) is inspection_display.show
    notebook.run("%unload_ext lazynb")
    with pytest.raises(KeyError):
        formatter.lookup(difference)
    notebook.run("%load_ext lazynb")
