"""Messages of a front end that lies end in an answer or in nothing."""

from __future__ import annotations

import gc
import json

import jax.numpy as jnp
import pytest
from jupyter_client.session import json_packer

import lazynb
from lazynb.report.graph import lazy_graph
from lazynb.report.graph.lazy_graph import key_of, page_connection, tensor_of_key
from tests.endurance.attacks import hostile_messages

DEEP = hostile_messages.nested(5_000)


@pytest.fixture(scope="module")
def pages():
    return hostile_messages.Pages()


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "show", "id": DEEP, "view": "cache"},
        {"type": "show", "id": 1, "view": DEEP},
        {"type": "value", "id": DEEP, "key": DEEP, "do": DEEP},
        {"type": "ask", "id": DEEP, "compilation": 1, "request": {"type": DEEP, "id": DEEP}},
        {"type": "ask", "id": 1, "compilation": 1, "request": {"type": "stage", "which": DEEP, "program": 0}},
    ],
)
def test_deeply_nested_parts_are_not_repeated_and_raise_nothing(pages, request_):
    pages.sent.clear()
    pages.lab._receive({"content": {"data": request_}})
    assert pages.sent and len(json.dumps(pages.sent)) < 100_000


def test_long_parts_are_shortened_in_the_answer(pages):
    for request in (
        {"type": "x" * 10**6, "id": "y" * 10**6},
        {"type": "stage", "program": 0, "which": "z" * 10**6},
    ):
        answer = pages.widget.answer(request)
        assert answer["type"] == "error" and len(json.dumps(answer)) < 4_000


def test_a_page_cannot_set_the_state_of_a_widget(pages):
    data, code = pages.widget.data, pages.widget._esm
    for state in ({"data": {}}, {"data": 1}, {"show": "x"}, {"working": "<script>"}, {"_esm": "alert(1)"}):
        pages.widget._handle_msg({"content": {"data": {"method": "update", "state": state}}, "buffers": []})
    assert pages.widget.data is data and pages.widget.working == "" and pages.widget._esm is code


def test_names_of_nothing_are_not_kept(pages):
    kept = pages.compilation._measured_savings
    for number in range(20):
        pages.widget.answer({"type": "without", "variables": ["h", f"nothing{number}"]})
    assert len(kept) <= 1


@pytest.mark.parametrize("id_", ["\ud800", "\udfffx", 0.5, float("nan"), True, {"id": 1}])
@pytest.mark.parametrize("kind", ["show", "ask", "lazy", "value"])
def test_an_answer_can_be_sent_whatever_the_id_is(pages, kind, id_):
    pages.sent.clear()
    pages.lab._receive({"content": {"data": {"type": kind, "id": id_, "on": True}}})
    pages.sent.append(pages.widget.answer({"type": kind, "id": id_}))
    assert all(json.loads(json_packer(one)).get("id") is None for one in pages.sent)


def test_a_panel_can_be_sent_whatever_the_view_is(pages):
    for view in ("\ud800", "x\udfff", "\ud800" * 1000):
        pages.sent.clear()
        pages.lab._receive({"content": {"data": {"type": "show", "id": 1, "view": view}}})
        assert len(json_packer(pages.sent[0])) < 1000


@pytest.mark.parametrize("value", [{}, {"on": None}, {"on": 1}, {"on": 0}, {"on": "false"}, {"on": []}])
@pytest.mark.parametrize("old", [True, False])
def test_lazy_mode_and_settings_change_by_true_or_false_alone(pages, monkeypatch, value, old):
    monkeypatch.setattr(lazynb.config, "run_on_display", old)
    for state in (None, False, True):
        pages.sent.clear(), pages.switched.clear()
        asked = value if state is None else {"on": state}
        setting = {"autocompile": asked["on"]} if asked else {}
        pages.lab._receive({"content": {"data": {"type": "settings", **setting}}})
        pages.lab._receive({"content": {"data": {"type": "lazy", "id": 1, **asked}}})
        assert lazynb.config.run_on_display is (old if state is None else state)
        assert pages.switched == ([] if state is None else [state])
        assert ("true or false" in pages.sent[0].get("error", "")) == (state is None)


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"method": "update"}, {"method": []}, {"method": "custom"}, {"method": "echo_update"}]
    + [{"method": "update", "state": {"data": 1}, "buffer_paths": [["data", 0], ["x"]]}],
)
def test_a_malformed_message_of_a_widget_is_no_exception(pages, caplog, data):
    pages.widget._handle_msg({"content": {"data": data}, "buffers": [b"x"]})
    pages.widget._handle_msg({"content": data})
    assert not caplog.records


def test_a_widget_still_answers_and_sends_its_state(pages, monkeypatch):
    sent = []
    monkeypatch.setattr(pages.widget, "_send", lambda message, buffers=None: sent.append(message))
    pages.widget._handle_msg({"content": {"data": {"method": "request_state"}}})
    assert sent[0]["method"] == "update"
    request = {"type": "stage", "program": 0, "which": "after", "id": "k-1"}
    pages.sent.clear()
    pages.widget._handle_msg({"content": {"data": {"method": "custom", "content": request}}})
    assert pages.sent[0]["type"] == "stage" and pages.sent[0]["id"] == "k-1"


def test_drawing_a_pending_value_again_keeps_its_key(monkeypatch):
    monkeypatch.setattr(page_connection, "active", True)
    before = len(lazy_graph._shown)
    with lazynb.lazy():
        tensor = jnp.ones(5) * 3
    keys = {key_of(tensor) for _ in range(50)}
    assert len(keys) == 1 and len(lazy_graph._shown) == before + 1
    (key,) = keys
    assert tensor_of_key(key) is tensor
    assert float(tensor[0]) == 3.0  # while it is pending, its trace refers to it
    del tensor
    gc.collect()
    assert tensor_of_key(key) is None and len(lazy_graph._shown) == before


def test_random_messages_are_answered_or_ignored():
    found = hostile_messages.attack(5, 1)
    assert found["tries"] > 20 and not found["lost"] and not found["wrong"] and not found["hung"]
