"""Compares two compilations and explains what differs between them.

``compilation_side``: one side of a comparison, with its lines, kernels and figures
``lowered_operations``: the HLO that JAX lowers each operation to
``compilation_match``: the pairing of operations and lines of both sides, and the record of a difference
``operation_equivalence``: equal computations under other names
``operation_changes``: differences in operations, and in their lowered HLO
``kernel_groups``: groups of kernels of both sides that do the same work
``kernel_changes``: differences in kernels, with reasons
``memory_changes``: differences in donation and in peak memory
``compiler_changes``: differences in XLA flags and passes
``compilation_difference``: all differences of two compilations, and limits on them
``variant_comparison``: one cell compiled for several chips, or as ``jax.jit``
``kernel_prediction``: check of a reader's prediction of the kernels
"""
