"""XLA's flags as text: how they are written, and those of the whole process (``XLA_FLAGS``)."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def format_flags(flags: Mapping[str, Any]) -> str:
    """The flags as they are written."""
    return " ".join(f"{name}={value}" for name, value in flag_strings(flags).items())


def flag_strings(flags: Mapping[str, Any]) -> dict[str, str]:
    """By name, the values as they are written."""
    return {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in flags.items()}


_DUMP_PREFIX = "xla_dump"
"""Flags that say which files XLA writes begin so. They change no program, and name folders of the user's."""


@functools.cache
def process_flags() -> Mapping[str, str]:
    """By name, as written. XLA reads them once, when it is first used; so they are read here once, with the
    first compilation."""
    return parse_xla_flags(os.environ.get("XLA_FLAGS", ""))


def split_flags(text: str) -> list[str]:
    """Flags with spaces in between; a value with spaces has quotes."""
    try:
        return shlex.split(text)
    except ValueError:  # a quote that does not end
        return text.split()


def parse_xla_flags(text: str) -> dict[str, str]:
    """What XLA takes ``text`` for: flags with spaces in between, or the file that holds them. A flag without
    a value is true, and the last one of a name counts."""
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
