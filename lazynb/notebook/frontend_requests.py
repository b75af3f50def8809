"""Handlers for the requests of the inspector's front end, and what the page of the running cell can show."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lazynb.compare.differences.compilation_difference import CompilationDifference
from lazynb.recording.lazy_mode import eager
from lazynb.report.comparison_report import comparison_data, side_of
from lazynb.report.inspection import hlo_data
from lazynb.report.inspection.boundary_data import boundaries, boundary, boundary_by_id
from lazynb.report.inspection.finding_data import findings
from lazynb.report.inspection.formation_data import formation
from lazynb.report.inspection.inspection_data import jit_counterpart as other_of
from lazynb.report.inspection.inspection_index import Index, Notes
from lazynb.report.inspection.kernel_data import code_data, time_data
from lazynb.user_code.text_format import abbreviated_list, escape_invisible, escape_invisible_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.cost.roofline import measured_peak
from lazynb.xla.inspection_schema import Finding, Inspection, Machine


class RequestHandler:
    """Answers requests about one compilation. Leaves the user's pending trace, breaks and caches unchanged.

    Arguments:
      data: the data that the front end received. Later results are added to it, for a page that is reloaded.
    """

    def __init__(self, compilation: Compilation, data: Inspection):
        self._compilation = compilation
        self._data = data
        self._index = Index(compilation, Notes())
        self._handlers: dict[str, Callable[[Any], dict[str, Any]]] = {
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
        self._of_other: RequestHandler | None = None

    def answer(self, request: Any) -> dict[str, Any]:
        """The answer to ``request``, with its ``id``. An exception becomes an answer of type ``error``."""
        id_ = request_id(request)
        try:
            if isinstance(request, dict) and request.get("of") == "other":
                return self._about_other({**request, "of": None})
            with eager():
                return {**escape_invisible_in(self._answer(request)), "id": id_}
        except KeyboardInterrupt:  # the front end waits for an answer
            return {"type": "error", "id": id_, "message": "interrupted"}
        except Exception as error:
            return {"type": "error", "id": id_, "message": error_text(str(error) or type(error).__name__)}

    def _answer(self, request: Any) -> dict[str, Any]:
        kind = request.get("type") if isinstance(request, dict) else None
        if not isinstance(kind, str) or kind not in self._handlers:
            raise ValueError(f"the inspector has no request of type {kind!r}")
        return self._handlers[kind](request)

    def _about_other(self, request: Any) -> dict[str, Any]:
        """Answers a request about the ``jax.jit`` counterpart."""
        counterpart, other = self._compilation.counterpart, self._data["other"]
        if counterpart is None or counterpart.compilation is None or other is None:
            raise ValueError("the other program is not compiled")
        if self._of_other is None:
            assert other["inspection"] is not None
            self._of_other = RequestHandler(counterpart.compilation, other["inspection"])
        return self._of_other.answer(request)

    def _other(self, _request: Any) -> dict[str, Any]:
        counterpart = self._compilation.counterpart
        if counterpart is None:
            raise ValueError("there is only one program")
        counterpart.compile()
        self._data["other"] = other_of(self._compilation, live=True, full=True)
        self._of_other = None
        return {"type": "other", "other": self._data["other"]}

    def _number(self, request: Any) -> int:
        return _checked_index(request, "program", len(self._index.traces))

    def _pass(self, request: Any) -> dict[str, Any]:
        number = self._number(request)
        passes = self._index.traces[number].passes
        step = passes[_checked_index(request, "index", len(passes))]
        return {
            "type": "pass",
            "program": number,
            "index": step.index,
            "changes": hlo_data.changes(self._index, number, step),
        }

    def _formation(self, request: Any) -> dict[str, Any]:
        number = self._number(request)
        found = formation(self._index, number)
        steps = self._index.traces[number].passes
        return {
            "type": "formation",
            "program": number,
            "formation": found,
            "passes": [hlo_data.pass_info(step) for step in steps],
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
            "stage": hlo_data.hlo_stage(self._index, number, text, module),
        }

    def _ask(self, request: Any) -> dict[str, Any]:
        self._compilation.ask()
        notes = Notes()
        self._data["boundaries"] = escape_invisible_in(boundaries(self._index, notes))
        if notes:
            raise RuntimeError(notes[0])
        return {
            "type": "boundaries",
            "boundaries": self._data["boundaries"],
            "findings": self._findings(),
        }

    def _findings(self) -> list[Finding]:
        """Recomputes the findings from what is known so far."""
        self._data["findings"] = escape_invisible_in(
            findings(self._compilation, self._index, self._data["boundaries"])
        )
        return self._data["findings"]

    def _without(self, request: Any) -> dict[str, Any]:
        names = request.get("variables")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f"variables must be names, not {names!r}")
        nodes = self._compilation.snapshot.nodes
        known = {name for node in nodes for part in (node.names, *node.result_names) for name in part}
        names = [name for name in dict.fromkeys(names) if name in known] or names[:1]
        other = self._compilation.without(*names)
        left = f"without {abbreviated_list([*names])}"
        sides = [side_of(one, name, {}) for one, name in ((self._compilation, "as it is"), (other, left))]
        return {
            "type": "without",
            "compared": comparison_data(CompilationDifference(*sides)),
            "findings": self._findings(),
        }

    def _verify(self, request: Any) -> dict[str, Any]:
        id_ = request.get("boundary")
        location = boundary_by_id(self._index, id_) if isinstance(id_, int) else None
        if location is None:
            raise ValueError(f"there is no boundary {id_!r}")
        number, edge = location
        verified = boundary(self._index, number, self._index.traces[number].verify(edge), id_)
        assert verified is not None
        self._data["boundaries"] = [
            escape_invisible_in(verified) if known["id"] == id_ else known
            for known in self._data["boundaries"]
        ]
        return {"type": "boundary", "boundary": verified, "findings": self._findings()}

    def _code(self, request: Any) -> dict[str, Any]:
        id_ = _checked_index(request, "cluster", len(self._index.clusters))
        return {"type": "code", "cluster": id_, "code": code_data(self._index, id_)}

    def _profile(self, request: Any) -> dict[str, Any]:
        self._compilation.profile()
        times = [dict(trace.times) for trace in self._index.traces]
        for cluster in self._data["clusters"]:
            cluster["time"] = time_data(times[cluster["program"]].get(cluster["name"]))
        self._data["machine"] = machine_data()
        return {
            "type": "times",
            "machine": self._data["machine"],
            "clusters": [
                {"id": cluster["id"], "time": cluster["time"]} for cluster in self._data["clusters"]
            ],
        }


def request_id(request: Any) -> int | str | None:
    """The id of a request, which its answer repeats; None if it is not an id, but anything else."""
    id_ = request.get("id") if isinstance(request, dict) else None
    is_text = type(id_) is str and len(id_) <= _LONGEST_ID and id_.isascii()  # other text may not be sendable
    return id_ if type(id_) is int or is_text else None


def message_data(message: Any) -> dict[str, Any]:
    """The data of a comm message; empty if the message is malformed."""
    data = message
    for key in ("content", "data"):
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


_LONGEST_ID = 100
_LONGEST_MESSAGE = 2_000


def error_text(text: str) -> str:
    """The text of an error for the page. It may quote the message, so it is cut and can always be sent."""
    text = escape_invisible(text)
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"


def machine_data() -> Machine | None:
    """This machine's measured peaks, or None if they cannot be measured."""
    try:
        peak = measured_peak()
    except Exception:  # send the times without the peaks
        return None
    return {"flops": peak.flops, "bandwidth": peak.bandwidth, "text": peak.text, "cache": peak.cache}


