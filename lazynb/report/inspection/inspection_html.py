"""The inspector without a kernel or scripts: what a saved notebook, nbconvert and code hosts show.

Style sheets, scripts and inline SVG do not outlive a notebook that is reopened untrusted, so there are none.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from itertools import groupby
from typing import Any

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.drawing_style import CLUSTERS, contrasting_ink
from lazynb.report.graph.graph_boxes import build
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.graph.graph_layout import LayoutUnavailable
from lazynb.report.graph.graph_svg import PlacedView, draw
from lazynb.report.graph.graph_text import summary
from lazynb.report.graph.graph_view import Chip, GraphView, cluster_chip
from lazynb.report.inspection import inspection_phrases, inspection_text
from lazynb.report.inspection.inspection_figures import highlights, line_chips, pattern_css
from lazynb.report.inspection.inspection_phrases import line_costs, transcendentals
from lazynb.report.inspection.kernel_data import sentences
from lazynb.report.inspection.session_tables import timeline_html
from lazynb.report.inspection.sharding_data import drawings_html
from lazynb.report.short_text import clip, counts_text
from lazynb.running.record_table import plural, scrolling
from lazynb.user_code.text_format import escape_invisible, number, short_duration, size
from lazynb.xla.inspection_schema import Boundary, Cluster, Fate, Inspection, Source, Table

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
"""Tabs of the inspector, and the sections of the static form that stand for each."""

DRAWN_BOXES = 40
"""Boxes in the drawing."""

OPEN_SECTIONS = ("lines", "graph", "kernels", "boundaries", "collectives")
"""Sections that are open unless something else was asked for."""

_KERNELS, _BOUNDARIES, _FATES, _HLO, _LINES, _TIMES, _PROGRAMS = 40, 30, 60, 40_000, 80, 12, 3
_FITS = 1100  # pixels: a wider drawing would shrink below legibility, and is scrolled instead
_CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
_BELOW = "text-align:left;vertical-align:top;padding:0 14px 6px 0;white-space:normal;overflow-wrap:anywhere"
_HEAD = _CELL + ";font-weight:600;opacity:0.75"
_TABLE = "text-align:left;border-collapse:collapse;margin:4px 0;font-size:12px;color:inherit;border:0"
_SOFT = "opacity:0.75"
_MONO = "font-family:var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace);font-size:12px"


def to_html(
    data: Inspection, snapshot: Snapshot, *, opened: Collection[str] = (), arranged: PlacedView | None = None
) -> str:
    """The static form.

    Arguments:
      snapshot: the graph that was compiled.
      opened: sections that are shown opened, of :data:`TABS`; others stay closed but for :data:`ALWAYS`.
      arranged: the drawing's layout, if it is there already.
    """
    shown = []
    apart = _attempt(lambda: _earlier_cells(data))
    if apart:
        shown.append(
            fill_template("section", open="", title="What earlier cells had left pending", body=apart)
        )
    every = sections(data, snapshot, arranged) if data["programs"] else {}
    for name, (title, make) in every.items():
        if name in ("cache", "breaks") and name not in opened:
            continue
        body = _attempt(make)
        if body:
            is_open = name in opened or name in OPEN_SECTIONS
            shown.append(
                fill_template("section", open="open" if is_open else "", title=_text(title), body=body)
            )
    notes = "".join(_soft(_text(note)) for note in data["notes"])
    return fill_template(
        "inspection",
        headline=_words(inspection_phrases.headline(data)),
        findings=_attempt(lambda: _findings(data)),
        notes=notes,
        sections="\n".join(shown),
        detail="".join(f" · {_words(detail)}" for detail in inspection_phrases.details(data)),
    )


def _findings(data: Inspection) -> str:
    shown = ""
    for kernels, said in sentences(data):
        chips = _chips([_chip_of(data, id_) for id_ in kernels], 4)
        shown += f'<div style="margin:3px 0">{chips} {_words(said)}</div>'
    return shown


def sections(
    data: Inspection, snapshot: Snapshot, arranged: PlacedView | None = None
) -> dict[str, tuple[str, Callable[[], str]]]:
    """The title and the maker of each section, in the order in which they are shown."""
    return {
        "lines": ("Your lines, and the kernels they went to", lambda: _sources(data)),
        "graph": ("Graph, coloured by kernel", lambda: _graph(data, snapshot, arranged)),
        "kernels": ("Kernels, in the order in which they run", lambda: _kernels(data)),
        "boundaries": ("Why the boundaries lie where they do", lambda: _boundaries(data)),
        "passes": ("How the kernels came about, pass by pass", lambda: _passes(data)),
        "collectives": ("What the devices say to each other", lambda: _rows(data["collectives"])),
        "shardings": ("How values lie on the devices", lambda: _shardings(data)),
        "fates": ("What became of each operation", lambda: _fates(data)),
        "memory": ("Memory", lambda: _memory(data)),
        "code": ("Code of the kernels", lambda: _code_of_all(data)),
        "hlo": ("Optimised HLO", lambda: _hlo(data)),
        "times": ("What compiling took", lambda: _times(data)),
        "cache": (f"Cache: {data['cache']['text']}", lambda: _rows(data["cache"])),
        "breaks": (f"Breaks: {data['breaks']['text']}", lambda: _breaks(data)),
    }


def _attempt(make: Callable[[], str]) -> str:
    try:
        return make()
    except Exception as error:  # a section that fails must not blank the others
        return f"<div>{_text(f'cannot be shown: {type(error).__name__}: {error}')}</div>"


# ---- source and graph --------------------------------------------------------------------------------------


def _sources(data: Inspection) -> str:
    chips = line_chips(data)
    return "".join(_source(number, source, chips) for number, source in enumerate(data["sources"]))


def _source(number: int, source: Source, chips: Mapping[tuple[int, int], list[Chip]]) -> str:
    rows = []
    left = f"{_CELL};text-align:right;{_SOFT};{_MONO}"
    shown = source["lines"][:_LINES]
    for line, text in enumerate(shown, source["first"]):
        own_chips = chips.get((number, line), [])
        ink = "" if own_chips else ";" + _SOFT
        rows.append(
            f'<tr style="background:none"><td style="{left}">{line}</td>'
            f'<td style="{_CELL};white-space:pre-wrap;overflow-wrap:anywhere;{_MONO}{ink}">'
            f"{_text(text.expandtabs(4))}</td>"
            f'<td style="{_CELL};min-width:36px">{_chips(own_chips, 12)}</td></tr>'
        )
    left_out = len(source["lines"]) - len(shown)
    more = _soft(f"{plural(left_out, 'line')} more") if left_out else ""
    head = f'<div style="{_SOFT};margin-top:4px">{_text(_source_name(source))}</div>'
    return f'{head}<table style="{_TABLE}">{"".join(rows)}</table>{more}'


def _source_name(source: Source) -> str:
    if source["cell"] is not None:
        return f"cell {source['cell']}"
    return source["file"].replace("\\", "/").rpartition("/")[2]


def static_view(snapshot: Snapshot) -> GraphView:
    """What the static form draws of a graph."""
    return build(snapshot, limit=DRAWN_BOXES)


def _graph(data: Inspection, snapshot: Snapshot, arranged: PlacedView | None) -> str:
    view = arranged.view if arranged is not None else static_view(snapshot)
    if not view.boxes:
        return ""
    try:
        drawing = draw(view, highlights(view, data), arranged)
    except LayoutUnavailable as error:
        return _soft(f"No drawing: {_text(str(error))}")
    return fill_template(
        "picture",
        data=b64encode(drawing.source.encode()).decode("ascii"),
        alt=_text(f"Compiled graph: {summary(view.counts)}"),
        width=f"{drawing.width:.0f}",
        fit="max-width:100%;height:auto" if drawing.width <= _FITS else "max-width:none",
    )


# ---- tables ------------------------------------------------------------------------------------------------


def _kernels(data: Inspection) -> str:
    timed = any(cluster["time"] for cluster in data["clusters"])
    each = " per device" if inspection_phrases.per_device(data) else ""
    head = ["", "kind", "from your lines", "operations", f"bytes in → out{each}", f"FLOPs{each}"]
    special = any(transcendentals(cluster) for cluster in data["clusters"])
    if special:
        head.append(f"transcendentals{each}")
    bounded = data["chip"] is not None
    if bounded:
        head.append("at least")
    if timed:
        head.append("time a run")
    rows = [_kernel(cluster, data, timed, bounded, special) for cluster in data["clusters"][:_KERNELS]]
    table = _table(head, rows, len(data["clusters"]), "kernel")
    return table + _totals(data) + _by_line(data) + _chip_rates(data)


def _chip_rates(data: Inspection) -> str:
    """Whose figures bound the kernels."""
    chip = data["chip"]
    if chip is None:
        return ""
    rates = ", ".join(f"{name} {number(rate)} operations/s" for name, rate in chip["peaks"])
    figures = f"{number(chip['bandwidth'])}B/s, {rates}"
    return _soft(_text(f"“At least”: estimated, by the {chip['text']} ({figures})."))


def _least(seconds: float) -> str:
    return short_duration(seconds) if seconds >= 1e-9 else ""


def _totals(data: Inspection) -> str:
    """What one run of each program costs."""
    lines = []
    for program in data["programs"]:
        total = program["total"]
        if total is not None and any(cluster["program"] == program["number"] for cluster in data["clusters"]):
            lines.append(
                _soft(
                    _titled(
                        "; ".join(total["unknown"]),
                        inspection_phrases.total(total, program.get("devices", 1)),
                    )
                )
            )
    return "".join(lines)


def _by_line(data: Inspection) -> str:
    """What the kernels of each line cost, where there are several lines."""
    costs = line_costs(data["clusters"])
    if len(costs) < 2:
        return ""
    rows = []
    for cost in costs[:_LINES]:
        chips = _chips([_chip_of(data, id_) for id_ in cost.clusters], 4)
        figures = [number(cost.flops), number(cost.transcendentals), size(cost.bytes)]
        rows.append([_whole(cost.place["label"]), _code(clip(cost.place["text"], 60)), chips, *figures])
    head = ["line", "", "kernels", "FLOPs", "transcendentals", "bytes read and written"]
    said = "By line, each kernel on the line that most of it was written on, as often as it runs:"
    return f"{_soft(said)}{_table(head, rows, len(costs), 'line')}"


def _kernel(cluster: Cluster, data: Inspection, timed: bool, bounded: bool, special: bool) -> list[str]:
    kind = _whole(inspection_phrases.kind_text(cluster))
    if cluster["inside"] is not None:
        kind += f" in {_chips([_chip_of(data, cluster['inside'])])}"
    place, text = inspection_phrases.lines_text(cluster, data)
    where = _text(place)
    if text:
        where += f"<div>{_code(text)}</div>"
    cells = [
        _chips([_chip_of(data, cluster["id"])]),
        kind,
        where,
        _titled(cluster["name"], inspection_phrases.operations(cluster, data))
        + _computed_twice(cluster, data),
        _whole(inspection_phrases.traffic(cluster)),
        _flops(cluster),
    ]
    if special:
        cells.append(_whole(number(transcendentals(cluster))))
    if bounded:
        least = cluster["at_least"]
        cells.append("" if least is None else _whole(_least(least["seconds"])))
    if timed:
        cells.append(_time(cluster))
    return cells


def _computed_twice(cluster: Cluster, data: Inspection) -> str:
    names = dict.fromkeys(data["nodes"][node]["name"] for node in cluster["duplicated"][:6])
    if not any(names):
        return ""
    return _soft(f"computed elsewhere too: {_brief(', '.join(names), 48)}")


def _flops(cluster: Cluster) -> str:
    cost = cluster["cost"]
    if cost is None:
        return ""
    flops = number(cost["flops"])
    if flops and cluster["kind"] != "control":
        flops += inspection_phrases.executions(cost)
    return _titled(cost["source"], flops)


def _time(cluster: Cluster) -> str:
    time = cluster["time"]
    if time is None:
        return ""
    spread = f"{short_duration(time['low'])} – {short_duration(time['high'])}, {time['runs']} runs"
    return _titled(spread, short_duration(time["median"]))


def _boundaries(data: Inspection) -> str:
    groups: dict[tuple[object, ...], list[Boundary]] = {}
    results = []
    for boundary in data["boundaries"]:
        if boundary["consumer"] is None:
            results.append(boundary)
        else:  # one row where a value is read by several for the same reason
            reason = [boundary[key] for key in ("text", "hint", "label", "said", "verdict")]  # type: ignore[literal-required]
            groups.setdefault((boundary["producer"], *reason), []).append(boundary)
    rows = [_boundary(group, data) for group in list(groups.values())[:_BOUNDARIES]]
    table = ""
    if rows:
        table = _table(["between", "what is written", "how we know"], rows, len(groups), "boundary")
    return table + _results(results, data)


def _results(results: list[Boundary], data: Inspection) -> str:
    if not results:
        return ""
    shown = []
    for result in results[:12]:
        shown.append(
            f"{_chips([_chip_of(data, result['producer'])])} "
            f"{_text(inspection_phrases.boundary_value_text(result, data))}"
        )
    kept = ", ".join(shown)
    if len(results) > 12:
        kept += f" and {len(results) - 12:,} more"
    they = "it is a result" if len(results) == 1 else "they are results"
    return f'<div style="margin:4px 0">Written because {they}: {kept}</div>'


def _boundary(group: list[Boundary], data: Inspection) -> list[str]:
    boundary = group[0]
    consumers = [other["consumer"] for other in group]
    readers = _chips([_chip_of(data, id_) for id_ in consumers if id_ is not None], 6)
    reason = _words(boundary["text"])
    for sentence in (boundary["hint"], boundary["verdict"]):
        if sentence:
            reason += f"<div>{_words(sentence)}</div>"
    label = _whole(boundary["label"])
    if boundary["said"]:
        label += _soft(f"“{_text(boundary['said'])}”")
    return [
        f"{_chips([_chip_of(data, boundary['producer'])])} → {readers}",
        f"{_text(inspection_phrases.boundary_value_text(boundary, data))}"
        f"<div>{_whole(size(boundary['bytes']))}</div>",
        label,
        reason,
    ]


def _fates(data: Inspection) -> str:
    """A row for each stretch of operations of one line with one fate: exactly one fate each."""
    groups = [list(group) for _, group in groupby(data["fates"], key=partial(_fate_key, data))]
    rows = [_fate(group, data) for group in groups[:_FATES]]
    return _table(["#", "operations", "kernels", "by"], rows, len(groups), "row")


def _fate_key(data: Inspection, fate: Fate) -> tuple[Any, ...]:
    place = data["nodes"][fate["node"]]["place"]
    return (
        place and (place["source"], place["line"]),
        fate["kind"],
        fate["text"],
        fate["label"],
        fate["by"],
        *fate["clusters"],
    )


def _fate(fates: Sequence[Fate], data: Inspection) -> list[str]:
    fate = fates[0]
    nodes = [data["nodes"][member["node"]] for member in fates]
    numbers = f"%{nodes[0]['id']}"
    if len(nodes) > 1:
        numbers += f" … %{nodes[-1]['id']}"
    operations = _brief(counts_text((node["name"] for node in nodes), 4), 60)
    variables: list[str] = []
    for node in nodes:
        variables += node["names"][:2]
    if variables:
        operations += f" → <b>{_text(', '.join(variables[:4]))}</b>"
    place, where = nodes[0]["place"], ""
    if place is not None:
        where = f"<div>{_text(place['label'])} {_code(place['text'].strip())}</div>"
    became = f"<b>{_text(fate['kind'])}</b>: {_words(fate['text'])} ({_text(fate['label'])})"
    chips = _chips([_chip_of(data, id_) for id_ in fate["clusters"]], 4)
    return [numbers, operations, chips, _text(fate["by"]), f"{became}{where}"]


def _memory(data: Inspection) -> str:
    rows = []
    for program in data["programs"]:
        memory = program["memory"]
        if memory is None:
            continue
        figures = (
            memory["peak_bytes"],
            memory["argument_bytes"],
            memory["output_bytes"],
            memory["temp_bytes"],
            memory["alias_bytes"],
        )
        taken = size(memory["allocated_bytes"])
        if data["chip"] is not None:
            taken += f" of {size(data['chip']['memory'])}"
        apart = [
            f"{size(space['bytes'])} of {space['name']}" for space in memory["elsewhere"] if space["text"]
        ]
        devices = program.get("devices", 1)
        if devices > 1 and memory["allocated_bytes"] is not None:
            taken += f" per device, {size(devices * memory['allocated_bytes'])} in total"
        row = [str(program["number"] + 1), _whole(taken), *map(size, figures)]
        rows.append([*row, _text(", ".join(apart)), _text(memory["source"])])
    if not rows:
        return ""
    head = ["program", "allocated", "in use at the peak", "arguments", "results", "between"]
    head += ["reused arguments", "on the chip", "source"]
    if not any(row[-2] for row in rows):
        rows, head = [row[:-2] + row[-1:] for row in rows], [*head[:-2], head[-1]]
    return _table(head, rows[:_LINES], len(rows), "program")


def _code_of_all(data: Inspection) -> str:
    """Of each kernel how it runs, and its code as far as there is room."""
    shown, room = [], _HLO
    for cluster in data["clusters"]:
        code = cluster["code"]
        if code is None or not (code["facts"] or code["assembly"]):
            continue
        facts = ", ".join(f"{name} {value}" for name, value in code["facts"])
        shown.append(f"<div>{_chips([_chip_of(data, cluster['id'])])} {_text(facts)}</div>")
        room -= len(code["assembly"])
        if code["assembly"] and room > 0:
            shown.append(
                f"<details><summary>{_text(code['language'])}</summary>"
                f"{_pre(code['assembly'], 'code of the kernel', 320)}</details>"
            )
    notes = dict.fromkeys(cluster["code"]["note"] for cluster in data["clusters"] if cluster["code"])
    return "".join([*shown, *(_soft(_text(note)) for note in notes if note)]) if shown else ""


def _pre(text: str, label: str, height: int) -> str:
    """Text that scrolls where it is higher than ``height`` pixels, by key too."""
    style = f"max-height:{height}px;overflow:auto;color:inherit;background:none;{_MONO}"
    return f'<pre tabindex="0" role="region" aria-label="{label}" style="{style}">{_text(text)}</pre>'


def _hlo(data: Inspection) -> str:
    """The text of the programs, all together not longer than one may be."""
    texts = [text for program in data["programs"] if (text := program["hlo"]["after"]["text"])]
    parts, room = [], _HLO
    for text in texts:
        if not room:
            break
        cut = f"\n… {len(text) - room:,} characters more" if len(text) > room else ""
        parts.append(_pre(text[:room] + cut, "optimised HLO", 480))
        room -= min(room, len(text))
    return "".join(parts) + _more_programs(len(texts) - len(parts))


def _more_programs(left_out: int) -> str:
    return _soft(f"{plural(left_out, 'program')} more") if left_out else ""


def _passes(data: Inspection) -> str:
    """The passes that left another number of kernels."""
    rows = []
    for program in data["programs"]:
        passes, kernels = program["hlo"]["passes"], program["hlo"].get("kernels") or []
        of = [f"{program['number'] + 1}"] if len(data["programs"]) > 1 else []
        for step, before, after in zip(passes, kernels, kernels[1:], strict=False):
            if before != after:
                rows.append(
                    [*of, _code(step["name"]), _text(step["pipeline"]), f"{before:,} → <b>{after:,}</b>"]
                )
    if not rows:
        return ""
    program_head = ["program"] if len(data["programs"]) > 1 else []
    head = [*program_head, "pass", "pipeline", "kernels that would run"]
    return _table(head, rows, len(rows), "pass")


def _times(data: Inspection) -> str:
    """Of each program what its compilation took, with a bar for each stage."""
    parts = []
    timed = [(one, times) for one in data["programs"] if (times := inspection_text.times_of(one)) is not None]
    for program, times in timed[:_PROGRAMS]:
        of = f" of program {program['number'] + 1}" if len(data["programs"]) > 1 else ""
        parts.append(f"<div>{_text(inspection_text.summary(times, of))}</div>{_stages(times['stages'])}")
        for title, head, rows in inspection_text.tables(times):
            cells = [[_whole(row[0]), *map(_text, row[1:])] for row in rows]
            parts.append(f"<div>{_text(title)}</div>{_table(head, cells[:_TIMES], len(cells), 'row')}")
        if times["inferred"]:
            parts.append(_soft(_text(f"XLA's time by line is {times['inferred']}.")))
    return "".join(parts) + _more_programs(len(timed[_PROGRAMS:]))


def _stages(stages: Sequence[tuple[str, float]]) -> str:
    longest = max((seconds for _, seconds in stages), default=0.0)
    rows = []
    for name, seconds in stages:
        width = round(160 * seconds / longest) if longest else 0
        bar = f'<div style="background:{CLUSTERS[0]};height:10px;margin-top:4px;width:{width}px"></div>'
        rows.append([_text(name), _whole(short_duration(seconds)), bar])
    return _table(["stage", "time", ""], rows, len(rows), "stage") if rows else ""


def _earlier_cells(data: Inspection) -> str:
    """The lines of earlier cells whose operations were computed with those of the cell."""
    lines = [line for left in data["earlier"] for line in left["lines"]]
    if not lines:
        return ""
    rows = []
    for line in lines[:_LINES]:
        rows.append([_text(line["label"]), _code(line["text"].strip()), f"{line['operations']:,}"])
    return _table(["where", "line", "operations"], rows, len(lines), "line")


def _rows(table: Table) -> str:
    if not table["rows"]:
        return ""
    names, rows = table["columns"], table["rows"]
    long = [at for at in range(len(names)) if any(len(row[at]) > _SENTENCE for row in rows)]
    short = [at for at in range(len(names)) if at not in long]
    cells = []
    for row in rows:
        below = "".join(_named(names[at], row[at]) for at in long)
        cells.append([_text(row[at]) for at in short] + ([below] if below else []))
    return _table([names[at] for at in short], cells[:_LINES], len(cells), "row")


def _named(name: str, text: str) -> str:
    return f"<div>{_text(name)}: {_words(text)}</div>" if text else ""


_SENTENCE = 32  # letters: more has no room in a column of a narrow page


def _breaks(data: Inspection) -> str:
    return _rows(data["breaks"]) + "".join(map(timeline_html, data["timelines"]["of"]))


def _shardings(data: Inspection) -> str:
    rows = _rows(data["shardings"])
    return rows + drawings_html(data) if rows else ""


def _table(head: list[str], rows: list[list[str]], total: int, noun: str) -> str:
    """A table that scrolls by itself where it has no room. What a row has more than the head stands below it:
    a sentence, which a narrow column would cut into words."""
    top = "".join(f'<th style="{_HEAD}">{_text(name)}</th>' for name in head)
    body = ""
    for row in rows:
        cells = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row[: len(head)])
        body += f'<tr style="background:none">{cells}</tr>'
        for below in row[len(head) :]:
            whole = f'<td style="{_BELOW}" colspan="{len(head) or 1}">{below}</td>'
            body += f'<tr style="background:none">{whole}</tr>'
    more = ""
    if total > len(rows):
        nouns = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
        more = _soft(f"{total - len(rows):,} more {nouns} not listed")
    inner = f'<thead><tr style="background:none">{top}</tr></thead><tbody>{body}</tbody>'
    return scrolling(f'<table style="{_TABLE}">{inner}</table>', f"table of {_text(head[0])}") + more


# ---- words -------------------------------------------------------------------------------------------------


def _chip_of(data: Inspection, id_: int) -> Chip:
    cluster = data["clusters"][id_]
    return cluster_chip(cluster["label"], cluster["colour"])


def _chips(chips: Iterable[Chip], most: int = 8) -> str:
    chips = list(chips)
    shown = "".join(
        f'<span style="display:inline-block;background:{chip.colour};color:{contrasting_ink(chip.colour)};'
        f"{pattern_css(chip)}border-radius:8px;padding:0 6px{' 0 12px' if chip.pattern else ''};"
        f'margin-right:3px;font-size:11px;font-weight:600;line-height:16px">{_text(chip.text)}</span>'
        for chip in chips[:most]
    )
    if len(chips) > most:
        shown += f" +{len(chips) - most}"
    return shown


def _soft(html: str) -> str:
    """A line in a softer colour."""
    return f'<div style="{_SOFT}">{html}</div>'


def _titled(title: str, text: str) -> str:
    """Text with what is shown when the mouse rests on it."""
    return f'<span title="{_text(title)}">{_text(text)}</span>'


def _brief(text: str, letters: int) -> str:
    """A text of so many letters at most, with the whole of it where the mouse rests."""
    return _text(text) if len(text) <= letters else _titled(text, clip(text, letters))


def _whole(text: str) -> str:
    """Text on one line."""
    return f'<span style="white-space:nowrap">{_text(text)}</span>'


def _words(text: str) -> str:
    """A sentence with its code, which stands between backquotes."""
    return "".join(_code(part) if number % 2 else _text(part) for number, part in enumerate(text.split("`")))


def _code(text: str) -> str:
    if not text:
        return ""
    return f'<code style="color:inherit;background:none;padding:0;font-size:12px">{_text(text)}</code>'


def _text(text: str) -> str:
    return escape(escape_invisible(text))
