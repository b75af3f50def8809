"""What XLA made of a trace. Knows nothing of notebooks."""
