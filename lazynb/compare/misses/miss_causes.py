"""The kinds of causes why a trace was not in the cache, and causes as text.

The table has one entry for each kind of difference from the nearest cached trace, ordered by importance: an
entry explains later ones more often than the reverse. Codes are stable and never reused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lazynb.compare.misses.program_sides import ProgramChange
from lazynb.config import config
from lazynb.running.miss_log import Miss
from lazynb.user_code.source_lines import Place


@dataclasses.dataclass(frozen=True, slots=True)
class CauseKind:
    """One kind of cause.

    Attributes:
      code: stable identifier, such as ``LNB411``.
      kind: short name, such as ``shape``.
      text: description of the difference, with placeholders in braces.
      cure: the edit that would make it a hit; empty if there is none.
    """

    code: str
    kind: str
    text: str
    cure: str


_ONE_SHAPE = "pad or cut {it} to one shape, or compile for each shape once and keep to these"
TURN_ENDS = "call lazynb.sync() where a turn ends"
"""Cure for programs that have another number of turns of a loop because of the trace breaks in it."""

_TABLE = (
    CauseKind("LNB401", "new", "nothing like it was compiled before{among}", ""),
    CauseKind(
        "LNB402",
        "forgotten",
        "the same program was compiled before and forgotten when lazynb.config.{setting} was {limit:,}",
        "raise lazynb.config.{setting}",
    ),
    CauseKind(
        "LNB403",
        "configuration",
        "JAX's setting {setting} is {now}, was {before}{inferred}",
        "set {setting} once, before the first operation",
    ),
    CauseKind(
        "LNB404",
        "context",
        "{name} was recorded under another JAX configuration",
        "keep JAX's settings the same",
    ),
    # Position of the trace between trace breaks.
    CauseKind(
        "LNB411",
        "broke",
        "the trace broke earlier, at {at} ({break_kind})",
        "remove the trace break, or move it to where the cached trace ended",
    ),
    CauseKind(
        "LNB412",
        "goes_on",
        "the trace no longer breaks at {at} ({break_kind})",
        "call lazynb.sync() where the trace ended before",
    ),
    CauseKind(
        "LNB413",
        "begins_later",
        "the trace begins after the trace break at {at} ({break_kind}); the cached one held "
        "what stands before it too",
        "remove the trace break; or, for a loop, call lazynb.sync() before it: its first step "
        "is then a trace like the others",
    ),
    CauseKind(
        "LNB414",
        "begins_earlier",
        "the trace begins earlier: it no longer follows the trace break at {at} ({break_kind})",
        "call lazynb.sync() where the cached trace began",
    ),
    CauseKind(
        "LNB415",
        "cell_split",
        "{operation} {stand} in another cell now: {at}",
        "keep in one cell what shall be one program",
    ),
    CauseKind(
        "LNB416",
        "cell_merged",
        "{operation} stood in another cell: {at}",
        "keep the cells apart, or call lazynb.sync() where the first one ended",
    ),
    CauseKind(
        "LNB417",
        "turn",
        "the trace begins after the trace break at {at} ({break_kind}), with {operation}; the cached one "
        "began elsewhere",
        "leave it: a program for the first turn of the loop and one for the others are cached now; or call "
        "lazynb.sync() where a turn ends",
    ),
    CauseKind(
        "LNB418",
        "divided",
        "lazynb decided to cut the long trace of a loop where it repeats: one program for each piece",
        "call lazynb.sync() in the loop, once every so many turns",
    ),
    CauseKind("LNB419", "not_reached", "{operation} {was} not reached: {why}", ""),
    CauseKind("LNB420", "reached", "{operation} {was} not reached before: {why}", ""),
    # Loops.
    CauseKind(
        "LNB421",
        "grows",
        "{name} grows at each step: {series}",
        "allocate {whole} at its final size, and write with .at[i].set(...)",
    ),
    CauseKind(
        "LNB422",
        "alternates",
        "{name} alternates between {series}",
        "pad {it} to one shape; or leave it: a program for each is cached now",
    ),
    CauseKind(
        "LNB423",
        "varies",
        "{name} has another shape at each step: {series}",
        "pad {it} to the largest shape, with a mask",
    ),
    CauseKind(
        "LNB424",
        "counter",
        "{name} of {operation} takes a new value at each step: {series}",
        "make it data: jnp.where with a mask, or jax.lax.dynamic_slice of one size, with the number as an "
        "array",
    ),
    CauseKind(
        "LNB425",
        "longer",
        "the trace is longer at each step: {series} operations",
        "keep a running value in place of all earlier ones, or call lazynb.sync() where a step ends",
    ),
    # Inputs of the trace.
    CauseKind("LNB431", "rank", "{name} is {now}, was {before}", "give {it} as many dimensions as before"),
    CauseKind("LNB432", "shape", "{name} is {now}, was {before}", _ONE_SHAPE),
    CauseKind(
        "LNB433", "dtype", "{name} is {now}, was {before}", "convert {it} to {before} where it is made"
    ),
    CauseKind("LNB434", "weak_type", "{name} is {now}, was {before}", "give the dtype where {it} is made"),
    CauseKind(
        "LNB435", "sharding", "{name} is {now}, was {before}", "place {it} as before, with jax.device_put"
    ),
    CauseKind(
        "LNB436",
        "scalar",
        "{name} is {now}, was {before}",
        "keep to one of the two: an array, or a Python number",
    ),
    CauseKind(
        "LNB437", "number", "{name} is {now}, was {before}", "write the number with the same type each time"
    ),
    CauseKind(
        "LNB438",
        "input_added",
        "{operation} takes {now}, which comes from outside the trace; it took {before}",
        "keep the source of the operand the same",
    ),
    CauseKind(
        "LNB439",
        "input_removed",
        "{operation} takes {now}; it took {before}, which came from outside the trace",
        "keep the source of the operand the same",
    ),
    CauseKind(
        "LNB440",
        "constant",
        "the number {before} at {at} is now {now}: {then}",
        "hold the number in a variable: another value is then the same program",
    ),
    # Operations of the trace.
    CauseKind("LNB441", "replaced", "{now} in place of {before}", ""),
    CauseKind("LNB442", "added", "{operation} {was} added", ""),
    CauseKind("LNB443", "removed", "{operation} {was} removed", ""),
    CauseKind(
        "LNB444",
        "repeats",
        "{operation} {runs} {now}, ran {before}",
        "put the loop into a jitted function, as jax.lax.fori_loop, with the number of turns as its argument",
    ),
    CauseKind("LNB445", "parameter", "{name} of {operation} was {before}, now {now}", ""),
    CauseKind("LNB446", "argument", "an argument of {operation} changed{gives}", ""),
    CauseKind("LNB447", "nested", "in {function}: {text}", ""),
    CauseKind(
        "LNB448",
        "literal",
        "{operation} has {now} written in it, was {before}",
        "pass the number to the jitted function as an argument",
    ),
    CauseKind(
        "LNB449",
        "identity",
        "{operation} holds a Python object that was made anew",
        "make the function or object once, outside the code that runs again",
    ),
    CauseKind("LNB450", "operand", "{operation} takes {now}, took {before}", ""),
    CauseKind(
        "LNB451",
        "moved",
        "{operation} was moved: it now comes after {after}",
        "keep the order of independent operations",
    ),
    CauseKind("LNB452", "returns", "it returns {now}, returned {before}", ""),
    CauseKind(
        "LNB453",
        "unjitted",
        "{function} is no longer one jitted function: its operations are recorded one by one",
        "keep the decorator, or jax.jit, on {function}",
    ),
    CauseKind(
        "LNB454",
        "jitted",
        "{function} is one jitted function now: its operations were recorded one by one",
        "",
    ),
    CauseKind("LNB455", "variable", "{name} was {before}, now {now}", ""),
    CauseKind(
        "LNB456",
        "closed_over",
        "{operation} takes {now}, which the function closes over or has as a static argument; it was "
        "{before}",
        "pass the number to the jitted function as an argument that is not static",
    ),
    CauseKind(
        "LNB457", "not_run", "only {which} program runs {operation}, although both sources contain {it}", ""
    ),
    CauseKind("LNB458", "carried", "{operation} was moved from {before} to {now}", ""),
    CauseKind("LNB459", "swapped", "the operands of {operation} changed places", ""),
    CauseKind(
        "LNB460",
        "slice_start",
        "the start of {operation} varies: from here on it is an input",
        "leave it: all starts are one program now",
    ),
    # Results and donation.
    CauseKind(
        "LNB461",
        "alive",
        "{name} is alive now",
        "drop it before the trace runs: del, or compute it inside a function",
    ),
    CauseKind(
        "LNB462", "not_alive", "{name} is no longer alive", "keep a reference to it until the trace has run"
    ),
    CauseKind(
        "LNB463",
        "donated",
        "the memory of {name} is used for a result now: nothing refers to it any more",
        "keep a reference to {name}, or drop it every time",
    ),
    CauseKind(
        "LNB464",
        "not_donated",
        "the memory of {name} is no longer used for a result: something refers to it",
        "drop what refers to {name} before the trace runs",
    ),
    CauseKind("LNB498", "unknown", "no difference to a program that is cached is known", ""),
    CauseKind("LNB499", "more", "and {count:,} differences more", ""),
)

CAUSES: dict[str, CauseKind] = {kind.kind: kind for kind in _TABLE}
RANKS: dict[str, int] = {kind.kind: rank for rank, kind in enumerate(_TABLE)}
"""Importance of each kind; the smallest comes first."""


# ---- Causes and differences -------------------------------------------------------------------------------

_SHOWN = 8
"""Maximum number of causes shown for one miss."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One difference from the nearest cached trace.

    Attributes:
      kind: see ``lazynb.compare.misses.miss_causes.CAUSES``.
      text: description in the user's terms, with the line.
      place: the user's line; None if there is none.
      cure: the edit that would make it a hit; empty if there is none.
      steps: numbers of the affected steps of the miss.
      before: numbers of the affected steps of the nearest cached trace.
    """

    kind: str
    text: str
    place: Place | None
    cure: str
    steps: tuple[int, ...] = ()
    before: tuple[int, ...] = ()

    @property
    def code(self) -> str:
        """Stable identifier, such as ``LNB432``."""
        return CAUSES[self.kind].code


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How a miss differs from the nearest trace that was cached then.

    Attributes:
      causes: the most important first.
      nearest: None if no trace was similar.
      pairs: step of the miss → its partner in ``nearest``.
      changed_steps: paired steps of the miss that are a cause, without those that differ as a consequence.
      added: steps of the miss without partner.
      removed: steps of ``nearest`` without partner.
    """

    causes: Sequence[Cause]
    nearest: Miss | None
    pairs: dict[int, int] = dataclasses.field(default_factory=dict)
    changed_steps: frozenset[int] = frozenset()
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def most_important(causes: Sequence[Cause]) -> list[Cause]:
    """The most important of ``causes``, which are ordered by importance."""
    told = _unique_causes(causes)
    if len(told) > _SHOWN:
        text = CAUSES["more"].text.format(count=len(told) - _SHOWN + 1)
        told[_SHOWN - 1 :] = [Cause("more", text, None, "")]
    return told


