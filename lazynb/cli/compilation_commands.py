"""The commands ``lazynb diff`` and ``lazynb inspect``."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import jax

from lazynb.cli.arguments import CommandError
from lazynb.compare.differences.compilation_difference import BadLimit, Limit, parse_limit
from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.compare.differences.variant_comparison import compile_for_targets
from lazynb.errors import LazynbError
from lazynb.report.comparison_report import Diff, side_of
from lazynb.report.inspection.inspection_file import (
    INVALID_DATA_ERRORS,
    Entry,
    InspectionFileError,
    SavedInspections,
    inspection_entry,
    read_inspections,
)
from lazynb.report.inspection.program_reading import Reading, read_program
from lazynb.report.target_report import TargetComparison
from lazynb.user_code.tracebacks import trim
from lazynb.xla.compilation import Compilation
from lazynb.xla.external.external_programs import SUFFIXES, NotInspectable
from lazynb.xla.function_compilation import compile_function
from lazynb.xla.targets.target_chip import Target, UnknownTarget, parse_targets
from lazynb.xla.targets.target_mesh import BadMesh
from lazynb.xla.xla_flags import BadFlag, Flags, compile_with_flags, requested_flags as asked_flags

# ---- lazynb diff -------------------------------------------------------------------------------------------
# Compares two saved files or programs as text; the exit status is for CI.

FOUND = 1


def diff(options: argparse.Namespace) -> int:
    """Prints the differences, writes them to files, and checks the conditions. Returns the exit status.

    Raises:
      CommandError: a file cannot be read or written, or a condition is invalid; the text gives the reason.
    """
    try:
        limits = [parse_limit(text) for text in options.fail_if]
    except BadLimit as error:
        raise CommandError(f"lazynb diff: --fail-if: {error}") from None
    found = Diff(*_named(_side(options.before, options), _side(options.now, options), options))
    try:
        text = repr(found)
    except INVALID_DATA_ERRORS as error:
        raise CommandError("lazynb diff: one of the files holds an inspection that is not whole") from error
    print(text)
    _write(found, options)
    return _condition_status(found, limits)


def _side(path: str, options: argparse.Namespace) -> CompilationSide:
    if not path.endswith((".json", *SUFFIXES)):
        raise CommandError(
            f"lazynb diff: {path} is neither a file that lazynb run --save or lazynb inspect --json wrote "
            "(.json), nor HLO (.hlo, .txt) nor StableHLO (.mlir)"
        )
    try:
        return side_of(path, path, {}, _reading(options))
    except OSError as error:
        raise CommandError(
            f"lazynb diff: {error.filename or path} cannot be read: {error.strerror}"
        ) from None
    except (ValueError, LazynbError) as error:
        raise CommandError(f"lazynb diff: {error}") from None


def _named(
    before: CompilationSide, now: CompilationSide, options: argparse.Namespace
) -> tuple[CompilationSide, CompilationSide]:
    """Both sides; named by their full paths if their file names are equal."""
    if before.name != now.name:
        return before, now
    return (
        dataclasses.replace(before, name=os.path.normpath(options.before)),
        dataclasses.replace(now, name=os.path.normpath(options.now)),
    )


def _write(found: Diff, options: argparse.Namespace) -> None:
    try:
        if options.html is not None:
            print(f"written to {found.save_html(options.html)}", file=sys.stderr)
        if options.json is not None:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(found.to_json())
            print(f"written to {options.json}", file=sys.stderr)
    except OSError as error:
        raise CommandError(
            f"lazynb diff: it cannot be written to {error.filename}: {error.strerror}"
        ) from None


def _condition_status(found: Diff, limits: list[Limit]) -> int:
    """The exit status. Prints violated conditions to stderr."""
    try:
        said = [limit.violation(found.before, found.now) for limit in limits]
    except BadLimit as error:
        raise CommandError(f"lazynb diff: --fail-if: {error}") from None
    for sentence in filter(None, said):
        print(f"lazynb: {sentence}", file=sys.stderr)
    return FOUND if any(said) else 0


# ---- lazynb inspect ----------------------------------------------------------------------------------------
_FAILED = 1


def inspect(options: argparse.Namespace) -> int:
    """Shows a function, a saved inspection or a program as text, and writes the files that options name.
    Returns the exit status.

    Raises:
      CommandError: it cannot be shown; the text gives the reason.
    """
    status, compilations = 0, []
    if options.what.endswith(".json"):
        saved = _opened(options)
    elif options.what.endswith(SUFFIXES):
        saved = SavedInspections([_read(options)], options.what)
    else:
        table = _compile_for_targets(options)
        if table is None:
            return _FAILED
        above = ""
        if len(table) > 1 or table.refused:
            above = table.to_html()
            print(table, end="\n\n")
            status = _FAILED if table.refused else 0
        compilations = list(table.compilations)
        entries = [inspection_entry(compilation, title=options.what) for compilation in compilations]
        saved = SavedInspections(entries, options.what, above)
    print(saved.text(options.times))
    try:
        for path in _written(options, saved, compilations):
            print(f"written to {path}", file=sys.stderr)
    except INVALID_DATA_ERRORS as error:
        if not options.what.endswith(".json"):
            raise
        raise CommandError(f"lazynb inspect: {options.what} holds an inspection that is not whole") from error
    except OSError as error:
        raise CommandError(
            f"lazynb inspect: it cannot be written to {error.filename}: {error.strerror}"
        ) from None
    return status


def _written(
    options: argparse.Namespace, saved: SavedInspections, compilations: Sequence[Compilation]
) -> Iterator[Path]:
    if options.html is not None:
        yield saved.save_html(options.html)
    if options.json is not None:
        yield saved.save(options.json)
    if options.reproducer is not None and options.what.endswith(SUFFIXES):
        yield Path(options.reproducer)  # written with the program read
    elif options.reproducer is not None:
        yield _reproducer(options, compilations)


def _reproducer(options: argparse.Namespace, compilations: Sequence[Compilation]) -> Path:
    if len(compilations) != 1:
        what = f"{len(compilations)} compilations" if compilations else "a saved file, which has no program"
        raise CommandError(f"lazynb inspect: --reproducer goes with one function or program, not with {what}")
    try:
        return compilations[0].reproducer(options.reproducer, options.question)
    except LazynbError as error:
        raise CommandError(f"lazynb inspect: {error}") from None


def _reject_function_options(options: argparse.Namespace, what: str) -> None:
    for name in ("args", "targets", "mesh", "shard", "as_jit", "flag", "without"):
        if getattr(options, name):
            option = {"targets": "for", "as_jit": "as-jit"}.get(name, name)
            raise CommandError(f"lazynb inspect: --{option} goes with a function, not with {what}")


_Read = TypeVar("_Read", Entry, SavedInspections)


def _reading(options: argparse.Namespace) -> Reading:
    asked = Reading(options.source, options.limit_seconds, options.limit_memory)
    if options.command == "diff" or options.reproducer is None:
        return asked
    return dataclasses.replace(asked, reproducer=options.reproducer, question=options.question)


def _read(options: argparse.Namespace) -> Entry:
    """Reads a program from a file of HLO or StableHLO, and writes its reproducer if asked for."""
    return _read_with(
        lambda path: read_program(path, _reading(options)), options, "a file of HLO or StableHLO"
    )


def _opened(options: argparse.Namespace) -> SavedInspections:
    return _read_with(read_inspections, options, "a saved file")


def _read_with(read: Callable[[str], _Read], options: argparse.Namespace, what: str) -> _Read:
    _reject_function_options(options, what)
    try:
        return read(options.what)
    except OSError as error:
        raise CommandError(
            f"lazynb inspect: {error.filename or options.what} cannot be read: {error.strerror}"
        ) from None
    except (NotInspectable, InspectionFileError) as error:
        raise CommandError(f"lazynb inspect: {error}") from None


def _compile_for_targets(options: argparse.Namespace) -> TargetComparison | None:
    """The compilations for the targets; None if the user's code raised, which prints the traceback."""
    asked = _targets(options)
    flags = _flags(options, asked)
    file, name = _split(options.what)
    try:
        module = _module(file)
        targets = _on_mesh(asked, options, module)
        function = _attribute(module, name, file)
        args = _arguments(module, options.args, file)
        found, refused = compile_for_targets(
            targets,
            lambda target: compile_with_flags(
                compile_function(function, args, {}, vars(module), target), flags
            ),
        )
        jitted: dict[Target | None, Compilation] = {}
        if options.as_jit:
            jitted, not_jitted = compile_for_targets(
                list(found),
                lambda target: compile_with_flags(
                    compile_function(function, args, {}, vars(module), target, True), flags
                ),
                may_be_empty=True,
                is_jit=True,
            )
            refused.update(not_jitted)
        return TargetComparison(
            [one[target] for target in found for one in (found, jitted) if target in one], refused
        )
    except CommandError:
        raise
    except LazynbError as error:
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        raise CommandError(f"lazynb inspect: {error}{notes}") from None
    except Exception as error:
        trim(error)
        traceback.print_exception(error)
        return None


