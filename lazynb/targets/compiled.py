"""A program compiled for another chip, in the place of JAX's compiled object."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from typing import Any

from lazynb._jax import Lowering
from lazynb.errors import LazynbError
from lazynb.execute.dumps import Dump, with_code
from lazynb.targets.compilers import compiler_of
from lazynb.targets.mesh import BadMesh
from lazynb.targets.process import worker_of
from lazynb.targets.result import Answer, Question, Refused
from lazynb.targets.store import key_of, load, save
from lazynb.targets.target import Target, UnknownTarget


class TargetError(LazynbError):
    """The compiler of a target refused the program; the message is its own."""


class OutOfMemory(TargetError):
    """The program does not fit into the chip's memory.

    Attributes:
      target: whose.
      needed, available: bytes, as the compiler says; None if it does not.
      dump: what the compiler had written down till then; None if it was not asked to.
      binding: the program, of a recorded trace.
    """

    binding: Any = None

    def __init__(self, message: str, target: Target, dump: Dump | None = None):
        super().__init__(message)
        self.target = target
        self.dump = dump
        sizes = _NEEDED.search(message)
        self.needed: int | None = None
        self.available: int | None = None
        if sizes:
            self.needed, self.available = map(_bytes, filter(None, sizes.groups()))


_NO_SLICE = re.compile(r"Topology layout .* is not divisible|[Ii]nvalid topology")
_SIZE = r"(\d+(?:\.\d+)?[KMGT]?)"
_NEEDED = re.compile(
    rf"required[^(]*\({_SIZE}\) exceeds available HBM \({_SIZE}\)|Used {_SIZE} of {_SIZE} hbm"
)


class CompiledFor:
    """What the compiler of ``target`` made of a program; it cannot run here.

    It has what lazynb asks of a ``jax.stages.Compiled``.

    Attributes:
      origin: ``compiled`` or ``disk``.
    """

    def __init__(self, target: Target, answer: Answer, origin: str):
        self.target = target
        self.origin = origin
        self._answer = answer

    @property
    def seconds(self) -> float:
        """That the compiler took."""
        return self._answer.seconds

    def as_text(self) -> str:
        """Optimised HLO."""
        return self._answer.text

    def memory_analysis(self) -> Any:
        """Bytes on each device, by XLA's names."""
        return types.SimpleNamespace(**self._answer.memory)

    def cost_analysis(self) -> dict[str, float] | None:
        """By XLA's names; None if the compiler gives none."""
        return self._answer.cost


def _bytes(text: str) -> int:
    """``15.75G`` as the compiler writes it, in bytes."""
    unit = "KMGT".find(text[-1]) + 1
    return round(float(text.rstrip("KMGT")) * 1024**unit)


def compile_for(
    target: Target,
    lowering: Lowering,
    mesh: tuple[int, ...] = (),
    options: Mapping[str, Any] | None = None,
    dump: Dump | None = None,
) -> CompiledFor:
    """What the compiler of ``target`` makes of ``lowering``, in its process, or made of it before.

    Arguments:
      mesh: sizes of the axes of the mesh that it runs on, which is all of the target; one device without.
      options: of the compiler.
      dump: takes what it writes down.

    Raises:
      CompilerMissing: it is not installed.
      CompilerCrashed: it ended.
      UnknownTarget: there is no such slice.
      BadMesh: the mesh cannot be laid on it.
      OutOfMemory, TargetError: it refused the program, or the chip's description.
    """
    compiler_of(target.chip.platform).required()
    asked = {**(options or {}), **(dump.options() if dump is not None else {})}
    question = Question(
        topology=_topology(target),
        platform=target.chip.platform,
        configuration=target.chip.configuration,
        is_single=target.devices == 1,
        mesh=mesh,
        lowering=lowering,
        options=with_code(asked, target.chip.platform),
    )
    key, place = key_of(question, options or {}), dump.directory if dump is not None else None
    kept = load(key, place)
    if kept is not None:
        return CompiledFor(target, kept, "disk")
    answer = worker_of(target.chip.platform).ask(question)
    if isinstance(answer, Refused):
        raise _error(target, answer, dump)
    save(key, answer, place)
    return CompiledFor(target, answer, "compiled")


def _topology(target: Target) -> str:
    written = "x".join(map(str, target.shape))
    if target.chip.platform == "tpu":
        return f"{target.chip.name}:{written}"
    return f"1x{written}"  # slices, hosts, devices of each


def _error(target: Target, refused: Refused, dump: Dump | None) -> LazynbError:
    words = refused.message.strip()
    if refused.at == "topology" and _NO_SLICE.search(words):
        return UnknownTarget(f"{target.name} is no slice that there is: {words}")
    if refused.at == "mesh":
        return BadMesh(f"The mesh {target.layout} cannot be laid on {target.name}: {words}")
    if "No space left on device" in words:
        return TargetError(
            f"The disk is full: the compiler for {target.title} cannot write its files: {words}"
        )
    if refused.at == "topology":
        return TargetError(f"The compiler for {target.title} could not be told of the chip: {words}")
    if "RESOURCE_EXHAUSTED" in words or "Oom" in words:
        return OutOfMemory(f"This does not fit into the memory of {target.title}: {words}", target, dump)
    return TargetError(f"The compiler for {target.title} refused the program: {words}")
