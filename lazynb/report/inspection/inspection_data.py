"""Assembles an inspection: all data about a compilation that the inspector shows.

Each section is built separately. A section that fails is empty, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

from lazynb.compare.misses.cache_info import CacheInfo
from lazynb.report.inspection import inspection_phrases
from lazynb.report.inspection.boundary_data import boundaries
from lazynb.report.inspection.finding_data import findings
from lazynb.report.inspection.inspection_index import Index, Notes
from lazynb.report.inspection.inspection_phrases import is_kernel, kernels_and_bytes
from lazynb.report.inspection.inspection_size import within_size_limit
from lazynb.report.inspection.kernel_data import chip_data, clusters, code_data
from lazynb.report.inspection.operation_data import (
    coverage,
    earlier_cells,
    earlier_cells_text,
    fates_of,
    groups_of,
    nodes_of,
)
from lazynb.report.inspection.program_data import STATIC_HLO_CHARACTERS, passes_by_cluster, program_data
from lazynb.report.inspection.session_tables import EMPTY, NO_TIMELINES, table, timelines
from lazynb.report.inspection.sharding_data import layouts, reshardings
from lazynb.report.inspection.source_data import Sources
from lazynb.running.break_log import Breaks, breaks as all_breaks
from lazynb.running.record_table import Records, plural
from lazynb.running.time_log import analysis
from lazynb.user_code.text_format import escape_invisible_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.inspection_schema import (
    VERSION,
    Cluster,
    Inspection,
    JitCounterpart,
    Layout,
    Program,
    Table,
    Timelines,
    ValueLayout,
)

_NONE: Records[Any] = Records([], "")


@dataclass(frozen=True)
class _Context:
    """The inputs of the section builders."""

    compilation: Compilation
    index: Index
    sources: Sources
    notes: Notes
    live: bool
    full: bool
    breaks: Records[Any]
    cache: Records[Any]

    @cached_property
    def collectives(self) -> Records[Any]:
        return self._value("Collectives are missing", lambda: self.compilation.collectives, _NONE)

    @cached_property
    def shardings(self) -> Records[Any]:
        return self._value("Shardings are missing", lambda: self.compilation.shardings, _NONE)

    @cached_property
    def layouts(self) -> tuple[list[Layout], list[ValueLayout]]:
        return self._value("Drawings of shardings are missing", lambda: layouts(self.shardings), ([], []))

    def _value(self, missing: str, make: Callable[[], Any], otherwise: Any) -> Any:
        return self.notes.value_or_note(missing, make, otherwise)


@analysis
def inspection(
    compilation: Compilation,
    *,
    ran: bool = True,
    live: bool = False,
    full: bool | None = None,
    explained: bool | None = None,
    breaks: Records[Any] | None = None,
    cache: Records[Any] | None = None,
    title: str = "",
    begun: Callable[[str], None] = lambda part: None,
) -> Inspection:
    """The inspection of a compilation, version 1 of the shapes in :mod:`lazynb.xla.inspection_schema`.

    Arguments:
      ran: whether the compilation was run.
      live: whether a Jupyter kernel will answer requests for parts that are too long to send.
      full: whether to count the changes of each pass, which takes about as long as all the rest. By default,
        only if ``live`` is false.
      explained: whether to work out why each executable in ``cache`` was no hit; by default as ``full``.
      breaks, cache: the tables to show, by default ``lazynb.breaks()`` and ``lazynb.cache_info()``.
      begun: called at the start of each section, see
        :class:`lazynb.report.inspection.inspection_index.Notes`.
    """
    notes = Notes(begun)
    full = not live if full is None else full
    snapshot = compilation.snapshot
    cache = CacheInfo(full if explained is None else explained) if cache is None else cache
    breaks = all_breaks() if breaks is None else breaks
    index = Index(compilation, notes)
    sources = notes.value_or_note("Source lines are missing", lambda: Sources(snapshot.nodes), Sources(()))
    context = _Context(compilation, index, sources, notes, live, full, breaks, cache)
    data = cast(Inspection, _recorded_part(context, title, ran))
    for key, (missing, build, empty) in _SECTIONS.items():
        data[key] = notes.value_or_note(missing, partial(build, context, data), empty())  # type: ignore[literal-required]
    data["apart"] = earlier_cells_text(data["earlier"])
    data["coverage"] = coverage(index, data["fates"], snapshot, notes)
    _add_notes(context, data)
    whole: Inspection = escape_invisible_in(within_size_limit(data, notes))
    whole["other"] = jit_counterpart(compilation, live, full, breaks, cache)
    return whole


def _recorded_part(context: _Context, title: str, ran: bool) -> dict[str, Any]:
    """The keys that do not depend on XLA's output."""
    compilation = context.compilation
    return {
        "version": VERSION,
        "title": title,
        "live": context.live,
        "ran": ran and compilation.is_run,
        "target": "" if compilation.target is None else compilation.target.title,
        "form": "" if compilation.form is None else str(compilation.form),
        "instead": compilation.instead,
        "other": None,
        "chip": chip_data(compilation.target),
        "cell": compilation.cell,
        "sources": context.sources.data,
        "nodes": nodes_of(compilation.snapshot, context.sources),
        "machine": None,
        "notes": context.notes,
        "reading": False,
    }


