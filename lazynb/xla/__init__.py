"""What XLA made of a trace: compiled programs, fates, fusion boundaries, costs. Independent of the notebook.

Its modules, in reading order:

``compilation``: ``Compilation``, the public result of ``lazynb.compile``
``compile_entry``: ``lazynb.compile``
``compilation_builder``: builds a ``Compilation`` from pending traces
``result_rows``: columns of the tables that a ``Compilation`` shows
``hlo_text``: text of a program before and after XLA's passes
``compiled_program``: one compiled program of a graph: fates, memory, time, boundaries
``optimised_program``: one executable as XLA optimised it: clusters, costs, passes
``program_interface``: the protocol of an inspectable program, and its inputs
``program_origins``: graph nodes behind the marks, arguments and results of a program
``evidence``: evidence labels, findings and fates
``hlo``: HLO modules, instructions, passes and clusters
``dump_reader``: reads XLA's dump while XLA still compiles
``fates``: what became of every recorded operation
``fusion``: boundaries between clusters, and why XLA did not fuse across them
``cost``: cost, time and memory of kernels and values
``update_copies``: copies that XLA makes in front of updates
``program_findings``: notable findings of a program, ranked by bytes
``function_compilation``: compiles a function for argument types
``recorded_operations``: recorded operations of several traces by graph node
``jit_equivalent``: the program that ``jax.jit`` of the same code would run
``partial_results``: recompiles a program without some results
``flag_text``: formats and parses XLA flags
``xla_flags``: recompiles a program with other XLA flags
``targets``: compilation for chips that are not present
``external``: programs from ``jax.jit`` stages and files
``sharding``: collectives and shardings on a mesh
``reproducer``: writes a stand-alone reproducer for an XLA issue
``reproducer_script``: the code inside a reproducer
``inspection_schema``: message types between the kernel and the inspector
"""
