"""Pending graphs, drawn: one view model and its lowerings to text, DOT, SVG, HTML and JSON.

The package knows nothing of JAX, of notebooks, or of how a graph was recorded. It starts from a
`lazynb.record.snapshot.snapshot.Snapshot`.
"""

from __future__ import annotations

from lazynb.view.graph.boxes import build as build
from lazynb.view.graph.graph import Graph as Graph
from lazynb.view.graph.layout import LayoutUnavailable as LayoutUnavailable
from lazynb.view.graph.model import Box as Box, Edge as Edge, GraphView as GraphView, LineRegion as LineRegion
