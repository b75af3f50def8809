"""Numerics: where the compiled values of a program part from those of eager JAX, by how much, and why."""