def _targets(options: argparse.Namespace) -> list[Target | None]:
    try:
        targets = parse_targets("cpu" if options.targets is None else options.targets)
    except UnknownTarget as error:
        raise CommandError(f"lazynb inspect: {error}") from None
    if (options.mesh or options.shard) and targets == [None]:
        raise CommandError(
            "lazynb inspect: a mesh needs the devices of a target: add --for, such as --for v5e:4x4"
        )
    _on_mesh(targets, options)  # raises for an invalid mesh before the file runs
    return targets


def _flags(options: argparse.Namespace, targets: list[Target | None]) -> Flags:
    try:
        return asked_flags(options.flag, options.without, is_here=targets == [None])
    except BadFlag as error:
        raise CommandError(f"lazynb inspect: {error}") from None


def _on_mesh(
    targets: list[Target | None], options: argparse.Namespace, module: ModuleType | None = None
) -> list[Target | None]:
    """The targets with their devices arranged as a mesh. ``--shard`` may name a result of
    ``lazynb.shard_like`` in ``module``, the user's file."""
    shards = [text for text in options.shard if "=" in text or module is not None]
    if module is not None:
        shards = [getattr(module, text, text) if "=" not in text else text for text in shards]
    try:
        return [target and target.on_mesh(options.mesh, shards) for target in targets]
    except BadMesh as error:
        raise CommandError(f"lazynb inspect: {error}") from None


