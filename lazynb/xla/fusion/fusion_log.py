"""XLA's own fusion decisions, from its fusion log and from XLA:GPU's priority fusion dump.

With ``xla_dump_fusion_visualization`` the log has a line for each pair that the fusion pass considered:
fused, or not and why. :func:`in_optimised_names` maps its names to the optimised module.
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

from lazynb.running.compiler_dump import Dump
from lazynb.user_code.text_format import short_duration
from lazynb.xla.hlo.clusters import FREE, Cluster, find_clusters
from lazynb.xla.hlo.module import Module, parse
from lazynb.xla.hlo.passes import InstructionMatch, Pass, match_instructions, read_passes
from lazynb.xla.program_interface import InspectableProgram

_REFUSED = re.compile(
    r"Not fusing \|(?P<producer>[^|]+)\| into \|(?P<consumer>[^|]+)\| as (?P<why>.*)", re.DOTALL
)
_WANTED = re.compile(r"About to (?:MOF-)?fuse \|(?P<producer>[^|]+)\| into \|(?P<consumer>[^|]+)\|")
_DONE = re.compile(r"Fused \|(?P<producer>[^|]+)\| into \|(?P<consumer>[^|]+)\|")
_SUFFIX = re.compile(r" ; multi-output fusion not supported by this pass$")


@dataclasses.dataclass(frozen=True, slots=True)
class FusionRefusal:
    """XLA did not fuse ``producer`` into ``consumer`` (names as after the fusion pass), because ``why``."""

    producer: str
    consumer: str
    why: str


def read_decisions(dump: Dump) -> list[FusionRefusal]:
    """Return the refusals in the log, in order; empty without a log."""
    return [decision for lines in _logs(dump) for decision in _refusals(lines)]


def _logs(dump: Dump) -> Iterator[list[str]]:
    """The lines of each readable log; none for one that was cut off or has the format of a later release."""
    for file in dump.files("*_fusion.html"):
        yield _from_page(file.read_text(encoding="utf-8", errors="replace"))
    for file in dump.files("*_fusion.pyz"):
        with contextlib.suppress(zipfile.BadZipFile, sqlite3.Error, KeyError, EOFError, zlib.error):
            yield _from_archive(file.read_bytes())


_FRAME = re.compile(r'\[\d+, ("(?:[^"\\]|\\.)*"), "')


def _from_page(text: str) -> list[str]:
    """The log's lines from the page that the XLA of JAX 0.10 writes."""
    return [json.loads(found[1], strict=False) for found in _FRAME.finditer(text)]


def _from_archive(content: bytes) -> list[str]:
    """The log's lines from the archive with a database that later releases write."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extract("fusions.db", folder)
        with contextlib.closing(sqlite3.connect(str(Path(folder, "fusions.db")))) as database:
            return [text for (text,) in database.execute("SELECT label FROM frames ORDER BY id")]


def _refusals(lines: Sequence[str]) -> list[FusionRefusal]:
    renames: dict[str, str] = {}
    refusals: list[FusionRefusal] = []
    producer = consumer = ""
    for line in lines:
        if wanted := _WANTED.match(line):
            producer, consumer = wanted["producer"], wanted["consumer"]
        elif done := _DONE.match(line):
            if done["producer"] == producer and done["consumer"] != consumer:
                renames[consumer] = done["consumer"]
        elif refused := _REFUSED.match(line):
            why = _SUFFIX.sub("", refused["why"]).strip()
            refusals.append(FusionRefusal(refused["producer"], refused["consumer"], why))
    return [
        FusionRefusal(_final_name(renames, one.producer), _final_name(renames, one.consumer), one.why)
        for one in refusals
    ]


def _final_name(renames: dict[str, str], name: str) -> str:
    while name in renames:
        name = renames[name]
    return name


_CODES = [
    (r"operand can not be duplicated", "several-users"),
    (r"expensive producer would be duplicated|fusion pass cannot duplicate", "expensive-several-users"),
    (r"Fusion is not profitable", "expensive-reused"),
    (r"Don't fuse instructions from custom fusions", "library-consumer"),
    (r"Concatenate fusion is inefficient", "concatenate"),
    (r"Too many reductions", "many-reductions"),
    (r"Code duplication too high", "size-limit"),
    (r"[Pp]roducer is not loop-fusible", "producer-not-fusible"),
    (r"not found a fusible case|consumer is not", "consumer-not-fusible"),
    (r"(?i)in-?place|\bdus\b|multiple non-elementwise ops", "in-place"),
]


def reason_code_of_words(why: str) -> str:
    """Return the key in the table of reasons for XLA's words; ``other`` for unknown words."""
    return next((code for pattern, code in _CODES if re.search(pattern, why)), "other")


