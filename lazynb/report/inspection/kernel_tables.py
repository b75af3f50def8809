"""Tables of the static inspector about kernels: costs, code, boundaries, and fates of operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from lazynb.report.inspection import inspection_phrases
from lazynb.report.inspection.inspection_markup import (
    MAX_LINES,
    chip_of,
    chips_html,
    clipped_html,
    code_html,
    escaped,
    nowrap,
    scrolling_text,
    sentence_html,
    soft_line,
    table_html,
    with_tooltip,
)
from lazynb.report.inspection.inspection_phrases import line_costs, transcendentals
from lazynb.report.short_text import clip, counts_text
from lazynb.user_code.text_format import number, short_duration, size
from lazynb.xla.inspection_schema import Boundary, Cluster, Fate, Inspection

_KERNELS, _BOUNDARIES, _FATES, _CODE = 40, 30, 60, 40_000


def kernels_html(data: Inspection) -> str:
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
    table = table_html(head, rows, len(data["clusters"]), "kernel")
    return table + _totals(data) + _by_line(data) + _chip_rates(data)


def _chip_rates(data: Inspection) -> str:
    """A line on the chip that the lower bounds are estimated for."""
    chip = data["chip"]
    if chip is None:
        return ""
    rates = ", ".join(f"{name} {number(rate)} operations/s" for name, rate in chip["peaks"])
    figures = f"{number(chip['bandwidth'])}B/s, {rates}"
    return soft_line(escaped(f"“At least”: estimated, by the {chip['text']} ({figures})."))


def _least(seconds: float) -> str:
    return short_duration(seconds) if seconds >= 1e-9 else ""


def _totals(data: Inspection) -> str:
    lines = []
    for program in data["programs"]:
        total = program["total"]
        if total is not None and any(cluster["program"] == program["number"] for cluster in data["clusters"]):
            lines.append(
                soft_line(
                    with_tooltip(
                        "; ".join(total["unknown"]),
                        inspection_phrases.total(total, program.get("devices", 1)),
                    )
                )
            )
    return "".join(lines)


def _by_line(data: Inspection) -> str:
    costs = line_costs(data["clusters"])
    if len(costs) < 2:
        return ""
    rows = []
    for cost in costs[:MAX_LINES]:
        chips = chips_html([chip_of(data, id_) for id_ in cost.clusters], 4)
        figures = [number(cost.flops), number(cost.transcendentals), size(cost.bytes)]
        rows.append([nowrap(cost.place["label"]), code_html(clip(cost.place["text"], 60)), chips, *figures])
    head = ["line", "", "kernels", "FLOPs", "transcendentals", "bytes read and written"]
    said = "By line, each kernel on the line that most of it was written on, as often as it runs:"
    return f"{soft_line(said)}{table_html(head, rows, len(costs), 'line')}"


def _kernel(cluster: Cluster, data: Inspection, timed: bool, bounded: bool, special: bool) -> list[str]:
    kind = nowrap(inspection_phrases.kind_text(cluster))
    if cluster["inside"] is not None:
        kind += f" in {chips_html([chip_of(data, cluster['inside'])])}"
    place, text = inspection_phrases.lines_text(cluster, data)
    where = escaped(place)
    if text:
        where += f"<div>{code_html(text)}</div>"
    cells = [
        chips_html([chip_of(data, cluster["id"])]),
        kind,
        where,
        with_tooltip(cluster["name"], inspection_phrases.operations(cluster, data))
        + _computed_twice(cluster, data),
        nowrap(inspection_phrases.traffic(cluster)),
        _flops(cluster),
    ]
    if special:
        cells.append(nowrap(number(transcendentals(cluster))))
    if bounded:
        least = cluster["at_least"]
        cells.append("" if least is None else nowrap(_least(least["seconds"])))
    if timed:
        cells.append(_time(cluster))
    return cells


def _computed_twice(cluster: Cluster, data: Inspection) -> str:
    names = dict.fromkeys(data["nodes"][node]["name"] for node in cluster["duplicated"][:6])
    if not any(names):
        return ""
    return soft_line(f"computed elsewhere too: {clipped_html(', '.join(names), 48)}")


def _flops(cluster: Cluster) -> str:
    cost = cluster["cost"]
    if cost is None:
        return ""
    flops = number(cost["flops"])
    if flops and cluster["kind"] != "control":
        flops += inspection_phrases.executions(cost)
    return with_tooltip(cost["source"], flops)


def _time(cluster: Cluster) -> str:
    time = cluster["time"]
    if time is None:
        return ""
    spread = f"{short_duration(time['low'])} – {short_duration(time['high'])}, {time['runs']} runs"
    return with_tooltip(spread, short_duration(time["median"]))


def boundaries_html(data: Inspection) -> str:
    groups: dict[tuple[object, ...], list[Boundary]] = {}
    results = []
    for boundary in data["boundaries"]:
        if boundary["consumer"] is None:
            results.append(boundary)
        else:  # one row for all readers of a value with the same reason
            reason = [boundary[key] for key in ("text", "more", "hint", "label", "said", "verdict")]  # type: ignore[literal-required]
            groups.setdefault((boundary["producer"], *reason), []).append(boundary)
    rows = [_boundary(group, data) for group in list(groups.values())[:_BOUNDARIES]]
    table = ""
    if rows:
        table = table_html(["between", "what is written", "how we know"], rows, len(groups), "boundary")
    return table + _results(results, data)


def _results(results: list[Boundary], data: Inspection) -> str:
    if not results:
        return ""
    shown = []
    for result in results[:12]:
        shown.append(
            f"{chips_html([chip_of(data, result['producer'])])} "
            f"{escaped(inspection_phrases.boundary_value_text(result, data))}"
        )
    kept = ", ".join(shown)
    if len(results) > 12:
        kept += f" and {len(results) - 12:,} more"
    they = "it is a result" if len(results) == 1 else "they are results"
    return f'<div style="margin:4px 0">Written because {they}: {kept}</div>'


def _boundary(group: list[Boundary], data: Inspection) -> list[str]:
    boundary = group[0]
    consumers = [other["consumer"] for other in group]
    readers = chips_html([chip_of(data, id_) for id_ in consumers if id_ is not None], 6)
    reason = sentence_html(boundary["text"])
    for sentence in (inspection_phrases.inferred_more(boundary), boundary["hint"], boundary["verdict"]):
        if sentence:
            reason += f"<div>{sentence_html(sentence)}</div>"
    label = nowrap(boundary["label"])
    if boundary.get("rule"):
        label += soft_line(escaped(boundary["rule"]))
    if boundary["said"]:
        label += soft_line(f"“{escaped(boundary['said'])}”")
    return [
        f"{chips_html([chip_of(data, boundary['producer'])])} → {readers}",
        f"{escaped(inspection_phrases.boundary_value_text(boundary, data))}"
        f"<div>{nowrap(size(boundary['bytes']))}</div>",
        label,
        reason,
    ]


def fates_html(data: Inspection) -> str:
    """A row for each stretch of operations with the same line and fate."""
    groups = [list(group) for _, group in groupby(data["fates"], key=partial(_fate_key, data))]
    rows = [_fate(group, data) for group in groups[:_FATES]]
    return table_html(["#", "operations", "kernels", "by"], rows, len(groups), "row")


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
    operations = clipped_html(counts_text((node["name"] for node in nodes), 4), 60)
    variables: list[str] = []
    for node in nodes:
        variables += node["names"][:2]
    if variables:
        operations += f" → <b>{escaped(', '.join(variables[:4]))}</b>"
    place, where = nodes[0]["place"], ""
    if place is not None:
        where = f"<div>{escaped(place['label'])} {code_html(place['text'].strip())}</div>"
    became = f"<b>{escaped(fate['kind'])}</b>: {sentence_html(fate['text'])} ({escaped(fate['label'])})"
    chips = chips_html([chip_of(data, id_) for id_ in fate["clusters"]], 4)
    return [numbers, operations, chips, escaped(fate["by"]), f"{became}{where}"]


def kernel_code_html(data: Inspection) -> str:
    """For each kernel, its launch facts, and its code up to ``_CODE`` characters in all."""
    shown, room = [], _CODE
    for cluster in data["clusters"]:
        code = cluster["code"]
        if code is None or not (code["facts"] or code["assembly"]):
            continue
        facts = ", ".join(f"{name} {value}" for name, value in code["facts"])
        shown.append(f"<div>{chips_html([chip_of(data, cluster['id'])])} {escaped(facts)}</div>")
        room -= len(code["assembly"])
        if code["assembly"] and room > 0:
            shown.append(
                f"<details><summary>{escaped(code['language'])}</summary>"
                f"{scrolling_text(code['assembly'], 'code of the kernel', 320)}</details>"
            )
    notes = dict.fromkeys(cluster["code"]["note"] for cluster in data["clusters"] if cluster["code"])
    return "".join([*shown, *(soft_line(escaped(note)) for note in notes if note)]) if shown else ""
