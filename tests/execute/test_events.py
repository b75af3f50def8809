"""The event log tells at once what was run; why a program was new is worked out for whoever looks."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.misses import compilation_causes
from lazynb.user_code.source_lines import Place


def steps(count):
    with lazynb.lazy():
        for size in range(1, count + 1):
            float(jnp.sin(jnp.ones(size)).sum())


@pytest.fixture
def asked(monkeypatch):
    """The misses that were compared with others."""
    found = []
    compare = compilation_causes.difference_of
    monkeypatch.setattr(
        compilation_causes,
        "difference_of",
        lambda miss, earlier: found.append(miss.number) or compare(miss, earlier),
    )
    return found


def test_no_trace_is_compared_until_a_reason_is_looked_at(clean, asked):
    steps(5)
    events = lazynb.events()
    assert len(events) == 5 and [event.cache for event in events] == ["compiled"] * 5
    assert [event.operations for event in events] == [4] * 5
    assert asked == []
    assert "size" in events[2].reason or "ones" in events[2].reason
    assert asked == [2]
    assert events[2].reason == lazynb.events()[2].reason and asked == [2]
    assert all("reason" in one for one in events.to_dicts()) and sorted(asked) == [0, 1, 2, 3, 4]


def test_miss_reasons_are_unchanged_after_the_cache_is_cleared(clean):
    steps(3)
    events = lazynb.events()
    lazynb.clear_cache()
    steps(3)
    same = lazynb.events()
    assert [event.reason for event in events] == [event.reason for event in same]


def test_an_event_is_immutable_and_survives_pickling_and_copying(clean):
    steps(2)
    event = lazynb.events()[1]
    same = pickle.loads(pickle.dumps(event))
    assert isinstance(same.location, Place)
    assert same == event == copy.copy(event) and same.reason == event.reason != ""
    assert dataclasses.asdict(same) == lazynb.events().to_dicts()[1]
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.kind = "x"
    with pytest.raises(AttributeError):
        event.nothing  # noqa: B018
