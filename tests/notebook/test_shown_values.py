"""A pending value that a page shows says how to get it, and the page may ask for it: its state, itself, its
compilation."""

from __future__ import annotations

import gc
import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.notebook.lab_session import LabConnection
from lazynb.report.graph.graph_json import MIME_TYPE
from lazynb.report.graph.lazy_graph import page_connection
from lazynb.running.flush import execution


@pytest.fixture
def lab(clean, monkeypatch):
    """The kernel's side, with a page that notes what it is sent."""
    lazynb.clear_cache()
    monkeypatch.setattr(page_connection, "active", True)
    names: dict[str, object] = {}
    extension = SimpleNamespace(enabled=True, shell=SimpleNamespace(user_ns=names), switch=lambda on: None)
    made = LabConnection(extension, lambda: "status")
    sent: list[dict] = []
    made._comm = SimpleNamespace(send=lambda message: sent.append(json.loads(json.dumps(message))))

    def ask(key: object, do: str) -> dict:
        sent.clear()
        made._receive({"content": {"data": {"type": "value", "id": 5, "key": key, "do": do}}})
        (answer,) = [message for message in sent if message["type"] == "value"]
        assert answer["id"] == 5
        return answer

    with lazynb.lazy():
        yield SimpleNamespace(ask=ask, names=names, lab=made, sent=sent)


def test_a_displayed_pending_value_names_the_code_that_reads_it(clean):
    with lazynb.lazy():
        y = jnp.ones(4) * 2.0
        bundle = execution.display(y)
        assert y.is_pending
    for form in ("text/plain", "text/html"):
        assert "Reading it runs " in bundle[form] and "print(y) gives its value" in bundle[form]
        assert "%%compile" in bundle[form]
    assert bundle[MIME_TYPE]["hint"].startswith("print(y)")
    assert "key" not in bundle[MIME_TYPE], "without a page that asks, the same is stored each time"


def test_a_graph_that_is_asked_for_has_no_key(clean):
    with lazynb.lazy():
        y = jnp.ones(4) * 2.0
        assert "key" not in lazynb.graph(y)._repr_mimebundle_()[MIME_TYPE]
        del y


def test_a_look_request_runs_and_compiles_nothing(lab):
    y = jnp.ones(4) * 3.0
    key = execution.display(y)[MIME_TYPE]["key"]
    before = len(lazynb.cache_info()), len(lazynb.breaks())
    answer = lab.ask(key, "look")
    assert answer["state"] == "pending" and answer["text"].endswith("not compiled yet.")
    assert y.is_pending and (len(lazynb.cache_info()), len(lazynb.breaks())) == before


def test_run_gives_what_eager_jax_shows(lab):
    y = jnp.arange(4.0) * 3.0
    key = execution.display(y)[MIME_TYPE]["key"]
    answer = lab.ask(key, "run")
    assert answer["state"] == "value" and answer["seconds"] > 0
    with lazynb.eager():
        assert answer["text"] == repr(jnp.arange(4.0) * 3.0)
    assert not y.is_pending
    assert lab.ask(key, "look")["state"] == "computed"
    again = lab.ask(key, "run")
    assert (again["text"], again["seconds"]) == (answer["text"], None)


def test_run_leaves_what_the_value_does_not_need(lab):
    y = jnp.arange(4.0) * 3.0
    key = execution.display(y)[MIME_TYPE]["key"]
    lab.ask(key, "run")
    other = jnp.sin(y)
    assert lab.ask(key, "run")["state"] == "value" and other.is_pending


def test_compile_runs_nothing(lab):
    y = jnp.arange(4.0) * 5.0
    key = execution.display(y)[MIME_TYPE]["key"]
    answer = lab.ask(key, "compile")
    assert y.is_pending and answer["state"] == "pending"
    assert "compiled already" in answer["text"]
    number = answer["compilation"]
    lab.sent.clear()
    lab.lab._receive(
        {"content": {"data": {"type": "show", "id": 6, "view": "compilation", "compilation": number}}}
    )
    (panel,) = [message for message in lab.sent if message["type"] == "panel"]
    assert panel["compilation"] == number and panel["data"]["ran"] is False and panel["data"]["clusters"]


def test_a_deleted_value_is_reported_as_gone(lab):
    y = jnp.arange(4.0) * 3.0
    key = execution.display(y)[MIME_TYPE]["key"]
    del y
    gc.collect()
    for do in ("look", "run", "compile"):
        answer = lab.ask(key, do)
        assert answer["state"] == "gone" and "nothing refers to it" in answer["text"]


@pytest.mark.parametrize("key", ["0123456789abcdef-1", "", None, 7, [], {}])
def test_a_key_of_another_kernel_is_reported_as_gone(lab, key):
    assert lab.ask(key, "run")["state"] == "gone"
    assert "another kernel" in lab.ask(key, "look")["text"]


def test_an_error_of_a_run_request_is_answered_and_the_value_stays_pending(lab):
    def fails(_):
        raise ZeroDivisionError("no")

    y = jax.pure_callback(fails, jax.ShapeDtypeStruct((), "float32"), jnp.float32(1.0))
    key = execution.display(y)[MIME_TYPE]["key"]
    answer = lab.ask(key, "run")
    assert "error" in answer and answer["error"]
    assert lab.ask(key, "look")["state"] == "pending"
    del y


def test_an_interrupt_leaves_the_value_pending(lab, monkeypatch):
    y = jnp.arange(4.0) * 7.0
    key = execution.display(y)[MIME_TYPE]["key"]

    def interrupted(*tensors):
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "sync", interrupted)
    assert lab.ask(key, "run")["error"].startswith("interrupted")
    assert y.is_pending and lab.ask(key, "look")["state"] == "pending"
