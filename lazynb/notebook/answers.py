"""What the inspector's front end asks for, answered. Needs no widget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazynb.compare.difference import Difference
from lazynb.plain import plain_data
from lazynb.record.mode import eager
from lazynb.view.inspection import clusters as parts, hlo
from lazynb.view.inspection.contents import other as other_of
from lazynb.view.inspection.findings import findings
from lazynb.view.inspection.formation import formation
from lazynb.view.inspection.index import Index, Notes
from lazynb.view.inspection.schema import Finding, Inspection, Machine
from lazynb.view.reports.beside import compared
from lazynb.view.reports.side import side_of
from lazynb.xla.compilation import Compilation
from lazynb.xla.cost.machine import measured_peak
from lazynb.xla.findings.finding import few


class Answers:
    """Answers requests about one compilation. The user's pending trace, breaks and caches stay as they are.

    Arguments:
      data: what the front end was sent; what is found out later is noted in it too, for a page that is loaded
        again.
    """

    def __init__(self, compilation: Compilation, data: Inspection):
        self._compilation = compilation
        self._data = data
        self._index = Index(compilation, Notes())
        self._kinds: dict[str, Callable[[Any], dict[str, Any]]] = {
            "pass": self._pass,
            "formation": self._formation,
            "stage": self._stage,
            "ask": self._ask,
            "verify": self._verify,
            "without": self._without,
            "profile": self._profile,
            "code": self._code,
            "other": self._other,
        }
        self._of_other: Answers | None = None

    def answer(self, request: Any) -> dict[str, Any]:
        """The answer to ``request``, with its ``id``; what goes wrong is an answer of type ``error``."""
        id_ = request.get("id") if isinstance(request, dict) else None
        try:
            if isinstance(request, dict) and request.get("of") == "other":
                return self._about_other({**request, "of": None})
            with eager():
                return {**plain_data(self._answer(request)), "id": id_}
        except KeyboardInterrupt:  # the front end waits for an answer
            return {"type": "error", "id": id_, "message": "interrupted"}
        except Exception as error:
            return {"type": "error", "id": id_, "message": str(error) or type(error).__name__}

    def _answer(self, request: Any) -> dict[str, Any]:
        kind = request.get("type") if isinstance(request, dict) else None
        if not isinstance(kind, str) or kind not in self._kinds:
            raise ValueError(f"the inspector knows no request of type {kind!r}")
        return self._kinds[kind](request)

    def _about_other(self, request: Any) -> dict[str, Any]:
        """The answer about the other program."""
        counterpart, other = self._compilation.counterpart, self._data["other"]
        if counterpart is None or counterpart.compilation is None or other is None:
            raise ValueError("the other program is not compiled")
        if self._of_other is None:
            assert other["inspection"] is not None
            self._of_other = Answers(counterpart.compilation, other["inspection"])
        return self._of_other.answer(request)

    def _other(self, _request: Any) -> dict[str, Any]:
        counterpart = self._compilation.counterpart
        if counterpart is None:
            raise ValueError("there is one program alone")
        counterpart.compile()
        self._data["other"] = other_of(self._compilation, live=True, full=True)
        self._of_other = None
        return {"type": "other", "other": self._data["other"]}

    def _number(self, request: Any) -> int:
        return _position(request, "program", len(self._index.traces))

    def _pass(self, request: Any) -> dict[str, Any]:
        number = self._number(request)
        passes = self._index.traces[number].passes
        step = passes[_position(request, "index", len(passes))]
        return {
            "type": "pass",
            "program": number,
            "index": step.index,
            "changes": hlo.changes(self._index, number, step),
        }

    def _formation(self, request: Any) -> dict[str, Any]:
        number = self._number(request)
        found = formation(self._index, number)
        steps = self._index.traces[number].passes
        return {
            "type": "formation",
            "program": number,
            "formation": found,
            "passes": [hlo.pass_info(step) for step in steps],
        }

    def _stage(self, request: Any) -> dict[str, Any]:
        number, which = self._number(request), request.get("which")
        trace = self._index.traces[number]
        if which not in ("before", "after"):
            raise ValueError(f"which must be 'before' or 'after', not {which!r}")
        text, module = (trace.before, None) if which == "before" else (trace.text, trace.module)
        if not text:
            raise ValueError("this backend gives no HLO of the program")
        return {
            "type": "stage",
            "program": number,
            "which": which,
            "stage": hlo.stage(self._index, number, text, module),
        }

    def _ask(self, request: Any) -> dict[str, Any]:
        self._compilation.ask()
        notes = Notes()
        self._data["boundaries"] = plain_data(parts.boundaries(self._index, notes))
        if notes:
            raise RuntimeError(notes[0])
        return {
            "type": "boundaries",
            "boundaries": self._data["boundaries"],
            "findings": self._findings(),
        }

    def _findings(self) -> list[Finding]:
        """The findings, as far as is known by now."""
        self._data["findings"] = plain_data(
            findings(self._compilation, self._index, self._data["boundaries"])
        )
        return self._data["findings"]

    def _without(self, request: Any) -> dict[str, Any]:
        names = request.get("variables")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f"variables must be names, not {names!r}")
        other = self._compilation.without(*names)
        left = f"without {few([*names])}"
        sides = [side_of(one, name, {}) for one, name in ((self._compilation, "as it is"), (other, left))]
        return {
            "type": "without",
            "compared": compared(Difference(*sides)),
            "findings": self._findings(),
        }

    def _verify(self, request: Any) -> dict[str, Any]:
        id_ = request.get("boundary")
        location = parts.located(self._index, id_) if isinstance(id_, int) else None
        if location is None:
            raise ValueError(f"there is no boundary {id_!r}")
        number, edge = location
        verified = parts.boundary(self._index, number, self._index.traces[number].verify(edge), id_)
        assert verified is not None
        self._data["boundaries"] = [
            plain_data(verified) if known["id"] == id_ else known for known in self._data["boundaries"]
        ]
        return {"type": "boundary", "boundary": verified, "findings": self._findings()}

    def _code(self, request: Any) -> dict[str, Any]:
        id_ = _position(request, "cluster", len(self._index.clusters))
        return {"type": "code", "cluster": id_, "code": parts.code(self._index, id_)}

    def _profile(self, request: Any) -> dict[str, Any]:
        self._compilation.profile()
        times = [dict(trace.times) for trace in self._index.traces]
        for cluster in self._data["clusters"]:
            cluster["time"] = parts.time(times[cluster["program"]].get(cluster["name"]))
        self._data["machine"] = machine()
        return {
            "type": "times",
            "machine": self._data["machine"],
            "clusters": [
                {"id": cluster["id"], "time": cluster["time"]} for cluster in self._data["clusters"]
            ],
        }


def machine() -> Machine | None:
    """This machine's measured peaks, or None if they cannot be had."""
    try:
        peak = measured_peak()
    except Exception:  # no peak is no reason to withhold the times
        return None
    return {"flops": peak.flops, "bandwidth": peak.bandwidth, "text": peak.text, "cache": peak.cache}


def _position(request: Any, name: str, length: int) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < length:
        raise ValueError(f"{name} must be a number from 0 to {length - 1}, not {value!r}")
    return value
