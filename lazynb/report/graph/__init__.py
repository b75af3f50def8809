"""Draws pending graphs: one view model, rendered as text, DOT, SVG, HTML and JSON.

All modules but ``lazy_graph`` start from a :class:`lazynb.recording.snapshot.snapshot_nodes.Snapshot` and are
independent of how it was recorded.

``graph_view``: the view model: boxes, edges, regions and highlights
``graph_grouping``: groups of operations that become one box each
``graph_boxes``: builds the view of a snapshot
``graph_text``: the view as text and DOT, and the labels of boxes
``graph_layout``: positions of boxes and edges, by Graphviz
``graph_svg``: the laid-out view as SVG
``graph_html``: the view as HTML, and the templates
``graph_json``: the view as JSON, with the contents of its groups
``lazy_graph``: the public ``Graph`` and ``lazynb.graph``
"""
