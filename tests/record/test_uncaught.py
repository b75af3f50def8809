"""A plain program: Python prints its errors without lazynb's frames."""

from __future__ import annotations

import subprocess
import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb

HEAD = "import jax, jax.numpy as jnp, numpy as np, lazynb\n"
IN_A_BODY = "with lazynb.lazy():\n    x = jnp.ones((4, 5))\n    x + jnp.ones(3)\n"
AFTERWARDS = (
    "with lazynb.lazy():\n    x = jnp.zeros((3, 3))\n    y = np.linalg.inv(x)\nprint('before')\nprint(y)\n"
)


def printed(tmp_path, text):
    """What Python prints of the error that ends a program."""
    file = tmp_path / "program.py"
    file.write_text(HEAD + text)
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True).stderr


@pytest.mark.parametrize("text, line", [(IN_A_BODY, "x + jnp.ones(3)"), (AFTERWARDS, "print(y)")])
def test_an_error_that_ends_a_program_is_shown_with_the_programs_frames(tmp_path, text, line):
    error = printed(tmp_path, text)
    assert line in error and "Error" in error
    assert lazynb.__path__[0] not in error, error
    if text is AFTERWARDS:
        assert "recorded lazily at program.py:4: y = np.linalg.inv(x)" in error


def files(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def test_an_error_leaving_a_body_has_no_frames_of_lazynb():
    @lazynb.lazy()
    def wrong(x):
        return jax.grad(lambda v: (v * np.ones(3)).sum())(x)

    with pytest.raises((TypeError, ValueError)) as raised:
        wrong(jnp.ones((4, 5)))
    assert not [file for file in files(raised.value) if file.startswith(lazynb.__path__[0])]
    assert any(file == __file__ for file in files(raised.value))


def test_disabling_traceback_filtering_shows_the_frames_of_lazynb():
    before = jax.config.values["jax_traceback_filtering"]
    jax.config.update("jax_traceback_filtering", "off")
    try:
        with pytest.raises((TypeError, ValueError)) as raised, lazynb.lazy():
            jnp.ones((4, 5)) + jnp.ones(3)
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert [file for file in files(raised.value) if file.startswith(lazynb.__path__[0])]


def test_an_attribute_that_no_array_has_is_told_in_one_error():
    with lazynb.lazy():
        x = jnp.ones(3)
        with pytest.raises(AttributeError) as raised:
            x.nosuch  # noqa: B018
    assert raised.value.__cause__ is None and raised.value.__context__ is None
