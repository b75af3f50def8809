"""PyTorch's operations on device ``jax``, below autograd."""
