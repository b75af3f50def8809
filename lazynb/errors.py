"""Exceptions raised by lazynb itself. What JAX would raise is raised as JAX raises it."""

from __future__ import annotations


class LazynbError(Exception):
    """Base class of lazynb's own errors."""
