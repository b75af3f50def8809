"""The memory of a table of programs: held against XLA's own analysis, against arithmetic by hand, and against
a map of each byte at each step, which shares no code with lazynb."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import memory_programs
import numpy as np
import pytest

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.compilation_builder import compile_tensors


def compiled(name):
    """The only program of a case, with what XLA wrote."""
    case = memory_programs.CASES[name]
    variables = {
        each: jnp.asarray(np.random.default_rng(number).normal(size=shape).astype(np.float32))
        for number, (each, shape) in enumerate(case.shapes.items())
    }
    lazynb.clear_cache()
    with lazynb.lazy(), record_dumps():
        result = eval(case.expression, {"jax": jax, "jnp": jnp, **variables})
        found = compile_tensors([result], {**variables, "result": result}, ahead=False)
        lazynb.sync()
    (trace,) = found.traces
    return case, trace


@pytest.mark.parametrize("name", memory_programs.CASES)
def test_memory_of_each_program_agrees_with_xla_and_arithmetic(name):
    case, trace = compiled(name)
    memory = trace.memory
    # The headline is what XLA allocates.
    said = trace.compiled.memory_analysis()
    of = [said.argument_size_in_bytes, said.output_size_in_bytes, said.temp_size_in_bytes]
    assert memory.allocated_bytes == sum(of) - said.alias_size_in_bytes
    # Arguments and results are those of the arithmetic by hand, and arguments have the user's names.
    arguments = {buffer.variables: buffer.bytes for buffer in memory.buffers if buffer.kind == "argument"}
    named = {names[0]: bytes_ for names, bytes_ in arguments.items() if names and names[0] in case.shapes}
    assert set(named) == set(case.shapes) and sum(named.values()) == case.arguments
    assert memory.argument_bytes <= case.arguments + 64  # the rest are numbers
    tables = [
        buffer.bytes for buffer in memory.buffers if buffer.kind == "output" and buffer.name.endswith("{}")
    ]
    assert memory.output_bytes == case.results + sum(tables)
    # What is in use is what the map says.
    texts = trace.dump.text("*buffer-assignment.txt"), trace.dump.text("*live-range.txt")
    assert list(memory.in_use) == _by_the_byte(*texts)
    assert memory.peak_bytes == max(memory.in_use) == memory.in_use[memory.peak_step]
    assert case.results <= memory.peak_bytes <= memory.allocated_bytes


def _by_the_byte(assignment, ranges):
    """Bytes in use at each step: a bit for each byte of each allocation."""
    lives = {}
    for name, start, end in re.findall(r"^    (\S+\{[\d,]*\}):(\d+)-(\d+)$", ranges, re.M):
        lives[name] = int(start), int(end)
    steps = len(re.findall(r"^    \d+:\S+$", ranges, re.M))
    used = np.zeros(steps + 1, int)
    for part in re.split(r"^(?=allocation \d+:)", assignment, flags=re.M)[1:]:
        head, *values = part.splitlines()
        if "thread-local" in head or ", constant" in head:
            continue
        size = int(re.search(r"size (\d+)", head)[1])
        taken = np.zeros((steps + 1, size), bool)
        for value in values:
            match = re.match(r" value: <\d+ (\S+).*\(size=(\d+),offset=(\d+)\)", value)
            if match is None:
                continue
            key = match[1] if match[1].endswith("}") else match[1] + "{}"
            if key in lives:
                first, last = lives[key]
                taken[first : last + 1, int(match[3]) : int(match[3]) + int(match[2])] = True
        used += taken.sum(1)
    return used.tolist()


def test_the_table_is_large_enough():
    assert len(memory_programs.CASES) >= 48


def test_softmax_needs_only_two_columns_beside_argument_and_result():
    """What the program takes is an argument, a result in the place of the exponentials, and two columns."""
    _, trace = compiled("softmax")
    memory = trace.memory
    assert memory.allocated_bytes == memory.peak_bytes
    assert memory.allocated_bytes - memory.argument_bytes - memory.output_bytes == 1024


def test_results_have_the_users_names():
    x = jnp.ones((10, 10))
    lazynb.clear_cache()
    with lazynb.lazy(), record_dumps():
        total, rows = jax.lax.scan(lambda c, row: (c + row, c * row), x[0], x)
        last = x + 1
        found = compile_tensors([total, rows, last], {"x": x, "total": total, "rows": rows, "last": last})
        lazynb.sync()
    results = [b for b in found.traces[0].memory.buffers if b.kind == "output" and not b.name.endswith("{}")]
    assert {names for b in results for names in b.variables} == {"total", "rows", "last"}
