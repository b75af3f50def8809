"""Causes of compilations, computed on demand, and tables of compilations and of flushes."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lazynb.running.miss_log import Miss, jax_compile_log, miss_log as miss_log
from lazynb.running.record_table import LazySequence, Records
from lazynb.running.run_statistics import CompiledProgram
from lazynb.user_code.source_lines import CodePosition, Place
from lazynb.user_code.text_format import duration

if TYPE_CHECKING:
    from lazynb.compare.misses.miss_causes import Cause, Difference

# ---- Causes of one miss -----------------------------------------------------------------------------------
# Computed on first access and kept with the miss; the modules that compute them are imported then.

_known: weakref.WeakKeyDictionary[Miss, Sequence[Cause]] = weakref.WeakKeyDictionary()


def difference_of(miss: Miss, earlier: Sequence[Miss] | None = None) -> Difference:
    """The difference from the nearest trace that was cached then, step by step.

    Arguments:
      earlier: misses to compare with; by default those in the log, which may have been cleared since.
    """
    from lazynb.compare.misses.miss_explanation import difference

    if earlier is None:
        rivals = miss.earlier_misses
    else:
        rivals = [other for other in earlier if other.number < miss.number]
    return difference(miss, rivals, partial(jax_compile_log.programs, miss.spot.identity))


def causes_of(miss: Miss, earlier: Sequence[Miss] | None = None) -> Sequence[Cause]:
    """The causes of the difference, most important first. The first result is kept."""
    if miss not in _known:
        _known[miss] = difference_of(miss, earlier).causes
    return _known[miss]


def reason_of(miss: Miss, earlier: Sequence[Miss] | None = None) -> str:
    """The causes in one line."""
    return "; ".join(cause.text for cause in causes_of(miss, earlier))


def cures_of(miss: Miss) -> list[str]:
    """The edits that would make it a hit, each once."""
    return list(dict.fromkeys(cause.cure for cause in causes_of(miss) if cause.cure))


def is_answered(miss: Miss) -> bool:
    """Whether its causes have been computed."""
    return miss in _known


def times_made(miss: Miss) -> int:
    """How often the same program was compiled or loaded, as far as known, including this time."""
    count = 1
    while any(cause.kind == "forgotten" for cause in causes_of(miss)):
        before = difference_of(miss).nearest
        if before is None:
            break
        count, miss = count + 1, before
    return count


class CauseText(NamedTuple):
    """One difference from the nearest cached trace.

    Attributes:
      text: description in the user's terms.
      cure: the edit that would make it a hit; empty if there is none.
    """

    text: str
    cure: str


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """One or several programs that were compiled or loaded for one line, with causes of the same kinds.

    Attributes:
      location: the user's line that caused the run.
      count: number of programs.
      causes: differences of the first from the nearest cached trace, most important first; empty if unknown.
      operations: recorded operations in the first program.
      loaded: number of programs from the persistent cache.
      seconds: total time of lowering, compiling and loading.
    """

    location: Place
    count: int
    causes: tuple[CauseText, ...]
    operations: int
    loaded: int
    seconds: float

    @property
    def reason(self) -> str:
        """The causes in one line."""
        return "; ".join(cause.text for cause in self.causes)

    @property
    def cure(self) -> str:
        """The cures in one line."""
        return "; ".join(dict.fromkeys(cause.cure for cause in self.causes if cause.cure))


def compiled(programs: Iterable[CompiledProgram]) -> Records[Compiled]:
    """One row for each line and kind of cause, in order of first occurrence."""
    groups: dict[Any, list[tuple[CompiledProgram, tuple[CauseText, ...]]]] = {}
    remembered = set(map(id, miss_log.misses))
    for program in programs:
        # A miss forgotten by ``lazynb.clear_cache()`` or a long log cannot be compared any more.
        kinds, causes = _causes(program.miss, id(program.miss) in remembered or is_answered(program.miss))
        groups.setdefault((program.miss.spot.identity, kinds), []).append((program, causes))
    return Records([_merged(group) for group in groups.values()], "no compilations", _row, ranked=True)


def _causes(miss: Miss, can_tell: bool) -> tuple[tuple[str, ...], tuple[CauseText, ...]]:
    """The kinds of the causes, and the causes; empty if this fails, because the miss must still be shown."""
    if not can_tell:
        return (), ()
    try:
        causes = list(causes_of(miss))
    except Exception:
        return (), ()
    return tuple(cause.kind for cause in causes), tuple(CauseText(cause.text, cause.cure) for cause in causes)


def _merged(group: list[tuple[CompiledProgram, tuple[CauseText, ...]]]) -> Compiled:
    first, causes = group[0]
    misses = [program.miss for program, _ in group]
    return Compiled(
        location=first.miss.place,
        count=len(group),
        causes=causes,
        operations=first.operations,
        loaded=sum(miss.origin == "disk" for miss in misses),
        seconds=sum(miss.seconds for miss in misses),
    )


def _row(compiled: Compiled) -> dict[str, str]:
    line = compiled.location.label
    if compiled.location.text:
        line = f"{line}: {compiled.location.text}"
    return {
        "line": line,
        "times": f"{compiled.count:,}",
        "operations": f"{compiled.operations:,}",
        "time": duration(compiled.seconds),
        "why": compiled.reason,
        "instead": compiled.cure,
    }


# ---- Flush events as a table ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Event:
    """One pending trace that was run.

    Attributes:
      kind: cause of the flush, see ``lazynb.recording.break_reasons``.
      location: the user's line that caused it.
      operations: number of pending operations.
      computed: number of operations that ran; the others were dead.
      cache: ``hit``, ``compiled``, or ``disk`` (compiled in an earlier process).
      compile_seconds: time of lowering and compiling, or of loading; 0 for a hit.
      run_seconds: time of the dispatch to the device, where the program runs asynchronously.
      record_seconds: from the start of the trace to its end, including the Python between operations.
      reason: for a miss, its difference from the nearest cached trace; empty if the log has dropped the miss.
        Computed on access, as it is slow.
    """

    kind: str
    location: Place
    operations: int
    computed: int
    cache: str
    compile_seconds: float
    run_seconds: float
    record_seconds: float
    reason: str = dataclasses.field(init=False)
    _why: dataclasses.InitVar[Callable[[], str]]

    def __post_init__(self, _why: Callable[[], str]) -> None:
        vars(self)["_why"] = _why

    def __getattr__(self, name: str) -> str:
        why = vars(self).get("_why") if name == "reason" else None
        if why is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        reason: str = why()
        vars(self)["reason"] = reason
        return reason

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def events() -> Records[Event]:
    """The flushes so far, oldest first."""
    earlier = tuple(miss_log.misses)
    made = LazySequence(jax_compile_log.events, lambda fields: _event(earlier, *fields))
    return Records(made, "nothing has run yet")


def _event(
    earlier: Sequence[Miss],
    kind: str,
    spot: CodePosition,
    operations: int,
    computed: int,
    cache: str,
    compile_seconds: float,
    run_seconds: float,
    record_seconds: float,
    miss: Miss | None,
) -> Event:
    is_known = miss is not None and not miss.is_dropped and cache != "hit"
    why = partial(_reason, miss if is_known else None, earlier)
    return Event(
        kind, spot.place, operations, computed, cache, compile_seconds, run_seconds, record_seconds, why
    )


def _reason(miss: Miss | None, earlier: Sequence[Miss]) -> str:
    return reason_of(miss, earlier) if miss is not None else ""
