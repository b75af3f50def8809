"""Loops that nothing reads: the part of a trace that repeats, where it may be cut, and what the user is told."""
