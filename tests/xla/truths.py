"""What must hold of every compiled program, whichever it is; shared by the table and the random programs."""

from __future__ import annotations

from collections import Counter

from xla import plain_hlo

SPREAD = {
    "broadcast",
    "bitcast",
    "reshape",
    "copy",
    "constant",
    "tuple",
    "get-tuple-element",
    "parameter",
    "call",
    "convert",
}


def check_cancelled(trace) -> None:
    """Of what is cancelled no instruction does the work, but those of operations that always did the same."""
    first, present = plain_hlo.by_mark(trace.before), Counter(plain_hlo.opcodes(trace.text))
    for mark, node in trace.origins.operations.items():
        if trace.fates[node].kind == "cancelled" and not trace.fates[node].clusters:
            for opcode in first.get(mark, set()) - SPREAD:
                others = sum(opcode in theirs for other, theirs in first.items() if other != mark)
                assert not present[opcode] or others, (mark, opcode, trace.fates[node])
