"""Messages of a front end that lies: wrong types, missing keys, deep nesting, long strings, unknown requests.

:func:`attack` sends them to the connection of JupyterLab's page and to a widget of the inspector.
"""

from __future__ import annotations

import random
import resource
import time
import traceback
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
from jupyter_client.session import json_packer

import lazynb
from lazynb.notebook.inspector_widget import Inspector
from lazynb.notebook.lab_session import LabConnection
from lazynb.report.inspection.inspection_data import inspection
from lazynb.running.flush import execution
from tests.endurance.attacks.hostile_files import POISON

_REQUESTS = ("pass", "formation", "stage", "ask", "verify", "without", "code", "other", "nothing", "__init__")
_KINDS = ("hello", "show", "value", "ask", "lazy", "settings", "nothing", "_do")
_KEYS = {
    "of": ("other", None),
    "program": (0, 1),
    "index": (0, 3),
    "which": ("before", "after"),
    "boundary": (0, 1),
    "cluster": (0,),
    "variables": (["h"], ["h", "x"], []),
    "view": ("graph", "cache", "breaks", "compilation", "/etc/passwd", "../../etc/passwd"),
    "compilation": (1, 2, 0),
    "key": ("0", "1-1"),
    "do": ("look",),
    "on": (True, False),
    "autocompile": (True, False),
    "id": (1, 2, "a"),
}


def nested(depth: int) -> Any:
    """A list in a list, and so on."""
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def _value(rng: random.Random) -> Any:
    return rng.choice(
        [None, True, -1, 2**70, 1e308, float("nan"), "", "\ud800", "x" * 100_000, [], {}, b"buffer", *POISON]
        + [nested(rng.choice([3, 400, 5_000])), [1] * 1_000, {"a": {"b": 1}}, {"type": "code"}, "/etc/passwd"]
    )


def _request(rng: random.Random, kinds: tuple[str, ...]) -> Any:
    if rng.random() < 0.03:
        return _value(rng)
    request = {"type": rng.choice(kinds) if rng.random() < 0.95 else _value(rng)}
    for key, values in _KEYS.items():
        if rng.random() < 0.7:
            request[key] = rng.choice(values) if rng.random() < 0.6 else _value(rng)
    return request


class Pages:
    """A connection and a widget without a page; what they send is kept.

    Attributes:
      sent: the messages of the last request.
    """

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.switched: list[Any] = []
        with lazynb.lazy():
            h = jnp.sin(jnp.ones(3))
            self.compilation = lazynb.compile(h, h * 2)
        self.extension = SimpleNamespace(
            enabled=True, shell=SimpleNamespace(user_ns={}), switch=self.switched.append, leftovers=None
        )
        self.lab = LabConnection(self.extension, lambda: "status")
        self.lab._comm = SimpleNamespace(send=self.sent.append)
        self.lab._remember(self.compilation, inspection(self.compilation, live=True, full=False))
        self.widget = Inspector(self.compilation, None)
        self.dead = Inspector(self.compilation, None)
        self.dead.release_compilation()
        for widget in (self.widget, self.dead):
            widget.send = self.sent.append  # type: ignore[method-assign, assignment]

    def ask(self, rng: random.Random) -> str:
        """One hostile message. Returns what is wrong; empty if nothing is."""
        self.sent.clear()
        self.switched.clear()
        shown = lazynb.config.run_on_display
        began, runs = time.monotonic(), len(lazynb.events())
        data: Any = None
        kind = rng.choice(["lab", "lab", "ask", "widget", "dead", "state"])
        if kind == "lab":
            data = _request(rng, _KINDS)
            self.lab._receive({"content": {"data": data}} if rng.random() < 0.95 else _value(rng))
        elif kind == "ask":
            inner = _request(rng, _REQUESTS)
            data = {"type": "ask", "id": 7, "compilation": rng.choice([1, 2, -1]), "request": inner}
            self.lab._receive({"content": {"data": data}})
        elif kind == "state":
            state = {rng.choice(["data", "show", "recorded", "working", "_esm", "x"]): _value(rng)}
            self.widget._handle_msg(
                {"content": {"data": {"method": "update", "state": state}}, "buffers": []}
            )
        else:
            widget = self.widget if kind == "widget" else self.dead
            widget._receive(widget, _request(rng, _REQUESTS), [b"buffer"])
            if len(self.sent) != 1:
                return f"{len(self.sent)} answers of the widget"
        asked = data if isinstance(data, dict) else {}
        if self.switched and asked.get("on") is not self.switched[0]:
            return "lazy mode was switched without a value"
        if lazynb.config.run_on_display is not shown and type(asked.get("autocompile")) is not bool:
            return "a setting was changed without a value"
        text = json_packer(self.sent).decode()  # as ipykernel does
        if "root:x" in text:
            return "a file that the session does not know was read"
        if len(lazynb.events()) != runs:
            return "a program ran"
        if len(text) > 3_000_000 or time.monotonic() - began > 30:
            return f"{len(text):,} characters, {time.monotonic() - began:.0f} s"
        return ""


def attack(seconds: float, seed: int, tries: int | None = None) -> dict[str, int]:
    """Sends messages for about ``seconds`` seconds, or ``tries`` messages."""
    counts = {"tries": 0, "lost": 0, "wrong": 0, "hung": 0}
    pages, displays = Pages(), lazynb.config.run_on_display
    ends = time.monotonic() + seconds
    grown = 0
    try:
        while counts["tries"] < tries if tries is not None else time.monotonic() < ends:
            number = counts["tries"]
            try:
                wrong = pages.ask(random.Random(f"{seed} {number}"))
            except Exception:
                wrong = "an exception: " + traceback.format_exc(limit=-3)[-1_500:]
            counts["tries"] += 1
            if wrong:
                counts["wrong"] += 1
                print(f"hostile_messages, seed {seed}, try {number}: {wrong}")
            if number == 1_000:
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if grown and most > grown * 1.5 + 200_000:
            counts["wrong"] += 1
            print(f"hostile_messages, seed {seed}: memory grew from {grown:,} to {most:,} KiB")
    finally:
        lazynb.config.run_on_display = displays
        execution.sync()
    return counts
