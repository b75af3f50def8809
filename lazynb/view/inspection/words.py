"""Phrases of an inspection: headline, kinds, shapes."""

from __future__ import annotations

import math

from lazynb.units import listed_lines, short_duration
from lazynb.view.inspection.schema import Boundary, Cluster, Inspection
from lazynb.view.words import clip, plural, tally

KINDS = {
    "loop": "loop fusion",
    "input": "input fusion",
    "output": "output fusion",
    "custom": "custom fusion",
    "library": "library call",
    "single": "not fused",
    "control": "control flow",
}
_EVENTS = {
    "hit": "cache hit, nothing compiled",
    "compiled": "compiled",
    "disk": "loaded from the persistent cache",
}


def headline(data: Inspection) -> str:
    """For example ``13 operations → 4 kernels``."""
    if not data["programs"]:
        return "Nothing was pending"
    operations = plural(sum(program["operations"] for program in data["programs"]), "operation")
    kernels = sum(cluster["kind"] != "control" for cluster in data["clusters"])
    if not data["clusters"]:
        return (
            f"{operations} (no HLO: nobody can tell which kernels run)"
            if _blind(data)
            else f"{operations} → no kernel"
        )
    return f"{operations} → {plural(kernels, 'kernel')}"


def _blind(data: Inspection) -> bool:
    return any(fate["kind"] == "lost" for fate in data["fates"]) or any(
        "no HLO" in note for note in data["notes"]
    )


def details(data: Inspection) -> list[str]:
    """How the program was come by, how much of it is explained, and what was left out."""
    if not data["programs"]:
        return []
    seconds = sum(program["compile_seconds"] for program in data["programs"])
    event = next(
        (one for one in ("compiled", "disk", "hit") if any(p["cache"] == one for p in data["programs"])), ""
    )
    said = [_EVENTS.get(event, event) + (f" in {short_duration(seconds)}" if seconds else "")]
    said.append(f"{covered(data)} of operations accounted for")
    if len(data["programs"]) > 1:
        said.append(f"{len(data['programs'])} programs, one after the other")
    dead = sum(fate["kind"] == "dead" for fate in data["fates"])
    if dead:
        said.append(f"{plural(dead, 'dead operation')} never computed")
    return [*said, *([] if data["ran"] else ["not run"])]


def covered(data: Inspection) -> str:
    """The share of operations whose fate is known; never rounded up to 100 %."""
    coverage = data["coverage"]
    if not coverage["operations"]:
        return "100 %"
    share = 100 * (coverage["operations"] - coverage["lost"]) / coverage["operations"]
    return f"{math.floor(share)} %"


def kind(cluster: Cluster) -> str:
    """``'loop fusion'``, ``'YNNPACK call'``, ``'dot, not fused'``."""
    if cluster["kind"] == "library":
        return f"{cluster['library'] or 'library'} call"
    if cluster["kind"] in ("single", "control"):
        return f"{cluster['opcode']}, {KINDS[cluster['kind']]}"
    return KINDS.get(cluster["kind"], cluster["kind"])


def operations(cluster: Cluster, data: Inspection, most: int = 4) -> str:
    """What a cluster computes: ``'add, exp, multiply ×2'``."""
    if not cluster["nodes"]:
        return f"{cluster['name']} (XLA's own)"  # what it took apart or added carries no mark
    return tally((data["nodes"][node]["name"] for node in cluster["nodes"]), most)


def lines(cluster: Cluster, data: Inspection) -> tuple[str, str]:
    """Where a cluster was written, and the text of the line that most of it was written on."""
    places = [place for node in cluster["nodes"] if (place := data["nodes"][node]["place"]) is not None]
    where = listed_lines((place["cell"], place["label"], place["line"]) for place in places)
    main = cluster["place"]
    return where, clip(main["text"], 60) if main else ""


def value(boundary: Boundary, data: Inspection) -> str:
    """The user's name for what is written at a boundary, else its type."""
    names = ", ".join(boundary["variables"][:3])
    return f"{names} ({shape(boundary['shape'])})" if names else shape(boundary["shape"])


def shape(text: str) -> str:
    """A shape without its layout: ``f32[2,3]{1,0}`` is ``f32[2,3]``."""
    return clip(
        "".join(part.partition("}")[2] if number else part for number, part in enumerate(text.split("{"))), 40
    )
