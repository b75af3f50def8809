"""Clusters: what a program runs, one after the other, and the recorded operations that went into each.

Every instruction of the entry computation that does work is one; what a loop runs each time, or a branch, are
clusters of their own inside that loop's. Snider & Liang, "Operator Fusion in XLA" (2023), call them kernels.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from lazynb.xla.hlo.module import Computation, Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import memory_space, parse_arrays, shape_bytes, tuple_parts

FREE = opcodes_of(OpcodeKind.FREE)
CONTROL = opcodes_of(OpcodeKind.CONTROL)
_LIBRARY_CALLS = opcodes_of(OpcodeKind.LIBRARY)
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
        work), ``single`` (an instruction that was not fused), ``transfer`` (a value on its way to another
        memory, or the end of what runs beside other work: no kernel) or ``control`` (a loop, branch or call
        around other clusters).
      library: which one, if the module says so.
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
    def is_kernel(self) -> bool:
        """Whether it computes: no loop around others, no transfer."""
        return self.kind not in ("control", "transfer")

    @property
    def is_transfer_start(self) -> bool:
        """Whether it brings a value to another memory; the end of a transfer is no second one."""
        return self.kind == "transfer" and not self.opcode.endswith(_TRANSFER_ENDS)

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
    return [_cluster(module, instruction, inside) for instruction, inside in executed_instructions(module)]


def executed_instructions(module: Module) -> Iterator[tuple[Instruction, str]]:
    """The instructions that run, in order, each with the loop, branch or call that it is inside of."""
    waiting = [_computing_instructions(module, module.entry, "")]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
            continue
        yield step
        instruction, _ = step
        if instruction.opcode in CONTROL:
            name = instruction.name
            waiting.extend(
                _computing_instructions(module, called, name) for called in reversed(instruction.calls)
            )


def cluster_labels(clusters: Sequence[tuple[int, Cluster]]) -> list[str]:
    """``c0``, ``c1``, and ``c1.0``, ``c1.1`` for what the loop, branch or call ``c1`` runs; no number is left
    out.

    Arguments:
      clusters: those of all programs, each with the number of its program.
    """
    label_of: dict[tuple[int, str], str] = {}
    counts: Counter[str] = Counter()
    for number, cluster in clusters:
        around = label_of.get((number, cluster.inside), "") if cluster.inside else ""
        label_of[number, cluster.name] = f"{around}.{counts[around]}" if around else f"c{counts['']}"
        counts[around] += 1
    return [label_of[number, cluster.name] for number, cluster in clusters]


def _computing_instructions(module: Module, name: str, inside: str) -> Iterator[tuple[Instruction, str]]:
    """The instructions of a computation that do work, each with what the computation is inside of."""
    for instruction in module.computations[name].instructions.values():
        if instruction.opcode not in FREE:
            yield instruction, inside


def _cluster(module: Module, instruction: Instruction, inside: str) -> Cluster:
    kind, library = kind_of(instruction)
    if kind == "single" and is_transfer(module, instruction):
        kind = "transfer"
    members = [instruction]
    if kind != "control":
        members.extend(nested_instructions(module, instruction))
    root = instruction
    if instruction.opcode == "fusion":
        root = module.computations[instruction.calls[0]].root
    computation = module.computations[instruction.computation]
    return Cluster(
        name=instruction.name,
        opcode=instruction.opcode,
        kind=kind,
        library=library,
        root=root.name,
        inside=inside,
        instructions=tuple(member.name for member in members),
        inputs=_transferred_array(computation, instruction)
        if kind == "transfer"
        else _inputs(computation, instruction),
        outputs=(_output(instruction, kind),),
    )


def _output(instruction: Instruction, kind: str) -> Value:
    """What an instruction writes. What starts a transfer has its operand and a flag in its tuple too."""
    shape = instruction.shape
    if kind == "transfer" and instruction.opcode.endswith("-start"):
        shape = _destination(instruction)
    return Value(instruction.name, shape, shape_bytes(shape))


def _destination(start: Instruction) -> str:
    """The shape that a transfer gives: ``(f32[8]{0:S(1)}, f32[8]{0}, u32[])`` of ``copy-start``,
    ``((f32[16]{0}), f32[8]{0:S(1)}, s32[])`` of others."""
    pieces = tuple_parts(start.shape)
    return next((piece for piece in pieces if not piece.startswith("(")), start.shape)


def _transferred_array(computation: Computation, instruction: Instruction) -> tuple[Value, ...]:
    """The array that a transfer brings; its end takes what its start gave."""
    values = _inputs(computation, instruction)
    if not instruction.opcode.endswith(_TRANSFER_ENDS):
        return values
    return tuple(Value(value.source, instruction.shape, instruction.bytes) for value in values[:1])


def _inputs(computation: Computation, instruction: Instruction) -> tuple[Value, ...]:
    """The arrays that an instruction takes, without constants, each once."""
    inputs: dict[str, Value] = {}
    for operand in instruction.operands:
        for name in tuple_leaves(computation, operand):
            array = computation.instructions[name]
            if array.opcode != "constant" and name not in inputs:
                inputs[name] = Value(writer(computation, name), array.shape, array.bytes)
    return tuple(inputs.values())


def nested_instructions(module: Module, instruction: Instruction) -> Iterator[Instruction]:
    """What a fusion or an applied computation consists of, nested ones included."""
    waiting = list(instruction.calls)
    while waiting:
        for inner in module.computations[waiting.pop()].instructions.values():
            yield inner
            waiting.extend(inner.calls)


def tuple_leaves(computation: Computation, name: str) -> list[str]:
    """The arrays that ``name`` consists of: what a tuple was put together from, behind every bitcast.

    Each is named by the instruction that has it as its value: a cluster, a parameter, or the
    ``get-tuple-element`` of one.
    """
    arrays, waiting = [], [name]
    while waiting:
        instruction = computation.instructions[waiting.pop()]
        if instruction.opcode in _RENAMING:
            waiting.append(instruction.operands[0])
        elif instruction.opcode == "tuple":
            waiting.extend(reversed(instruction.operands))
        elif instruction.opcode == "get-tuple-element" and (part := _tuple_part(computation, instruction)):
            waiting.append(part)
        elif not instruction.shape.startswith("token"):
            arrays.append(instruction.name)
    return arrays


def _tuple_part(computation: Computation, element: Instruction) -> str:
    """What a ``get-tuple-element`` takes out of a tuple that was put together in the same computation; empty
    if it is not such a tuple."""
    source = computation.instructions[element.operands[0]]
    while source.opcode in _RENAMING:
        source = computation.instructions[source.operands[0]]
    if source.opcode != "tuple":
        return ""
    return source.operands[int(element.attribute("index"))]


def writer(computation: Computation, name: str) -> str:
    """The instruction that wrote the array ``name``: a cluster, or a parameter of the computation."""
    instruction = computation.instructions[name]
    while instruction.opcode in _RENAMING or instruction.opcode == "get-tuple-element":
        instruction = computation.instructions[instruction.operands[0]]
    return instruction.name


def kind_of(instruction: Instruction) -> tuple[str, str]:
    """Kind and library of the cluster that ``instruction`` is."""
    if instruction.opcode in CONTROL:
        return "control", ""
    if instruction.opcode == "fusion":
        kind = _KINDS.get(instruction.attribute("kind"), "custom")
        library = _library_of_text(instruction.text) if kind == "custom" else ""
        return ("library" if library else kind), library
    if instruction.opcode in _LIBRARY_CALLS:
        target = instruction.attribute("custom_call_target")
        return "library", _library_of_text(target) or target
    return "single", ""


def is_transfer(module: Module, instruction: Instruction) -> bool:
    """Whether an instruction that was not fused only brings a value to another memory, or ends what another
    instruction began."""
    opcode = instruction.opcode
    if opcode.endswith(_TRANSFER_ENDS):
        return True
    if opcode.endswith("-start"):
        return opcode.removesuffix("-start") in _TRANSFER_OPCODES
    if opcode not in _TRANSFER_OPCODES:
        return False
    operand = module.computations[instruction.computation].instructions[instruction.operands[0]]
    if memory_space(operand.shape) == memory_space(instruction.shape):
        return False
    return opcode != "copy" or parse_arrays(operand.shape) == parse_arrays(
        instruction.shape
    )  # no other order or type


_TRANSFER_ENDS = ("-done", "-update")
_TRANSFER_OPCODES = opcodes_of(Trait.CARRIES)


def _library_of_text(text: str) -> str:
    """The library whose sign is in an instruction's text; empty if there is none."""
    plain = text.partition("metadata=")[0] + text.partition("backend_config=")[2]
    for sign, name in _LIBRARIES.items():
        if f"{sign}_" in plain or f"__{sign}" in plain:
            return name
    return ""


