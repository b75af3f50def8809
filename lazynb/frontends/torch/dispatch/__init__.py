"""Dispatch of PyTorch operations: layouts, views, lowering, replay, value checks, host execution.

``dispatcher``: chooses how an operation is executed: replay, view, write or computation.
``op_rules``: tables of rules for operations; lists wrong lowerings in torchax.
``op_execution``: executes a computation by a lowering, a decomposition, or on the CPU.
``view_operations``: executes an operation whose results share memory.
``in_place_writes``: executes an operation that writes to its arguments.
``result_layouts``: infers the layouts of the results, and errors.
``tensor_layout``: layouts of tensors and results.
``tensor_storage``: storages, and stand-ins for their addresses.
``view_steps``: views as steps from a storage.
``strided_views``: steps of views that are given by strides.
``replay_context``: JAX configuration around replayed calls.
``torch_replay``: keys, operands and replay of calls.
``value_checks``: checks of indices, divisors and probabilities.
``known_integers``: small integer tensors with known values.
``host_operations``: executes operations on known integers on the CPU.
``deferred_integers``: deferred operations on growing integer tensors.
``sparse_operations``: operations on sparse tensors.
``complex32``: ``torch.complex32``, and the class ``ViewStep``.
"""
