"""Other chips: what XLA makes of a program for a TPU or a GPU that is not there."""
