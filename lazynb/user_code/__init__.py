"""Finds and describes the user's code: frames, source lines, notebook cells, loops, callees and tracebacks.

``cells``: notebook cells, their runs and sources
``cell_magics``: bodies of cell magics, and the code compiled from them
``source_files``: reads the lines of source files
``file_versions``: the texts that the user's files had
``code_ownership``: whether a code object belongs to the user, a library, JAX or lazynb
``source_lines``: places with text, origins of operations, positions of breaks
``call_stack``: the user's frame and callers in the Python stack
``instructions``: the current instruction of a frame, its callee and source expression
``loop_statements``: the loop statement that records a repeated part of a trace
``call_graph``: the static call graph of the user's functions
``function_purity``: the mutable state that callback functions read
``tracebacks``: tracebacks without lazynb's frames, log of exceptions
``text_format``: formats of durations, sizes, counts and places
"""
