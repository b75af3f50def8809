"""Determines the fate of every recorded operation in the compiled program.

In reading order:

``fate_assignment``: one fate for each operation, from marks or from XLA's passes
``operation_clusters``: clusters that contain each operation, from the marks of instructions
``eliminated_operations``: fates of operations that vanished in a pass
"""