def last_refusals(decisions: Iterable[FusionRefusal]) -> dict[tuple[str, str], str]:
    """Return the last refusal by (producer, consumer).
    XLA considers a pair again whenever the consumer has grown."""
    return {(one.producer, one.consumer): one.why for one in decisions}


def in_optimised_names(
    decisions: Sequence[FusionRefusal], passes: Sequence[Pass], module: Module, clusters: Sequence[Cluster]
) -> list[FusionRefusal]:
    """Return ``decisions`` with the names in the optimised module: later passes rename some clusters.

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

    return [FusionRefusal(now(one.producer), now(one.consumer), one.why) for one in decisions]


_FUSION = re.compile(r"(?:priority-)?fusion(?:_\w+)?$")


def _after_fusion(passes: Sequence[Pass]) -> str:
    """The module after the fusion pass; empty if unknown.
    If that pass changed nothing, it is not in the dump; then the module before the next known pass."""
    for fusion in reversed(passes):
        if _FUSION.match(fusion.name):
            return fusion.after
    for later in passes:
        if later.name in _PASSES_AFTER_FUSION:
            return later.before
    return ""


_PASSES_AFTER_FUSION = frozenset(
    {"fusion-wrapper", "copy-insertion", "cpu-parallel-task-assigner", "(between pipelines)"}
)


def refusals_when_recompiled(
    executable: InspectableProgram, module: Module, clusters: Sequence[Cluster]
) -> dict[tuple[str, str], str]:
    """Compile a program again with XLA's fusion decisions logged, and return the last refusals; none if XLA
    compiles another program this time. May raise DumpUnavailable."""
    dump = Dump()
    recompiled = executable.compile_again(options=dump.options(decisions=True))
    kinds = [(cluster.name, cluster.kind) for cluster in find_clusters(parse(recompiled.as_text()))]
    if kinds != [(cluster.name, cluster.kind) for cluster in clusters]:
        return {}
    return last_refusals(in_optimised_names(read_decisions(dump), read_passes(dump), module, clusters))


# ---- Priority fusion of XLA:GPU -------------------------------------------------------------------------
# Every dump has its record, ``*.priority_fusion_dump.txt``. The pass fuses a value into all its readers or
# into none. For each value it notes why it cannot, or how long its cost model expects both forms to take;
# after each fusion it evaluates the neighbours again.
# (xla/backends/gpu/transforms/priority_fusion.cc; FusionProcessDumpProto)

_STEP = re.compile(r"fusion_steps \{\n  (\w+) \{\n(.*?)\n  \}\n\}", re.DOTALL)
_FIELD = re.compile(r'^\s*(\w+): (?:"((?:[^"\\]|\\.)*)"|(\S+))$', re.MULTILINE)


def last_notes(text: str) -> dict[str, str]:
    """Return the pass's last note on each value that it did not fuse, with the final names of values."""
    words: dict[str, str] = {}
    for kind, body in _STEP.findall(text):
        fields = {name: quoted or plain for name, quoted, plain in _FIELD.findall(body)}
        producer = fields.get("producer_name", "")
        if kind == "producer_ineligible":
            words[producer] = fields.get("reason", "")
        elif kind == "update_priority":
            words[producer] = (
                f"fused {_microseconds_text(fields['us_fused'])}, "
                f"apart {_microseconds_text(fields['us_unfused'])}"
            )
        elif kind == "fusion":
            words.pop(fields.get("consumer_name", ""), None)
            words.pop(fields.get("fusion_name", ""), None)
    return words


def _microseconds_text(microseconds: str) -> str:
    return short_duration(float(microseconds) * 1e-6)


def priority_fusion_notes(
    dump: Dump, passes: Sequence[Pass], module: Module, clusters: Sequence[Cluster]
) -> dict[tuple[str, str], str]:
    """Return, by pair of clusters of the optimised ``module``, XLA's note on the first."""
    after = next((step.after for step in passes if step.name == "priority-fusion"), "")
    if not after:
        return {}
    words = last_notes(dump.text("*.priority_fusion_dump.txt"))
    fused = parse(after)
    found: list[FusionRefusal] = []
    for producer, why in words.items():
        if producer in fused.by_name:
            found += [FusionRefusal(producer, reader, why) for reader in _readers(fused, producer)]
    return last_refusals(in_optimised_names(found, passes, module, clusters))


def _readers(module: Module, name: str) -> list[str]:
    computation = module.computations[module.by_name[name].computation]
    waiting: list[str] = [name]
    found: list[str] = []
    while waiting:
        value = waiting.pop()
        for instruction in computation.instructions.values():
            if value in instruction.operands:
                (waiting if instruction.opcode in FREE else found).append(instruction.name)
    return found
