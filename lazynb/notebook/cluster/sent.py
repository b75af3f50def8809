"""What a process of a cluster sends to the notebook as plain data beside the forms for reading: an
inspection, for which the notebook makes a widget, and trace breaks, which it merges."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from lazynb.execute.breaks import Breaks, TraceBreak
from lazynb.notebook.showing import Static
from lazynb.source import Place
from lazynb.view.inspection.saved import Entry, entry_of, read_form, written_form

INSPECTION = "application/vnd.lazynb.inspection+json"
BREAKS = "application/vnd.lazynb.breaks+json"

joined: list[bool] = []
"""Holds something while this process is one of a cluster."""


def written_inspection(static: Static) -> dict[str, Any]:
    """What is displayed of a compilation, with its inspection."""
    forms = static._repr_mimebundle_()
    if static.compilation is None or not static.compilation.traces:
        return forms
    form = written_form(entry_of(static.compilation, ran=static.ran))
    return {**forms, INSPECTION: json.loads(json.dumps({**form, "show": list(static.opened)}))}


def marked_inspection(static: Static) -> dict[str, Any]:
    """What is displayed of a compilation, marked as one: a rank whose output is not shown sends no more."""
    return {**static._repr_mimebundle_(), INSPECTION: {}}


def inspection_of(data: dict[str, Any]) -> Entry:
    """The inspection that another process sent."""
    return read_form(data)


def written_breaks(breaks: Breaks) -> dict[str, Any]:
    """Trace breaks as JSON; the forms for reading come as they do anywhere."""
    return {BREAKS: json.loads(json.dumps(breaks.to_dicts()))}


def breaks_of(data: list[dict[str, Any]]) -> list[TraceBreak]:
    """The trace breaks that another process sent."""
    return [_break(one) for one in data]


def _break(data: dict[str, Any]) -> TraceBreak:
    library = data["library"]
    return dataclasses.replace(
        TraceBreak(**data),
        location=Place(**data["location"]),
        library=Place(**library) if library is not None else None,
        callers=tuple(Place(**caller) for caller in data["callers"]),
    )
