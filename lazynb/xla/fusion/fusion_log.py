"""XLA's own fusion decisions, from the log that it writes when asked to (``xla_dump_fusion_visualization``).

The log holds a line for each pair that its fusion pass looked at: fused, or not and why. Instructions have
other names then than in the optimised module; :func:`renamed` follows the later passes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lazynb.execute.dumps import Dump
from lazynb.xla.clusters import Cluster
from lazynb.xla.hlo.instruction_match import InstructionMatch, match_instructions
from lazynb.xla.hlo.module import Module, parse
from lazynb.xla.hlo.passes import Pass

_REFUSED = re.compile(
    r"Not fusing \|(?P<producer>[^|]+)\| into \|(?P<consumer>[^|]+)\| as (?P<why>.*)", re.DOTALL
)
_WANTED = re.compile(r"About to (?:MOF-)?fuse \|(?P<producer>[^|]+)\| into \|(?P<consumer>[^|]+)\|")
_DONE = re.compile(r"Fused \|(?P<producer>[^|]+)\| into \|(?P<consumer>[^|]+)\|")
_NOISE = re.compile(r" ; multi-output fusion not supported by this pass$")


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """XLA did not fuse ``producer`` into ``consumer`` (names as they are after the fusion pass), because
    ``why``."""

    producer: str
    consumer: str
    why: str


def read_decisions(dump: Dump) -> list[Decision]:
    """The refusals in the log, in the order in which they were made; empty where XLA wrote no log."""
    return [decision for lines in _logs(dump) for decision in _refusals(lines)]


def _logs(dump: Dump) -> Iterator[list[str]]:
    """The lines of each log that can be read. A log that was cut off, or that a later release writes another
    way, has none."""
    for file in dump.files("*_fusion.html"):
        yield _from_page(file.read_text(encoding="utf-8", errors="replace"))
    for file in dump.files("*_fusion.pyz"):
        with contextlib.suppress(zipfile.BadZipFile, sqlite3.Error, KeyError, EOFError, zlib.error):
            yield _from_archive(file.read_bytes())


_FRAME = re.compile(r'\[\d+, ("(?:[^"\\]|\\.)*"), "')


def _from_page(text: str) -> list[str]:
    """The log's lines from the page that JAX 0.10's XLA writes."""
    return [json.loads(found[1], strict=False) for found in _FRAME.finditer(text)]


def _from_archive(content: bytes) -> list[str]:
    """From the archive with a database that later releases write."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extract("fusions.db", folder)
        with contextlib.closing(sqlite3.connect(str(Path(folder, "fusions.db")))) as database:
            return [text for (text,) in database.execute("SELECT label FROM frames ORDER BY id")]


def _refusals(lines: Sequence[str]) -> list[Decision]:
    """The refusals, in the names that producer and consumer have at the end."""
    renames: dict[str, str] = {}
    refusals: list[Decision] = []
    producer = consumer = ""
    for line in lines:
        if wanted := _WANTED.match(line):
            producer, consumer = wanted["producer"], wanted["consumer"]
        elif done := _DONE.match(line):
            if done["producer"] == producer and done["consumer"] != consumer:
                renames[consumer] = done["consumer"]
        elif refused := _REFUSED.match(line):
            why = _NOISE.sub("", refused["why"]).strip()
            refusals.append(Decision(refused["producer"], refused["consumer"], why))
    return [Decision(_last(renames, one.producer), _last(renames, one.consumer), one.why) for one in refusals]


def _last(renames: dict[str, str], name: str) -> str:
    """The name that an instruction has in the end."""
    while name in renames:
        name = renames[name]
    return name


_CODES = [
    (r"operand can not be duplicated", "several-users"),
    (r"expensive producer would be duplicated|fusion pass cannot duplicate", "expensive-several-users"),
    (r"Fusion is not profitable", "expensive-reused"),
    (r"Don't fuse instructions from custom fusions", "library-consumer"),
    (r"Concatenate fusion is inefficient", "concatenate"),
    (r"Too many reductions|Code duplication too high|too (?:large|big)|exceed", "size-limit"),
    (r"[Pp]roducer is not loop-fusible", "producer-not-fusible"),
    (r"not found a fusible case|consumer is not", "consumer-not-fusible"),
    (r"(?i)in-?place|\bdus\b|multiple non-elementwise ops", "in-place"),
]


def code_of(why: str) -> str:
    """The key in the table of reasons for XLA's words; ``other`` for words that lazynb does not know."""
    return next((code for pattern, code in _CODES if re.search(pattern, why)), "other")


def latest(decisions: Iterable[Decision]) -> dict[tuple[str, str], str]:
    """By (producer, consumer) the last refusal. XLA looks at a pair again whenever the consumer has grown."""
    return {(one.producer, one.consumer): one.why for one in decisions}


def renamed(
    decisions: Sequence[Decision], passes: Sequence[Pass], module: Module, clusters: Sequence[Cluster]
) -> list[Decision]:
    """``decisions`` in the names of the clusters of the optimised module: later passes rename some.

    Arguments:
      passes: those of the compilation that the decisions come from.
    """
    match = InstructionMatch({}, {})
    if fused := _after_fusion(passes):
        match = match_instructions(parse(fused), module)
    homes = {name: cluster.name for cluster in clusters for name in cluster.instructions}

    def now(name: str) -> str:
        if homes.get(name) == name:
            return name
        for clone in match.same.get(name, ()):
            if clone in homes:
                return homes[clone]
        return name

    return [Decision(now(one.producer), now(one.consumer), one.why) for one in decisions]


_FUSION = re.compile(r"(?:priority-)?fusion(?:_\w+)?$")


def _after_fusion(passes: Sequence[Pass]) -> str:
    """The module when the fusion pass was through; empty if it is not known.

    A fusion pass that changed nothing was not written down: the module is then the one before what followed.
    """
    for fusion in reversed(passes):
        if _FUSION.match(fusion.name):
            return fusion.after
    for later in passes:
        if later.name in _LATER:
            return later.before
    return ""


_LATER = frozenset({"fusion-wrapper", "copy-insertion", "cpu-parallel-task-assigner", "(between pipelines)"})
