"""Runs pending traces: flushes, executables and their caches, donation, trace breaks, logs and observers.

``flush``: runs pending traces at trace breaks, barriers and displays
``trace_launch``: calls the executable of one pending trace
``executable_lookup``: finds or compiles the executable for a pending trace
``executable_cache``: all executables, by trace, results and donated inputs
``trace_executable``: one compiled program of a recorded trace
``jaxpr_program``: the wanted part of a trace as a jaxpr, argument packing, lowering
``donation``: inputs whose buffers the results may take
``eager_placement``: shardings and commitment of results as in eager JAX
``run_delivery``: results of a run, until the tensors have their values
``run_failure``: notes on errors, and the unaffected part of a failed trace
``background_thread``: interruptible waits for XLA in other threads
``process_heap``: size of the C heap, and return of its free pages
``disk_cache``: the persistent compilation cache
``compiler_dump``: files and profiles that XLA writes during a compilation
``executable_variants``: executables with other XLA options, or as ``jax.jit`` makes them
``observers``: events of flushes, compilations, runs and trace breaks
``break_record``: writes a trace break to the logs
``break_hints``: the hint of a break, by the expression that needed the value
``break_cost``: the cost of the breaks at one line
``break_log``: the log of trace breaks, and its table
``miss_log``: the logs of cache misses and of runs
``time_log``: the log of compilations and of lazynb's analyses
``step_log``: the log of steps between breaks, and their parts
``session_timeline``: the time of a cell or a session by part and line
``timeline_drawing``: a timeline as text and HTML
``record_table``: lists of records that display as tables
``run_recorder``: records runs and the data flow between them
``run_statistics``: counts runs, compilations and breaks
``read_cost``: the predicted cost of reading a tensor
``hosts``: agreement of several hosts on each launch
"""
