"""All findings of a compilation, ranked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.xla.findings.again import again
from lazynb.xla.findings.between import between
from lazynb.xla.findings.finding import LEAST, SHARE, Finding
from lazynb.xla.findings.held import Spared, Value, held, readers_of
from lazynb.xla.findings.padded import padded
from lazynb.xla.program import CompiledTrace


def found(
    traces: Sequence[CompiledTrace],
    snapshot: Snapshot,
    asked: Collection[Value] | None,
    runs: Sequence[int],
    spared: Spared,
) -> list[Finding]:
    """What is worth a sentence, the most bytes first. A value that a name alone keeps is told once: not as a
    boundary too.

    Arguments:
      asked: values that the user asked for; None if nobody knows what was.
      runs: how often each program ran at trace breaks, which ask for values too.
      spared: see :func:`lazynb.xla.findings.held.held`.
    """
    findings: list[Finding] = []
    reads = readers_of(snapshot)
    least = max(LEAST, SHARE * sum(map(_traffic, traces)))
    for number, (trace, ran) in enumerate(zip(traces, runs, strict=True)):
        if trace.module is not None:
            kept: list[Finding] = []
            if asked is not None and not ran and not trace.is_function:
                kept = list(held(trace, snapshot, number, reads, asked, spared))
            rest = [*between(trace, snapshot, number), *again(trace, snapshot, number)]
            rest += padded(trace, snapshot, number)
            all_ = [*kept, *_others(rest, kept)]
            findings += [finding for finding in all_ if finding.bytes >= least]
    return sorted(findings, key=lambda finding: -finding.bytes)


def _others(findings: Iterable[Finding], kept: Sequence[Finding]) -> Iterator[Finding]:
    """Those that are not boundaries of the arrays that names alone keep."""
    told = {kernel for finding in kept for kernel in finding.kernels}
    for finding in findings:
        if finding.kind != "boundary" or finding.kernels[0] not in told or not finding.variables:
            yield finding


def _traffic(trace: CompiledTrace) -> int:
    """Bytes that kernels read and write."""
    kernels = [cluster for cluster in trace.clusters if cluster.is_kernel]
    return sum(cluster.input_bytes + cluster.output_bytes for cluster in kernels)


def foremost(findings: Iterable[Finding], most: int = 3) -> list[Finding]:
    """What stands in a headline: the first of each kind, at most three."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.kind, finding)
    return list(first.values())[:most]
