"""What ``%%compile`` works out only when it is asked for: counted by calls, in JupyterLab and without a page."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("anywidget")

import lazynb
from lazynb.compare.misses import compilation_causes
from lazynb.compare.misses.cache_info import UNEXPLAINED
from lazynb.notebook import inspection_display, inspector_widget as module

BODY = "x = jnp.arange(6.0)\nh = jnp.tanh(x) * 2\nh = jnp.exp(h) + x\ny = jnp.sqrt(h) - h"
FIRST = f"%%compile --no-run\n{BODY}\ny"
SECOND = f"%%compile made\n{BODY}\ny = jnp.sin(y)\ny"


@pytest.fixture
def compared(monkeypatch):
    """The misses that were compared with earlier programs."""
    found = []
    own = compilation_causes.difference_of
    monkeypatch.setattr(
        compilation_causes, "difference_of", lambda miss, *rest: (found.append(miss), own(miss, *rest))[1]
    )
    return found


@pytest.fixture
def lab(notebook, monkeypatch):
    """Runs a cell as JupyterLab does, until ``until`` is true of its inspector; the inspector."""
    for where in (inspection_display, module):
        monkeypatch.setattr(where, "lab_execution", lambda: ("one", "two"))
    monkeypatch.setattr(inspection_display, "may_show_widgets", lambda: True)
    monkeypatch.setattr(inspection_display, "widget_problem", lambda: "")
    monkeypatch.setattr(module, "_DELAY_AFTER_CELL", 0)
    monkeypatch.setattr(module, "_DELAY_OF_FULL_DATA", 0.05)
    made = []
    own = module.Inspector.complete_later
    monkeypatch.setattr(
        module.Inspector, "complete_later", lambda self, *make: (made.append(self), own(self, *make))
    )

    def run(cell, until):
        async def seen():
            notebook.run(cell)
            for _ in range(1000):
                if until(made[-1]):
                    return made[-1]
                await asyncio.sleep(0.001)
            raise TimeoutError

        return asyncio.run(seen())

    return run


def reasons(data):
    table = data["cache"]
    return [row[table["columns"].index("reason")] for row in table["rows"]]


def is_whole(inspector):
    return bool(inspector.data) and UNEXPLAINED not in reasons(inspector.data)


def test_the_first_view_compares_no_miss_and_says_so(notebook, lab, compared):
    notebook.run(FIRST)
    inspector = lab(SECOND, lambda inspector: bool(inspector.data))
    assert not compared
    assert set(reasons(inspector.data)) == {UNEXPLAINED}
    assert inspector.data["clusters"] and inspector.data["fates"] and inspector.data["programs"]


def test_the_reasons_of_all_misses_follow_one_at_a_time(notebook, lab, compared, monkeypatch):
    notebook.run(FIRST)
    between = []
    own = module.explain
    monkeypatch.setattr(module, "explain", lambda miss: (between.append(len(set(compared))), own(miss))[1])
    inspector = lab(SECOND, is_whole)
    assert len(set(compared)) == len(between) >= 2
    assert between == sorted(set(between)), "each turn of the kernel's loop compares one"
    assert reasons(inspector.data)[-1] == lazynb.cache_info()[-1].reason
    assert "`sin`" in reasons(inspector.data)[-1]


def test_the_reasons_come_to_a_page_that_has_asked_and_keep_what_it_got(notebook, lab):
    notebook.run(FIRST)
    inspector = lab(SECOND, lambda inspector: bool(inspector.data))
    asked = {"id": 1, "type": "profile"}
    assert inspector.answer(asked)["type"] == "times"
    before, sent = inspector.data, []
    inspector.send_state = sent.append
    inspector.send_full_data()
    assert sent == ["data"] and inspector.data is before and is_whole(inspector)
    assert any(cluster["time"] is not None for cluster in before["clusters"])


def test_the_first_view_does_not_wait_for_the_stored_form(notebook, lab, monkeypatch):
    had = []
    own = inspection_display.static_mime_bundle
    monkeypatch.setattr(
        inspection_display,
        "static_mime_bundle",
        lambda compilation, *rest, **named: (
            had.append(module._answering[-1].data),
            own(compilation, *rest, **named),
        )[1],
    )
    lab(SECOND, is_whole)
    assert had and all(had)


def test_an_interrupt_of_the_stored_form_leaves_the_view_and_says_what_is_missing(notebook, lab, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(inspection_display, "static_mime_bundle", interrupted)
    monkeypatch.setattr(inspection_display, "DEFERRED_NODES", 0)
    shown = []
    own = module.Inspector.complete_when_shown
    monkeypatch.setattr(
        module.Inspector, "complete_when_shown", lambda self, *make: (shown.append(self), own(self, *make))
    )
    notebook.run(SECOND, error=KeyboardInterrupt)
    assert shown[-1].data["clusters"] and shown[-1].working == module.UNSTORED


def test_a_closed_table_of_a_stored_form_costs_no_comparison_and_an_open_one_has_the_reasons(
    notebook, compared
):
    notebook.run(FIRST)
    notebook.run(SECOND)
    assert not compared
    (shown,) = [
        output.data for output in notebook.run(SECOND.replace("made", "--show cache")).outputs if output.data
    ][-1:]
    assert compared
    assert "sin</code> was added" in shown["text/html"] and UNEXPLAINED not in shown["text/html"]


def test_a_file_has_the_reasons(notebook, tmp_path):
    notebook.run(FIRST)
    notebook.run(SECOND)
    path = notebook["made"].save_json(tmp_path / "made.json")
    assert "`sin`" in path.read_text() and UNEXPLAINED not in path.read_text()
    page = notebook["made"].save_html(tmp_path / "made.html").read_text()
    assert UNEXPLAINED not in page
