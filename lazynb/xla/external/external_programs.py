"""Inspects stages of ``jax.jit`` and files of HLO or StableHLO: compiles them if necessary. Runs nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.export import Exported

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.running.record_table import plural
from lazynb.user_code.source_files import SourceFolder, only_from
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import dumping_passes
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.external import hlo_operations, stablehlo_operations
from lazynb.xla.external.external_executable import Compile, ExternalExecutable, SyntheticInputs
from lazynb.xla.external.source_locations import FileLines, ReadProgram
from lazynb.xla.hlo.module import parse


class NotInspectable(LazynbError):
    """The object or file cannot be inspected; the message says why."""


GIVEN_COMPILED_NOTE = (
    "This program was given compiled. Its operations are the instructions that are left: what XLA "
    "eliminated, folded or merged, and its passes, are not in it. "
    "lazynb.inspect(jax.jit(f).lower(...)) shows them."
)


def is_jax_stage(obj: Any) -> bool:
    """Whether ``obj`` is a stage of ``jax.jit`` or an ``Exported``, which :func:`compile_stage` accepts."""
    return isinstance(obj, (jax.stages.Traced, jax.stages.Lowered, jax.stages.Compiled, Exported))


def compile_stage(obj: Any) -> Compilation:
    """Compiles a stage of ``jax.jit``, or reads a compiled one.

    Raises:
      NotInspectable: it cannot be inspected here.
      Exception: XLA's error.
    """
    if isinstance(obj, jax.stages.Compiled):
        return read_compiled(obj)
    if isinstance(obj, Exported):
        return read_exported(obj)
    return compile_lowered(obj.lower() if isinstance(obj, jax.stages.Traced) else obj)


def _check_platform(platforms: Sequence[str], how: str) -> str:
    here = str(jax.local_devices()[0].platform)
    if here not in platforms and not (here == "gpu" and {"cuda", "rocm"} & set(platforms)):
        raise NotInspectable(
            f"this was {how} for {' and '.join(platforms)}, and this machine has {here}: "
            "lazynb.inspect(f, *args, target=...) compiles a function for a chip that is not here"
        )
    return here


def compile_lowered(lowered: jax.stages.Lowered) -> Compilation:
    """Compiles ``lowered``.

    Raises:
      NotInspectable: it is for another platform, or does not contain StableHLO.
      Exception: XLA's error.
    """
    here = _check_platform(jc.platforms_of(lowered), "lowered")
    try:
        module = jc.stablehlo_of(lowered)
        read = stablehlo_operations.mark_stablehlo(module)
    except ValueError as error:
        raise NotInspectable(f"the lowered program cannot be read: {error}") from None
    marked = jc.with_module(lowered, module)

    def compile(options: dict[str, Any]) -> Any:
        with jc.no_cache():
            return marked.compile(compiler_options=options or None)

    return _compile_external(module, read, compile, here, marked)


def read_exported(exported: Exported) -> Compilation:
    """Compiles ``exported`` for this machine.

    Raises:
      NotInspectable: it is for another platform, or has symbolic dimensions.
      Exception: XLA's error.
    """
    _check_platform(exported.platforms, "exported")
    for aval in exported.in_avals:
        if not all(isinstance(size, int) for size in aval.shape):
            raise NotInspectable(
                f"this was exported for arguments of any size ({aval}): "
                "lazynb.inspect(jax.jit(exported.call).lower(...)) shows what is made of it for some"
            )
    if len(exported.platforms) > 1:  # its module selects the platform at run time
        args, kwargs = jax.tree.unflatten(exported.in_tree, exported.in_avals)
        return compile_lowered(jax.jit(exported.call).lower(*args, **kwargs))
    with only_from(SourceFolder(os.getcwd(), loaded=True)):  # it may have come from elsewhere
        return _of_stablehlo(exported.mlir_module_serialized, exported.fun_name)


def read_compiled(compiled: jax.stages.Compiled) -> Compilation:
    """Reads a compiled program: kernels, lines, cost, memory. Raises NotInspectable if its backend gives no
    HLO."""
    try:
        text = compiled.as_text()
    except Exception as error:  # each backend raises another error
        text, why = "", f": {error}"
    else:
        why = ""
    if not text:
        raise NotInspectable(f"the backend gives no HLO of this program{why}")
    return _of_optimised_hlo(text, jc.platform_of(compiled), compiled)


SUFFIXES = (".hlo", ".mlir", ".mlirbc", ".stablehlo", ".txt")
"""Suffixes of program files."""


def read_text(text: str | bytes, file: str) -> Compilation:
    """Reads a program. Compiles StableHLO and HLO before XLA's passes; keeps optimised HLO as it is.

    Arguments:
      file: its path; a program without source locations is shown with its own lines.

    Raises:
      NotInspectable: it is none of these.
      Exception: XLA's error.
    """
    written = text if isinstance(text, str) else _decode_text(text)
    if written is None or not written.lstrip().startswith("HloModule"):
        return _of_stablehlo(written if written is not None else text, file)
    name = os.path.basename(file)
    try:
        full = _full_hlo_text(written)
        module = parse(full)
    except ValueError as error:
        raise NotInspectable(f"{name}: {error}") from None
    lines = FileLines(written, file)
    if hlo_operations.is_optimised(module, full):
        return _of_optimised_hlo(full, hlo_operations.guess_platform(full), None, lines)
    return _of_hlo(full, name, lines)


def _full_hlo_text(text: str) -> str:
    """The full text of an HLO module, as XLA dumps it. Raises ValueError if it is not an HLO module."""
    try:
        parse(text)
    except ValueError:  # perhaps the short form
        return jc.full_text(text)
    return text


def _decode_text(text: bytes) -> str | None:
    """Decodes ``text``; None for MLIR bytecode."""
    if text.startswith(b"ML\xefR"):
        return None
    return text.decode("utf-8-sig", errors="replace")


def _of_stablehlo(code: str | bytes, file: str) -> Compilation:
    try:
        module = jc.StableHlo(code)
        read = stablehlo_operations.mark_stablehlo(module, file)
    except ValueError as error:
        why = " ".join(str(error).split("\n")[:2])
        raise NotInspectable(f"{os.path.basename(file)} holds neither HLO nor StableHLO: {why}") from None
    return _of_module(module, read, os.path.basename(file))


def _of_hlo(text: str, name: str, lines: FileLines) -> Compilation:
    marked = hlo_operations.mark_hlo(text, lines)
    try:
        module = jc.stablehlo_of_hlo(marked.text)
    except ValueError as error:
        raise NotInspectable(f"{name} cannot be compiled here: {error}") from None
    return _of_module(module, marked.read, name)


def _of_module(module: jc.StableHlo, read: ReadProgram, name: str) -> Compilation:
    devices = jax.local_devices()
    if module.devices > len(devices):
        raise NotInspectable(
            f"{name} is for {plural(module.devices, 'device')}, and this machine has {len(devices)}"
        )

    def compile(options: dict[str, Any]) -> Any:
        with jc.no_cache():
            return _CompiledText(*jc.compile_module(module, options))

    try:
        return _compile_external(module, read, compile, devices[0].platform)
    except jax.errors.JaxRuntimeError as error:
        why = str(error).strip().partition("\n")[0]
        raise NotInspectable(f"XLA cannot compile {name} here: {why}") from None


def _compile_external(
    module: jc.StableHlo,
    read: ReadProgram,
    compile: Compile,
    platform: str,
    stage: jax.stages.Lowered | None = None,
) -> Compilation:
    program = ExternalExecutable(read, platform, compile=compile, lowered=module.text, stage=stage)
    return _compile_with_dump(program, read)


def _of_optimised_hlo(text: str, platform: str, compiled: Any, lines: FileLines | None = None) -> Compilation:
    try:
        marked = hlo_operations.mark_hlo(text, lines)
    except ValueError as error:
        raise NotInspectable(f"the program cannot be read: {error}") from None
    memory = _memory(compiled) if compiled is not None else None
    program = ExternalExecutable(
        marked.read, platform, compiled=_CompiledText(marked.text, platform, memory), runs=compiled
    )
    notes = [GIVEN_COMPILED_NOTE]
    if compiled is None:
        notes.append(
            f"By its text it was compiled for {platform}."
            if platform
            else "Its text does not say for which chip it was compiled, so lazynb gives no reasons for its "
            "boundaries."
        )
    return _compilation(program, marked.read, notes)


def _memory(compiled: jax.stages.Compiled) -> Any:
    try:
        return compiled.memory_analysis()
    except Exception:  # each backend has its own error for "not implemented"
        return None


class _CompiledText(NamedTuple):
    """The methods of ``jax.stages.Compiled`` that lazynb uses."""

    text: str
    platform: str
    memory: Any

    def as_text(self) -> str:
        return self.text

    def memory_analysis(self) -> Any:
        return self.memory


def _compile_with_dump(program: ExternalExecutable, read: ReadProgram) -> Compilation:
    with dumping_passes():
        program.compile()
    return _compilation(program, read, [])


def _compilation(program: ExternalExecutable, read: ReadProgram, notes: list[str]) -> Compilation:
    trace = CompiledProgram(program, True, read.origins, read.snapshot, SyntheticInputs(program), True)
    return Compilation([trace], read.snapshot, notes=notes)