def readers_in_cluster(module: Module, cluster: Cluster, source: str) -> list[Instruction]:
    """The instructions within ``cluster`` that read what the instruction ``source`` writes."""
    instruction = module.by_name[cluster.name]
    if instruction.opcode != "fusion":
        return [instruction]
    computation = module.computations[instruction.computation]
    body = module.computations[instruction.calls[0]]
    readers: list[Instruction] = []
    for operand, parameter in zip(instruction.operands, body.parameters, strict=True):
        if operand == source or source in _writers(computation, operand):
            readers += body.users[parameter.name]
    return readers


def _writers(computation: Computation, name: str) -> list[str]:
    """What wrote the arrays that ``name`` consists of, if it is not itself what wrote it."""
    if computation.instructions[name].opcode not in FREE:
        return []
    return [writer(computation, array) for array in tuple_leaves(computation, name)]


def result_values(module: Module) -> list[Value]:
    """The arrays that the program gives back, each once."""
    computation = module.computations[module.entry]
    values: dict[str, Value] = {}
    for name in tuple_leaves(computation, computation.root.name):
        array = computation.instructions[name]
        values[name] = Value(writer(computation, name), array.shape, array.bytes)
    return list(values.values())


def result_writers(module: Module) -> Sequence[str]:
    """What writes each result of the program: names of instructions of the entry computation."""
    computation = module.computations[module.entry]
    root = computation.root
    parts = root.operands if root.opcode == "tuple" else (root.name,)
    return [writer(computation, next(iter(tuple_leaves(computation, name)), name)) for name in parts]


