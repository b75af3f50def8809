"""Lowerings and value checks of PyTorch operations; each module registers its own at import.

``arithmetic_ops``: elementwise operations, matrix products, reductions.
``composite_ops``: ``linear``, ``matmul`` and attention as single operations.
``tensor_factories``: ranges and constants.
``index_ops``: masks, scatter and index reductions.
``window_ops``: convolutions and pools.
``normalization_ops``: normalisation, and losses with gradients.
``loss_ops``: CTC and margin losses.
``embedding_ops``: embeddings, bags, and special gradients.
``recurrent_ops``: LSTM and GRU steps.
``linalg_ops``: factorisations and solutions.
``special_functions``: special functions and orthogonal polynomials.
``histogram_ops``: histograms, sorting searches and medians.
``image_resampling``: resizing of images, ``grid_sample``.
``random_ops``: random draws and dropout.
``optimizer_ops``: fused optimizer steps.
``argument_checks``: value checks of all operations.
"""
