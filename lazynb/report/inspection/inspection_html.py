"""The inspection as HTML without scripts, for saved notebooks, nbconvert and code hosts.

It has no style sheets, scripts or inline SVG, because an untrusted notebook strips them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.graph.graph_layout import LayoutUnavailable
from lazynb.report.graph.graph_svg import PlacedView, draw
from lazynb.report.graph.graph_text import summary
from lazynb.report.graph.graph_view import Chip
from lazynb.report.inspection import inspection_phrases
from lazynb.report.inspection.finding_data import sentences
from lazynb.report.inspection.inspection_figures import highlights, line_chips
from lazynb.report.inspection.inspection_markup import (
    CELL,
    MAX_LINES,
    MONO,
    SOFT,
    TABLE,
    chip_of,
    chips_html,
    code_html,
    escaped,
    records_html,
    sentence_html,
    soft_line,
    table_html,
)
from lazynb.report.inspection.kernel_tables import boundaries_html, fates_html, kernel_code_html, kernels_html
from lazynb.report.inspection.operation_data import static_view
from lazynb.report.inspection.program_tables import hlo_html, memory_html, passes_html, times_html
from lazynb.report.inspection.session_tables import timeline_html
from lazynb.report.inspection.sharding_data import drawings_html
from lazynb.running.record_table import plural
from lazynb.xla.inspection_schema import Inspection, Source

TABS: dict[str, tuple[str, ...]] = {
    "graph": ("lines", "graph"),
    "fusion": ("kernels", "boundaries", "passes", "fates"),
    "hlo": ("hlo", "times"),
    "code": ("code",),
    "cost": ("kernels",),
    "memory": ("memory",),
    "collectives": ("collectives", "shardings"),
    "cache": ("cache",),
    "breaks": ("breaks",),
}
"""Tabs of the inspector, with the corresponding sections of the static form."""

OPEN_SECTIONS = ("lines", "graph", "kernels", "boundaries", "collectives")
"""Sections that are open by default."""

_FITS = 1100  # pixels: wider drawings scroll, because shrinking would make them illegible


def to_html(
    data: Inspection, snapshot: Snapshot, *, opened: Collection[str] = (), arranged: PlacedView | None = None
) -> str:
    """The static form of an inspection.

    Arguments:
      snapshot: the compiled graph.
      opened: names of sections to open besides :data:`OPEN_SECTIONS`.
      arranged: the layout of the drawing, if already computed.
    """
    return fill_template(
        "inspection",
        headline=sentence_html(inspection_phrases.headline(data)),
        findings=_attempt(lambda: _findings(data)),
        notes="".join(soft_line(escaped(note)) for note in data["notes"]),
        sections="\n".join(_shown_sections(data, snapshot, opened, arranged)),
        detail="".join(f" · {sentence_html(detail)}" for detail in inspection_phrases.details(data)),
    )


def _shown_sections(
    data: Inspection, snapshot: Snapshot, opened: Collection[str], arranged: PlacedView | None
) -> Iterator[str]:
    apart = _attempt(lambda: _earlier_cells(data))
    if apart:
        yield fill_template("section", open="", title="What earlier cells had left pending", body=apart)
    every = sections(data, snapshot, arranged) if data["programs"] else {}
    for name, (title, make) in every.items():
        if name in ("cache", "breaks") and name not in opened:
            continue
        body = _attempt(make)
        if body:
            is_open = name in opened or name in OPEN_SECTIONS
            yield fill_template("section", open="open" if is_open else "", title=escaped(title), body=body)


def _findings(data: Inspection) -> str:
    shown = ""
    for kernels, said in sentences(data):
        chips = chips_html([chip_of(data, id_) for id_ in kernels], 4)
        shown += f'<div style="margin:3px 0">{chips} {sentence_html(said)}</div>'
    return shown


def sections(
    data: Inspection, snapshot: Snapshot, arranged: PlacedView | None = None
) -> dict[str, tuple[str, Callable[[], str]]]:
    """By name, the title and the builder of each section, in display order."""
    return {
        "lines": ("Your lines, and the kernels they went to", lambda: _sources(data)),
        "graph": ("Graph, coloured by kernel", lambda: _graph(data, snapshot, arranged)),
        "kernels": ("Kernels, in the order in which they run", lambda: kernels_html(data)),
        "boundaries": ("Why the boundaries lie where they do", lambda: boundaries_html(data)),
        "passes": ("How the kernels came about, pass by pass", lambda: passes_html(data)),
        "collectives": ("What the devices say to each other", lambda: records_html(data["collectives"])),
        "shardings": ("How values lie on the devices", lambda: _shardings(data)),
        "fates": ("What became of each operation", lambda: fates_html(data)),
        "memory": ("Memory", lambda: memory_html(data)),
        "code": ("Code of the kernels", lambda: kernel_code_html(data)),
        "hlo": ("Optimised HLO", lambda: hlo_html(data)),
        "times": ("What compiling took", lambda: times_html(data)),
        "cache": (f"Cache: {data['cache']['text']}", lambda: records_html(data["cache"])),
        "breaks": (f"Breaks: {data['breaks']['text']}", lambda: _breaks(data)),
    }


def _attempt(make: Callable[[], str]) -> str:
    try:
        return make()
    except Exception as error:  # a failing section must not affect the others
        return f"<div>{escaped(f'cannot be shown: {type(error).__name__}: {error}')}</div>"


def _sources(data: Inspection) -> str:
    chips = line_chips(data)
    return "".join(_source(number, source, chips) for number, source in enumerate(data["sources"]))


def _source(number: int, source: Source, chips: Mapping[tuple[int, int], list[Chip]]) -> str:
    rows = []
    left = f"{CELL};text-align:right;{SOFT};{MONO}"
    shown = source["lines"][:MAX_LINES]
    for line, text in enumerate(shown, source["first"]):
        own_chips = chips.get((number, line), [])
        ink = "" if own_chips else ";" + SOFT
        rows.append(
            f'<tr style="background:none"><td style="{left}">{line}</td>'
            f'<td style="{CELL};white-space:pre-wrap;overflow-wrap:anywhere;{MONO}{ink}">'
            f"{escaped(text.expandtabs(4))}</td>"
            f'<td style="{CELL};min-width:36px">{chips_html(own_chips, 12)}</td></tr>'
        )
    left_out = len(source["lines"]) - len(shown)
    more = soft_line(f"{plural(left_out, 'line')} more") if left_out else ""
    head = f'<div style="{SOFT};margin-top:4px">{escaped(_source_name(source))}</div>'
    return f'{head}<table style="{TABLE}">{"".join(rows)}</table>{more}'


def _source_name(source: Source) -> str:
    if source["cell"] is not None:
        return f"cell {source['cell']}"
    return source["file"].replace("\\", "/").rpartition("/")[2]


def _graph(data: Inspection, snapshot: Snapshot, arranged: PlacedView | None) -> str:
    view = arranged.view if arranged is not None else static_view(snapshot)
    if not view.boxes:
        return ""
    try:
        drawing = draw(view, highlights(view, data), arranged)
    except LayoutUnavailable as error:
        return soft_line(f"No drawing: {escaped(str(error))}")
    return fill_template(
        "picture",
        data=b64encode(drawing.source.encode()).decode("ascii"),
        alt=escaped(f"Compiled graph: {summary(view.counts)}"),
        width=f"{drawing.width:.0f}",
        fit="max-width:100%;height:auto" if drawing.width <= _FITS else "max-width:none",
    )


def _earlier_cells(data: Inspection) -> str:
    """The lines of earlier cells with operations that were computed together with the cell."""
    lines = [line for left in data["earlier"] for line in left["lines"]]
    if not lines:
        return ""
    rows = []
    for line in lines[:MAX_LINES]:
        rows.append([escaped(line["label"]), code_html(line["text"].strip()), f"{line['operations']:,}"])
    return table_html(["where", "line", "operations"], rows, len(lines), "line")


def _breaks(data: Inspection) -> str:
    return records_html(data["breaks"]) + "".join(map(timeline_html, data["timelines"]["of"]))


def _shardings(data: Inspection) -> str:
    rows = records_html(data["shardings"])
    return rows + drawings_html(data) if rows else ""
