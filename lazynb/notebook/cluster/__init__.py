"""Cells that run in several processes at once: ``%lazy cluster``."""
