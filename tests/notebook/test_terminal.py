"""IPython in a terminal: what its user sees of errors, of Ctrl-C, of a value that is pending and of a question."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

pexpect = pytest.importorskip(
    "pexpect", reason="pexpect is not installed here, which IPython brings but on Windows"
)

ROOT = Path(__file__).resolve().parents[2]
PROMPT = r"In \[\d+\]: "
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


class Terminal:
    """IPython on a pseudo-terminal, with lazynb loaded."""

    def __init__(self, folder):
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "IPYTHONDIR": str(folder),
            "LAZYNB_PERSISTENT_CACHE": "0",
            "TERM": "dumb",
        }
        options = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor"]
        self.process = pexpect.spawn(
            sys.executable, options, env=environment, encoding="utf-8", timeout=60, dimensions=(50, 160)
        )
        self.process.expect(PROMPT)
        self.run("import jax, jax.numpy as jnp")
        self.run("%load_ext lazynb")

    def begin(self, cell):
        lines = cell.split("\n")
        for line in lines:
            self.process.sendline(line)
        for _ in range(2 if len(lines) > 1 else 0):  # a blank line ends the text of a magic, another the cell
            time.sleep(0.2)
            self.process.sendline("")

    def run(self, cell):
        """What a cell shows."""
        self.begin(cell)
        return self.shown()

    def shown(self):
        self.process.expect(PROMPT)
        return CODES.sub("", self.process.before)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    terminal = Terminal(tmp_path_factory.mktemp("ipython"))
    terminal.run("x = jnp.ones((1000, 1000)) * 1e-4")
    yield terminal
    terminal.process.kill(signal.SIGKILL)
    terminal.process.wait()


def test_an_error_shows_the_users_lines_and_no_frame_of_lazynbs(terminal):
    terminal.run("def layer(x, w): return jnp.tanh(x @ w)")
    shown = terminal.run("layer(x, jnp.ones((5, 5)))")
    assert "----> 1 layer(x, jnp.ones((5, 5)))" in shown
    assert "in layer(x, w)" in shown and "----> 1 def layer(x, w): return jnp.tanh(x @ w)" in shown
    assert "TypeError: dot_general requires contracting dimensions" in shown
    assert "/lazynb/" not in shown


def test_a_pending_value_says_how_to_get_it(terminal):
    shown = terminal.run("jnp.tanh(x)")
    assert "operations pending" in shown and "Reading it runs" in shown and "%%compile shows" in shown


def test_predict_asks_its_question_in_text(terminal):
    shown = terminal.run("%%predict\nh = jnp.tanh(x[:4] @ x)\np = jax.nn.softmax(h)\np.sum()")
    assert "Which lines will share a kernel?" in shown and "%%predict 2 | 3 | 4" in shown
    assert "<" not in shown.split("Which lines")[1], "text, and no object's name"
    kernel = terminal.run("%%predict --kernel\nh = jnp.tanh(x[:4] @ x)\np = jax.nn.softmax(h)\np.sum()")
    assert "Which of your lines are in the kernel c0?" in kernel and "%%predict --kernel c0" in kernel


def test_the_cache_is_a_table_of_the_users_lines(terminal):
    terminal.run("print(jnp.sin(x).sum())")
    shown = terminal.run("%cache")
    assert "print(jnp.sin(x).sum())" in shown and "run_cell_magic" not in shown


def test_ctrl_c_ends_the_line_and_not_the_session(terminal):
    """Last: XLA goes on with what was interrupted."""
    terminal.run("y = jax.lax.fori_loop(0, 2000, lambda i, y: jnp.tanh(y @ y) + 0.001, x).sum()")
    terminal.begin("float(y)")
    time.sleep(2.5)
    terminal.process.sendintr()
    began = time.monotonic()
    shown = terminal.shown()
    assert time.monotonic() - began < 5
    assert "KeyboardInterrupt" in shown and "----> 1 float(y)" in shown and "/lazynb/" not in shown
    assert "Out[" in terminal.run("1 + 1")
