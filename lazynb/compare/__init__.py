"""Compares programs, compilations and values, and explains what differs.

``program_graph``: the graph form of a program
``matching``: the alignment of two programs
``misses``: why a trace was not in the cache
``differences``: what differs between two compilations
``numerics``: compiled values compared with eager JAX and float64
``costs``: costs of trace breaks, and budgets
"""
