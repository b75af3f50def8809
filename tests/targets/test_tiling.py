"""Tiled layouts on the compiler's own figures."""

from __future__ import annotations

import pytest

import lazynb
from lazynb.xla.cost.buffer_assignment import read_allocations
from lazynb.xla.hlo.shapes import padded_bytes
from targets.programs import PROGRAMS


@pytest.mark.full
@pytest.mark.parametrize("target", ["v5e", "v5p"])
def test_sizes_are_those_of_the_compiler(target, needs):
    """On the table of programs for other chips, of each array in each program."""
    needs(target)
    seen = 0
    for program in PROGRAMS.values():
        with lazynb.lazy():
            [trace] = lazynb.compile(program(), target=target).traces
        for allocation in read_allocations(trace.dump.text("*buffer-assignment.txt")):
            for value in allocation.values:
                taken = padded_bytes(value.shape)
                if value.shape.startswith("(") or taken is None or value.phi:
                    continue
                assert value.size == taken or (value.size - taken < 512 and value.size % 512 == 0), value
                seen += 1
    assert seen > 250  # numbers that are constants have no place in memory
