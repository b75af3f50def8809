"""Copies that XLA makes because an update cannot overwrite its operand.

``b2 = b1.at[5].set(1.)`` copies ``b1`` if that is a result of the program, an argument that is not donated,
or read by another operation.

The rule is XLA's copy insertion: an array is copied before an operation overwrites it if anything else may
read it. Where the program is short, it is compiled again without the supposed cause.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.running.executable_variants import JitExecutable
from lazynb.running.trace_executable import Executable
from lazynb.user_code.text_format import abbreviated_list, size
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.evidence import INFERRED, MIN_BYTES, VERIFIED, Finding, code_phrase, lines_phrase
from lazynb.xla.hlo.clusters import FREE, Cluster, find_clusters, nested_instructions, tuple_leaves, writer
from lazynb.xla.hlo.module import Computation, Instruction, Module, parse
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import parse_arrays
from lazynb.xla.program_origins import argument_number, result_names

_UPDATES = opcodes_of(Trait.WRITES_PART)
_LOOPS = opcodes_of(OpcodeKind.CONTROL)
_MOST = 200  # operations of a program that is compiled again
RULE = "XLA copies an array before an operation overwrites it if anything else may read it"


class UpdateCopy(NamedTuple):
    """A copy of an array before an operation overwrites it, or an array that the update writes anew.

    Attributes:
      copy: the copy, in the entry computation; the update itself if its kernel computes the array again.
      update: the instruction that overwrites the copy.
      source: the array that is copied.
      results: numbers of the program's results that are the array.
      argument: its argument number, if it is an argument that is not donated.
      readers: other instructions that read the array.
    """

    copy: Instruction
    update: Instruction
    source: Instruction
    results: tuple[int, ...]
    argument: int | None
    readers: tuple[Instruction, ...]


# ---- Copies in the module ----------------------------------------------------------------------------------


def update_copies(module: Module) -> Iterator[UpdateCopy]:
    """The copies of arrays that an update overwrites, in the entry computation."""
    entry = module.computations[module.entry]
    root = entry.root
    parts = root.operands if root.opcode == "tuple" else (root.name,)
    results = [tuple_leaves(entry, part) for part in parts]
    yield from _written_anew(module, entry, results)
    for copy in entry.instructions.values():
        if copy.opcode != "copy" or copy.bytes < MIN_BYTES:
            continue
        [name] = tuple_leaves(entry, copy.operands[0]) or [""]
        update = _update_of(module, entry, copy)
        source = entry.instructions.get(name)
        if update is None or source is None or source.shape != copy.shape:
            continue
        readers = _readers(entry, name, {copy.name, root.name})
        yield UpdateCopy(
            copy,
            update,
            source,
            tuple([number for number, leaves in enumerate(results) if leaves == [name]]),
            argument_number(source.scope) if source.opcode == "parameter" else None,
            tuple(_update_of(module, entry, one) or one for one in readers),
        )


def _written_anew(
    module: Module, entry: Computation, results: Sequence[Sequence[str]]
) -> Iterator[UpdateCopy]:
    """Fusions that compute a result of the program again, and write all of it with the update."""
    by_mark = {entry.instructions[leaf].mark: leaf for leaves in results for leaf in leaves}
    for fusion in entry.instructions.values():
        if fusion.opcode != "fusion" or fusion.bytes < MIN_BYTES:
            continue
        body = module.computations[fusion.calls[0]]
        for leaf in tuple_leaves(body, body.root.name):
            made = body.instructions[leaf]
            if made.opcode not in _UPDATES:
                continue
            inner = body.instructions[tuple_leaves(body, made.operands[0])[0]]
            name = by_mark.get(inner.mark) if inner.opcode != "parameter" and inner.mark else None
            if name is None or parse_arrays(entry.instructions[name].shape) != parse_arrays(made.shape):
                continue
            own = tuple([number for number, leaves in enumerate(results) if leaves == [name]])
            if name != fusion.name and own:
                yield UpdateCopy(fusion, fusion, entry.instructions[name], own, None, ())


def _readers(entry: Computation, name: str, without: set[str]) -> Iterator[Instruction]:
    for user in entry.users[name]:
        if user.name in without or writer(entry, user.name) in without:
            continue
        if user.opcode in FREE:
            yield from _readers(entry, user.name, without)
        else:
            yield user


def _update_of(module: Module, entry: Computation, copy: Instruction) -> Instruction | None:
    """The only user of ``copy``, if it overwrites its operand: an update, or a loop with one."""
    users = entry.users[copy.name] if copy.opcode == "copy" else []
    if len(users) == 1 and users[0].opcode == "tuple" and not users[0].root:
        users = entry.users[users[0].name]
        return users[0] if len(users) == 1 and _updates_in_loop(module, users[0], copy) else None
    if len(users) != 1:
        return None
    [user] = users
    if user.opcode in _UPDATES:
        return user if user.operands[0] == copy.name else None
    return user if user.opcode == "fusion" and _overwrites(module, user, copy) else None


def _overwrites(module: Module, fusion: Instruction, copy: Instruction) -> bool:
    """Whether the result of ``fusion`` is an update of its operand ``copy``."""
    body = module.computations[fusion.calls[0]]
    parameter = body.parameters[fusion.operands.index(copy.name)]
    for leaf in tuple_leaves(body, body.root.name):
        made = body.instructions[leaf]
        if made.opcode in _UPDATES and tuple_leaves(body, made.operands[0]) == [parameter.name]:
            return True
    return False


def _updates_in_loop(module: Module, loop: Instruction, copy: Instruction) -> bool:
    shape = parse_arrays(copy.shape)
    inner = list(nested_instructions(module, loop)) if loop.opcode in _LOOPS else []
    is_loop = loop.opcode == "while" or any(each.opcode == "while" for each in inner)
    return is_loop and any(each.opcode in _UPDATES and parse_arrays(each.shape) == shape for each in inner)


# ---- Findings ----------------------------------------------------------------------------------------------


def update_findings(
    trace: CompiledProgram, snapshot: Snapshot, number: int, asked: Collection[tuple[int, int]]
) -> Iterator[Finding]:
    """A finding for each copy whose cause is known. ``asked``: values that the user asked for."""
    assert trace.module is not None
    for one in update_copies(trace.module):
        spared = _is_spared(trace, one)
        why = _why(trace, snapshot, one, spared, asked)
        if not why:
            continue
        nodes, names = trace.nodes_of_instruction(one.update), _names(trace, snapshot, one)
        what = _operations(trace, snapshot, one.update, f"`{one.update.opcode}`")
        array = f"{code_phrase(names)} ({size(one.copy.bytes)})" if names else size(one.copy.bytes)
        rule, done = "" if spared else f" ({RULE})", "is copied first"
        if one.copy is one.update:
            done, rule = "is computed and written once more", ""
        yield Finding(
            kind="copied",
            text=f"{what} is not in place: {array} {done}, {why}{rule}.",
            bytes=one.copy.bytes,
            label=VERIFIED if spared else INFERRED,
            program=number,
            kernels=_kernels(trace, one),
            nodes=tuple(nodes),
            variables=names,
            verdict=f"Compiled again without: {size(one.copy.bytes)} less are written." if spared else "",
        )


def _operations(trace: CompiledProgram, snapshot: Snapshot, instruction: Instruction, unknown: str) -> str:
    """``'`scatter` of cell 3, line 2'``; ``unknown`` if no operation is known for the instruction."""
    nodes = trace.nodes_of_instruction(instruction)
    if not nodes:
        clusters = [cluster for cluster in trace.clusters if cluster.name == instruction.name]
        nodes = [node for cluster in clusters for node in trace.nodes_of(cluster)]
    if not nodes:
        return unknown
    names = list(dict.fromkeys(snapshot.nodes[node].name for node in nodes))
    place = lines_phrase(snapshot, nodes)
    return f"{code_phrase(names)} of {place}" if place else code_phrase(names)


def _kernels(trace: CompiledProgram, one: UpdateCopy) -> tuple[str, ...]:
    clusters = {cluster.name for cluster in trace.clusters}
    return tuple(name for name in dict.fromkeys((one.copy.name, one.update.name)) if name in clusters)


def _names(trace: CompiledProgram, snapshot: Snapshot, one: UpdateCopy) -> tuple[str, ...]:
    """The user's names of the array."""
    names = [name for result in one.results for name in result_names(snapshot, trace.origins, result)]
    names += trace._value_names.get(one.source.name, ())
    return tuple(dict.fromkeys(names))


