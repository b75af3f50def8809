"""Whatever comes over a comm is answered or ignored: nothing that a page sends ends the conversation."""

from __future__ import annotations

import json
from types import SimpleNamespace

import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lazynb
from lazynb.notebook.frontend_requests import RequestHandler
from lazynb.notebook.lab_session import LabConnection
from lazynb.report.inspection.inspection_data import inspection

_SCALARS = st.none() | st.booleans() | st.integers(-2, 3) | st.integers() | st.floats() | st.text(max_size=4)
_ANY = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_LAB = st.sampled_from(["hello", "settings", "ask", "show", "lazy", "compile", "clear", "value"])
_ANSWERS = st.sampled_from(["pass", "stage", "ask", "verify", "answer"])
_VIEWS = st.sampled_from(["graph", "breaks", "cache", "compilation", "before", "after"])


def _requests(kinds):
    """Requests in which each field may be missing, right, or anything."""
    return _ANY | st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | _ANY,
            "id": _ANY,
            "view": _VIEWS | _ANY,
            "compilation": _ANY,
            "on": _ANY,
            "autocompile": _ANY,
            "program": _ANY,
            "index": _ANY,
            "which": _VIEWS | _ANY,
            "boundary": _ANY,
            "key": _ANY,
            "do": st.sampled_from(["look", "run", "compile"]) | _ANY,
        },
    )


@pytest.fixture(scope="module")
def compilation():
    lazynb.clear_cache()
    with lazynb.lazy():
        return lazynb.compile(jnp.sin(jnp.ones(3)) * 2)


@pytest.fixture
def lab(compilation, monkeypatch):
    monkeypatch.setattr(lazynb.config, "run_on_display", False)
    monkeypatch.setattr(lazynb, "clear_cache", lambda: None)
    extension = SimpleNamespace(enabled=True, shell=SimpleNamespace(user_ns={}), switch=lambda on: None)
    made = LabConnection(extension, lambda: "status")
    made.sent = []
    made._comm = SimpleNamespace(send=lambda message: made.sent.append(json.dumps(message)))
    data = inspection(compilation, live=True, full=False)
    made._remember(compilation, data)
    return made


_SETTINGS = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_SETTINGS
@given(
    data=st.fixed_dictionaries({}, optional={"data": _requests(_LAB)}),
    wrap=st.sampled_from(["content", "other"]),
)
def test_every_lab_request_gets_an_answer(lab, data, wrap):
    lab.sent.clear()
    lab._receive({wrap: data})
    request = data.get("data") if wrap == "content" else None
    if isinstance(request, dict) and request.get("type") in (
        "ask",
        "show",
        "lazy",
        "compile",
        "clear",
        "value",
    ):
        assert any("id" in json.loads(message) for message in lab.sent), "who asks is answered"


@_SETTINGS
@given(inner=_requests(_ANSWERS), number=st.just(1) | _ANY)
def test_every_question_to_a_compilation_gets_a_typed_answer(lab, inner, number):
    lab.sent.clear()
    lab._receive({"content": {"data": {"type": "ask", "id": 7, "compilation": number, "request": inner}}})
    (message,) = map(json.loads, lab.sent)
    assert message["id"] == 7 and isinstance(message["answer"]["type"], str)


@_SETTINGS
@given(request=_requests(_ANSWERS))
def test_every_inspector_request_gets_a_typed_answer(compilation, request):
    answers = RequestHandler(compilation, inspection(compilation, live=True, full=False))
    assert isinstance(answers.answer(request)["type"], str)


@pytest.mark.parametrize("message", [None, 1, [], {}, {"content": None}, {"content": {"data": [1]}}])
def test_malformed_messages_are_ignored(lab, message):
    lab._receive(message)
    assert lab.sent == []
