"""A compilation as plain data: everything that the inspector shows, in a notebook or on a page.

Each part is made on its own. A part that cannot be had is absent, and a note says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lazynb.compare.misses.cache_info import cache_info
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.inspection import hlo_data, inspection_phrases, kernel_data as parts
from lazynb.report.inspection.hlo_data import compile_times, seconds_by_file
from lazynb.report.inspection.inspection_index import Index, Notes
from lazynb.report.inspection.inspection_phrases import is_kernel, kernels_and_bytes
from lazynb.report.inspection.kernel_data import STATIC_BOXES, findings, formation
from lazynb.report.inspection.operation_data import earlier_cells, earlier_cells_text, groups_of, nodes_of
from lazynb.report.inspection.session_tables import EMPTY, NO_TIMELINES, table, timelines
from lazynb.report.inspection.sharding_data import layouts, reshardings
from lazynb.report.inspection.source_data import Sources
from lazynb.running.break_log import Breaks, breaks as all_breaks
from lazynb.running.record_table import Records, plural
from lazynb.user_code.text_format import escape_invisible_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.evidence import DEAD, Fate
from lazynb.xla.inspection_schema import (
    VERSION,
    Cluster,
    CompileTimes,
    Coverage,
    Fate as FateData,
    Formation,
    Inspection,
    JitCounterpart,
    PassInfo,
    Program,
    Stage,
    Table,
    Timelines,
)
from lazynb.xla.sharding.value_shardings import device_count

LIVE_HLO_CHARACTERS = 60_000  # characters of a module that a kernel sends unasked
STATIC_HLO_CHARACTERS = 600_000  # and that a page without a kernel has
# characters of all modules of a program, up to which the changes of its passes are counted unasked
_COUNTED_HLO_CHARACTERS = 1_500_000
_CHANGES = 400  # changes of one pass that are sent unasked
_NONE: Records[Any] = Records([], "")
_LARGEST = 6_000_000  # characters of JSON
_SURELY_SMALL = 3_000  # nodes and lines of HLO: with fewer, the characters need not be counted
_BOUNDARIES = 1_000  # that are kept of a program that is larger than that


def inspection(
    compilation: Compilation,
    *,
    ran: bool = True,
    live: bool = False,
    full: bool | None = None,
    breaks: Records[Any] | None = None,
    cache: Records[Any] | None = None,
    title: str = "",
    begun: Callable[[str], None] = lambda part: None,
) -> Inspection:
    """All that is known of ``compilation``, version 1 of the shapes in :mod:`lazynb.xla.inspection_schema`.

    Arguments:
      ran: whether it was run.
      live: whether a kernel will answer requests for what is too long to send.
      full: count what each pass changed too, which takes about as long as all the rest; by default if
        nobody can ask.
      breaks, cache: the tables to show, by default ``lazynb.breaks()`` and ``lazynb.cache_info()``.
      begun: is told of each part that is begun, see :class:`lazynb.report.inspection.inspection_index.Notes`.
    """
    if full is None:
        full = not live
    snapshot, notes = compilation.snapshot, Notes(begun)
    index = Index(compilation, notes)
    sources = notes.value_or_note("Source lines are missing", lambda: Sources(snapshot.nodes), Sources(()))
    fates = notes.value_or_note("Fates are missing", lambda: _fates(index, snapshot, notes), [])
    boundaries = parts.boundaries(index, notes)
    formed: dict[tuple[int, str], list[str]] = {}
    if full:
        formed = notes.value_or_note(
            "The passes that formed a cluster are missing", lambda: _passes_by_cluster(index), formed
        )
    programs = [
        _program(index, number, runs, notes, live, full, sources)
        for number, runs in enumerate(compilation.runs)
    ]
    earlier = notes.value_or_note(
        "What earlier cells left is missing", lambda: earlier_cells(compilation.earlier), []
    )
    said = notes.value_or_note("Collectives are missing", lambda: compilation.collectives, _NONE)
    lying = notes.value_or_note("Shardings are missing", lambda: compilation.shardings, _NONE)
    ways, tiles = notes.value_or_note("Drawings of shardings are missing", lambda: layouts(lying), ([], []))
    if cache is None:
        cache = cache_info()
    if breaks is None:
        breaks = all_breaks()
    data: Inspection = {
        "version": VERSION,
        "title": title,
        "live": live,
        "ran": ran and compilation.is_run,
        "target": "" if compilation.target is None else compilation.target.title,
        "form": "" if compilation.form is None else str(compilation.form),
        "instead": compilation.instead,
        "other": None,
        "chip": parts.chip_data(compilation.target),
        "cell": compilation.cell,
        "earlier": earlier,
        "apart": earlier_cells_text(earlier),
        "sources": sources.data,
        "nodes": nodes_of(snapshot, sources),
        "groups": notes.value_or_note("The groups of the graph are missing", lambda: groups_of(snapshot), []),
        "fates": fates,
        "coverage": _coverage(index, fates, snapshot, notes),
        "programs": programs,
        "clusters": notes.value_or_note(
            "Clusters are missing",
            lambda: parts.clusters(index, snapshot, sources, boundaries, formed, notes),
            [],
        ),
        "boundaries": boundaries,
        "findings": notes.value_or_note(
            "Findings are missing", lambda: findings(compilation, index, boundaries), []
        ),
        "collectives": notes.value_or_note(
            "Collectives are missing", lambda: table(said, "collective", lambda one: one.nodes), EMPTY
        ),
        "shardings": notes.value_or_note(
            "Shardings are missing", lambda: table(lying, "value", lambda one: [one.node]), EMPTY
        ),
        "layouts": ways,
        "tiles": tiles,
        "reshardings": notes.value_or_note(
            "Where shardings change is missing", lambda: reshardings(lying, said), []
        ),
        "machine": None,
        "cache": _table(cache, "executable", notes, sources),
        "breaks": _table(breaks, "trace break", notes, sources),
        "timelines": notes.value_or_note(
            "The timelines are missing", lambda: _timelines(breaks, sources, compilation.cell), NO_TIMELINES
        ),
        "notes": notes,
        "reading": False,
    }
    if not live:
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
    whole: Inspection = escape_invisible_in(_within_size_limit(data, notes))
    whole["other"] = jit_counterpart(compilation, live, full, breaks, cache)
    return whole


def jit_counterpart(
    compilation: Compilation,
    live: bool,
    full: bool,
    breaks: Records[Any] | None = None,
    cache: Records[Any] | None = None,
) -> JitCounterpart | None:
    """The program of ``jax.jit`` beside lazynb's, as far as it is compiled; None if nobody knows of one.

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