def result_copy_chains(module: Module) -> list[tuple[str, ...]]:
    """By result of the program, what writes it, and behind copies what wrote what they copy."""
    computation = module.computations[module.entry]
    found = []
    for name in result_writers(module):
        chain = [name]
        while (last := computation.instructions[chain[-1]]).opcode in _COPYING:
            chain.append(writer(computation, last.operands[0]))
        found.append(tuple(chain))
    return found


_COPYING = frozenset({"copy", *(f"copy{end}" for end in ("-start", "-done"))})


# ---- The homes of a module's instructions: which kernel would run each, were the module compiled as it is

_RUNNING = opcodes_of(Trait.RUNS)


def kernel_of_instruction(module: Module) -> dict[str, str]:
    """By name of each instruction that computes, the kernel: the fusion that it is in, or itself.

    What only names values has none, unless it is all that a kernel holds; nor has what is applied to each
    element.
    """
    found: dict[str, str] = {}
    for kernel, _ in executed_instructions(module):
        members = list(_members(module, kernel))
        working = [one for one in members if one.opcode not in FREE and one.opcode != "fusion"]
        for one in working or members[-1:]:
            found[one.name] = kernel.name
    return found


def kernel_count(module: Module) -> int:
    """How many kernels would run, were the module compiled as it is, without the loops around them."""
    return len({kernel.name for kernel, _ in executed_instructions(module) if kernel.opcode not in CONTROL})


def _members(module: Module, kernel: Instruction) -> Iterator[Instruction]:
    """A kernel's instruction and those that it runs; the last of several is a root."""
    yield kernel
    waiting = [] if kernel.opcode in CONTROL else [kernel]
    while waiting:
        one = waiting.pop()
        if one.opcode not in _RUNNING:
            continue
        for called in one.calls:
            for inner in module.computations[called].instructions.values():
                yield inner
                if inner.calls:
                    waiting.append(inner)
