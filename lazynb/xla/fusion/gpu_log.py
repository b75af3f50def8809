"""XLA:GPU's own record of its priority fusion, ``*.priority_fusion_dump.txt``, which is in every dump.

The pass fuses a value into all that read it or into none. For each value it notes why it cannot, or how long
its cost model expects both forms to take; whenever something was fused, it looks again at what is around it.
(xla/backends/gpu/transforms/priority_fusion.cc; FusionProcessDumpProto)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lazynb.execute.dumps import Dump
from lazynb.units import short_duration
from lazynb.xla.clusters import FREE, Cluster
from lazynb.xla.fusion.fusion_log import Decision, latest, renamed
from lazynb.xla.hlo.module import Module, parse
from lazynb.xla.hlo.passes import Pass

_STEP = re.compile(r"fusion_steps \{\n  (\w+) \{\n(.*?)\n  \}\n\}", re.DOTALL)
_FIELD = re.compile(r'^\s*(\w+): (?:"((?:[^"\\]|\\.)*)"|(\S+))$', re.MULTILINE)


def last_words(text: str) -> dict[str, str]:
    """By value, what the pass noted of it last, in the names that values have when the pass is through.

    A value that was fused has none.
    """
    words: dict[str, str] = {}
    for kind, body in _STEP.findall(text):
        fields = {name: quoted or plain for name, quoted, plain in _FIELD.findall(body)}
        producer = fields.get("producer_name", "")
        if kind == "producer_ineligible":
            words[producer] = fields.get("reason", "")
        elif kind == "update_priority":
            words[producer] = f"fused {_time(fields['us_fused'])}, apart {_time(fields['us_unfused'])}"
        elif kind == "fusion":
            words.pop(fields.get("consumer_name", ""), None)
            words.pop(fields.get("fusion_name", ""), None)
    return words


def _time(microseconds: str) -> str:
    return short_duration(float(microseconds) * 1e-6)


def decisions(
    dump: Dump, passes: Sequence[Pass], module: Module, clusters: Sequence[Cluster]
) -> dict[tuple[str, str], str]:
    """By pair of clusters of the optimised ``module``, what XLA noted of the first."""
    after = next((step.after for step in passes if step.name == "priority-fusion"), "")
    if not after:
        return {}
    words = last_words(dump.text("*.priority_fusion_dump.txt"))
    fused = parse(after)
    found: list[Decision] = []
    for producer, why in words.items():
        if producer in fused.by_name:
            found += [Decision(producer, reader, why) for reader in _readers(fused, producer)]
    return latest(renamed(found, passes, module, clusters))


def _readers(module: Module, name: str) -> list[str]:
    """What reads a value, past instructions that only give it another form."""
    computation = module.computations[module.by_name[name].computation]
    waiting: list[str] = [name]
    found: list[str] = []
    while waiting:
        value = waiting.pop()
        for instruction in computation.instructions.values():
            if value in instruction.operands:
                (waiting if instruction.opcode in FREE else found).append(instruction.name)
    return found
