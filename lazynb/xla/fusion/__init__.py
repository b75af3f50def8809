"""Finds the boundaries between clusters and the reason why XLA did not fuse across each.

In reading order:

``cluster_edges``: pairs of clusters that one array connects
``boundary_reasons``: table of reasons: the sentence of each, its rule, and what proves it
``backend_rules``: the rules of XLA:GPU, TPU and unknown backends
``boundaries``: one boundary with its reason for each edge
``fusion_log``: fusion decisions that XLA itself logged
``cpu_rules``: XLA:CPU's decisions translated into reasons
``prefusion_graph``: an optimised computation as it was before fusion
``cpu_instruction_rules``: XLA:CPU's rules for one instruction, and for in-place updates
``cpu_fusion_pass``: XLA:CPU's fusion pass, recomputed for a producer and a consumer
``boundary_experiments``: recompilation without the supposed cause of a boundary
``boundary_match``: whether a boundary still exists in another compilation
``isolated_kernels``: the two kernels at a boundary compiled as their own program
``kernel_formation``: how instructions were gathered into kernels, pass by pass
"""
