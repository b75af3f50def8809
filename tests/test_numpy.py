"""lazynb.numpy is all of jax.numpy."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
import lazynb.numpy as lnp


def test_every_name_of_jax_numpy_is_there():
    missing = [name for name in dir(jnp) if not name.startswith("_") and not hasattr(lnp, name)]
    assert not missing and dir(lnp) == sorted([*dir(jnp), "MutableArray", "mutable"])
    with pytest.raises(AttributeError, match="no attribute 'sine'"):
        lnp.sine


def test_names_are_those_of_jax_numpy_outside_lazy_mode():
    assert (
        type(lnp.sin(1.0)) is type(jnp.sin(1.0)) and lnp.float32 is jnp.float32 and lnp.linalg is jnp.linalg
    )


def test_lazynb_numpy_and_jax_numpy_mix_in_lazy_mode():
    plain = jnp.sin
    with lazynb.lazy():
        assert lnp.sin is jnp.sin and lnp.sin is not plain
        assert jnp.mean is not lnp.mean and lnp.mean(jnp.ones(3)) == 1.0
        x = lnp.concatenate([lnp.ones(2), lnp.sin(lnp.zeros(2))])
        assert isinstance(x, lazynb.LazyTensor) and x.is_pending
        assert np.asarray(x).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_lazynb_numpy_is_found_as_an_attribute_of_lazynb():
    """In a process of its own: here it has been imported already."""
    run = subprocess.run(
        [sys.executable, "-c", "import lazynb; lazynb.numpy.mutable"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
