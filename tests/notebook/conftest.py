"""A notebook without a browser: IPython's own shell, with lazynb loaded."""

from __future__ import annotations

import textwrap

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import lazynb


class Notebook:
    """Runs cells as IPython does and keeps what they showed."""

    def __init__(self, shell):
        self.shell = shell

    def run(self, cell, error=None):
        """Runs a cell; its outputs. ``error``: the exception type that it must raise."""
        with capture_output() as captured:
            result = self.shell.run_cell(textwrap.dedent(cell), store_history=True)
        raised = result.error_before_exec or result.error_in_exec
        if error is None:
            assert raised is None, raised
        else:
            assert isinstance(raised, error), raised
        captured.result, captured.error = result.result, raised
        if result.result is not None:  # what the display hook shows; a frontend gets it as a MIME bundle
            captured.shown = self.shell.display_formatter.format(result.result)[0]
        return captured

    def __getitem__(self, name):
        return self.shell.user_ns[name]


@pytest.fixture
def notebook(clean, no_other_loop):
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    found = Notebook(shell)
    loaded = found.run("%load_ext lazynb")
    assert loaded.stdout.count("\n") == 1  # one short line
    found.run("import jax, jax.numpy as jnp, numpy as np")
    yield found
    found.run("%unload_ext lazynb")
    shell.reset()
    InteractiveShell.clear_instance()
    lazynb.sync()


@pytest.fixture
def lazy_notebook(notebook):
    """With two arrays to compute with, ``a`` and ``b``."""
    notebook.run("import jax.numpy as jnp\na, b = jnp.ones((256, 128)), jnp.ones((256, 128))")
    return notebook
