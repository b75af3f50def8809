"""An error in a cell looks as eager JAX's does: the user's frames, and none of lazynb's."""

from __future__ import annotations

import re

import jax
import pytest

MADE = "x, y = jnp.ones((4, 5)), jnp.ones((3,))"
CELLS = [
    "x + y",
    "x @ y",
    "jnp.concatenate([x, y])",
    "jax.grad(lambda v: v @ y)(x)",
    "jnp.reshape(x, (7,))",
    "x.sum(axis=4)",
    "x[10, 'a']",
    "x.at[0].set(y)",
    "x += y",
    "jnp.log(x, bad=3)",
    "def f(v):\n    return g(v)\ndef g(v):\n    return jnp.where(v > 0, y, v)\nf(x)",
    "jax.lax.scan(lambda c, t: (c + y, t), x, x)",
    "try:\n    x + y\nexcept ValueError as error:\n    raise RuntimeError('mine') from error",
    "float(x)",
    "np.add(x, y)",
    "jnp.astype(x, 'nonsense')",
    "jax.nn.softmax(x, axis=4)",
    "jnp.linalg.inv(x)",
]
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def seen(notebook, cell):
    """What IPython prints of the error of a cell."""
    return ANSI.sub("", notebook.run(cell, error=Exception).stdout)


def frames(text):
    """The files, lines and functions in a traceback that IPython prints."""
    return re.findall(r"^(?:File|Cell) (.*)", text, re.M)


@pytest.mark.parametrize("cell", CELLS)
def test_no_frame_of_lazynbs_is_shown(notebook, cell):
    notebook.run(MADE)
    text = seen(notebook, cell)
    assert "lazynb" not in text, text
    notebook.run("%lazy off")
    notebook.run(MADE)
    eager = seen(notebook, cell)
    assert text.splitlines()[-1] == eager.splitlines()[-1]
    assert len(frames(text)) <= len(frames(eager)) + 1, "JAX's own frames are hidden as they are eagerly"
    own = [line for line in re.findall(r"^-+> ?\d+ .*", text, re.M) if "jax" not in line]
    assert own and own[0] in eager


@pytest.mark.parametrize("magic", ["%%compile", "%%eager", "%%predict", "%%explain"])
def test_no_frame_of_lazynb_is_shown_under_a_magic(notebook, magic):
    notebook.run(MADE)
    text = seen(notebook, f"{magic}\nz = x * 2\nz + y")
    assert not re.search(r"lazynb[/\\]", text), text
    assert "z + y" in text and "Incompatible shapes" in text
    assert "run_cell_magic" not in text and "line 3" in text


def test_a_magic_of_ipythons_is_shown_as_ipython_shows_it(notebook):
    notebook.run(MADE)
    lazily = seen(notebook, "%%time\nx + y")
    notebook.run("%lazy off")
    notebook.run(MADE)
    eager = seen(notebook, "%%time\nx + y")
    of_magics = [[frame for frame in frames(text) if "IPython" in frame] for text in (lazily, eager)]
    assert of_magics[0] == of_magics[1]


def test_an_interrupt_shows_the_users_lines(notebook):
    notebook.run(MADE)
    notebook.run("import signal\ndef doubled(v):\n    signal.raise_signal(signal.SIGINT)\n    return v * 2")
    text = ANSI.sub("", notebook.run("jax.jit(doubled)(x)", error=KeyboardInterrupt).stdout)
    assert not re.search(r"lazynb[/\\]", text), text
    assert "jax.jit(doubled)(x)" in text and "signal.raise_signal" in text


def test_an_error_of_lazynbs_own_shows_the_line_that_caused_it(notebook):
    notebook.run("import lazynb")
    text = seen(notebook, "lazynb.compile(lambda v: v, target='nosuch')")
    assert "target='nosuch'" in text and not re.search(r"lazynb[/\\]", text)


def test_the_error_keeps_its_frames_and_jaxs_setting_shows_all(notebook):
    notebook.run(MADE)
    error = notebook.run("x + y", error=ValueError).error
    files = []
    trace = error.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert any("lazynb/recording" in file for file in files)  # for %debug
    before = jax.config.values["jax_traceback_filtering"]
    jax.config.update("jax_traceback_filtering", "off")
    try:
        assert "lazynb/recording" in seen(notebook, "x + y")
    finally:
        jax.config.update("jax_traceback_filtering", before)


def test_unloading_puts_ipythons_function_back(notebook):
    notebook.run(MADE)
    notebook.run("%unload_ext lazynb")
    assert "structured_traceback" not in vars(notebook.shell.InteractiveTB)
    notebook.run("%load_ext lazynb")
