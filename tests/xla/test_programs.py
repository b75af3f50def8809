"""The table: what the analysis says of each program is what it is, and what stands in the optimised HLO."""

from __future__ import annotations

import functools
import re
import warnings
from collections import Counter
from typing import NamedTuple

import pytest
from xla import plain_hlo
from xla.expected import EXPECTED
from xla.programs import PROGRAMS
from xla.statements import wrong
from xla.truths import check_cancelled

from lazynb.xla.compilation import Compilation
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.fusion.boundary_reasons import REASONS
from lazynb.xla.hlo.module import parse
from lazynb.xla.hlo.opcodes import OPCODES

GENERAL = {
    "reduction-reused": "expensive-reused",
    "recomputed": "size-limit",
    "shifted-exponential": "several-users",
}
"""Reasons of ours that are cases of one of XLA's."""

KINDS = {"own kernel", "fused", "library", "folded", "merged", "cancelled", "dead"}


class Case(NamedTuple):
    compilation: Compilation
    inferred: list[Boundary]
    said: list[Boundary]

    @property
    def trace(self):
        [trace] = self.compilation.traces
        return trace


@functools.cache
def case(name: str) -> Case:
    """The program compiled, and asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of dtypes that it truncates
        compilation = PROGRAMS[name]()
    compilation.fates  # before the dump goes: only the newest are kept
    inferred = compilation.boundaries
    return Case(compilation, inferred, compilation.ask())


every = pytest.mark.parametrize("name", PROGRAMS)


def words(found) -> str:
    return ", ".join(
        f"{what} {count}" if count > 1 else what for what, count in sorted(Counter(found).items())
    )


def test_every_program_has_an_expectation():
    assert PROGRAMS.keys() == EXPECTED.keys() and len(PROGRAMS) >= 28


# ---- what is expected --------------------------------------------------------------------------------------


@every
def test_clusters_and_reasons_are_as_expected(name):
    compilation, inferred, _ = case(name)
    assert words(cluster.kind for cluster in compilation.clusters) == EXPECTED[name].clusters
    assert words(boundary.code for boundary in inferred) == EXPECTED[name].boundaries


@every
def test_fates_are_as_expected(name):
    compilation = case(name).compilation
    by_line: dict[str, list[str]] = {}
    for node in compilation.snapshot.nodes:
        if node.kind == "op":
            place = node.calls[0].place if node.calls else node.place
            by_line.setdefault(place.text.strip().partition(" = ")[0], []).append(
                compilation.fates[node.id].kind
            )
    assert {line: words(kinds) for line, kinds in by_line.items()} == EXPECTED[name].fates


# ---- what must hold of any program -------------------------------------------------------------------------


@every
def test_every_opcode_is_in_the_table(name):
    trace = case(name).trace
    first = parse(trace.before) if trace.before else trace.module
    assert {one.opcode for module in (first, trace.module) for one in module} <= OPCODES.keys()


@every
def test_every_operation_has_one_fate_and_none_is_lost(name):
    compilation = case(name).compilation
    operations = [node.id for node in compilation.snapshot.nodes if node.kind == "op"]
    assert sorted(compilation.fates) == sorted(operations)
    assert {fate.kind for fate in compilation.fates.values()} <= KINDS
    known = {cluster.name for cluster in compilation.clusters}
    for fate in compilation.fates.values():
        assert (
            set(fate.clusters) <= known
            and fate.text
            and (fate.merged_with is None or fate.merged_with in operations)
        )
        assert bool(fate.clusters) or fate.kind in ("folded", "merged", "cancelled", "dead")
    placed = {name for fate in compilation.fates.values() for name in fate.clusters}
    assert {cluster.name for cluster in compilation.clusters if cluster.is_kernel} <= placed


@every
def test_clusters_are_the_kernels_of_the_hlo(name):
    compilation, trace = case(name).compilation, case(name).trace
    assert [(one.name, one.opcode) for one in compilation.clusters] == [
        one[:2] for one in plain_hlo.kernels(trace.text)
    ]
    inside = [one for cluster in compilation.clusters for one in cluster.instructions]
    assert len(inside) == len(set(inside)) and all(
        re.search(rf"%{re.escape(one)} = ", trace.text) for one in inside
    )


@every
def test_kernels_fates_and_boundaries_agree_with_the_hlo(name):
    """Kernels, ids, fates and boundaries against another reading of the HLO."""
    assert list(wrong(case(name).compilation)) == []


@every
def test_bytes_are_those_of_the_shapes(name):
    compilation, text = case(name).compilation, case(name).trace.text
    shapes = dict(re.findall(r"^ +(?:ROOT )?%(\S+) = (.*?) [a-z][a-z0-9-]*\(", text, re.MULTILINE))
    _, _, read = plain_hlo.edges(text)
    for cluster in compilation.clusters:
        assert cluster.output_bytes == plain_hlo.size(shapes[cluster.name])
        assert cluster.input_bytes == read[cluster.name]


@every
def test_boundaries_are_the_edges_between_kernels(name):
    pairs, results, _ = plain_hlo.edges(case(name).trace.text)
    inferred = case(name).inferred
    assert {(one.producer, one.consumer) for one in inferred if one.consumer} == pairs
    kernels = {kernel for kernel, _, _ in plain_hlo.kernels(case(name).trace.text)}
    assert {one.producer for one in inferred if not one.consumer} == results & kernels - {
        producer for producer, _ in pairs
    }
    assert all(one.code in REASONS and "{" not in one.text for one in inferred)


@every
def test_the_rules_agree_with_the_compiler(name):
    for inferred, said in zip(case(name).inferred, case(name).said):
        assert (inferred.producer, inferred.consumer) == (said.producer, said.consumer)
        assert inferred.label == ("not known" if inferred.code == "unknown" else "rule inferred")
        assert bool(said.rule) == (said.label == "rule inferred")
        words = REASONS[said.code].words
        assert (said.label == "compiler said") == bool(said.said and words and re.search(words, said.said))
        assert inferred.code == said.code, (inferred, said.said)
        if said.said:
            trace = case(name).trace
            assert family(trace.rules.words(trace.edges[said.producer, said.consumer])) == family(said.said)


@every
def test_the_compiler_says_why_for_every_pair_that_its_fusion_pass_sees(name):
    """It never looks at loops, branches and calls, at copies that come later, past a ``get-tuple-element``;
    and where XLA later removed a copy between two calls of a library, it looked at the copy."""
    trace = case(name).trace
    for one in case(name).said:
        if one.consumer and not one.said:
            ends = {trace.module.by_name[end].opcode for end in (one.producer, one.consumer)}
            of_several = trace.module.by_name[one.producer].shape.startswith("(")
            unseen = ends & {"while", "conditional", "call", "copy", "rng-get-and-update-state"} or ends == {
                "custom-call"
            }
            assert unseen or of_several, one


@every
def test_cancelled_operations_are_not_computed(name):
    """No instruction does what it did, but those of operations that always did the same."""
    check_cancelled(case(name).trace)


@every
def test_folded_operations_depend_on_no_input(name):
    compilation = case(name).compilation
    nodes = {node.id: node for node in compilation.snapshot.nodes}
    for node, fate in compilation.fates.items():
        if fate.kind == "folded":
            waiting = [node]
            while waiting:
                one = nodes[waiting.pop()]
                assert one.kind == "op" or one.constant, (nodes[node].place, one)
                waiting.extend(operand for operand, _ in one.operands)


@every
def test_boundaries_kept_by_a_variable_disappear_without_it(name):
    compilation = case(name).compilation
    for boundary in list(compilation.boundaries):
        if boundary.code == "kept-alive":
            assert "gone" in compilation.verify(boundary).verdict, boundary


def test_a_variable_is_named_and_gone_after_del():
    kept, gone = case("kept_alive"), case("not_kept")
    [boundary] = [one for one in kept.inferred if one.consumer]
    assert (
        boundary.code == "kept-alive"
        and boundary.variables == ("h",)
        and "`h`" in boundary.text
        and boundary.hint
    )
    assert len(gone.compilation.clusters) == 1 and not [one for one in gone.inferred if one.consumer]


def test_the_rules_agree_with_the_compiler_over_the_table(record_property):
    """Counts over the table; ``pytest -s`` shows them."""
    found = Counter()
    for name in PROGRAMS:
        for inferred, said in zip(case(name).inferred, case(name).said):
            if said.said:
                found[
                    "agree"
                    if inferred.code == said.code
                    else "unknown"
                    if inferred.code == "unknown"
                    else "disagree"
                ] += 1
                trace = case(name).trace
                words = trace.rules.words(trace.edges[said.producer, said.consumer])
                found["same words" if family(words) == family(said.said) else "other words"] += 1
    print(dict(found))
    assert found["disagree"] == 0 and found["unknown"] == 0 and found["agree"] >= 100
    assert found["other words"] == 0


def family(said: str) -> str:
    """XLA has six sentences about writing in place."""
    return "in place" if re.search(r"in-?place|DUS|dus", said) else said
