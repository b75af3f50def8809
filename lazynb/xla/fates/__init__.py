"""Determines the fate of every recorded operation in the compiled program.

In reading order:

``fate_assignment``: one fate for each operation, from marks or from XLA's passes
``operation_clusters``: clusters that contain each operation, from the operations of their instructions
``instruction_attribution``: operations that each instruction serves, from marks and dataflow
``needed_kernels``: kernels without a mark: of the operations that need their values
``eliminated_operations``: fates of operations that vanished in a pass
"""
