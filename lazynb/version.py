"""The version of lazynb."""

__version__ = "0.1.0"