def _unique_causes(causes: Sequence[Cause]) -> list[Cause]:
    """Merges causes with equal text, such as those of an edited line in a loop."""
    once: dict[tuple[str, str], Cause] = {}
    for cause in causes:
        known = once.get((cause.kind, cause.text))
        if known is not None:
            steps, before = known.steps + cause.steps, known.before + cause.before
            cause = dataclasses.replace(known, steps=steps, before=before)
        once[cause.kind, cause.text] = cause
    return list(once.values())


def _words(change: ProgramChange) -> tuple[str, str]:
    """Text and cure of a change."""
    kind, fields, inner = CAUSES[change.kind], change.fields, change.fields.get("change")
    if inner is None:
        return kind.text.format(**fields), fields.get("cure") or kind.cure.format(**fields)
    text, cure = _words(inner)
    return kind.text.format(function=fields["function"], text=text), cure


def cause_of(change: ProgramChange) -> Cause:
    """Converts a change to the cause reported to the user."""
    text, cure = _words(change)
    if change.at is None:
        place = change.fields.get("place")
    else:
        place = change.at.place
    if change.at is not None and place is not None:
        if change.kind in _LOST:
            text += f": {change.fields.get('it', 'it was')} at {place.label}"
        else:
            text += f": {place.label}"
    return Cause(change.kind, text, place, cure, change.now, change.before)


