"""Recompiles one program with other XLA options, so that an experiment takes one cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lazynb.errors import LazynbError
from lazynb.running.executable_variants import OptionsExecutable
from lazynb.running.trace_executable import Executable
from lazynb.user_code.text_format import join_words
from lazynb.xla.compilation import Compilation
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.flag_text import format_flags, split_flags
from lazynb.xla.fusion.boundaries import BACKENDS

Flags = Mapping[str, Any]
"""XLA options by name."""


class BadFlag(LazynbError):
    """A malformed flag, or one that XLA refuses; the message says why."""


def requested_flags(flags: Any, libraries: Any, *, is_here: bool = True) -> dict[str, str | bool]:
    """The requested options for this machine's compiler; an explicit flag overrides one from ``libraries``.
    Raises BadFlag if a flag is malformed, or the program is for another chip.

    Arguments:
      flags: options by name, or texts such as ``xla_cpu_enable_fast_math=true``: a list, or one text
        separated by spaces, as in ``XLA_FLAGS``. None for none.
      libraries: names of libraries that XLA replaces by its own code; one text may have commas.
      is_here: whether the program is for this machine.
    """
    chosen = parse_flags(flags) if flags is not None else {}
    names = _libraries(libraries)
    if (chosen or names) and not is_here:
        raise BadFlag(ONLY_HERE)
    return {**flags_without_libraries(names, jax.local_devices()[0].platform), **chosen} if names else chosen


def parse_flags(given: Mapping[str, Any] | Iterable[str] | str) -> dict[str, str | bool]:
    """Parses ``["xla_cpu_enable_fast_math=true"]`` or ``{"xla_cpu_enable_fast_math": True}``. XLA's leading
    dashes are allowed. Raises BadFlag if one has no name or value."""
    if isinstance(given, str):
        given = split_flags(given)
    if isinstance(given, Mapping):
        return dict(_flag(name, value) for name, value in given.items())
    if not isinstance(given, Iterable):
        raise BadFlag(f"flags are a dictionary or a list of {_EXAMPLE!r}, not {given!r}")
    return dict(_parse_flag(text) for text in given)


ONLY_HERE = "flags go with a program for this machine, not with one for another chip: leave the target out"
_EXAMPLE = "xla_cpu_enable_fast_math=true"


def _parse_flag(text: Any) -> tuple[str, str | bool]:
    name, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not equals:
        raise BadFlag(f"{text!r} is no flag: write its name and value, such as {_EXAMPLE}")
    return _flag(name, value)


def _flag(name: Any, value: Any) -> tuple[str, str | bool]:
    """A flag as XLA accepts it: its name, and true, false or a text, which XLA converts to a number."""
    bare = name.strip().lstrip("-") if isinstance(name, str) else ""
    if not bare.isidentifier():
        raise BadFlag(f"{name!r} is no name of a flag: write its name and value, such as {_EXAMPLE}")
    if not isinstance(value, bool | int | float | str | np.generic):
        raise BadFlag(f"{value!r} is no value for {bare}: write true, false, a number or a text")
    text = str(value)
    return bare, {"true": True, "false": False}.get(text.strip().lower(), text)


def _libraries(given: Any) -> list[str]:
    if given is None:
        return []
    texts = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(text, str) for text in texts):
        raise BadFlag(f"without takes names of libraries, such as 'YNNPACK', not {given!r}")
    return [name.strip() for text in texts for name in text.split(",")]


def flags_without_libraries(libraries: Sequence[str], platform: str) -> dict[str, str | bool]:
    """The options that make XLA use its own code instead of ``libraries``. Raises BadFlag if lazynb has no
    such options for ``platform``."""
    rules = BACKENDS.get(platform)
    known = rules.without_library if rules is not None else {}
    by_name = {name.lower(): options for name, options in known.items()}
    flags: dict[str, str | bool] = {}
    for library in libraries:
        if library.lower() not in by_name:
            there = f"lazynb supports only {join_words(list(known))}" if known else "lazynb supports none"
            raise BadFlag(
                f"on {platform} XLA cannot replace {library or 'an empty name'} by its own code: {there}"
            )
        flags.update(by_name[library.lower()])
    return flags


def flags_phrase(flags: Flags) -> str:
    """The flags as a phrase: ``without YNNPACK (xla_...=), with xla_cpu_enable_fast_math=true``; may be
    empty."""
    left, phrases = dict(flags), []
    known = {name: each for rules in BACKENDS.values() for name, each in rules.without_library.items()}
    for library, options in known.items():
        if all(left.get(name) == value for name, value in options.items()):
            phrases.append(f"without {library} ({format_flags(options)})")
            left = {name: value for name, value in left.items() if name not in options}
    if left:
        phrases.append(f"with {format_flags(left)}")
    return ", ".join(phrases)


def compile_with_flags(compilation: Compilation, flags: Flags) -> Compilation:
    """Recompiles the programs of ``compilation`` with ``flags``, for inspection. Runs nothing. Raises BadFlag
    if XLA refuses a flag; or a program was given compiled, or is for another chip."""
    if not (flags and compilation.traces):
        return compilation
    traces = [_recompile(trace, flags) for trace in compilation.traces]
    runs = "what runs is the program without" if compilation.is_run else "nothing runs it"
    altered = Compilation(
        traces,
        compilation.snapshot,
        cell=compilation.cell,
        earlier=compilation.earlier,
        runs=compilation.runs,
        unlisted=compilation.unlisted,
        notes=(
            f"Compiled with {format_flags(flags)}, to be looked at: {runs}.",
            *_idle_pass_notes(compilation, flags),
            *compilation.notes,
        ),
        form=compilation.form,
    )
    altered.flags = dict(flags)
    return altered


def _idle_pass_notes(compilation: Compilation, flags: Flags) -> Iterator[str]:
    """Notes that a disabled pass does not run on this program anyway: XLA accepts any pass name silently."""
    names = [name.strip() for name in str(flags.get(_DISABLED, "")).split(",") if name.strip()]
    if not names:
        return
    timed = [times.passes for times in compilation.compile_times]
    if not all(timed):  # unknown for one of the programs
        return
    ran = {step.name for passes in timed for step in passes}
    for name in dict.fromkeys(names):
        if name not in ran:
            yield f"XLA runs no pass `{name}` on this program, so disabling it changes nothing."


_DISABLED = "xla_disable_hlo_passes"


def _recompile(trace: CompiledProgram, flags: Flags) -> CompiledProgram:
    original = trace._executable
    if not isinstance(original, Executable):
        raise BadFlag(
            "flags apply only to a recorded program, and this one was given: pass them to JAX, "
            "jax.jit(f).lower(...).compile(compiler_options={...})"
        )
    if original.elsewhere:
        raise BadFlag(ONLY_HERE)
    executable = OptionsExecutable(original, flags)
    try:
        executable.compile_with_options()
    except jax.errors.JaxRuntimeError as error:
        why = str(error).strip().partition("\n")[0].removeprefix("INVALID_ARGUMENT: ").rstrip(".")
        raise BadFlag(f"XLA does not compile with {format_flags(flags)}: {why}{_refusal_hint(why)}") from None
    except TypeError:  # JAX handles this option itself, and converts no text to a number
        raise BadFlag(
            f"XLA does not compile with {format_flags(flags)}: one has a value of another type"
        ) from None
    return trace.with_executable(executable)


def _refusal_hint(why: str) -> str:
    """A hint on how to write what XLA refused."""
    if "not a valid bool value" in why:
        return ": write true or false"
    listed = "XLA_FLAGS=--help before a program that uses JAX lists the flags of this XLA"
    return f" ({listed})" if _UNKNOWN_FLAG.search(why) else ""


_UNKNOWN_FLAG = re.compile("No such compile option|is not a valid")
