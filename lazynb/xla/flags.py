"""One program compiled with other options of XLA's, so that an experiment is one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from lazynb.errors import LazynbError
from lazynb.execute.altered import AlteredExecutable
from lazynb.execute.executable import Executable
from lazynb.xla.compilation import Compilation
from lazynb.xla.fusion.backends import BACKENDS
from lazynb.xla.program import CompiledTrace

Flags = Mapping[str, Any]
"""XLA's options by name."""


class BadFlag(LazynbError):
    """A flag that cannot be meant, or that XLA refuses; the message says why."""


def parse_flags(texts: Sequence[str]) -> dict[str, Any]:
    """``["xla_cpu_enable_fast_math=true"]`` as options. Leading dashes are XLA's own way to write them.

    Raises:
      BadFlag: one has no value.
    """
    flags: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.lstrip("-").partition("=")
        if not equals or not name.isidentifier():
            raise BadFlag(
                f"{text!r} is no flag: write its name and value, such as xla_cpu_enable_fast_math=true"
            )
        flags[name] = {"true": True, "false": False}.get(value.lower(), value)
    return flags


def without(libraries: Sequence[str], platform: str) -> dict[str, Any]:
    """The options with which XLA uses code of its own instead of ``libraries``.

    Raises:
      BadFlag: lazynb knows of no such options on ``platform``.
    """
    rules = BACKENDS.get(platform)
    known = rules.without_library if rules is not None else {}
    by_name = {name.lower(): options for name, options in known.items()}
    flags: dict[str, Any] = {}
    for library in libraries:
        if library.lower() not in by_name:
            there = f"lazynb knows it of {' and '.join(known)}" if known else "of none that lazynb knows"
            raise BadFlag(f"on {platform} XLA has no code of its own to put in place of {library}: {there}")
        flags.update(by_name[library.lower()])
    return flags


def written(flags: Flags) -> str:
    """The flags as they are written."""
    values = {True: "true", False: "false"}
    return " ".join(
        f"{name}={values[value] if isinstance(value, bool) else value}" for name, value in flags.items()
    )


def compiled_with(compilation: Compilation, flags: Flags) -> Compilation:
    """The programs of ``compilation``, compiled with ``flags`` to be looked at. Nothing runs them.

    Raises:
      BadFlag: XLA refuses a flag; or a program was given compiled, or is for another chip.
    """
    said = written(flags)
    traces = [_with(trace, flags) for trace in compilation.traces]
    notes = (
        f"Compiled with {said}, to be looked at: what runs is the program without.",
        *compilation.notes,
    )
    altered = Compilation(
        traces, compilation.snapshot, cell=compilation.cell, notes=notes, runs=compilation.runs
    )
    altered.flags = dict(flags)
    return altered


def _with(trace: CompiledTrace, flags: Flags) -> CompiledTrace:
    original = trace._executable
    if not isinstance(original, Executable) or original.elsewhere:
        raise BadFlag("flags go with a program that was recorded and is compiled for this machine")
    executable = AlteredExecutable(original, flags)
    try:
        executable.compile_altered()
    except jax.errors.JaxRuntimeError as error:
        why = str(error).strip().partition("\n")[0].removeprefix("INVALID_ARGUMENT: ")
        raise BadFlag(f"XLA does not compile with {written(flags)}: {why}") from None
    return trace.compiled_as(executable)
