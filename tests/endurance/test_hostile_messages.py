"""Messages of a front end that lies end in an answer or in nothing."""

from __future__ import annotations

import json

import pytest

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


def test_random_messages_are_answered_or_ignored():
    found = hostile_messages.attack(5, 1)
    assert found["tries"] > 20 and not found["lost"] and not found["wrong"] and not found["hung"]