def _programs(context: _Context, data: Inspection) -> list[Program]:
    index, notes, sources = context.index, context.notes, context.sources
    return [
        program_data(index, number, runs, notes, context.live, context.full, sources)
        for number, runs in enumerate(context.compilation.runs)
    ]


def _clusters(context: _Context, data: Inspection) -> list[Cluster]:
    index, notes = context.index, context.notes
    formed: dict[tuple[int, str], list[str]] = {}
    if context.full:
        formed = notes.value_or_note(
            "The passes that formed a cluster are missing", lambda: passes_by_cluster(index), formed
        )
    return clusters(index, context.compilation.snapshot, context.sources, data["boundaries"], formed, notes)


def _timelines(context: _Context, data: Inspection) -> Timelines:
    if not isinstance(context.breaks, Breaks):
        return NO_TIMELINES
    return timelines(context.breaks, context.sources.placed, context.compilation.cell)


_SECTIONS: dict[str, tuple[str, Callable[[_Context, Inspection], Any], Callable[[], Any]]] = {
    "fates": (
        "Fates are missing",
        lambda context, data: fates_of(context.index, context.compilation.snapshot, context.notes),
        list,
    ),
    "boundaries": (
        "Boundaries are missing",
        lambda context, data: boundaries(context.index, context.notes),
        list,
    ),
    "programs": ("Programs are missing", _programs, list),
    "earlier": (
        "What earlier cells left is missing",
        lambda context, data: earlier_cells(context.compilation.earlier),
        list,
    ),
    "groups": (
        "The groups of the graph are missing",
        lambda context, data: groups_of(context.compilation.snapshot),
        list,
    ),
    "clusters": ("Clusters are missing", _clusters, list),
    "findings": (
        "Findings are missing",
        lambda context, data: findings(context.compilation, context.index, data["boundaries"]),
        list,
    ),
    "collectives": (
        "Collectives are missing",
        lambda context, data: table(context.collectives, "collective", lambda one: one.nodes),
        lambda: EMPTY,
    ),
    "shardings": (
        "Shardings are missing",
        lambda context, data: table(context.shardings, "value", lambda one: [one.node]),
        lambda: EMPTY,
    ),
    "layouts": ("Drawings of shardings are missing", lambda context, data: context.layouts[0], list),
    "tiles": ("Drawings of shardings are missing", lambda context, data: context.layouts[1], list),
    "reshardings": (
        "Where shardings change is missing",
        lambda context, data: reshardings(context.shardings, context.collectives),
        list,
    ),
    "cache": (
        "The list of executables is missing",
        lambda context, data: cache_table(context.cache, context.sources),
        lambda: EMPTY,
    ),
    "breaks": (
        "The list of trace breaks is missing",
        lambda context, data: table(context.breaks, "trace break", placed=context.sources.placed),
        lambda: EMPTY,
    ),
    "timelines": ("The timelines are missing", _timelines, lambda: NO_TIMELINES),
}
"""By key of an inspection: the note if the section fails, its builder, and a maker of its empty value.

The builders run in this order; each may read the sections before it in ``data``."""


