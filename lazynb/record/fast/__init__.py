"""Calls and gradients that were recorded before, recorded again without JAX."""
