"""The table of trace break reasons: for each entry a program that triggers it."""

from __future__ import annotations

import copy
import pickle
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.config import config
from lazynb.reasons import REASONS


def x():
    return jnp.arange(3.0) * 2


def in_thread(tensor):
    def work():
        with lazynb.lazy():
            tensor + 1

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def fill_up():
    y = jnp.ones(3)
    for _ in range(40):
        y = y * 1.0
    return y


def use_eagerly(tensor):
    with lazynb.eager():
        tensor + 1


def look_at_each_result(tensor):
    with jax.debug_nans(True):
        tensor + 1


def devices_mixed():
    a, b = (jax.device_put(1.0, d) for d in jax.devices()[:2])
    with pytest.raises(ValueError):
        (a * 1) + (b * 1)


TRIGGERS = {
    "bool": lambda: bool(x().sum() > 0),
    "int": lambda: int(x().sum()),
    "float": lambda: float(x().sum()),
    "complex": lambda: complex(x().sum()),
    "index": lambda: [1, 2, 3][(jnp.arange(3) * 1)[1]],
    "item": lambda: x().sum().item(),
    "tolist": lambda: x().tolist(),
    "print": lambda: str(x()),
    "asarray": lambda: np.asarray(x()),
    "dlpack": lambda: np.from_dlpack(x()),
    "pickle": lambda: pickle.dumps(x()),
    "bytes": lambda: x().tobytes(),
    "attribute": lambda: x().addressable_shards,
    "buffer": lambda: x().unsafe_buffer_pointer(),
    "sync": lambda: lazynb.sync(x()),
    "block": lambda: x().block_until_ready(),
    "limit": fill_up,
    "effect": lambda: jax.debug.callback(lambda v: None, x()),
    "unrecordable": lambda: look_at_each_result(x()),
    "eager": lambda: use_eagerly(x()),
    "thread": lambda: in_thread(x()),
    "device_put": lambda: jax.device_put(x(), jax.devices()[1]),
    "devices": devices_mixed,
    "compiled": lambda: jax.jit(lambda v: v).lower(np.ones(3, np.float32)).compile()(x()),
    "delete": lambda: x().delete(),
}


@pytest.mark.parametrize("kind", sorted(set(REASONS) - {"compile"}))
def test_each_reason_has_a_program_that_triggers_it(kind, clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 10)
    monkeypatch.setattr(config, "max_pending", 30)
    with lazynb.lazy():
        TRIGGERS[kind]()
    found = lazynb.breaks()
    assert kind in {b.kind for b in found}
    assert REASONS[kind].code in {b.code for b in found}


def test_copy_of_a_pending_value_is_recorded(clean):
    with lazynb.lazy():
        copy.copy(x()), copy.deepcopy(x())
    assert not lazynb.breaks()


def test_codes_are_unique_and_well_formed():
    codes = [reason.code for reason in REASONS.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"LNB\d{3}", code) for code in codes)
    assert all(reason.text and reason.hint for reason in REASONS.values())
