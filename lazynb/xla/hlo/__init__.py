"""Parses XLA's HLO text and follows values through instructions, fusions and passes.

In reading order:

``opcodes``: table of the HLO opcodes with their properties
``shapes``: printed shapes: sizes, layouts, memory spaces, tiles
``module``: parser of HLO text into module, computations and instructions
``clusters``: kernels, loops and transfers that a program runs
``instruction_flow``: readers of an instruction, and program arguments that reach it
``array_flow``: readers and sources of one array, through tuples, fusions, calls and loops
``passes``: passes that changed a module, and what each pass changed
``pass_history``: correspondence of instructions from the first module to the last
``value_numbering``: numbers for arrays that the same expression computes
"""
