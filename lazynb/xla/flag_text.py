"""XLA flags as text: formatting, parsing, and those of the process (``XLA_FLAGS``)."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def format_flags(flags: Mapping[str, Any]) -> str:
    """The flags as text, ``name=value``, separated by spaces."""
    return " ".join(f"{name}={value}" for name, value in flag_strings(flags).items())


def flag_strings(flags: Mapping[str, Any]) -> dict[str, str]:
    """The values as text, by name."""
    return {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in flags.items()}


_DUMP_PREFIX = "xla_dump"
"""Prefix of the flags for dump files. They change no program and contain the user's folder names."""


@functools.cache
def process_flags() -> Mapping[str, str]:
    """The flags in ``XLA_FLAGS``, as text by name. XLA reads them once, at its first use; they are read here
    once, at the first compilation."""
    return parse_xla_flags(os.environ.get("XLA_FLAGS", ""))


def split_flags(text: str) -> list[str]:
    """Splits flags at spaces; a value with spaces is quoted."""
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quote
        return text.split()


def parse_xla_flags(text: str) -> dict[str, str]:
    """Parses ``XLA_FLAGS`` as XLA does: flags separated by spaces, or the name of a file that contains them.
    A flag without a value is true; the last one of a name wins."""
    if text.strip() and not text.strip().startswith("-"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = Path(text.strip()).read_text()
    flags = {}
    for word in split_flags(text):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and not name.startswith(_DUMP_PREFIX):
            lower = value.lower() if equals else "true"
            flags[name] = lower if lower in ("true", "false") else value
    return flags
