"""Phrases of an inspection, such as headline, kinds, figures and shapes, and costs by source line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

from lazynb.compare.differences.variant_comparison import Figure, ProgramFigures, program_figures
from lazynb.report.short_text import clip, counts_text
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import listed_lines, number, short_duration, size
from lazynb.xla.compilation import Compilation
from lazynb.xla.inspection_schema import Boundary, Bounds, Cluster, Cost, Inspection, Place, Total

# ---- Kernels and bytes of a compilation --------------------------------------------------------------------


def kernels(one: ProgramFigures) -> str:
    """The number of kernels, with the number of their executions if that differs."""
    if one.runs == one.kernels:
        return f"{one.kernels:,}"
    runs = "how often they run is not known" if one.runs is None else plural(one.runs, "run")
    return f"{one.kernels:,} ({runs})"


def with_loop_executions(once: Figure, in_all: Figure | None, written: Callable[[Figure], str]) -> str:
    """A figure over all executions of kernels, with the figure that counts each kernel once if it differs."""
    if once == in_all:
        return written(once)
    if in_all is None:
        return f"{written(once)}, each kernel once"
    return f"{written(in_all)} ({written(once)} with each kernel once)"


def kernels_and_bytes(compilation: Compilation) -> str:
    """The number of kernels of a compilation, and the bytes through memory."""
    one = program_figures(compilation)
    count, _, turns = kernels(one).partition(" ")
    named = f"{count} kernel{'s' * (one.kernels != 1)}{turns and f' {turns}'}"
    return f"{named}, {with_loop_executions(one.moved, one.moved_in_all, size)} through memory"


KINDS = {
    "loop": "loop fusion",
    "input": "input fusion",
    "output": "output fusion",
    "custom": "custom fusion",
    "library": "library call",
    "single": "not fused",
    "transfer": "transfer",
    "control": "control flow",
}
_EVENTS = {  # the costliest first
    "compiled": "compiled",
    "disk": "loaded from the persistent cache",
    "hit": "cache hit, nothing compiled",
    "given": "given compiled",
}


def headline(data: Inspection) -> str:
    """For example ``13 operations → 4 kernels``."""
    if not data["programs"] and data.get("instead"):  # missing in data of older versions
        return data["instead"]
    if not data["programs"]:
        return "The cell recorded no operations" if data["earlier"] else "Nothing was pending"
    operations = plural(sum(program["operations"] for program in data["programs"]), "operation")
    if data["clusters"]:
        kernels, moving = counts(data)
        transfers = f" and {plural(moving, 'transfer')}" if moving else ""
        return f"{operations} → {plural(kernels, 'kernel')}{transfers}"
    if _has_no_hlo(data):
        return f"{operations} (no HLO: the kernels are unknown)"
    return f"{operations} → no kernel"


def counts(data: Inspection) -> tuple[int, int]:
    """The numbers of kernels and of transfers; an asynchronous transfer counts once."""
    kernels = sum(map(is_kernel, data["clusters"]))
    return kernels, sum(is_transfer(cluster) for cluster in data["clusters"])


def is_kernel(cluster: Cluster) -> bool:
    """Whether a cluster computes, that is, it is neither control flow nor a transfer."""
    return cluster["kind"] not in ("control", "transfer")


def is_transfer(cluster: Cluster) -> bool:
    """Whether a cluster is a transfer between memories; ``-done`` and ``-update`` do not count."""
    return cluster["kind"] == "transfer" and not cluster["opcode"].endswith(("-done", "-update"))


def _has_no_hlo(data: Inspection) -> bool:
    if any(fate["kind"] == "lost" for fate in data["fates"]):
        return True
    return any("no HLO" in note for note in data["notes"])


def details(data: Inspection) -> list[str]:
    """Phrases on cell, origin, coverage and runs of the programs, and on dead and earlier operations."""
    phrases = _of_programs(data) if data["programs"] else []
    if data["apart"]:
        phrases.append(f"apart: {data['apart']}")
    return phrases


def _of_programs(data: Inspection) -> list[str]:
    phrases = [f"recorded in cell {data['cell']}"] if data["cell"] is not None else []
    phrases += [_origin_text(data), f"{coverage_percent(data)} of operations accounted for"]
    if len(data["programs"]) > 1:
        phrases.append(f"{len(data['programs'])} programs, one after the other")
    phrases += _runs(data)
    dead = sum(fate["kind"] == "dead" for fate in data["fates"])
    if dead:
        phrases.append(f"{plural(dead, 'dead operation')} never computed")
    return phrases


def _runs(data: Inspection) -> list[str]:
    """Which programs ran at trace breaks before the end of the cell, and which did not run."""
    early = [program["runs"] for program in data["programs"] if program["runs"]]
    phrases = []
    if early:
        which = "it" if len(data["programs"]) == 1 else f"{len(early)} of them"
        times = f", {sum(early):,} times" if sum(early) > len(early) else ""
        phrases.append(f"{which} ran at a trace break{times}")
    given = all(program["cache"] == "given" for program in data["programs"])  # unknown whether it ran
    if not data["ran"] and not given and len(early) < len(data["programs"]):
        phrases.append("the last not run" if early else "not run")
    return phrases


def _origin_text(data: Inspection) -> str:
    """The costliest origin among the programs, and the compile time of all."""
    events = {program["cache"] for program in data["programs"]}
    phrase = next((words for event, words in _EVENTS.items() if event in events), "")
    seconds = sum(program["compile_seconds"] for program in data["programs"])
    if data.get("form"):  # missing in data of older versions
        phrase += f" as jax.jit ({data['form']})"
    if data["target"]:
        phrase += f" for {data['target']}"
    if seconds:
        phrase += f" in {short_duration(seconds)}"
    return phrase


def coverage_percent(data: Inspection) -> str:
    """The share of operations with a known fate, rounded down."""
    coverage = data["coverage"]
    if not coverage["operations"]:
        return "100 %"
    share = 100 * (coverage["operations"] - coverage["lost"]) / coverage["operations"]
    return f"{math.floor(share)} %"


def kind_text(cluster: Cluster) -> str:
    """``'loop fusion'``, ``'YNNPACK call'``, ``'dot, not fused'``, ``'while, 5 turns'``."""
    if cluster["opcode"] == "while":
        return f"while, {trip_count_text(cluster)}"
    if cluster["kind"] == "library":
        return f"{cluster['library'] or 'library'} call"
    if cluster["kind"] in ("single", "transfer", "control"):
        return f"{cluster['opcode']}, {KINDS[cluster['kind']]}"
    return KINDS.get(cluster["kind"], cluster["kind"])


def trip_count_text(cluster: Cluster) -> str:
    """The trip count of a loop: ``'5 turns'``."""
    if cluster["turns"] is None:
        return "turns not known"
    return plural(cluster["turns"], "turn")


def traffic(cluster: Cluster) -> str:
    """The bytes that a kernel reads and writes, and the number of its executions: ``'64 KiB → 4 B × 5'``."""
    once = f"{size(cluster['input_bytes'])} → {size(cluster['output_bytes'])}"
    return once + (executions(cluster["cost"]) if cluster["cost"] else "")


def operations(cluster: Cluster, data: Inspection, most: int = 4) -> str:
    """The operations of a cluster: ``'add, exp, multiply ×2'``."""
    if not cluster["nodes"]:
        return f"{cluster['name']} (XLA's own)"  # instructions that XLA added have no operation number
    return counts_text((data["nodes"][node]["name"] for node in cluster["nodes"]), most)


def executions(cost: Cost) -> str:
    """The executions of a kernel in one run of the program: ``' × 10'``; empty for one."""
    times = cost["executions"]
    if times is None:
        return " × an unknown number"
    return f" × {times:,}" if times != 1 else ""


def flops_text(cost: Cost | None) -> str:
    """The work of one execution: ``'65.5 k FLOPs + 131 k transc.'``; empty if XLA gives no FLOPs.

    XLA counts ``exp``, ``tanh`` and other transcendentals separately, so ``tanh`` alone has no FLOPs."""
    if cost is None or cost["flops"] is None:
        return ""
    return flops_and_transcendentals(cost["flops"], cost["transcendentals"])


def flops_and_transcendentals(flops: float, transcendentals: float | None) -> str:
    """``'65.5 k FLOPs + 131 k transc.'``"""
    beside = f" + {number(transcendentals)} transc." if transcendentals else ""
    return f"{number(flops)} FLOPs{beside}"


def total(cost: Total, devices: int = 1) -> str:
    """``'All kernels, as often as they run: FLOPs 335 M, bytes read and written 1.2 GiB'``.

    For several devices, figures of each and of all."""
    figures = _figures(cost, 1)
    if devices > 1:
        figures += f" on each device; on all {devices:,} together {_figures(cost, devices)}"
    return f"All kernels, as often as they run: {figures}"


def _figures(cost: Total, devices: int) -> str:
    flops = bounds_text(cost["flops"], lambda figure: number(figure * devices))
    traffic = bounds_text(cost["bytes"], lambda figure: size(figure * devices))
    beside = ""
    if cost["transcendentals"]["high"] != 0:
        each = bounds_text(cost["transcendentals"], lambda figure: number(figure * devices))
        beside = f"transcendentals {each}, "
    return f"FLOPs {flops}, {beside}bytes read and written {traffic}"


def per_device(data: Inspection) -> str:
    """A sentence that figures are per device; empty for one device."""
    counts = {program.get("devices", 1) for program in data["programs"]}  # missing in data of older versions
    if counts <= {1}:
        return ""
    devices = " or ".join(f"{count:,}" for count in sorted(counts))
    return (
        f"Bytes, FLOPs and memory are per device, on {devices} devices; measured times are of all together."
    )


def bounds_text(figure: Bounds, write: Callable[[float], str]) -> str:
    """A figure with its bounds: ``'at least 2 M'``."""
    low, high = figure["low"], figure["high"]
    if high is None:
        return f"at least {write(low)}" if low else "unknown"
    return write(low) if low == high else f"{write(low)} to {write(high)}"


def lines_text(cluster: Cluster, data: Inspection) -> tuple[str, str]:
    """The source lines of a cluster, and the text of the line with most of its operations."""
    places = []
    for node in cluster["nodes"]:
        place = data["nodes"][node]["place"]
        if place is not None:
            places.append((place["cell"], place["label"], place["line"]))
    where = listed_lines(places)
    main = cluster["place"]
    return where, clip(main["text"], 60) if main else ""


def boundary_value_text(boundary: Boundary, data: Inspection) -> str:
    """The variables and the type of the value at a boundary."""
    names = ", ".join(boundary["variables"][:3])
    return f"{names} ({shape(boundary['shape'])})" if names else shape(boundary["shape"])


def inferred_more(boundary: Boundary) -> str:
    """What a rule says beyond the verified reason of a boundary, with its label; may be empty."""
    more = boundary.get("more")  # missing in data of older versions
    return f"{more} (rule inferred)" if more else ""


def shape(text: str) -> str:
    """A shape without its layout: ``f32[2,3]{1,0}`` is ``f32[2,3]``."""
    first, *rest = text.split("{")
    parts = [first]
    for part in rest:
        _layout, _, after = part.partition("}")
        parts.append(after)
    return clip("".join(parts), 40)


# ---- Costs by source line ----------------------------------------------------------------------------------
# Each kernel counts for the line with most of its operations.


@dataclasses.dataclass(frozen=True)
class LineCost:
    """The cost of one run of the kernels of a line.

    Attributes:
      place: the line.
      clusters: the ids of the kernels.
      flops, transcendentals, bytes: sums over the executions of all kernels; None if unknown for one of them.
    """

    place: Place
    clusters: list[int]
    flops: float | None
    transcendentals: float | None
    bytes: float | None


def line_costs(clusters: Iterable[Cluster]) -> list[LineCost]:
    """The costs of the lines, in the order of their first kernels. Excludes control flow and transfers."""
    lines: dict[tuple[int | None, str], list[Cluster]] = {}
    for cluster in clusters:
        place = cluster["place"]
        if place is not None and is_kernel(cluster):
            lines.setdefault((place["source"], place["label"]), []).append(cluster)
    costs = []
    for kernels in lines.values():
        place = kernels[0]["place"]
        assert place is not None
        figures = {name: _sum(name, kernels) for name in ("flops", "transcendentals", "bytes")}
        costs.append(LineCost(place, [kernel["id"] for kernel in kernels], **figures))
    return costs


def _sum(figure: str, kernels: Iterable[Cluster]) -> float | None:
    total = 0.0
    for kernel in kernels:
        cost = kernel["cost"]
        own = cost[figure] if cost is not None else None  # type: ignore[literal-required]
        if cost is None or own is None or cost["executions"] is None:
            return None
        total += own * cost["executions"]
    return total


def transcendentals(cluster: Cluster) -> float | None:
    """The transcendentals of one execution; None for control flow, which only runs other kernels."""
    cost = cluster["cost"]
    return cost["transcendentals"] if cost is not None and cluster["kind"] != "control" else None
