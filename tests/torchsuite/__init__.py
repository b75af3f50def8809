"""PyTorch's own samples of each of its operations (OpInfo), on device ``jax`` lazily and on the CPU."""
