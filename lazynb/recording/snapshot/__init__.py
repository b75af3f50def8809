"""Snapshots: pending traces as plain data, for graphs, explanations and cache misses.

- ``snapshot_nodes``: nodes, calls and gradients
- ``trace_description``: summaries of traces, and the builder of a snapshot
- ``nested_nodes``: nodes for the equations inside of an operation
- ``variable_names``: the user's variable names of values
"""
