"""How the kernels came about, held at each stage against a reading of that stage's text that shares no code with
it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from xla import plain_hlo as plain
from xla.programs import PROGRAMS, SOME

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.fusion import kernel_formation as module


@pytest.fixture(scope="module", params=SOME)
def trace(request):
    [trace] = PROGRAMS[request.param]().traces
    trace.formation  # noqa: B018
    return trace


def texts(trace) -> list[str]:
    """The module's text at each stage."""
    return [trace.before, *(step.after for step in trace.passes)]


def members(text: str) -> dict[str, set[str]]:
    """By kernel, the instructions that compute in it: of a fusion those in its body, else itself."""
    lines = plain.blocks(text)
    line_of = {
        plain.LINE.match(line).group(1): line
        for block in lines.values()
        for line in block
        if plain.LINE.match(line)
    }
    found: dict[str, set[str]] = {}
    for name, opcode, _ in plain.kernels(text):
        if opcode != "fusion":
            found[name] = {name}
            continue
        waiting, inside, last = plain.called(line_of[name]), set(), ""
        while waiting:
            for line in lines[waiting.pop()]:
                inner, _, what, _ = plain.LINE.match(line).groups()
                if what == "fusion":
                    waiting += plain.called(line)
                elif what not in plain.IDLE | {"partition-id", "replica-id", "domain", "add-dependency"}:
                    inside.add(inner)
                last = inner if "ROOT" in line else last
        found[name] = inside or {last}
    return found


def standing(formation, stage: int) -> dict[str, set[str]]:
    """By kernel, the names that its boxes have."""
    kernels = formation.kernels(stage)
    return {
        name: {formation.boxes[one].at(stage).name for one in numbers} for name, numbers in kernels.items()
    }


def test_at_each_stage_the_kernels_are_those_of_its_text(trace):
    formation, all_texts = trace.formation, texts(trace)
    assert formation.stages == len(all_texts) > 1
    for stage, text in enumerate(all_texts):
        assert standing(formation, stage) == members(text)
        names = [box.at(stage).name for box in formation.boxes if box.at(stage) is not None]
        assert len(names) == len(set(names)), "an instruction is in two boxes"


def test_the_first_are_single_instructions_and_the_last_the_clusters(trace):
    formation = trace.formation
    assert all(len(boxes) == 1 for boxes in formation.kernels(0).values())
    assert formation.kernels(formation.stages - 1).keys() == {cluster.name for cluster in trace.clusters}
    assert formation.kernels(formation.stages - 1).keys() == {name for name, *_ in plain.kernels(trace.text)}


def test_a_box_bears_the_mark_of_its_line(trace):
    formation = trace.formation
    for stage, text in enumerate(texts(trace)):
        marks = {
            plain.LINE.match(line).group(1): plain.mark_of(line)
            for block in plain.blocks(text).values()
            for line in block
        }
        for box in formation.boxes:
            stand = box.at(stage)
            if stand is not None and marks[stand.name]:
                assert stand.marks == {marks[stand.name]}


def test_each_operation_is_in_a_box_or_gone(trace):
    """After the stage at which one is gone no line of the text that computes bears its mark."""
    formation = trace.formation
    for mark in trace.origins.operations:
        end = formation.ends.get(mark, 0)
        for stage, text in enumerate(texts(trace)):
            boxes = [one for one in formation.boxes if (at := one.at(stage)) and mark in at.marks]
            assert not boxes or stage < end
            if stage >= end:
                working = {name for inside in members(text).values() for name in inside}
                bearing = {
                    plain.LINE.match(line).group(1)
                    for block in plain.blocks(text).values()
                    for line in block
                    if plain.mark_of(line) == mark
                }
                assert not working & bearing
        if end and end < formation.stages:
            assert any(mark in one.at(end - 1).marks for one in formation.boxes if one.at(end - 1))


def test_boxes_that_begin_or_end_name_an_existing_source_or_target(trace):
    """The box in whose place another is read, or of which it is a copy, is there at the time."""
    formation = trace.formation
    for box in formation.boxes:
        start = box.stands[0].stage
        if box.end is not None:
            assert start < box.end
            assert box.into is None or formation.boxes[box.into].at(box.end) is not None
        else:
            assert box.into is None
        if box.source is not None:
            source = formation.boxes[box.source]
            assert start > 0 and source.at(start - 1).opcode == box.stands[0].opcode
        stages = [stand.stage for stand in box.stands]
        assert stages == sorted(set(stages))