def _table(records: Records[Any], noun: str, notes: Notes, sources: Sources) -> Table:
    make = partial(table, records, noun, placed=sources.placed)
    return notes.value_or_note(f"The list of {noun}s is missing", make, EMPTY)  # type: ignore[no-any-return]


def _timelines(breaks: Records[Any], sources: Sources, cell: int | None) -> Timelines:
    if not isinstance(breaks, Breaks):
        return NO_TIMELINES
    return timelines(breaks, sources.placed, cell)


# ---- what became of the nodes -----------------------------------------------------------------------------


def _fates(index: Index, snapshot: Snapshot, notes: Notes) -> list[FateData]:
    """Exactly one for each operation."""
    known: dict[int, tuple[int, Fate]] = {}
    for number, trace in enumerate(index.traces):
        own = notes.value_or_note(
            "Fates are missing", partial(getattr, trace, "fates"), _unexplained_fates(trace)
        )
        known.update((node, (number, fate)) for node, fate in own.items())
    fates = []
    for node in snapshot.nodes:
        if node.kind == "op":
            number, fate = known.get(node.id, (0, DEAD))
            fates.append(_fate(index, node.id, number, fate))
    return fates


def _unexplained_fates(trace: CompiledProgram) -> dict[int, Fate]:
    lost = Fate("lost", "what became of it could not be worked out")
    return dict.fromkeys(trace.origins.operations.values(), lost)