def _why(
    trace: CompiledProgram,
    snapshot: Snapshot,
    one: UpdateCopy,
    spared: bool | None,
    asked: Collection[tuple[int, int]],
) -> str:
    """Why the array is copied, and what to do; empty if that is not known."""
    reasons = []
    if one.copy is one.update and not spared:
        return ""  # without the result XLA may compute it all the same
    if one.results and spared is not False:
        reasons.append("because it is also a result of the program")
    elif one.argument is not None and spared is not False:
        if trace._executable.elsewhere or one.argument in _donated(trace):
            return ""  # a program for another chip donates nothing, though a run there may
        reasons.append("because it is an argument that is not donated")
    if one.readers and not spared:
        told = [_operations(trace, snapshot, reader, "another operation") for reader in one.readers]
        readers = abbreviated_list(list(dict.fromkeys(told)))
        reasons.append(f"{'and' if reasons else 'because'} {readers} may read it later")
    if not reasons:
        return ""
    is_asked = any(trace.origins.results[result] in asked for result in one.results)
    cure = _cure(trace, one, _names(trace, snapshot, one)) if len(reasons) == 1 and not is_asked else ""
    return " ".join(reasons) + cure


def _cure(trace: CompiledProgram, one: UpdateCopy, names: Sequence[str]) -> str:
    if not _is_spared(trace, one) and (one.readers or not _fits_a_result(trace, one)):
        return ""
    is_jit = trace.is_function or isinstance(trace._executable, JitExecutable)
    if is_jit or not isinstance(trace._executable, Executable):
        return "" if one.results else "; donate_argnums of jax.jit donates it"
    if one.argument is not None and one.copy.bytes < config.min_donated:
        return ""  # lazynb donates no small array
    if not names or not all(name.isidentifier() for name in names):
        return ""
    return f"; `del {', '.join(names)}` before the run spares that, if nothing else holds it"


