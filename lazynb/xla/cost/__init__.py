"""Measures what kernels, values and compilation cost: operations, bytes, seconds and memory.

In reading order:

``kernel_cost``: operations and bytes of one kernel, by XLA's cost analysis
``operand_utilization``: parts of its operands that a fusion really reads and writes
``total_cost``: cost of one run of a program, with loops and branches
``roofline``: measured peak of this machine; time bounds and estimates on other chips
``kernel_profile``: measured time of each kernel, from JAX's profiler
``profiler_events``: timeline of a run, and event tree of a compilation
``buffer_assignment``: parser of XLA's buffer assignment and live ranges
``program_memory``: place and lifetime of each value, memory use
``out_of_memory``: message for a program that does not fit, with its largest values
``compile_times``: compilation time by stage, pass and kernel
``line_work``: compilation work and time by line of the user's code
"""
