"""Pending traces as plain data, for drawings and explanations."""
