"""JAX's settings that differ between two programs."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb import _jax as jc
from lazynb.execute.misses import Miss
from lazynb.why.attribution import is_edit, unattributed
from lazynb.why.sides import Change

_GENERATOR, _GENERATOR_PARAMETER = "jax_default_prng_impl", "`impl`"


def traced(before: Miss, now: Miss) -> list[Change]:
    """The settings that identify an operation and differ."""
    old, new = before.summary.root, now.summary.root
    if old is new:
        return []
    first, second = jc.traced_settings(old.config), jc.traced_settings(new.config)
    return [
        _change(name, first[name], value)
        for name, value in second.items()
        if name in first and first[name] != value
    ]


def explained(changes: Sequence[Change], before: Miss, now: Miss) -> list[Change]:
    """``changes``, with those that follow from another setting told as that setting.

    Such a setting decides which operations JAX's functions record, and nothing says so in these. It is told
    if it differs, operations differ, and the user edited nothing.
    """
    different = [
        _change(name, before.settings[name], value)
        for name, value in now.settings.items()
        if name in before.settings and before.settings[name] != value
    ]
    left = unattributed(changes)
    if not different or not left:
        return list(changes)
    generator = [change for change in different if change.fields["setting"] == _GENERATOR]
    random = [change for change in left if change.fields.get("name") == _GENERATOR_PARAMETER]
    if generator and random:
        return [*generator, *(change for change in changes if change not in random)]
    if any(map(is_edit, changes)):
        return list(changes)
    others = [_inferred(change) for change in different if change not in generator]
    if not others:
        return list(changes)
    return [*others, *(change for change in changes if change not in left)]


def _change(name: str, before: object, now: object) -> Change:
    return Change("configuration", {"setting": name, "before": before, "now": now, "inferred": ""})


def _inferred(change: Change) -> Change:
    """``change``, told as what is concluded: no operation says that it follows from the setting."""
    inferred = "; that the operations differ for it is inferred: no edit explains it"
    return Change(change.kind, {**change.fields, "inferred": inferred})
