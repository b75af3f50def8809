"""Clusters: what a program runs, one after the other, and the recorded operations that went into each.

Every instruction of the entry computation that does work is one; what a loop runs each time, or a branch, are
clusters of their own inside that loop's. Snider & Liang, "Operator Fusion in XLA" (2023), call them kernels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from lazynb.xla.hlo.module import Computation, Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import Kind, Trait, opcodes_of

FREE = opcodes_of(Kind.FREE)
CONTROL = opcodes_of(Kind.CONTROL)
_LIBRARY_CALLS = opcodes_of(Kind.LIBRARY)
_RENAMING = opcodes_of(Trait.RENAMES)

_KINDS = {"kLoop": "loop", "kInput": "input", "kOutput": "output", "kCustom": "custom"}
_LIBRARIES = {
    "ynn": "YNNPACK",
    "xnn": "XNNPACK",
    "onednn": "oneDNN",
    "lapack": "LAPACK",
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cusolver": "cuSOLVER",
    "cufft": "cuFFT",
    "eigen": "Eigen",
    "ducc": "DUCC",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """An array that enters or leaves a cluster.

    Attributes:
      source: name of the instruction that gives it: a cluster's, or a parameter of the program.
      shape: as XLA prints it.
      bytes: its size.
    """

    source: str
    shape: str
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """One kernel, or a loop around kernels.

    Attributes:
      name: of its HLO instruction in the optimised module.
      opcode: of that instruction, for example ``fusion``.
      kind: ``loop``, ``input``, ``output``, ``custom`` (XLA's fusion kinds), ``library`` (a library does the
        work), ``single`` (an instruction that was not fused) or ``control`` (a loop, branch or call around
        other clusters).
      library: which one, where the module says so.
      root: the instruction within it whose value it writes.
      inside: name of the loop, branch or call that runs it; empty for the program itself.
      instructions: names of all instructions in it.
      inputs: arrays that it reads, each once.
      outputs: arrays that it writes.
    """

    name: str
    opcode: str
    kind: str
    library: str
    root: str
    inside: str
    instructions: tuple[str, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def input_bytes(self) -> int:
        """Bytes of the arrays that it reads (of all of an array, whatever it reads of it)."""
        return sum(value.bytes for value in self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes of the arrays that it writes."""
        return sum(value.bytes for value in self.outputs)


def find_clusters(module: Module) -> list[Cluster]:
    """The clusters of an optimised module, in order of execution, those inside a loop after the loop."""
    found = []
    waiting = [_working(module, module.entry, "")]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
            continue
        one, computation, inside = step
        found.append(_cluster(module, computation, one, inside))
        if one.opcode in CONTROL:
            waiting.extend(_working(module, called, one.name) for called in reversed(one.calls))
    return found


def _working(module: Module, name: str, inside: str) -> Iterator[tuple[Instruction, Computation, str]]:
    computation = module.computations[name]
    return ((one, computation, inside) for one in computation.instructions.values() if one.opcode not in FREE)


def _cluster(module: Module, computation: Computation, one: Instruction, inside: str) -> Cluster:
    kind, library = kind_of(one)
    members = [one] if kind == "control" else [one, *_within(module, one)]
    body = module.computations[one.calls[0]] if one.opcode == "fusion" else None
    arrays = dict.fromkeys(
        array
        for name in one.operands
        for array in leaves(computation, name)
        if computation.instructions[array].opcode != "constant"
    )
    inputs = tuple(
        Value(
            writer(computation, name),
            computation.instructions[name].shape,
            computation.instructions[name].bytes,
        )
        for name in arrays
    )
    return Cluster(
        one.name,
        one.opcode,
        kind,
        library,
        body.root.name if body else one.name,
        inside,
        tuple(member.name for member in members),
        inputs,
        (Value(one.name, one.shape, one.bytes),),
    )


def _within(module: Module, one: Instruction) -> Iterator[Instruction]:
    """What a fusion or an applied computation consists of, nested ones included."""
    waiting = list(one.calls)
    while waiting:
        for inner in module.computations[waiting.pop()].instructions.values():
            yield inner
            waiting.extend(inner.calls)


def leaves(computation: Computation, name: str) -> list[str]:
    """The arrays that ``name`` consists of: what a tuple was put together from, behind every bitcast.

    Each is named by the instruction that has it as its value: a cluster, a parameter, or the
    ``get-tuple-element`` of one.
    """
    found, waiting = [], [name]
    while waiting:
        one = computation.instructions[waiting.pop()]
        if one.opcode in _RENAMING:
            waiting.append(one.operands[0])
        elif one.opcode == "tuple":
            waiting.extend(reversed(one.operands))
        elif one.opcode == "get-tuple-element" and (part := _part(computation, one)):
            waiting.append(part)
        elif not one.shape.startswith("token"):
            found.append(one.name)
    return found


def _part(computation: Computation, one: Instruction) -> str:
    """What a ``get-tuple-element`` takes out of a tuple that was put together in the same computation; else
    nothing."""
    source = computation.instructions[one.operands[0]]
    while source.opcode in _RENAMING:
        source = computation.instructions[source.operands[0]]
    return source.operands[int(one.attribute("index"))] if source.opcode == "tuple" else ""


def writer(computation: Computation, name: str) -> str:
    """The instruction that wrote the array ``name``: a cluster, or a parameter of the computation."""
    one = computation.instructions[name]
    while one.opcode in _RENAMING or one.opcode == "get-tuple-element":
        one = computation.instructions[one.operands[0]]
    return one.name


def kind_of(one: Instruction) -> tuple[str, str]:
    """Kind and library of the cluster that ``one`` is."""
    if one.opcode in CONTROL:
        return "control", ""
    if one.opcode == "fusion":
        kind = _KINDS.get(one.attribute("kind"), "custom")
        library = _library(one.text) if kind == "custom" else ""
        return ("library" if library else kind), library
    if one.opcode in _LIBRARY_CALLS:
        return "library", _library(one.attribute("custom_call_target")) or one.attribute("custom_call_target")
    return "single", ""


def _library(text: str) -> str:
    plain = text.partition("metadata=")[0] + text.partition("backend_config=")[2]
    return next(
        (name for sign, name in _LIBRARIES.items() if f"{sign}_" in plain or f"__{sign}" in plain), ""
    )


def readers(module: Module, cluster: Cluster, source: str) -> list[Instruction]:
    """The instructions within ``cluster`` that read what the instruction ``source`` writes."""
    one = module.by_name[cluster.name]
    if one.opcode != "fusion":
        return [one]
    computation, body = module.computations[one.computation], module.computations[one.calls[0]]
    numbers = {
        number
        for number, name in enumerate(one.operands)
        if source in (writer(computation, array) for array in leaves(computation, name))
    }
    return [
        user
        for parameter in body.parameters
        if parameter_number(parameter) in numbers
        for user in body.users[parameter.name]
    ]


def results(module: Module) -> Sequence[str]:
    """What writes each result of the program: names of instructions of the entry computation."""
    computation = module.computations[module.entry]
    root = computation.root
    parts = root.operands if root.opcode == "tuple" else (root.name,)
    return [writer(computation, next(iter(leaves(computation, name)), name)) for name in parts]
