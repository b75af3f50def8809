"""Records JAX operations lazily: pending traces, lazy tensors, and the trie of recorded traces.

The thread's mode:

- ``lazy_mode``: ``lazynb.lazy()`` and ``lazynb.eager()``
- ``lazy_blocks``: the open blocks of all threads
- ``function_substitutes``: substitutes for functions of JAX, NumPy and threads while a thread is lazy

The recorder:

- ``lazy_trace``: the JAX trace that records primitives
- ``open_traces``: the open and sealed pending traces of a thread
- ``operation_step``: the trie step of one operation
- ``operation``: interned primitives with their parameters
- ``eager_operations``: operations that run at once, and ``device_put``
- ``trace_registry``: the recorders of all threads, and their trie

Tensors and pending traces:

- ``lazy_tensor``: the ``jax.Array`` with a pending value
- ``tensor_placement``: its devices and sharding
- ``pending_trace``: recorded operations that have not run yet
- ``trace_inputs``: their inputs
- ``trie``: the trie of recorded traces
- ``input_key``: keys of inputs without a sharding
- ``fingerprint``: hashes of traces that are equal in all processes

Inputs and operands:

- ``external_arrays``: arrays that other code may delete or write to
- ``input_protection``: protection, replacement and deletion of inputs
- ``argument_donation``: donated arguments of a call
- ``python_numbers``: Python numbers as constants or inputs
- ``literal_numbers``: whether a number is written in the code
- ``instruction_syntax``: the syntax of the instruction that called JAX
- ``closure_constants``: tensors that functions close over
- ``varying_slices``: slices whose start varies from turn to turn of a loop
- ``value_placement``: recorded moves, meshes and ``shard_map``
- ``result_sharding``: shardings known before XLA compiles the program
- ``jaxpr_structure``: structural keys of parameters
- ``operation_checks``: memory capacity, value checks, lowering errors
- ``forward_tracebacks``: tracebacks for backward passes

Trace breaks and protocols:

- ``break_reasons``: the table of trace breaks
- ``break_examples``: a program with and without each break
- ``break_cause``: the function or argument that needed the value
- ``array_ufunc``: NumPy operators and ufuncs
- ``buffer_protocol``: ``memoryview`` and CPython internals
- ``tool_access``: a flag for inspectors and tooltips
- ``runtime_interface``: the calls from recording to the higher layers

Folders:

- ``replay``: recorded calls without JAX's Python code
- ``loops``: division of long traces
- ``snapshot``: traces as plain data
"""
