"""Clusters: the kernels, loops, branches, calls and transfers that an optimised module runs, in order.

Every instruction of the entry computation that does work is one cluster. The instructions that a loop, branch
or call runs are clusters of their own, inside that cluster. Snider & Liang, "Operator Fusion in XLA" (2023),
call them kernels. The module also maps each instruction to its kernel, in a module as it stands.
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
      source: name of the instruction that computes it: a cluster, or a parameter of the program.
      shape: as XLA prints it.
      bytes: its size.
    """

    source: str
    shape: str
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """One kernel, one transfer, or a loop, branch or call around kernels.

    Attributes:
      name: of its HLO instruction in the optimised module.
      opcode: of that instruction, for example ``fusion``.
      kind: ``loop``, ``input``, ``output``, ``custom`` (XLA's fusion kinds), ``library`` (a library call),
        ``single`` (an instruction that was not fused), ``transfer`` (a copy to another memory or the end of
        an asynchronous operation: no kernel) or ``control`` (a loop, branch or call around clusters).
      library: name of the library, if the module states it.
      root: the instruction within the cluster that computes the written value.
      inside: name of the loop, branch or call that runs it; empty in the entry computation.
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
        """Whether it computes, so is neither a control cluster nor a transfer."""
        return self.kind not in ("control", "transfer")

    @property
    def is_transfer_start(self) -> bool:
        """Whether it starts a transfer; an instruction that ends one does not count."""
        return self.kind == "transfer" and not self.opcode.endswith(_TRANSFER_ENDS)

    @property
    def input_bytes(self) -> int:
        """Bytes of the arrays that it reads; each array counts in full, even if only a part is read."""
        return sum(value.bytes for value in self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes of the arrays that it writes."""
        return sum(value.bytes for value in self.outputs)


def find_clusters(module: Module) -> list[Cluster]:
    """Return the clusters of an optimised module in execution order; those inside a loop follow the loop."""
    return [_cluster(module, instruction, inside) for instruction, inside in executed_instructions(module)]


def executed_instructions(module: Module) -> Iterator[tuple[Instruction, str]]:
    """Yield the instructions that run, in order, each with the name of the loop, branch or call around it."""
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
    """Label clusters ``c0``, ``c1``, and ``c1.0``, ``c1.1`` inside the control cluster ``c1``, without gaps.

    Arguments:
      clusters: the clusters of all programs, each with the number of its program.
    """
    label_of: dict[tuple[int, str], str] = {}
    counts: Counter[str] = Counter()
    for number, cluster in clusters:
        around = label_of.get((number, cluster.inside), "") if cluster.inside else ""
        label_of[number, cluster.name] = f"{around}.{counts[around]}" if around else f"c{counts['']}"
        counts[around] += 1
    return [label_of[number, cluster.name] for number, cluster in clusters]


def _computing_instructions(module: Module, name: str, inside: str) -> Iterator[tuple[Instruction, str]]:
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
    """The written array. The tuple of a transfer's start also holds the operand and a flag, left out here."""
    shape = instruction.shape
    if kind == "transfer" and instruction.opcode.endswith("-start"):
        shape = _destination(instruction)
    return Value(instruction.name, shape, shape_bytes(shape))


def _destination(start: Instruction) -> str:
    """The shape of the transferred array: the first part that is not a tuple, in ``(f32[8]{0:S(1)},
    f32[8]{0}, u32[])`` of ``copy-start`` or ``((f32[16]{0}), f32[8]{0:S(1)}, s32[])`` of others."""
    pieces = tuple_parts(start.shape)
    return next((piece for piece in pieces if not piece.startswith("(")), start.shape)


def _transferred_array(computation: Computation, instruction: Instruction) -> tuple[Value, ...]:
    """The array that a transfer copies; for the end of a transfer, the result of its start."""
    values = _inputs(computation, instruction)
    if not instruction.opcode.endswith(_TRANSFER_ENDS):
        return values
    return tuple(Value(value.source, instruction.shape, instruction.bytes) for value in values[:1])


def _inputs(computation: Computation, instruction: Instruction) -> tuple[Value, ...]:
    inputs: dict[str, Value] = {}
    for operand in instruction.operands:
        for name in tuple_leaves(computation, operand):
            array = computation.instructions[name]
            if array.opcode != "constant" and name not in inputs:
                inputs[name] = Value(writer(computation, name), array.shape, array.bytes)
    return tuple(inputs.values())


