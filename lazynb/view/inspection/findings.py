"""The findings of a compilation as the front end gets them, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lazynb.view.inspection.index import Index
from lazynb.view.inspection.schema import Boundary, Finding, Inspection
from lazynb.xla.compilation import Compilation
from lazynb.xla.findings.found import foremost


def findings(compilation: Compilation, index: Index, boundaries: Sequence[Boundary]) -> list[Finding]:
    """Those of the headline."""
    between = {(each["producer"], each["consumer"]): each["id"] for each in boundaries}
    told: list[Finding] = []
    for finding in foremost(compilation.findings):
        ends = index.ids(finding.program, finding.boundary or ())
        told.append(
            {
                "kind": finding.kind,  # type: ignore[typeddict-item]
                "text": finding.text,
                "bytes": finding.bytes,
                "label": finding.label,  # type: ignore[typeddict-item]
                "clusters": index.ids(finding.program, finding.kernels),
                "nodes": list(finding.nodes),
                "boundary": between.get((ends[0], ends[1])) if len(ends) == 2 else None,
                "variables": list(finding.variables),
                "verdict": finding.verdict,
            }
        )
    return told


def sentences(data: Inspection) -> Iterator[tuple[list[int], str]]:
    """Of each finding its kernels, and all that is said."""
    for finding in data.get("findings", ()):  # older data have none
        said = [f"{finding['text'].rstrip('.')} ({finding['label']}).", finding["verdict"]]
        yield finding["clusters"], " ".join(filter(None, said))
