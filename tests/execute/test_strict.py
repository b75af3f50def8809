"""``lazynb.lazy(strict=True)``: the first trace break raises, with nothing run and nothing lost; where it
holds and where not."""

from __future__ import annotations

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.config import config
from lazynb.recording.break_reasons import REASONS
from lazynb.running.flush import execution


def tensor():
    return jnp.arange(3.0) * 2


WAYS = {
    "bool": lambda x: bool(x.sum()),
    "int": lambda x: int(x.sum()),
    "float": lambda x: float(x.sum()),
    "index": lambda x: [1, 2][x.argmin()],
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "print": lambda x: str(x),
    "format": lambda x: f"{x}",
    "asarray": lambda x: np.asarray(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "pickle": lambda x: pickle.dumps(x),
    "contains": lambda x: 2.0 in x,
    "static": lambda x: jnp.zeros(x.argmax()),
    "attribute": lambda x: x.addressable_shards,
    "effect": lambda x: jax.debug.print("{}", x),
    "device_put": lambda x: jax.device_put(x, jax.devices()[1]),
    "delete": lambda x: x.delete(),
}


@pytest.mark.parametrize("kind", WAYS)
def test_each_break_raises_and_nothing_is_run(kind, clean):
    with lazynb.lazy(strict=True):
        x = tensor()
        y = x + 1
        with pytest.raises(lazynb.TraceBreakError) as error:
            WAYS[kind](x)
        assert (error.value.kind, error.value.code) == (kind, REASONS[kind].code)
        assert error.value.location.file == __file__ and error.value.ops >= 2
        hint = {"index": "index a JAX array with the tensor itself"}.get(kind, REASONS[kind].hint)
        assert hint in str(error.value) and error.value.location.text in str(error.value)
        assert not lazynb.events() and not lazynb.breaks()
        assert x.is_pending and y.is_pending
        copy.copy(x), repr(x), x.shape
    np.testing.assert_array_equal(np.asarray(x), [0, 2, 4])
    np.testing.assert_array_equal(np.asarray(y), [1, 3, 5])


def test_the_strict_error_names_the_library_that_asked(clean):
    with (
        lazynb.lazy(strict=True),
        pytest.raises(lazynb.TraceBreakError, match=r"\(through .*\.py:\d+\)") as error,
    ):
        np.testing.assert_array_equal(tensor(), 1)
    assert "/numpy/" in error.value.library.file


def test_explicit_barriers_pass_in_strict_mode(clean):
    with lazynb.lazy(strict=True):
        x = tensor()
        lazynb.sync(x)
        y = (x + 1).block_until_ready()
        assert float(y[0].block_until_ready()) == 1.0  # there is nothing to wait for
    assert {one.kind for one in lazynb.breaks()} == {"sync", "block"}


def test_strictness_is_inherited_by_nested_bodies(clean):
    assert not execution.local.strict
    with lazynb.lazy():
        assert not execution.local.strict
        with lazynb.lazy(strict=True), pytest.raises(lazynb.TraceBreakError):
            float(tensor().sum())
        float(tensor().sum())
    with lazynb.lazy(strict=True):
        assert execution.local.strict
        with lazynb.eager():
            assert execution.local.strict
            with lazynb.lazy():
                assert execution.local.strict  # as around it
            with lazynb.lazy(strict=False):
                assert not execution.local.strict
                float(tensor().sum())
            assert execution.local.strict
    assert not execution.local.strict


def test_eager_code_that_needs_nothing_pending_is_no_break(clean):
    with lazynb.lazy(strict=True):
        x = tensor()
        with lazynb.eager():
            float(jnp.ones(3).sum())
            with pytest.raises(lazynb.TraceBreakError, match="LNB303"):
                x + 1
        assert x.is_pending


def test_strict_mode_ends_with_its_body_after_an_error(clean):
    with pytest.raises(ZeroDivisionError), lazynb.lazy(strict=True):
        raise ZeroDivisionError
    assert not execution.local.strict


def test_the_decorator_is_strict_during_each_call(clean):
    @lazynb.lazy(strict=True)
    def careless():
        return float(tensor().sum())

    for _ in range(2):
        with pytest.raises(lazynb.TraceBreakError):
            careless()
    assert not execution.local.strict


def test_other_threads_are_not_strict(clean):
    found = []

    def work():
        with lazynb.lazy():
            found.append(float(tensor().sum()))

    with lazynb.lazy(strict=True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [6.0]


def test_reaching_the_pending_limit_raises_in_strict_mode(clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 5)
    monkeypatch.setattr(config, "max_pending", 10)
    x = jnp.arange(3.0)
    with pytest.raises(lazynb.TraceBreakError, match="LNB204"), lazynb.lazy(strict=True):
        for _ in range(20):
            x = x + 1
    assert not lazynb.events()
    assert float(x[0]) > 5


def test_strict_mode_raises_for_breaks_under_grad_and_not_for_grad_itself(clean):
    with lazynb.lazy(strict=True):
        gradient = jax.grad(lambda v: (v**2).sum())(tensor())
        with pytest.raises(lazynb.TraceBreakError, match="LNB101"):
            jax.grad(lambda v: (v**2).sum() if v.sum() > 0 else v.sum())(tensor())
    np.testing.assert_allclose(np.asarray(gradient), [0, 4, 8])
