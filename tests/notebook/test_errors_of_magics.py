"""Errors under magics: the user's line as it was typed, and nothing of what runs it."""

from __future__ import annotations

import re
import signal
import threading
import time

import pytest

import lazynb

ANSI = re.compile(r"\x1b\[[0-9;]*m")
SLOW = """
def slow(a):
    return jax.lax.while_loop(lambda c: c[0] < 30_000, lambda c: (c[0] + 1, c[1] @ c[1] * 0.001), (0, a))[1]
b = jnp.ones((200, 200))
"""


def seen(notebook, cell, error=Exception):
    """What IPython prints of the error of a cell."""
    text = ANSI.sub("", notebook.run(cell, error=error).stdout)
    assert not re.search(r"lazynb[/\\]", text) and "get_ipython()" not in text, text
    return text


@pytest.mark.parametrize("magic", ["%%compile", "%%eager", "%%predict", "%%explain", "%%numerics"])
def test_a_cell_that_cannot_be_compiled_shows_its_line_alone(notebook, magic):
    text = seen(notebook, f"{magic}\nx = 1\ny = (3", SyntaxError)
    assert text.splitlines()[1].strip() == "y = (3" and "line 3" in text.splitlines()[0]
    assert "was never closed" in text and "ast.py" not in text


def test_an_error_in_the_magics_own_line_shows_that_line(notebook):
    assert "----> 2 %graph nope" in seen(notebook, "y = 1\n%graph nope", NameError)
    assert "----> 1 %inspect 1/0" in seen(notebook, "%inspect 1/0", ZeroDivisionError)


def interrupt_after(seconds):
    def work():
        time.sleep(seconds)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=work, daemon=True).start()


@pytest.mark.parametrize("magic", ["%%compile", "%%explain", "%%eager"])
def test_a_long_run_under_a_magic_is_interrupted_at_once(notebook, magic):
    notebook.run(SLOW)
    notebook.run(f"{magic}\nslow(b[:2, :2]).sum()")
    interrupt_after(1.5)
    start = time.perf_counter()
    text = seen(notebook, f"{magic}\nr = slow(b)\nr.sum()", KeyboardInterrupt)
    ended = time.perf_counter() - start
    whole = time.perf_counter()
    lazynb.sync()
    notebook.run("float(slow(b).sum())")  # how long it takes
    assert ended < 1.5 + (time.perf_counter() - whole) / 2
    assert len(re.findall(r"^(File|Cell) ", text, re.M)) <= 2 and magic in text


def test_an_instruction_without_a_line_is_shown(notebook):
    from lazynb.user_code.tracebacks import frames_of, link_frames

    try:
        1 / 0
    except ZeroDivisionError as error:
        (frame,) = frames_of(error.__traceback__)

    class Nowhere:
        tb_frame, tb_lasti, tb_lineno = frame.tb_frame, frame.tb_lasti, None

    assert link_frames([Nowhere()]).tb_lineno == frame.tb_frame.f_code.co_firstlineno


def test_the_tables_show_nested_magics_as_they_were_typed(notebook):
    notebook.run("x = jnp.ones(3)")
    lazynb.clear_cache()
    for cell in (
        "%%compile\n%%time\nfloat((x * 2).sum())",
        "%%capture\n%%compile\nfloat((x * 2 + 1).sum())",
        "%%time\nfloat((x * 3 - 1).sum())",
        "y = 3\n%timeit -n1 -r1 float((x * 9 + 2 - 1 / x).sum())",
    ):
        notebook.run(cell)
    shown = str(lazynb.cache_info()) + str(lazynb.breaks()) + str(lazynb.events())
    assert "%timeit -n1" in shown and "float((x * 2 + 1).sum())" in shown
    assert "%%time" not in shown and "float((x * 3 - 1).sum())" in shown
    assert "get_ipython" not in shown and "run_cell_magic" not in shown and "run_line_magic" not in shown
