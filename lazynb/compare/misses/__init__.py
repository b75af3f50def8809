"""Explains cache misses: why a trace was not in the cache, compared with the nearest cached one.

``program_sides``: the data of a comparison of two programs
``operation_parameters``: differences in the parameters of two operations
``converted_types``: differences that follow from another dtype of an input
``operation_pairs``: differences between paired operations
``call_pairs``: differences inside calls of library functions
``insertions_deletions``: differences in unpaired operations
``trace_difference``: all differences between two programs
``source_syntax``: syntax of the user's source, and signatures of called functions
``tree_edit``: the smallest edit between two statements
``source_pair``: the paired sources of two programs, with the user's edits
``edit_description``: a user's edit as a kind of cause
``edit_reach``: the operations that an edit reaches
``change_attribution``: attribution of differences to edits and to JAX settings
``run_coverage``: statements that only one of two runs reached
``trace_bounds``: changed trace breaks and cell ends
``loop_recurrence``: differences that recur at each step of a loop
``miss_causes``: the kinds of causes, and causes as text
``miss_explanation``: the choice of the nearest cached trace, and the difference from it
``compilation_causes``: causes on demand, and tables of compilations and flushes
``cache_info``: the contents of the executable cache
``event_stream``: the event stream of ``lazynb run --events``
"""
