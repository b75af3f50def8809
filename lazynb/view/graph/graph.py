"""`Graph`: a pending graph as the user holds it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from lazynb.execute.records import plural
from lazynb.plain import plain
from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.session.read_cost import ReadCost
from lazynb.view.graph.boxes import build
from lazynb.view.graph.dot import to_dot
from lazynb.view.graph.html import to_html
from lazynb.view.graph.json_form import MIME_TYPE, to_json
from lazynb.view.graph.mermaid import to_mermaid
from lazynb.view.graph.model import GraphView
from lazynb.view.graph.model_explorer import ExplorerFile, explorer_graph
from lazynb.view.graph.svg import to_svg
from lazynb.view.graph.text import to_text

GLANCE = 40
"""Boxes in a drawing that the user did not size: what fits a screen and is understood in one look."""

_JSON_NODES = 500  # nodes described one by one in a notebook's output, which is saved with the notebook


class Graph:
    """A pending graph, as it was when it was asked for. Nothing that it does runs an operation.

    Arguments:
        snapshot: the trace.
        title: what the graph is of, such as ``'y: float32[128,10]'``.
        jaxpr, stablehlo: make the graph's jaxpr and StableHLO text when they are asked for.
        pending: gives those of the graph's tensors that are still pending.
        outlook: what reading them would have run when the graph was asked for; None if nothing, or if it is
          not known.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        title: str = "",
        *,
        jaxpr: Callable[[], Any] | None = None,
        stablehlo: Callable[[], str] | None = None,
        pending: Callable[[], list[Any]] | None = None,
        outlook: ReadCost | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.title = title
        self._jaxpr = jaxpr
        self._stablehlo = stablehlo
        self._pending = pending
        self.outlook = outlook
        self.hint = ""  # what to type to get the value
        self.shown = ""  # the key by which a page asks for the value
        self._views: dict[tuple[int | None, bool], GraphView] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Inputs and operations, in the order in which they were recorded."""
        return self.snapshot.nodes

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The arrays and scalars that the operations start from."""
        return tuple(node for node in self.nodes if node.kind == "input")

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The operations of which a result is still in reach."""
        return tuple(node for node in self.nodes if node.kind == "op" and node.output)

    def __len__(self) -> int:
        """The number of operations."""
        return self.snapshot.operations()

    def __bool__(self) -> bool:
        return True  # an empty graph is a graph

    def pending(self) -> list[Any]:
        """Those of its tensors that are still in reach and pending."""
        return self._pending() if self._pending is not None else []

    def view(self, *, limit: int | None = 150, expand: bool = False) -> GraphView:
        """What is drawn: at most ``limit`` boxes, single operations when ``expand``."""
        key = limit, expand
        if key not in self._views:  # one display needs the same view as text, as HTML and as data
            self._views[key] = build(self.snapshot, limit=limit, expand=expand)
        return self._views[key]

    def to_jaxpr(self) -> Any:
        """The graph as a ``jax.extend.core.ClosedJaxpr``."""
        return _call(self._jaxpr, "jaxpr")

    def to_stablehlo(self) -> str:
        """The graph as StableHLO text, before any of XLA's passes."""
        return str(_call(self._stablehlo, "StableHLO"))

    def to_dot(self, *, limit: int | None = 150, expand: bool = False) -> str:
        """DOT source. Raises ImportError without the ``graphviz`` package."""
        return to_dot(self.view(limit=limit, expand=expand))

    def to_mermaid(self, *, limit: int | None = 150, expand: bool = False) -> str:
        """A Mermaid flowchart, which GitHub and JupyterLab draw in Markdown (````` ```mermaid `````)."""
        return to_mermaid(self.view(limit=limit, expand=expand))

    def to_model_explorer(self, *, limit: int | None = 150) -> ExplorerFile:
        """Plain data that Model Explorer (``pip install ai-edge-model-explorer``) opens as a JSON file: every
        node, dead ones too, in layers as the live drawing has groups.

        Arguments:
            limit: the most boxes of the outermost layer.
        """
        graph = explorer_graph(self.view(limit=limit), "recorded operations")
        return {"label": self.title or "lazynb", "graphs": [graph]}

    def to_svg(self, *, limit: int | None = 150, expand: bool = False) -> str:
        """An SVG document. Raises `LayoutUnavailable` without a layout engine."""
        return to_svg(self.view(limit=limit, expand=expand))

    def to_json(self, *, limit: int | None = 150, expand: bool = False) -> dict[str, Any]:
        """Plain data, every node included; ``"version"`` counts its incompatible changes."""
        return to_json(self.view(limit=limit, expand=expand), title=self.title, outlook=self.outlook)

    def __str__(self) -> str:
        heading = f"{plain(self.title)}\n" if self.title else ""
        return heading + to_text(self.view(limit=GLANCE), outlook=self._ahead)

    @property
    def _ahead(self) -> str:
        if self.outlook is None:
            return ""
        return f"{self.outlook.text} {self.hint}".rstrip()

    def __repr__(self) -> str:
        # A debugger or a logger must get a line of text, whatever is wrong with the drawing code.
        return _attempt(self.__str__) or f"<Graph of {plural(len(self), 'operation')}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """IPython's rich display: text, HTML, and the data for lazynb's own renderer."""
        forms: dict[str, Callable[[], Any]] = {
            "text/plain": self.__repr__,
            "text/html": lambda: to_html(self.view(limit=GLANCE), heading=self.title, outlook=self._ahead),
            MIME_TYPE: lambda: {
                **to_json(self.view(limit=GLANCE), title=self.title, nodes=_JSON_NODES, outlook=self.outlook),
                **({"hint": self.hint} if self.hint else {}),
                **({"key": self.shown} if self.shown else {}),
            },
        }
        wanted = set(include or forms).difference(exclude or ())
        bundle = {mime: _attempt(make) for mime, make in forms.items() if mime in wanted}
        return {mime: form for mime, form in bundle.items() if form is not None}


def _call(thunk: Callable[[], Any] | None, form: str) -> Any:
    if thunk is None:
        raise ValueError(f"this graph was made without its {form}")
    return thunk()


def _attempt(make: Callable[[], Any]) -> Any:
    """What ``make`` returns, or None: display degrades, it never raises into the user's cell."""
    try:
        return make()
    except Exception:
        return None