def cache_table(cache: Records[Any], sources: Sources) -> Table:
    return table(cache, "executable", placed=sources.placed)


def jit_counterpart(
    compilation: Compilation,
    live: bool,
    full: bool,
    breaks: Records[Any] | None = None,
    cache: Records[Any] | None = None,
) -> JitCounterpart | None:
    """The ``jax.jit`` counterpart of a compilation, with its inspection if compiled; None without one.

    Arguments: as for :func:`inspection`.
    """
    counterpart = compilation.counterpart
    if counterpart is None or not compilation.traces:
        return None
    found, notes = counterpart.compilation, Notes()
    data = None
    if found is not None:
        data = inspection(found, ran=False, live=live, full=full, breaks=breaks, cache=cache)
    return {
        "own": notes.value_or_note("", lambda: kernels_and_bytes(compilation), ""),
        "figures": notes.value_or_note("", lambda: kernels_and_bytes(found), "") if found is not None else "",
        "why": counterpart.why,
        "inspection": data,
    }


# ---- Notes and the code of kernels ------------------------------------------------------------------------


def _add_notes(context: _Context, data: Inspection) -> None:
    compilation, index, notes = context.compilation, context.index, context.notes
    if not context.live:
        notes.value_or_note("The code of the kernels is missing", lambda: _add_code(index, data, notes), None)
    _note_missing_parts(index, data, notes)
    if per_device := inspection_phrases.per_device(data):
        notes.say(per_device)
    for note in compilation.notes:
        notes.say(note)
    if compilation.beside:
        notes.say(f"{compilation.beside}.")
    if compilation.unlisted:
        notes.say(f"The cell ran {plural(compilation.unlisted, 'other program')}, not shown here.")


def _note_missing_parts(index: Index, data: Inspection, notes: Notes) -> None:
    for number, trace in enumerate(index.traces):
        of = f" of program {number + 1}" if len(index.traces) > 1 else ""
        if not trace.text:
            notes.say(f"This backend gives no HLO{of}: there are no clusters, fates or boundaries.")
        elif not trace.has_dump and trace.cache_event != "given":
            notes.say(_no_passes(trace.cache_event, of))
    kernels = filter(is_kernel, data["clusters"])
    fused = [cluster for cluster in kernels if cluster["kind"] != "library"]
    if fused and not any(map(_has_cost, fused)):
        notes.say("XLA gives no cost for any kernel of this program.")


def _has_cost(cluster: Cluster) -> bool:
    cost = cluster["cost"]
    if cost is None:
        return False
    return cost["flops"] is not None or cost["bytes"] is not None


def _no_passes(event: str, of: str) -> str:
    reasons = {"disk": "the program came from the persistent cache", "hit": "the program was compiled before"}
    reason = reasons.get(event, "there was no place to write them to")
    return (
        f"XLA's passes{of} are not at hand: {reason}. %cache clear and another run, or asking for "
        "them, compiles again."
    )


def _add_code(index: Index, data: Inspection, notes: Notes) -> None:
    """Adds the code of each kernel, up to the size limit of a saved page."""
    left, without = STATIC_HLO_CHARACTERS, 0
    for cluster in data["clusters"]:
        if not is_kernel(cluster):
            continue
        code = code_data(index, cluster["id"])
        left -= sum(len(code[key]) for key in ("hlo", "assembly", "llvm"))  # type: ignore[literal-required]
        if left < 0:
            without += 1
        else:
            cluster["code"] = code
    if without:
        notes.say(f"The code of {plural(without, 'kernel')} is too long to be kept here.")
