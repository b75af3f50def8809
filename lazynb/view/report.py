"""The report under a compiled cell: graph, kernels, compile time, cache hit or miss."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import Any

from lazynb.execute.compilation import Compilation
from lazynb.view.graph import Graph
from lazynb.view.html import fill
from lazynb.view.words import plural
from lazynb.xla.kernels import Kernel, kernels

SECTIONS = ("graph", "kernels", "hlo")
_EVENTS = {"hit": "cache hit, nothing compiled", "compiled": "compiled", "disk": "loaded from the persistent cache"}
_MAX_KERNELS = 100
_MAX_HLO = 200_000  # characters kept in a saved notebook


class Report:
    """What a compilation gave, for display; a first form of the inspector.

    Arguments:
      graph: what was pending.
      compilation: what was made of it.
      opened: sections that are shown opened, of :data:`SECTIONS`.
      ran: whether it was run.
    """

    def __init__(self, graph: Graph, compilation: Compilation, opened: Sequence[str] = (), *, ran: bool = True):
        self.graph = graph
        self.compilation = compilation
        self.ran = ran
        self._opened = set(opened)
        found = [kernels(trace.compiled) for trace in compilation.traces]
        self.kernels: list[Kernel] | None = (
            None if None in found else [kernel for group in found if group for kernel in group])

    def headline(self) -> str:
        """For example ``13 operations → 4 kernels``."""
        if not self.compilation.traces:
            return "Nothing was pending"
        operations = plural(self.compilation.operations, "operation")
        if self.kernels is None:
            return f"{operations} (the backend tells no kernels)"
        return f"{operations} → {plural(len(self.kernels), 'kernel')}"

    def details(self) -> list[str]:
        """How the program was come by, and what was left out."""
        compilation = self.compilation
        if not compilation.traces:
            return []
        said = [_EVENTS[compilation.cache_event]]
        if compilation.compile_seconds:
            said[0] += f" in {_duration(compilation.compile_seconds)}"
        if len(compilation.traces) > 1:
            said.append(f"{len(compilation.traces)} programs, one after the other")
        dead = len(self.graph) - compilation.operations
        if dead > 0:
            said.append(f"{plural(dead, 'dead operation')} never computed")
        if not self.ran:
            said.append("not run")
        return said

    def __repr__(self) -> str:
        return " · ".join([self.headline(), *self.details()])

    def _repr_mimebundle_(self, include: Collection[str] | None = None,
                          exclude: Collection[str] | None = None) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        bodies = {"graph": self._graph_html, "kernels": self._kernels_html, "hlo": self._hlo_html}
        titles = {"graph": "Graph that was pending", "kernels": "Kernels, in the order of the program",
                  "hlo": "Optimised HLO"}
        sections = [] if not self.compilation.traces else [
            fill("section", open="open" if name in self._opened else "", title=titles[name], body=bodies[name]())
            for name in SECTIONS if name != "hlo" or name in self._opened]
        return fill("report", headline=escape(self.headline()),
                    detail="".join(f" · {escape(detail)}" for detail in self.details()), sections="\n".join(sections))

    def _graph_html(self) -> str:
        return str(self.graph._repr_mimebundle_().get("text/html", f"<pre>{escape(str(self.graph))}</pre>"))

    def _kernels_html(self) -> str:
        if self.kernels is None:
            return "<p>The backend tells no HLO.</p>"
        head = "".join(map(_th, ("instruction", "opcode", "op_name in its metadata")))
        rows = "".join(f"<tr>{_td(k.name)}{_td(k.opcode + (f' ({k.kind.lower()})' if k.kind else ''))}{_td(k.scope)}</tr>"
                       for k in self.kernels[:_MAX_KERNELS])
        rest = len(self.kernels) - _MAX_KERNELS
        more = f"<p>{plural(rest, 'kernel')} more not listed</p>" if rest > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def _hlo_html(self) -> str:
        text = "\n\n".join(trace.hlo.after for trace in self.compilation.traces)
        cut = f"\n... {len(text) - _MAX_HLO:,} characters more" if len(text) > _MAX_HLO else ""
        return f'<pre style="max-height:480px;overflow:auto">{escape(text[:_MAX_HLO] + cut)}</pre>'


def _th(text: str) -> str:
    return f'<th style="text-align:left">{escape(text)}</th>'


def _td(text: str) -> str:
    return f'<td style="text-align:left">{escape(text)}</td>'


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
