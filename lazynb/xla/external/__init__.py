"""Inspects programs that lazynb did not record: stages of ``jax.jit``, and files of HLO or StableHLO.

Its modules, in reading order:

``external_programs``: makes a ``Compilation`` of a stage or a file
``external_executable``: such a program in the place of a recorded executable
``source_locations``: source lines in HLO and StableHLO, and the graph of the operations read
``stablehlo_operations``: reads and marks the operations of a StableHLO module
``hlo_operations``: reads and marks the operations of an HLO module
"""
