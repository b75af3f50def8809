"""Renders graphs, compilations, comparisons and runs as text, HTML, SVG and JSON.

``short_text``: short forms of types, scopes and counts
``document``: escaped text and sentences as HTML
``drawing_style``: colours, fonts and measures of drawings
``graph``: pending graphs: view model, layout and renderers
``inspection``: the compilation inspector: its data and its static forms
``miss_report``: a cache miss and its difference to the nearest cached trace
``target_report``: one cell compiled for several chips
``comparison_report``: two compilations side by side
``explanation_report``: trace breaks and compilations of a call
``numerics_report``: compiled and eager values
``prediction_report``: questions and answers of ``%%predict``
``run_report``: the HTML page of a program's run
``displays``: entry points for the rich displays of the public classes
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