def nested_instructions(module: Module, instruction: Instruction) -> Iterator[Instruction]:
    """Yield the instructions of all computations that ``instruction`` calls, at any depth."""
    waiting = list(instruction.calls)
    while waiting:
        for inner in module.computations[waiting.pop()].instructions.values():
            yield inner
            waiting.extend(inner.calls)


def tuple_leaves(computation: Computation, name: str) -> list[str]:
    """Return the arrays that ``name`` consists of, through tuples, bitcasts and ``get-tuple-element``.
    Each is named by the instruction with that value, which may be a ``get-tuple-element`` of a cluster."""
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
    """The operand that a ``get-tuple-element`` selects; empty without a ``tuple`` in the same computation."""
    source = computation.instructions[element.operands[0]]
    while source.opcode in _RENAMING:
        source = computation.instructions[source.operands[0]]
    if source.opcode != "tuple":
        return ""
    return source.operands[int(element.attribute("index"))]


def writer(computation: Computation, name: str) -> str:
    """Return the instruction that wrote the array ``name``: a cluster, or a parameter of the computation."""
    instruction = computation.instructions[name]
    while instruction.opcode in _RENAMING or instruction.opcode == "get-tuple-element":
        instruction = computation.instructions[instruction.operands[0]]
    return instruction.name


def kind_of(instruction: Instruction) -> tuple[str, str]:
    """Return kind and library (see :class:`Cluster`) of the cluster that ``instruction`` forms."""
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
    """Return whether an unfused instruction only copies to another memory, or ends an asynchronous
    operation."""
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
    )  # same dimension order and dtype


_TRANSFER_ENDS = ("-done", "-update")
_TRANSFER_OPCODES = opcodes_of(Trait.CARRIES)


def _library_of_text(text: str) -> str:
    plain = text.partition("metadata=")[0] + text.partition("backend_config=")[2]
    for sign, name in _LIBRARIES.items():
        if f"{sign}_" in plain or f"__{sign}" in plain:
            return name
    return ""


def readers_in_cluster(module: Module, cluster: Cluster, source: str) -> list[Instruction]:
    """Return the instructions within ``cluster`` that read the array written by instruction ``source``."""
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
    """The writers of the arrays that ``name`` consists of; empty if ``name`` does work itself."""
    if computation.instructions[name].opcode not in FREE:
        return []
    return [writer(computation, array) for array in tuple_leaves(computation, name)]


def result_values(module: Module) -> list[Value]:
    """Return the arrays that the program returns, each once."""
    computation = module.computations[module.entry]
    values: dict[str, Value] = {}
    for name in tuple_leaves(computation, computation.root.name):
        array = computation.instructions[name]
        values[name] = Value(writer(computation, name), array.shape, array.bytes)
    return list(values.values())


def result_writers(module: Module) -> Sequence[str]:
    """Return, by result of the program, the instruction of the entry computation that writes it."""
    computation = module.computations[module.entry]
    root = computation.root
    parts = root.operands if root.opcode == "tuple" else (root.name,)
    return [writer(computation, next(iter(tuple_leaves(computation, name)), name)) for name in parts]


def result_copy_chains(module: Module) -> list[tuple[str, ...]]:
    """Return, by result of the program, its writer and, through copies, the writers of the copied arrays."""
    computation = module.computations[module.entry]
    found = []
    for name in result_writers(module):
        chain = [name]
        while (last := computation.instructions[chain[-1]]).opcode in _COPYING:
            chain.append(writer(computation, last.operands[0]))
        found.append(tuple(chain))
    return found


_COPYING = frozenset({"copy", *(f"copy{end}" for end in ("-start", "-done"))})


# ---- Kernel of each instruction -----------------------------------------------------------------------
# The module is taken as it stands, as if no further pass ran.

_RUNNING = opcodes_of(Trait.RUNS)


def kernel_of_instruction(module: Module) -> dict[str, str]:
    """Return, by name of each computing instruction, its kernel: the fusion around it, or itself.
    Left out are instructions that only name values (unless the kernel holds nothing else) and those in
    computations applied to each element."""
    found: dict[str, str] = {}
    for kernel, _ in executed_instructions(module):
        members = list(_members(module, kernel))
        working = [one for one in members if one.opcode not in FREE and one.opcode != "fusion"]
        for one in working or members[-1:]:
            found[one.name] = kernel.name
    return found


def kernel_count(module: Module) -> int:
    """Return how many kernels the module as it stands would run; control clusters do not count."""
    return len({kernel.name for kernel, _ in executed_instructions(module) if kernel.opcode not in CONTROL})


def _members(module: Module, kernel: Instruction) -> Iterator[Instruction]:
    """Yields a kernel's instruction and all that it runs; the last of several is a root."""
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
