"""Dispatch of PyTorch operations: layouts, views, lowering, replay, value checks, host execution.

``dispatcher``: executes an operation: view, write or computation.
``op_rules``: registers lowerings; lists wrong ones in torchax.
``tensor_layout``: layouts, and inference of results and errors.
``view_steps``: storages, and views as steps.
``replay_context``: JAX configuration around replayed calls.
``torch_replay``: keys, operands and replay of calls.
``value_checks``: checks of indices, divisors and probabilities.
``known_integers``: small integer tensors with known values.
``host_operations``: executes operations on known integers on the CPU.
``deferred_integers``: deferred operations on growing integer tensors.
``sparse_operations``: operations on sparse tensors.
``complex32``: ``torch.complex32``, and the class ``ViewStep``.
"""