def _fate(index: Index, node: int, program: int, fate: Fate) -> FateData:
    return {
        "node": node,
        "kind": fate.kind,  # type: ignore[typeddict-item]
        "clusters": index.ids(program, fate.clusters),
        "with": fate.merged_with,
        "by": fate.by,
        "text": fate.text,
        "label": fate.label,  # type: ignore[typeddict-item]
    }


def _coverage(index: Index, fates: Sequence[FateData], snapshot: Snapshot, notes: Notes) -> Coverage:
    operations = snapshot.operations()
    inferred = 0
    for trace in index.traces:
        own = notes.value_or_note("Fates are missing", partial(getattr, trace, "fates"), {})
        inferred += sum(not fate.followed and fate.kind != "lost" for fate in own.values())
    followed = sum(fate["kind"] != "lost" for fate in fates) - inferred
    return {
        "operations": operations,
        "followed": followed,
        "inferred": inferred,
        "lost": operations - followed - inferred,
    }


# ---- programs ----------------------------------------------------------------------------------------------


def _program(
    index: Index, number: int, runs: int, notes: Notes, live: bool, full: bool, sources: Sources
) -> Program:
    trace = index.traces[number]
    limit = LIVE_HLO_CHARACTERS if live else STATIC_HLO_CHARACTERS

    def before() -> Stage:
        return (
            hlo_data.hlo_stage(index, number, trace.before, None, limit)
            if trace.has_dump
            else hlo_data.NO_STAGE
        )

    def after() -> Stage:
        return hlo_data.hlo_stage(index, number, trace.text, trace.module, limit)

    def passes() -> list[PassInfo]:
        return _passes(index, number, full, notes)

    def formed() -> Formation | None:
        if live or not full or not has_countable_changes(trace) or len(trace.formation.boxes) > STATIC_BOXES:
            return None
        return formation(index, number)

    def times() -> CompileTimes:
        return compile_times(trace, index.snapshot, sources)

    return {
        "number": number,
        "operations": trace.operations,
        "cache": trace.cache_event,
        "compile_seconds": trace.compile_seconds,
        "backend": notes.value_or_note("The backend's name is missing", lambda: _backend(trace), ""),
        "devices": device_count(trace),
        "runs": runs,
        "hlo": {
            "before": notes.value_or_note("HLO before the passes is missing", before, hlo_data.NO_STAGE),
            "after": notes.value_or_note("Optimised HLO is missing", after, hlo_data.NO_STAGE),
            "passes": notes.value_or_note("XLA's passes are missing", passes, []),
            "kernels": notes.value_or_note(
                "The kernels after each pass are missing", lambda: trace.kernel_counts or [], []
            ),
            "formation": notes.value_or_note("How the kernels came about is missing", formed, None),
        },
        "memory": notes.value_or_note("Memory is missing", lambda: parts.memory_data(index, number), None),
        "total": notes.value_or_note(
            "The cost of all kernels is missing", lambda: parts.total_data(index, number), None
        ),
        "times": notes.value_or_note("What compiling took is missing", times, None),
    }


def _backend(trace: CompiledProgram) -> str:
    return trace.platform


def _passes(index: Index, number: int, full: bool, notes: Notes) -> list[PassInfo]:
    trace = index.traces[number]
    if not trace.has_dump:
        return []
    seconds = seconds_by_file(trace)
    if full and has_countable_changes(trace):
        return [
            hlo_data.pass_with_counts(index, number, step, _CHANGES, seconds.get(step.file))
            for step in trace.passes
        ]
    if full:
        notes.say("The program is large: what each pass changed is not counted.")
    return [hlo_data.pass_info(step, seconds.get(step.file)) for step in trace.passes]


