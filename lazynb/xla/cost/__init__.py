"""What kernels and values cost: by XLA's analysis, as measured, and in memory."""
