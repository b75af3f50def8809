"""Differences of types that follow from another dtype of an input.

``x + np.ones(3, x.dtype)`` and ``jnp.full_like(x, 4)`` convert to the type of ``x``. If that is another one,
the converted values are no cause of their own.
"""

from __future__ import annotations

from lazynb.compare.misses.program_sides import ProgramChange, ProgramPair
from lazynb.compare.program_graph import ProgramStep

Types = tuple[str, str]
"""The dtypes before and now."""


def drop_converted(sides: ProgramPair) -> None:
    """Drops the changes of ``sides`` that follow from another dtype of a named input; if there is none, from
    that of an unnamed array or of a ``dtype`` argument."""
    origins: list[list[ProgramChange]] = [[], [], []]
    for change in sides.changes:
        rank = _rank_of_origin(sides, change)
        if rank is not None:
            origins[rank].append(change)
    told = next(filter(None, origins), [])
    types = {_types_of(sides, change) for change in told}
    sides.changes[:] = [
        change for change in sides.changes if change in told or _types_of(sides, change) not in types
    ]


def _rank_of_origin(sides: ProgramPair, change: ProgramChange) -> int | None:
    if change.kind == "dtype":
        return 0 if sides.now.program.steps[change.now[0]].name else 1
    return 2 if _is_dtype_argument(change) else None


def _is_dtype_argument(change: ProgramChange) -> bool:
    return change.kind == "parameter" and change.fields["name"] == "`dtype`"


def _types_of(sides: ProgramPair, change: ProgramChange) -> Types | None:
    """The dtypes of a change that may follow from a conversion; None for other changes."""
    inner = change.fields.get("change")
    if inner is not None:
        if inner.kind == "literal":
            return _types_of(sides, inner)
        return _types_of(sides, inner) if _is_dtype_argument(inner) or "change" in inner.fields else None
    types: Types | None = change.fields.get("types")
    if types is not None:
        return types
    if _is_dtype_argument(change):
        return change.fields["before"], change.fields["now"]
    if change.kind in ("dtype", "number", "argument") and change.now and change.before:
        old, new = sides.before.program.steps[change.before[-1]], sides.now.program.steps[change.now[-1]]
        if change.kind == "number" and not is_converted(old, new):
            return None
        if old.avals[0].shape == new.avals[0].shape or change.kind == "dtype":
            return str(old.avals[0].dtype), str(new.avals[0].dtype)
    return None


def is_converted(old: ProgramStep, new: ProgramStep) -> bool:
    """Whether two numbers may be one number, converted to two types."""
    if old.scalar is None or new.scalar is None:
        return False
    types = old.avals[0], new.avals[0]
    if any(each.weak_type for each in types) or types[0].dtype == types[1].dtype:
        return False
    try:
        return complex(old.scalar) == complex(new.scalar)
    except ValueError:
        return False
