"""The inspector of a large program is worked out in its cell, below the value: it says how far it is, and an
interrupt ends it."""

from __future__ import annotations

import pytest

pytest.importorskip("anywidget")

from lazynb.notebook import inspection_display, inspector_widget as module


@pytest.fixture
def shown(notebook, monkeypatch):
    """What a large cell shows in JupyterLab, and the inspector in it."""
    monkeypatch.setattr(inspection_display, "DEFERRED_NODES", 0)
    for where in (inspection_display, module):
        monkeypatch.setattr(where, "lab_execution", lambda: ("one", "two"))
    monkeypatch.setattr(inspection_display, "may_show_widgets", lambda: True)
    monkeypatch.setattr(inspection_display, "widget_problem", lambda: "")
    made = []
    own = module.Inspector.complete_when_shown
    monkeypatch.setattr(
        module.Inspector, "complete_when_shown", lambda self, *make: (made.append(self), own(self, *make))
    )

    def run(error=None):
        cell = "%%compile\nx = jnp.arange(6.0)\ny = jnp.tanh(x) * 2\ny"
        return notebook.run(cell, error=error), made[-1]

    return run


@pytest.fixture
def said(monkeypatch):
    """What the page is told, in its order."""
    told = []
    monkeypatch.setattr(
        module.Inspector, "_notify_trait", lambda self, name, *_: told.append((name, getattr(self, name)))
    )
    monkeypatch.setattr(module, "_PROGRESS_INTERVAL", 0)
    return told


def test_progress_is_reported_and_the_inspector_ends_complete(shown, said):
    _, inspector = shown()
    words = [value for name, value in said if name == "working"]
    assert "Reading what XLA did: fates …" in words
    assert inspector.data["clusters"] and inspector.data["fates"]


def test_what_was_recorded_is_shown_before_what_xla_did_is_read(shown, said, monkeypatch):
    monkeypatch.setattr(module, "_NODES_AT_ONCE", 0)
    _, inspector = shown()
    names = [name for name, value in said if name in ("recorded", "data", "working") and value]
    assert names[0] == "recorded" and set(names[1:-1]) == {"working"} and names[-1] == "data"
    recorded = next(value for name, value in said if name == "recorded" and value)
    for key in ("cell", "sources", "nodes", "groups"):
        assert recorded[key] == inspector.data[key]
    assert recorded["reading"] and not inspector.data["reading"] and not inspector.recorded


def test_what_comes_at_once_is_not_sent_twice(shown, said):
    shown()
    assert all(name != "recorded" or not value for name, value in said)


def test_an_interrupt_leaves_the_value_and_says_what_is_missing(shown, monkeypatch):
    def interrupted(*_, begun, **__):
        begun("Fates are missing")
        raise KeyboardInterrupt

    monkeypatch.setattr(inspection_display, "inspection", interrupted)
    monkeypatch.setattr(module, "_NODES_AT_ONCE", 0)
    outputs, inspector = shown(error=KeyboardInterrupt)
    assert "Array(" in outputs.stdout
    assert inspector.working == module.INTERRUPTED and not inspector.data
    assert any(node["name"] == "tanh" for node in inspector.recorded["nodes"]), "the graph stays"
    monkeypatch.undo()
    import lazynb

    assert "kernels · recorded in cell" in repr(lazynb.inspect())