_LOST = frozenset(("removed", "not_alive"))
"""Kinds whose line is in the earlier program."""


def loop_piece_cause(miss: Miss) -> Cause:
    """The cause of a trace that is a piece of a loop."""
    assert miss.cut is not None
    cause, at = CAUSES["divided"], miss.cut.spot.place
    return Cause("divided", f"{cause.text}: {at.label}", at, cause.cure)


def new_cause(miss: Miss, earlier: Sequence[Miss]) -> Cause:
    """The cause of a trace without a similar one among those remembered."""
    among = "" if len(earlier) == miss.number else f", among the {len(earlier):,} programs remembered"
    return Cause("new", CAUSES["new"].text.format(among=among), None, "")


def unnamed_cause(other: Miss, miss: Miss) -> Cause:
    """The cause of a recompilation due to unnamed JAX configuration: a mesh, a setting from an import."""
    kind = "unknown" if other.summary.root is miss.summary.root else "context"
    cause = CAUSES[kind]
    return Cause(kind, cause.text.format(name="the program"), None, cause.cure)


def forgotten_cause(other: Miss) -> Cause:
    """The cause of a recompilation after eviction from the cache. No cure if the limit was raised since."""
    assert other.forgotten is not None
    _, setting, limit = other.forgotten
    cause = CAUSES["forgotten"]
    cure = "" if getattr(config, setting) > limit else cause.cure.format(setting=setting)
    return Cause("forgotten", cause.text.format(setting=setting, limit=limit), None, cure)