def _split(what: str) -> tuple[Path, str]:
    file, colon, name = what.rpartition(":")
    if not colon or not file or not all(part.isidentifier() for part in name.split(".")):
        raise CommandError(
            f"lazynb inspect: {what} names no function: write a file and a function, such as train.py:step, "
            "a file that lazynb run --save wrote, or a program as text: step.hlo, step.mlir"
        )
    return Path(file), name


def _module(file: Path) -> ModuleType:
    if not file.is_file():
        raise CommandError(f"lazynb inspect: there is no file {file}")
    spec = importlib.util.spec_from_file_location(file.stem, os.path.abspath(file))
    if spec is None or spec.loader is None:
        raise CommandError(f"lazynb inspect: {file} is no Python program: its name does not end in .py")
    sys.path.insert(0, os.path.dirname(os.path.realpath(file)))
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, name: str, file: Path) -> Callable[..., Any]:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            functions = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
            there = f"; it has {', '.join(functions[:8])}" if functions else ""
            raise CommandError(f"lazynb inspect: {file} has no {name}{there}")
        found = getattr(found, part)
    if not callable(found):
        raise CommandError(f"lazynb inspect: {name} of {file} is no function, but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _arguments(module: ModuleType, text: str | None, file: Path) -> tuple[Any, ...]:
    """The arguments of the function, from ``--args``."""
    if not text:
        return ()
    if text.isidentifier() and hasattr(module, text):
        given = getattr(module, text)
        given = given() if callable(given) else given
        return tuple(given) if isinstance(given, (tuple, list)) else (given,)
    return tuple([_type(part.strip(), file) for part in re.split(r",(?![^\[]*\])", text)])


_SHORT = {"f": "float", "bf": "bfloat", "i": "int", "s": "int", "u": "uint", "c": "complex"}


def _type(text: str, file: Path) -> jax.ShapeDtypeStruct:
    written = re.fullmatch(r"([a-z]+)(\d*)(\w*)(?:\[([\d,\s]*)\])?", text)
    if written is not None:
        letters, bits, rest, shape = written.groups()
        name = f"{_SHORT.get(letters, letters)}{bits}"
        if rest:
            name += f"_{rest.lstrip('_')}"
        name = "bool" if name == "pred" else name
        sizes = tuple([int(size) for size in (shape or "").split(",") if size.strip()])
        try:
            return jax.ShapeDtypeStruct(sizes, jax.numpy.dtype(name))
        except TypeError:
            pass
    raise CommandError(
        f"lazynb inspect: --args: {text!r} is no type and no name in {file}. Write types, such as "
        'f32[128,64] or "f32[8],i32", or the name of a function that gives the arguments'
    )
