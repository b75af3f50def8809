"""A name for a file that says nothing of where it lies: a stored notebook holds it."""

from __future__ import annotations


def file_key(file: str) -> str:
    """FNV-1a of the file's path, as ``fileKey`` of the front end gives it."""
    number = 0x811C9DC5
    for byte in file.encode("utf-8", "replace"):
        number = (number ^ byte) * 0x01000193 % 2**32
    return f"{number:08x}"
