"""XLA's HLO text: modules, passes, and who stands for whom from pass to pass."""
