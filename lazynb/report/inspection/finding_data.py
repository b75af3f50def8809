"""Findings of a compilation as plain data for the front end, and as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lazynb.report.inspection.inspection_index import Index
from lazynb.xla.compilation import Compilation
from lazynb.xla.inspection_schema import Boundary, Finding, Inspection
from lazynb.xla.program_findings import headline_findings


def findings(compilation: Compilation, index: Index, boundaries: Sequence[Boundary]) -> list[Finding]:
    """The findings of the headline, with ids of clusters and boundaries."""
    between = {(each["producer"], each["consumer"]): each["id"] for each in boundaries}
    told: list[Finding] = []
    for finding in headline_findings(compilation.findings):
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
    """For each finding, its kernels and its text."""
    for finding in data.get("findings", ()):  # missing in data of older versions
        said = [f"{finding['text'].rstrip('.')} ({finding['label']}).", finding["verdict"]]
        yield finding["clusters"], " ".join(filter(None, said))
