"""An interrupt at any instruction of a magic: the notebook works, nothing is lost, no thread stays."""

import random
import threading

import pytest

from lazynb.running.compiler_dump import new_dump
from lazynb.xla.compilation_builder import dumping_passes

from .attacks.interrupted_magics import CELLS, Notebook


@pytest.fixture
def notebook(clean, no_other_loop):
    notebook = Notebook()
    yield notebook
    notebook.close()


def test_magics_interrupted_at_random_instructions_leave_a_notebook_that_works(notebook):
    draw, handled = random.Random(3), 0
    for number, cell in enumerate(CELLS):
        handled += notebook.attempt(cell, int(10 ** draw.uniform(0, 3)), number) != ""
    assert handled > len(CELLS) // 2
    for count in (1, 100, 700, 2_302, 4_924):
        for cell in ("%reload_ext lazynb", "%unload_ext lazynb"):
            notebook.attempt(cell, count, 7)


def reading():
    return [thread for thread in threading.enumerate() if thread.name == "lazynb-reading"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, None])
def test_a_dump_that_never_comes_is_not_waited_for(error):
    before = reading()
    with pytest.raises(error or ZeroDivisionError), dumping_passes():
        new_dump()
        assert len(reading()) == len(before) + 1
        raise error or ZeroDivisionError
    for thread in reading():
        if thread not in before:
            thread.join(5)
            assert not thread.is_alive()
