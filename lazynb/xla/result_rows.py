"""The columns of the tables in which a ``Compilation`` shows its clusters, boundaries, findings,
collectives, shardings and lines."""

from __future__ import annotations

from lazynb.running.record_table import plural
from lazynb.user_code.text_format import short_duration, size
from lazynb.xla.cost.line_work import LineWork
from lazynb.xla.evidence import Finding
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.sharding.collectives import Collective
from lazynb.xla.sharding.value_shardings import ValueSharding


def cluster_row(cluster: Cluster) -> dict[str, str]:
    return {
        "cluster": cluster.name,
        "kind": cluster.kind,
        "library": cluster.library,
        "inside": cluster.inside,
        "bytes in": f"{cluster.input_bytes:,}",
        "bytes out": f"{cluster.output_bytes:,}",
    }


def boundary_row(boundary: Boundary) -> dict[str, str]:
    return {
        "from": boundary.producer,
        "to": boundary.consumer or "(result)",
        "bytes": f"{boundary.bytes:,}",
        "code": boundary.code,
        "reason": boundary.text,
        "label": boundary.label,
        "rule": boundary.rule,
    }


def finding_row(finding: Finding) -> dict[str, str]:
    return {
        "finding": " ".join(filter(None, (finding.text, finding.verdict))),
        "kernels": ", ".join(finding.kernels[:4]),
        "bytes": size(finding.bytes),
        "label": finding.label,
    }


def collective_row(one: Collective) -> dict[str, str]:
    among = "" if one.among is None else f"{one.among:,}"
    return {
        "line": "; ".join(place.in_full for place in one.places),
        "collective": one.kind,
        "pass": one.direction,
        "axes": ", ".join(one.axes),
        "devices": among,
        "of each": size(one.bytes),
        "sent by each": size(one.moved),
        "times": "" if one.executions is None else f"{one.executions:,}",
        "beside": "" if one.beside is None else plural(one.beside, "kernel"),
        "why": f"{one.why} ({'from the code' if one.is_asked else 'rule inferred'})",
    }


def sharding_row(one: ValueSharding) -> dict[str, str]:
    return {
        "line": "" if one.place is None else one.place.in_full,
        "value": one.value,
        "type": f"{one.dtype}[{','.join(map(str, one.shape))}]",
        "lies as": one.spec,
        "mesh": one.mesh,
        "each device has": f"[{','.join(map(str, one.tile))}]",
        "copies": f"{one.copies:,}",
        "bytes per device": size(one.bytes),
        "in total": size(one.total),
        "changed from": one.before,
    }


def line_row(line: LineWork) -> dict[str, str]:
    return {
        "line": f"{line.place.label}: {line.place.text}",
        "operations": f"{line.operations:,}",
        "instructions before": "" if line.before is None else f"{line.before:,}",
        "after": f"{line.after:,}",
        "kernels compiled": f"{line.compiled:,}",
        "XLA, inferred": "" if line.seconds is None else short_duration(line.seconds),
    }
