"""Division of long traces that a loop records into equal pieces, for which one program is compiled.

- ``trace_growth``: the search for a loop, its warning, and the division of full traces
- ``trace_division``: repetition, cuts and pieces of a trace
- ``division_plan``: the piece and slot of each tensor, kept with the path
- ``bit_exact_cuts``: places at which a cut changes no bit of the results
"""
