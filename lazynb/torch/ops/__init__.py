"""PyTorch's operations as functions of arrays."""
