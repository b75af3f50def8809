"""The drawing of a graph: one view model and its lowerings to text, DOT, SVG, HTML and JSON."""
