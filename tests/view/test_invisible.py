"""Characters that cannot be seen, or that turn the text around them, are shown written out, wherever what
users wrote is."""

from __future__ import annotations

import contextlib
import json
import re

import pytest

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.report.graph.graph_layout import LayoutUnavailable
from lazynb.report.graph.lazy_graph import Graph
from lazynb.report.inspection.session_tables import table
from lazynb.running.record_table import Records
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import escape_invisible_in

HOSTILE = [
    "\u202e",
    "\u2066",
    "\u2069",
    "\u200e",
    "\u200f",
    "\u061c",
    "\u200b",
    "\ufeff",
    "\x1b",
    "\x85",
    "\u2028",
    "\U000e0041",
]


def graph(mark: str) -> Graph:
    """A graph in which everything that has a text has ``mark`` in it."""
    place = Place("<cell>", 1, f"y = x {mark}+ 1", 1)
    nodes = (
        Node(
            0, "input", f"x{mark}", "", (), ("float32[2]",), None, None, None, "", (f"x{mark}",), None, False
        ),
        Node(
            1,
            "op",
            f"add{mark}",
            "add",
            ((0, 0),),
            ("float32[2]",),
            place,
            f"call{mark}",
            1,
            f"scope{mark}",
            (f"y{mark}",),
            None,
            True,
        ),
    )
    return Graph(Snapshot(nodes), f"y{mark}: float32[2]")


@pytest.mark.parametrize("mark", HOSTILE, ids=ascii)
def test_invisible_characters_are_written_out_in_every_form_of_a_graph(mark):
    shown = graph(mark)
    written = mark.encode("unicode_escape").decode()
    bundle = shown._repr_mimebundle_()
    forms = [
        repr(shown),
        bundle["text/plain"],
        bundle["text/html"],
        json.dumps(shown.to_json(), ensure_ascii=False),
    ]
    for make in (shown.to_svg, shown.to_dot):
        with contextlib.suppress(ImportError, LayoutUnavailable):
            forms.append(make())
    for form in forms:
        assert mark not in form
        assert written in form.replace("\\\\", "\\").replace("&#92;", "\\")


@pytest.mark.parametrize("mark", HOSTILE, ids=ascii)
def test_invisible_characters_are_written_out_in_tables(mark):
    records = Records([1], "none", lambda _: {"what": f"a{mark}b"})
    for form in (
        repr(records),
        records._repr_html_(),
        json.dumps(table(records, "record"), ensure_ascii=False),
    ):
        assert mark not in form and re.search(r"a\\+[xuU]", form)


def test_plain_data_changes_only_text_values():
    data = {"a": [1, None, 2.5, True, ("x\u202e",)], "b\u202e": {"c": "d"}}
    assert escape_invisible_in(data) == {"a": [1, None, 2.5, True, ["x\\u202e"]], "b\u202e": {"c": "d"}}
