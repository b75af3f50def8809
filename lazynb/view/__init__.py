"""Pending graphs, drawn: one view model and its lowerings to text, DOT, SVG, HTML and JSON.

Knows nothing of JAX, of notebooks, or of how a graph was recorded: it starts from a `lazynb.record.snapshot.Snapshot`.
"""

from __future__ import annotations

from lazynb.view.boxes import build as build
from lazynb.view.graph import Graph as Graph
from lazynb.view.layout import LayoutUnavailable as LayoutUnavailable
from lazynb.view.model import Box as Box, Edge as Edge, GraphView as GraphView, Region as Region