def _checked_index(request: Any, name: str, length: int) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < length:
        raise ValueError(f"{name} must be a number from 0 to {length - 1}, not {value!r}")
    return value


# ---- The page of the running cell --------------------------------------------------------------------------


def lab_execution() -> tuple[str, str] | None:
    """The cell id and the message id of the execution, in JupyterLab or Notebook; None elsewhere. Only these
    two send the notebook's ``trusted`` flag with an execution."""
    parent = _request()
    metadata = parent.get("metadata") or {}
    return (str(metadata.get("cellId")), str(parent["header"]["msg_id"])) if "trusted" in metadata else None


def may_show_widgets() -> bool:
    """Whether the output of the running cell goes to an interactive page. The output then has the widget's
    view beside the static form, and the page displays the one that it supports.

    Programs that execute a notebook (nbclient, used by nbconvert, papermill and others) do not allow stdin.
    They would store the widget's state in the notebook, which only a page with network access can display.
    """
    if _marimo_runs():
        return True
    parent = _request()
    return bool(parent.get("metadata")) or bool((parent.get("content") or {}).get("allow_stdin"))


def _request() -> dict[str, Any]:
    """The ``execute_request`` message of the running cell; empty without one."""
    if sys.modules.get("IPython") is None:
        return {}
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)  # type: ignore[no-untyped-call]
    try:
        return dict(kernel.get_parent("shell")) if kernel is not None else {}
    except Exception:  # a kernel other than ipykernel
        return {}


def _marimo_runs() -> bool:
    """Whether a marimo cell is running. marimo does not use IPython."""
    marimo = sys.modules.get("marimo")
    try:
        return marimo is not None and bool(marimo.running_in_notebook())
    except Exception:
        return False