def test_added_and_removed_boxes_sum_to_the_boxes_of_each_stage(trace):
    formation = trace.formation
    standing, steps = 0, formation.steps
    for stage, step in enumerate(steps):
        standing += step.added + step.copied - step.merged - step.removed
        assert standing == sum(map(len, formation.kernels(stage).values()))
        running = plain.kernels(texts(trace)[stage])
        around = ("while", "conditional", "call")
        assert step.kernels == len({name for name, opcode, _ in running if opcode not in around})
    assert [step.kernels for step in steps] == trace.kernel_counts
    assert (steps[0].together, steps[0].copied, steps[0].removed) == (0, 0, 0)


def test_links_between_kernels_are_those_of_the_text(trace):
    formation, last = trace.formation, trace.formation.stages - 1
    found = set()
    for link in formation.links:
        if link.start <= last < link.end:
            pair = [formation.boxes[number].at(last).kernel for number in (link.producer, link.consumer)]
            if pair[0] != pair[1]:
                found.add(tuple(pair))
    pairs, _, _ = plain.edges(trace.text)
    block_of = {name: block for name, _, block in plain.kernels(trace.text)}
    assert {(a, b) for a, b in found if block_of[a] == block_of[b]} == pairs


def compiled(fn, *arguments):
    lazynb.clear_cache()
    with lazynb.lazy(), record_dumps():
        return lazynb.compile(fn(*arguments))


def test_a_chain_is_fused_by_the_fusion_pass():
    made = compiled(lambda x: jnp.tanh(x * 2.0) + 1.0, jnp.ones((64, 64)))
    formation = made.hlo.formation
    fused = next(stage for stage, step in enumerate(formation.steps) if step.together)
    assert made.hlo.passes[fused - 1].name == "fusion"
    assert {box.stands[0].opcode for box in formation.boxes if box.end is None} >= {"multiply", "tanh", "add"}
    stands = {box.stands[0].opcode: box for box in formation.boxes if box.end is None}
    kernels = {stands[opcode].stands[-1].kernel for opcode in ("multiply", "tanh", "add")}
    assert len(kernels) == 1 and stands["tanh"].stands[0].stage == 0


def test_an_operation_that_is_computed_twice_is_copied():
    def program(x):
        y = x * 2.0 + 1.0
        return y @ jnp.tanh(y) + y

    formation = compiled(program, jnp.ones((64, 64))).hlo.formation
    copies = [box for box in formation.boxes if box.source is not None and box.end is None]
    assert [box.stands[0].opcode for box in copies].count(
        "multiply"
    ) == 2  # of the three kernels that need it
    for copy in copies:
        assert copy.stands[0].marks == formation.boxes[copy.source].at(copy.stands[0].stage - 1).marks


def test_calls_of_one_function_are_told_apart():
    """The function is there once at first, for both calls; then each call has its own."""

    @jax.jit
    def act(x):
        return jnp.sin(x) * jnp.cos(x)

    made = compiled(lambda x: act(act(x) @ x), jnp.ones((32, 32)))
    formation, [trace] = made.hlo.formation, made.traces
    sines = [box for box in formation.boxes if box.stands[0].opcode == "sine"]
    assert len([box for box in sines if box.end is None]) == 2
    last = [box.stands[-1].marks for box in sines if box.end is None]
    assert all(len(marks) == 1 for marks in last) and len({*last}) == 2
    assert len(sines[0].stands[0].marks) == 2
    text = {
        plain.LINE.match(line).group(1): plain.mark_of(line)
        for block in plain.blocks(trace.text).values()
        for line in block
        if plain.LINE.match(line).group(3) == "sine"
    }
    names = {box.stands[-1].name: set(box.stands[-1].marks) for box in sines if box.end is None}
    assert names == {name: {mark} for name, mark in text.items()} and len(text) == 2


def test_a_module_with_too_many_instructions_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_MAX_INSTRUCTIONS", 3)
    with pytest.raises(ValueError, match="too large"):
        compiled(lambda x: jnp.sin(x) + 1.0, jnp.ones(4)).hlo.formation
    with lazynb.lazy():
        assert lazynb.compile().hlo.formation is None
