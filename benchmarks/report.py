"""The results as Markdown, readable as it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.peers import PEERS
from benchmarks.results import Result, Spread
from benchmarks.rows import GROUPS, ROWS
from benchmarks.store import Run
from benchmarks.targets import HEADLINE, TARGETS, Target
from benchmarks.verdicts import Verdict, verdicts

HEADINGS = ("row", "lazynb", "peer", "its figure", "lazynb / peer", "quartiles", "target", "met")

INTRODUCTION = """\
Written by `make bench`. `make bench ARGS=--quick` times fewer rows and prints them; `make bench
ARGS=--check` compares lazynb with JAX and fails where a limit is passed; `make bench ARGS="--rows adds
--merge"` measures some rows anew and leaves the others as they are; `make bench ARGS=--help` lists the
options.

Every row runs lazynb and its peers in turn in one go: each in a process of its own, round after round,
another one first each time. A figure is the median of the runs that fit into a peer's turn, with the
garbage collector on. A ratio is lazynb's figure over the peer's in the same round. The tables show medians
over the rounds, and quartiles of the ratios. lazynb, eager JAX and `jax.jit` run the very same function,
and all peers' results are compared with those of `jax.jit`."""


def report(results: Sequence[Result], runs: Sequence[Run]) -> str:
    """The whole document."""
    judged = verdicts(results)
    parts = ["# lazynb and its peers", INTRODUCTION, _summary(judged), "## Where and with what"]
    for run in runs:
        facts = dict(run.facts) if len(runs) == 1 else {"rows": ", ".join(run.rows), **run.facts}
        parts += [
            "\n".join(f"- {name}: {text}" for name, text in facts.items()),
            _peers(run.versions, run.skipped),
        ]
    for group, title in GROUPS.items():
        mine = [result for result in results if result.row.group == group]
        if mine:
            parts += [f"## {title}", table(HEADINGS, [line for result in mine for line in _lines(result)])]
            parts += [part for part in (_disturbed(mine), _multiples(mine)) if part]
    return "\n\n".join(parts) + "\n"


def _summary(judged: Sequence[Verdict]) -> str:
    missed = [verdict for verdict in judged if not verdict.met]
    first = f"**{len(judged) - len(missed)} of {len(judged)} targets measured here are met.**"
    return "\n".join(
        [first + (" Not met:" if missed else ""), "", *(f"- {describe(verdict)}" for verdict in missed)]
    ).rstrip()


def describe(verdict: Verdict) -> str:
    """Which row, what came out, what the limit is."""
    target = verdict.target
    found = "could not be measured" if verdict.found is None else _amount(verdict.found.median, target)
    what = {
        "ratio": f"{title(target.peer)}: lazynb / peer is",
        "over": f"{title(target.peer)}: lazynb takes more by",
    }
    return (
        f"{target.row}, {what.get(target.figure, 'lazynb takes')} {found}, limit "
        f"{_amount(target.limit, target)}"
    )


def _peers(versions: Mapping[str, Mapping[str, str]], skipped: Mapping[str, str]) -> str:
    together: dict[str, list[str]] = {}
    for peer in versions:
        together.setdefault(PEERS[peer].environment, []).append(peer)
    lines = [(", ".join(map(title, peers)), _named(versions[peers[0]])) for peers in together.values()]
    lines += [(title(peer), f"skipped: {why}") for peer, why in skipped.items()]
    return table(("peer", "versions"), lines)


def _named(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _lines(result: Result) -> list[tuple[str, ...]]:
    """A line of the table for each peer but lazynb, or one for lazynb where it is alone or has failed."""
    others = [
        peer
        for peer in result.row.peers
        if peer != result.first and (peer in result.figures or peer in result.errors)
    ]
    lines = [_line(result, peer) for peer in others]
    own = [target for target in TARGETS if target.row == result.row.name and target.figure == "own"]
    if own or not others or result.first in result.errors:
        lines.insert(0, _line(result, result.first))
    return lines


def _line(result: Result, peer: str) -> tuple[str, ...]:
    row = result.row
    own = quantity(result.median(result.first), row.measure)
    name = f"{row.name}, per {row.per}" if row.per else row.name
    if peer in result.errors:
        return name, own, title(peer), "error", result.errors[peer].replace("|", "/"), "", "", ""
    judged = [verdict for verdict in verdicts([result]) if verdict.target.peer == peer]
    limits = ", ".join(_limit(verdict) for verdict in judged)
    met = "" if not judged else "yes" if all(verdict.met for verdict in judged) else "**no**"
    if peer == result.first:
        return name, own, "", "", "", "", limits, met
    ratio = result.ratio(peer)
    return name, own, title(peer), quantity(result.median(peer), row.measure), *_spread(ratio), limits, met


def _spread(ratio: Spread | None) -> tuple[str, str]:
    if ratio is None:
        return "", ""
    return amount(ratio.median, "ratio"), f"{amount(ratio.low, 'ratio')} – {amount(ratio.high, 'ratio')}"


def _limit(verdict: Verdict) -> str:
    target = verdict.target
    if target.figure == "over":
        found = f" ({amount(verdict.found.median, 'over')})" if verdict.found else ""
        return f"at most {amount(target.limit, 'over')} over it{found}"
    return f"≤ {_amount(target.limit, target)}"


def _disturbed(results: Sequence[Result]) -> str:
    """Which figures to doubt."""
    rows = [f"{result.row.name} ({result.disturbed})" for result in results if result.disturbed]
    return (
        f"Rounds that began while other processes kept the machine busy: {', '.join(rows)}." if rows else ""
    )


def _multiples(results: Sequence[Result]) -> str:
    """How many times as fast lazynb is, beside what Torchy says of itself."""
    peers = ("eager", "torch", "torchscript")
    lines = []
    for result in results:
        ratios = [result.ratio(peer) for peer in peers]
        if results[0].row.group in ("torchy", "control") and any(ratios):
            lines.append(
                (result.row.name, *(f"{1 / ratio.median:.2g}x" if ratio else "" for ratio in ratios))
            )
    if not lines:
        return ""
    headline = (
        "Torchy's own, at best",
        *(f"{HEADLINE[peer]:.0f}x" if peer in HEADLINE else "" for peer in peers),
    )
    return "lazynb is so many times as fast as\n\n" + table(("row", *map(title, peers)), [*lines, headline])


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its columns aligned."""
    widths = [max(len(line[at]) for line in (headings, *lines)) for at in range(len(headings))]
    rule = ["-" * width for width in widths]
    rows = [headings, rule, *lines]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows
    )


def title(peer: str) -> str:
    """What the tables call a peer."""
    return PEERS[peer].title


def amount(value: float, figure: str, measure: str = "time") -> str:
    """A ratio, or what is measured."""
    return f"{value:.2f}" if figure == "ratio" else quantity(value, measure)


def _amount(value: float, target: Target) -> str:
    return amount(value, target.figure, ROWS[target.row].measure)


def quantity(value: float | None, measure: str) -> str:
    """Seconds or bytes, in a unit that suits them, or a number of programs."""
    if value is None:
        return ""
    if measure == "memory":
        return f"{value / 1e6:.0f} MB"
    if measure == "programs":
        return f"{value:.0f} program{'s' * (value != 1)}"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"
