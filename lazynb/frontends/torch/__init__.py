"""PyTorch front end: tensors on device ``jax``, with operations recorded in the lazy runtime.

``device_switch``: ``enable()`` and ``disable()``, the entry points.
``torch_tensor``: the tensor on device ``jax``.
``cpu_tensors``: copies between JAX arrays and CPU tensors.
``dispatch``: executes or records each operation.
``ops``: lowerings and value checks, by kind of operation.
``tensor_copies``: creation and copying of tensors.
``tensor_subclasses``: ``Tensor.as_subclass``.
``tensor_values``: the text of a tensor.
``sparse_tensor``: sparse tensors.
``random_generator``: random keys and generators.
``autocast``: ``torch.autocast("jax")``.
``device_backend``: registers the device, and runs backward passes.
``native_dispatch``: loads the fast path in C (``_short.c``).
``module_calls``: replays leaf modules, and records module paths.
``module_parameters``: uninitialised and shared parameters.
``torch_pytrees``: tensors and containers as JAX pytrees.
``graph_tracing``: source lines and state of a compiled graph being traced.
``graphs``: the ``torch.compile`` backend.
``file_loading``: ``torch.load`` and ``safetensors``.
``training_tools``: Accelerate, Transformers and Lightning.
``torch_requirements``: required versions, and the import of torchax.
"""
