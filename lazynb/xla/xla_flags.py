"""One program compiled with other options of XLA's, so that an experiment is one cell."""

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
"""XLA's options by name."""


class BadFlag(LazynbError):
    """A flag that cannot be meant, or that XLA refuses; the message says why."""


def requested_flags(flags: Any, libraries: Any, *, is_here: bool = True) -> dict[str, str | bool]:
    """What somebody asks for, as options for this machine's compiler: of two, the flag counts.

    Arguments:
      flags: options by name, or texts such as ``xla_cpu_enable_fast_math=true``: a list, or one text with
        spaces in between, as ``XLA_FLAGS`` has them. None for none.
      libraries: names of libraries in whose place XLA uses code of its own; one text has commas.
      is_here: whether it is for this machine.

    Raises:
      BadFlag: they cannot be meant, or are for another chip.
    """
    chosen = parse_flags(flags) if flags is not None else {}
    names = _libraries(libraries)
    if (chosen or names) and not is_here:
        raise BadFlag(ONLY_HERE)
    return {**flags_without_libraries(names, jax.local_devices()[0].platform), **chosen} if names else chosen


def parse_flags(given: Mapping[str, Any] | Iterable[str] | str) -> dict[str, str | bool]:
    """``["xla_cpu_enable_fast_math=true"]`` or ``{"xla_cpu_enable_fast_math": True}`` as options. Leading
    dashes are XLA's own way to write them.

    Raises:
      BadFlag: one has no name or value.
    """
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
    """A flag as XLA takes it: by its name, and true, false or a text, of which XLA makes a number."""
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
    """The options with which XLA uses code of its own instead of ``libraries``.

    Raises:
      BadFlag: lazynb knows of no such options on ``platform``.
    """
    rules = BACKENDS.get(platform)
    known = rules.without_library if rules is not None else {}
    by_name = {name.lower(): options for name, options in known.items()}
    flags: dict[str, str | bool] = {}
    for library in libraries:
        if library.lower() not in by_name:
            there = f"lazynb knows it of {join_words(list(known))}" if known else "of none that lazynb knows"
            raise BadFlag(
                f"on {platform} XLA has no code of its own to put in place of {library or 'nothing'}: {there}"
            )
        flags.update(by_name[library.lower()])
    return flags


def flags_phrase(flags: Flags) -> str:
    """The flags in a phrase: ``without YNNPACK (xla_...=), with xla_cpu_enable_fast_math=true``; empty for
    none."""
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
    """The programs of ``compilation``, compiled with ``flags`` to be looked at. Nothing runs them.

    Raises:
      BadFlag: XLA refuses a flag; or a program was given compiled, or is for another chip.
    """
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
    """That a pass does not run in this program anyway. XLA takes any name, and says nothing."""
    names = [name.strip() for name in str(flags.get(_DISABLED, "")).split(",") if name.strip()]
    if not names:
        return
    timed = [times.passes for times in compilation.compile_times]
    if not all(timed):  # not known of one of the programs
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
            "flags go with a program that was recorded, and this one was given: JAX takes them for it, "
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
    except TypeError:  # an option of JAX's, which makes no number of a text
        raise BadFlag(
            f"XLA does not compile with {format_flags(flags)}: one has a value of another type"
        ) from None
    return trace.with_executable(executable)


def _refusal_hint(why: str) -> str:
    """How to write what XLA refused."""
    if "not a valid bool value" in why:
        return ": write true or false"
    listed = "XLA_FLAGS=--help before a program that uses JAX lists the flags of this XLA"
    return f" ({listed})" if _UNKNOWN_FLAG.search(why) else ""


_UNKNOWN_FLAG = re.compile("No such compile option|is not a valid")
