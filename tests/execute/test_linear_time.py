"""What is done for each operation of a long program is done a bounded number of times: counted, not timed."""

from __future__ import annotations

import ast

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare import program_graph
from lazynb.compare.misses import cache_info as cache_module
from lazynb.compare.misses.compilation_causes import difference_of
from lazynb.recording import literal_numbers, operation_step
from lazynb.recording.lazy_trace import thread_trace
from lazynb.running import step_log
from lazynb.running.miss_log import miss_log
from lazynb.user_code import instructions
from lazynb.xla import program_findings
from lazynb.xla.hlo.module import parse

LENGTH = 120


def counted(monkeypatch, owner, name):
    """The calls of a function from now on."""
    calls = []
    own = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **named: (calls.append(args), own(*args, **named))[1])
    return calls


def test_a_miss_without_a_partner_compares_each_operation_a_few_times(clean, monkeypatch):
    def first(x, y, number):
        return jnp.sin(x) * number + y

    def second(x, y, number):
        return x - jnp.cos(y) * number

    x = jnp.ones(3)
    with lazynb.lazy():
        for function in (first, second):
            jitted, y = jax.jit(function, static_argnums=2), x
            for number in range(LENGTH):
                y = jitted(x, y, number) if function is first else jitted(y, x, number)
            lazynb.sync(y)
    calls = counted(monkeypatch, program_graph, "params_structure")
    last = miss_log.misses[-1]
    assert last.summary.end.operations == LENGTH
    difference_of(last)
    assert len(calls) <= 8 * LENGTH


def test_the_statement_of_an_instruction_is_found_without_walking_all(monkeypatch):
    calls = counted(monkeypatch, instructions, "contains_span")
    tree = ast.parse("\n".join(f"y = f(x, {number})" for number in range(LENGTH)))
    for statement in tree.body:
        call = statement.value
        span = (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset)
        assert instructions.child_containing(tree, span) is statement
        assert instructions.child_containing(statement, span) is call
    assert len(calls) <= 4 * LENGTH


@pytest.mark.parametrize(
    "source",
    [
        "a = 1; b = f(a); c = 3",
        "@f(1)\ndef g():\n    x = 1\n    return f(x)\nb = 2",
        "if f(1):\n    a = 1\nelif f(2):\n    b = f(3)\nelse:\n    c = 3",
        "try:\n    a = f(1)\nexcept E:\n    b = f(2)\nfinally:\n    c = f(3)",
        "for i in f(0):\n    a = [f(i) for i in f(1)]\n    b = lambda: f(2)\nelse:\n    f(3)",
        "match f(1):\n    case 1:\n        f(2)\n    case _:\n        f(3)",
    ],
)
def test_the_child_of_a_node_is_the_one_that_a_walk_over_all_children_finds(source):
    tree = ast.parse(source)
    spans = [
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        for node in ast.walk(tree)
        if hasattr(node, "lineno")
    ]
    for node in ast.walk(tree):
        for span in spans:
            walked = [
                child for child in ast.iter_child_nodes(node) if instructions.contains_span(child, span)
            ]
            assert instructions.child_containing(node, span) is next(iter(walked), None)


def test_a_number_of_a_new_program_is_looked_up_once(clean, monkeypatch):
    assert literal_numbers.literal_place is operation_step.literal_place
    calls = counted(monkeypatch, operation_step, "literal_place")
    with lazynb.lazy():
        lazynb.sync(jnp.ones(3) * 1.5 + 2.5 - 3.5)  # what JAX's functions do is known from now on
        y = jnp.sin(jnp.ones(3))
        before = len(calls)
        y = y * 1.5
        y = y + 2.5
        y = y - 3.5
        assert len(calls) - before == 3
        lazynb.sync(y)


def test_taking_back_a_step_keeps_the_known_ones(clean):
    x = jnp.ones(3)
    with lazynb.lazy():
        y = x
        for _ in range(5):
            y = jnp.sin(y)
        pending = thread_trace().pending
        steps = [pending.owner(slot) for slot in range(pending.state.slots)]
        mark, known = pending.mark(), list(pending._owners)
        z = jnp.cos(y)
        assert pending.owner(z._slot) is not steps[-1]
        del z
        pending.rollback(mark)
        assert pending._owners[: len(known)] == known
        assert [pending.owner(slot) for slot in range(pending.state.slots)] == steps
        lazynb.sync(y)


def test_a_session_s_timeline_walks_the_log_of_a_thread_once(clean, monkeypatch):
    with lazynb.lazy():
        for _ in range(3):
            float(jnp.ones(3).sum())
    calls = counted(monkeypatch, step_log, "SpentTime")
    monkeypatch.setattr(step_log.cell_runs, "span", lambda run: None)
    steps = step_log.log.steps()
    for number, step in enumerate(steps):
        steps[number] = step._replace(run=number)
    from lazynb.running.session_timeline import of_session

    assert of_session(steps, len(steps)).rows
    assert len(calls) == 1


def test_memory_figures_of_a_program_are_asked_for_once(clean, monkeypatch):
    with lazynb.lazy():
        lazynb.sync(jnp.sin(jnp.ones(3)))
    calls = counted(monkeypatch, cache_module, "_memory_of")
    for _ in range(3):
        lazynb.cache_info().to_dicts()
    assert len(calls) == len(lazynb.cache_info())


def test_what_a_slice_reads_in_part_is_all_that_leads_to_it():
    module = parse(
        "HloModule m\n\n%c (p: f32[8]) -> (f32[8], f32[2]) {\n  %p = f32[8]{0} parameter(0)\n"
        "  %a = f32[8]{0} sine(%p)\n  %b = f32[8]{0} cosine(%p)\n  %d = f32[8]{0} negate(%a)\n"
        "  %s = f32[2]{0} slice(%d), slice={[0:2]}\n  ROOT %t = (f32[8], f32[2]) tuple(%b, %s)\n}\n\n"
        "ENTRY %e (x: f32[8]) -> (f32[8], f32[2]) {\n  %x = f32[8]{0} parameter(0)\n"
        "  ROOT %f = (f32[8], f32[2]) fusion(%x), kind=kLoop, calls=%c\n}\n"
    )
    assert program_findings._partly_read(module.computations["c"]) == {"p", "a", "d"}
