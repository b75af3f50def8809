"""Loops that nothing reads: what repeats in a trace, where it may be cut, and what the user is told."""
