"""How the kernels came about, as it goes to the front end and stands in the static form."""

from __future__ import annotations

import json

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.notebook.frontend_requests import RequestHandler
from lazynb.report.inspection import formation_data, program_data
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_html import to_html
from lazynb.running.compiler_dump import record_dumps


@pytest.fixture
def compiled(clean):
    lazynb.clear_cache()
    x = jnp.ones((64, 64))
    with lazynb.lazy(), record_dumps():
        y = jnp.exp(x / 8.0) + 0.0 * jnp.ones(64)
        return lazynb.compile(jnp.tanh(y) @ x, y.sum())


def test_each_operation_is_drawn_or_gone_with_its_fate(compiled):
    data = inspection(compiled)
    [program] = data["programs"]
    formation = program["hlo"]["formation"]
    json.dumps(formation)
    last = len(formation["steps"]) - 1
    assert last == len(program["hlo"]["passes"])
    standing = {
        node for box in formation["boxes"] if box["end"] is None for node in box["stands"][-1]["nodes"]
    }
    gone = {one["node"]: one["text"] for one in formation["gone"]}
    operations = {node["id"] for node in data["nodes"] if node["kind"] == "op"}
    assert standing | gone.keys() == operations and not standing & gone.keys()
    assert gone == {fate["node"]: fate["text"] for fate in data["fates"] if fate["node"] in gone}


def test_the_kernels_at_the_end_are_the_clusters(compiled):
    data = inspection(compiled)
    boxes = data["programs"][0]["hlo"]["formation"]["boxes"]
    kernels: dict[str, set[str]] = {}
    for box in boxes:
        if box["end"] is None:
            kernels.setdefault(box["stands"][-1]["kernel"], set()).add(box["stands"][-1]["name"])
    assert kernels.keys() == {cluster["name"] for cluster in data["clusters"]}
    for cluster in data["clusters"]:
        assert kernels[cluster["name"]] <= set(cluster["instructions"])


def test_a_live_inspection_gets_the_formation_on_request(compiled):
    data = inspection(compiled, live=True)
    assert data["programs"][0]["hlo"]["formation"] is None
    answer = RequestHandler(compiled, data).answer({"type": "formation", "program": 0, "id": "a"})
    assert answer["type"] == "formation" and answer["id"] == "a"
    assert answer["formation"] == json.loads(
        json.dumps(inspection(compiled)["programs"][0]["hlo"]["formation"])
    )
    assert [step["name"] for step in answer["passes"]] == [step.name for step in compiled.hlo.passes]


def test_a_long_formation_is_not_stored(compiled, monkeypatch):
    monkeypatch.setattr(program_data, "STATIC_BOXES", 3)
    data = inspection(compiled)
    assert data["programs"][0]["hlo"]["formation"] is None and data["notes"] == []
    monkeypatch.setattr(formation_data, "_MOST", 3)
    answer = RequestHandler(compiled, data).answer({"type": "formation", "program": 0, "id": "a"})
    assert answer["type"] == "error" and "too many" in answer["message"]


def test_the_static_form_has_the_passes_that_changed_the_number_of_kernels(compiled):
    data = inspection(compiled, full=False)
    kernels = data["programs"][0]["hlo"]["kernels"]
    steps = compiled.hlo.formation.steps
    assert kernels == [step.kernels for step in steps]
    text = to_html(data, compiled.snapshot)
    before, after = next(pair for pair in zip(kernels, kernels[1:]) if pair[0] > pair[1])
    assert "How the kernels came about" in text and f"{before} → <b>{after}</b>" in text
    data["programs"][0]["hlo"]["kernels"] = []
    assert "How the kernels came about" not in to_html(data, compiled.snapshot)
