"""Programs that lazynb did not record: what ``jax.jit`` lowered or compiled, and files."""
