"""How each value of a program lies on its devices, as far as XLA says it.

Of arguments and results the compiled program says it. Of what is inside, XLA's module says it between the
pass that spreads shardings (Shardy, or GSPMD's propagation) and the one that cuts the program for one device.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import jax

from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.xla.hlo.module import Instruction, Module, parse
from lazynb.xla.origins import argument
from lazynb.xla.program import CompiledTrace
from lazynb.xla.shardings.mesh import devices_of
from lazynb.xla.shardings.tiling import Tiling, annotated, annotation_in, of_sharding, whole

Value = tuple[int, int]
"""A node of a snapshot, and the number of its result."""

_SPREADS = ("shardy-xla", "sharding-propagation")
_TYPE = re.compile(r"([\w<>]+)\[([^\[\]]*)\]")
_SIZE = re.compile(r"(?:^|,)(\d+)")
_AXES = re.compile(r"@(?:\([^)]*\)|[^,]*)")


def shape_of(node: Node, result: int) -> tuple[int, ...] | None:
    """The shape of a result; None if its type is no array's."""
    match = _TYPE.match(node.avals[result])
    return tuple(map(int, _SIZE.findall(_AXES.sub("", match[2])))) if match is not None else None


def dtype_of(node: Node, result: int) -> str:
    """The name of a result's dtype, as its type writes it."""
    return node.avals[result].partition("[")[0]


def tilings_of(trace: CompiledTrace, snapshot: Snapshot) -> dict[Value, Tiling]:
    """How values lie; what is not known is left out. Compiles nothing: without XLA's passes, arguments and
    results alone are known."""
    module = trace.module
    if module is None or devices_of(trace) == 1:
        return {}
    spread = _spread(trace)
    found = _arguments(trace, module, spread, snapshot)
    if spread is not None:
        found.update(_inside(trace, spread, snapshot))
    shardings = jax.tree.leaves(getattr(trace.compiled, "output_shardings", None))
    if len(shardings) == len(trace.origins.results):
        for value, sharding in zip(trace.origins.results, shardings, strict=True):
            shape = shape_of(snapshot.nodes[value[0]], value[1])
            tiling = of_sharding(sharding, shape) if shape is not None else None
            if tiling is not None and snapshot.nodes[value[0]].kind == "op":
                found[value] = tiling
    return found


def _arguments(
    trace: CompiledTrace, module: Module, spread: Module | None, snapshot: Snapshot
) -> dict[Value, Tiling]:
    """Of a program for devices that are there JAX says it, of another XLA's module."""
    found = {}
    given = getattr(trace.compiled, "input_shardings", ((), {}))[0]
    written = spread.computations[spread.entry].parameters if spread is not None else []
    annotations = {argument(one.scope): one for one in written}
    for parameter in module.computations[module.entry].parameters:
        nodes, position = trace.inputs_behind(parameter.name), argument(parameter.scope)
        shape = shape_of(snapshot.nodes[nodes[0]], 0) if len(nodes) == 1 else None
        if shape is None or position is None:
            continue
        if position < len(given):
            tiling = of_sharding(given[position], shape)
        elif position in annotations:
            tiling = _tiling(annotations[position], len(shape), devices_of(trace))
        else:
            tiling = None
        if tiling is not None:
            found[nodes[0], 0] = tiling
    return found


def _inside(trace: CompiledTrace, spread: Module, snapshot: Snapshot) -> dict[Value, Tiling]:
    by_node: dict[int, list[Instruction]] = {}
    for instruction in spread:
        if instruction.mark in trace.origins.operations and not instruction.shape.startswith("("):
            by_node.setdefault(trace.origins.operations[instruction.mark], []).append(instruction)
    found = {}
    for node, made in by_node.items():
        read = {name for each in made for name in each.operands}
        last = [each for each in made if each.name not in read]
        for result in range(len(snapshot.nodes[node].avals)):
            shape = shape_of(snapshot.nodes[node], result)
            tiling = _common(last, shape, devices_of(trace)) if shape is not None else None
            if tiling is not None:
                found[node, result] = tiling
    return found


def _spread(trace: CompiledTrace) -> Module | None:
    """The module with the shardings that XLA chose; None if it was not written down."""
    if not trace.has_dump:
        return None
    text = next((each.after for each in reversed(trace.passes) if each.name in _SPREADS), "")
    return _parsed(text) if text else None


_parsed = functools.lru_cache(maxsize=2)(parse)  # collectives and shardings ask for it


def _common(made: Iterable[Instruction], shape: tuple[int, ...], devices: int) -> Tiling | None:
    """How the instructions of this shape lie; None if that differs."""
    alike = [each for each in made if _dimensions(each) == shape]
    tilings = {_tiling(each, len(shape), devices) for each in alike}
    return tilings.pop() if len(tilings) == 1 else None


def _tiling(instruction: Instruction, rank: int, devices: int) -> Tiling | None:
    """XLA's partitioner takes what has no annotation as whole on each device
    (``SpmdPartitioner::PreprocessSharding``)."""
    written = annotation_in(instruction.text)
    if not written:
        return whole(rank, devices)
    return annotated(written[0], rank, devices) if len(written) == 1 else None


def _dimensions(instruction: Instruction) -> tuple[int, ...] | None:
    match = _TYPE.match(instruction.shape)
    return tuple(map(int, _SIZE.findall(match[2]))) if match is not None else None