def _fits_a_result(trace: CompiledProgram, one: UpdateCopy) -> bool:
    """Whether a result of the program may take the memory of the array."""
    assert trace.module is not None
    entry = trace.module.computations[trace.module.entry]
    leaves = tuple_leaves(entry, entry.root.name)
    return any(
        parse_arrays(entry.instructions[leaf].shape) == parse_arrays(one.source.shape) for leaf in leaves
    )


# ---- The experiment ----------------------------------------------------------------------------------------


def _donated(trace: CompiledProgram) -> Sequence[int]:
    """The donated arguments, by number."""
    return getattr(trace._executable, "_donated", ())


_outcomes: WeakKeyDictionary[CompiledProgram, dict[str, bool | None]] = WeakKeyDictionary()


def _is_spared(trace: CompiledProgram, one: UpdateCopy) -> bool | None:
    """Whether a program in which nobody holds the array has no such copy; None if that was not tried."""
    known = _outcomes.setdefault(trace, {})
    if one.copy.name not in known:
        try:
            known[one.copy.name] = _compiled_without(trace, one)
        except Exception:  # the program cannot be compiled in that form
            known[one.copy.name] = None
    return known[one.copy.name]


def _compiled_without(trace: CompiledProgram, one: UpdateCopy) -> bool | None:
    executable = trace._executable
    if not isinstance(executable, Executable) or executable.elsewhere or trace.operations > _MOST:
        return None
    if jc.spans_hosts(executable.state.program or ()):
        return None  # every host would have to compile it
    changes: dict[str, Any] = {}
    if one.results:
        kept = [slot for at, slot in enumerate(executable.wanted) if at not in one.results]
        if not kept:
            return None
        changes["wanted"] = tuple(kept)
    elif one.argument is not None and one.argument not in executable._donated:
        changes["donated"] = (*executable._donated, one.argument)
    else:
        return None
    with warnings.catch_warnings():  # JAX warns of a donated argument that no result can take
        warnings.simplefilter("ignore")
        text = executable.compile_again(**changes).as_text()
    if not text:
        return None
    return _written(find_clusters(parse(text))) <= _written(trace.clusters) - one.copy.bytes


def _written(clusters: Sequence[Cluster]) -> int:
    return sum(cluster.output_bytes for cluster in clusters if not cluster.inside)
