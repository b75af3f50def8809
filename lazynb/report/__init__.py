"""Pending graphs, drawn: one view model and its lowerings to text, DOT, SVG, HTML and JSON.

The package knows nothing of JAX, of notebooks, or of how a graph was recorded. It starts from a
`lazynb.recording.snapshot.snapshot_nodes.Snapshot`.
"""

from __future__ import annotations

from lazynb.report.graph.graph_boxes import build as build
from lazynb.report.graph.graph_layout import LayoutUnavailable as LayoutUnavailable
from lazynb.report.graph.graph_view import (
    Box as Box,
    Edge as Edge,
    GraphView as GraphView,
    LineRegion as LineRegion,
)
from lazynb.report.graph.lazy_graph import Graph as Graph
