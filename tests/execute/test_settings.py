"""Settings of JAX's that are no part of a program are those of the moment at which it is made."""

import logging

import jax
import jax.numpy as jnp
import pytest

import lazynb


@pytest.fixture
def made(caplog):
    """Makes a new program; says whether JAX logged that it compiled one."""
    lazynb.clear_cache()
    sizes = iter(range(3, 100))

    def make():
        caplog.clear()
        with lazynb.lazy():
            float((jnp.ones(next(sizes)) * 2)[0])
        return any(
            "compilation" in record.getMessage()
            for record in caplog.records
            if record.levelno >= logging.WARNING
        )

    return make


@pytest.mark.parametrize("first", [True, False])
def test_a_temporary_jax_setting_applies_only_while_it_is_set(made, first):
    for logs in (first, not first, first):
        with jax.log_compiles(logs):
            assert made() is logs