def has_countable_changes(trace: CompiledProgram) -> bool:
    """Whether the changes of its passes are counted in a second or two."""
    return trace.has_dump and sum(len(step.after) for step in trace.passes) <= _COUNTED_HLO_CHARACTERS


def _passes_by_cluster(index: Index) -> dict[tuple[int, str], list[str]]:
    passes_of: dict[tuple[int, str], list[str]] = {}
    for number, trace in enumerate(index.traces):
        if has_countable_changes(trace):
            passes_of.update(hlo_data.passes_by_fusion(number, trace.passes))
    return passes_of


# ---- notes -------------------------------------------------------------------------------------------------


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


def _add_code(index: Index, data: Inspection, notes: Notes) -> None:
    """The code of each kernel, until there is as much as a saved page keeps."""
    left, without = STATIC_HLO_CHARACTERS, 0
    for cluster in data["clusters"]:
        if not is_kernel(cluster):
            continue
        code = parts.code_data(index, cluster["id"])
        left -= sum(len(code[key]) for key in ("hlo", "assembly", "llvm"))  # type: ignore[literal-required]
        if left < 0:
            without += 1
        else:
            cluster["code"] = code
    if without:
        notes.say(f"The code of {plural(without, 'kernel')} is too long to be kept here.")


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


# ---- size --------------------------------------------------------------------------------------------------


def size(data: Any) -> int:
    """Characters of its JSON."""
    return len(json.dumps(data, separators=(",", ":")))


def _within_size_limit(data: Inspection, notes: Notes) -> Inspection:
    """Leaves out what is longest until the JSON is of a size that a notebook can keep."""
    if _rows(data) < _SURELY_SMALL or size(data) <= _LARGEST:
        return data
    for drop, what in (
        (_drop_code, "the code of the kernels"),
        (_drop_changes, "the changes of the passes"),
        (_drop_texts, "the HLO texts"),
        (_drop_instructions, "the instructions of the clusters and the memory"),
        (_drop_values, f"what each cluster reads, and all but the {_BOUNDARIES:,} largest boundaries"),
    ):
        if not drop(data):
            continue
        notes.say(f"The program is large: {what} are left out here.")
        if size(data) <= _LARGEST:
            break
    return data


def _rows(data: Inspection) -> int:
    """Nodes and lines of HLO."""
    count = len(data["nodes"])
    for program in data["programs"]:
        count += len(program["hlo"]["before"]["lines"]) + len(program["hlo"]["after"]["lines"])
    return count


# Each returns whether there was anything to leave out.


def _drop_code(data: Inspection) -> bool:
    with_code = [cluster for cluster in data["clusters"] if cluster["code"] is not None]
    for cluster in with_code:
        cluster["code"] = None
    return bool(with_code)


def _drop_texts(data: Inspection) -> bool:
    for program in data["programs"]:
        program["hlo"]["before"], program["hlo"]["after"] = hlo_data.NO_STAGE, hlo_data.NO_STAGE
    return True


def _drop_changes(data: Inspection) -> bool:
    steps = [step for program in data["programs"] for step in program["hlo"]["passes"]]
    for program in data["programs"]:
        program["hlo"]["formation"] = None
    changed = [step for step in steps if step["changes"]]
    for step in steps:
        step["changes"] = None
    return bool(changed)


def _drop_instructions(data: Inspection) -> bool:
    for cluster in data["clusters"]:
        cluster["instructions"] = [cluster["name"]]
    for program in data["programs"]:
        program["memory"] = None
    return True


def _drop_values(data: Inspection) -> bool:
    for cluster in data["clusters"]:
        cluster["inputs"], cluster["outputs"] = [], []
    largest = sorted(data["boundaries"], key=lambda boundary: -boundary["bytes"])[:_BOUNDARIES]
    data["boundaries"] = sorted(largest, key=lambda boundary: boundary["id"])
    return True
